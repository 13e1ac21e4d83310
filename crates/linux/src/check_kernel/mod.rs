// SPDX-License-Identifier: MIT OR Apache-2.0
//! The running kernel as a [`Machine`]: carries out programs of `foreread_sim::check` on real
//! files, and tells what the kernel did, folio by folio.

mod events;
mod files;
mod mapping;

pub use events::Watcher;
pub use files::{FileError, Files};

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use foreread_profile::PAGE_BYTES;
use foreread_sim::check::{DESCRIPTORS, Event, Facts, Machine, Placed, Program, Seen, Step};
use rustix::fs::{Advice as FileAdvice, fadvise};
use thiserror::Error;

use events::{Kind, Told};
use mapping::{Residency, View};

use crate::recorder::BpfError;

/// How long a read may take before the check gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// No folio is larger.
const FOLIO_PAGES: u64 = 512;

/// Why a program can't be carried out.
#[derive(Debug, Error)]
pub enum CheckError {
    /// BPF doesn't work here.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// A file can't be made.
    #[error(transparent)]
    File(#[from] FileError),
    /// A system call failed.
    #[error("cannot {what}: {error}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
    /// Pages come or go on their own.
    #[error(
        "the page cache of the file does not settle: {cached} pages are there and {expected} \
         should be; something else reads or drops the file, or memory is short"
    )]
    Unsettled {
        /// Pages that are there and up to date.
        cached: u64,
        /// Pages that were inserted and not removed.
        expected: u64,
    },
    /// The files are nowhere but in memory, or in use by others.
    #[error(
        "{0} pages of a file cannot be dropped from the page cache: its file system lives in \
         memory, or something else uses the file; choose another directory"
    )]
    Kept(u64),
    /// Events were lost.
    #[error("{0} events found no room: the check could not see all that the kernel did")]
    Lost(u64),
    /// Programs are made of pages of 4 KiB.
    #[error("this kernel has pages of {0} bytes; programs are made for pages of 4096")]
    PageSize(usize),
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> CheckError {
    move |error| CheckError::System { what, error }
}

/// Sets the device's read_ahead_kb.
pub type SetReadAhead<'a> = dyn Fn(u64) -> io::Result<()> + 'a;

/// A directory on this machine, whose files programs read.
pub struct Kernel<'a> {
    watcher: Watcher,
    files: Files,
    set_read_ahead: Option<&'a SetReadAhead<'a>>,
    running: Option<Running>,
}

/// A program in progress.
struct Running {
    /// Looks at residency and drops the file; programs know nothing of it.
    residency: Residency,
    file_pages: u64,
    descriptors: [Option<File>; DESCRIPTORS],
    view: Option<View>,
    /// Folios that are in the page cache, by what was told.
    cached: BTreeSet<Placed>,
}

impl<'a> Kernel<'a> {
    /// A machine that reads `files`. Without `set_read_ahead` the device keeps its setting.
    ///
    /// # Errors
    /// BPF is refused, or pages are not of 4 KiB.
    pub fn new(
        files: Files,
        set_read_ahead: Option<&'a SetReadAhead<'a>>,
    ) -> Result<Self, CheckError> {
        let page_bytes = rustix::param::page_size();
        if page_bytes as u64 != PAGE_BYTES {
            return Err(CheckError::PageSize(page_bytes));
        }
        Ok(Self {
            watcher: Watcher::load()?,
            files,
            set_read_ahead,
            running: None,
        })
    }

    fn seen(&mut self, told: Vec<Told>) -> Seen {
        let Some(running) = &mut self.running else {
            return Seen::default();
        };
        let mut seen = Seen::default();
        let mut still_late = BTreeSet::new();
        let mut mapped = None;
        for told in told {
            let folio = Placed {
                index: told.index,
                order: told.order,
            };
            match told.kind {
                Kind::Inserted => {
                    running.cached.insert(folio);
                    seen.inserted.push(folio);
                }
                Kind::Removed => {
                    running.cached.remove(&folio);
                    seen.removed.push(folio);
                }
                Kind::Late => {
                    seen.late.insert(told.index);
                    // That was before the wait.
                    mapped = None;
                }
                Kind::StillLate => {
                    still_late.insert(told.index);
                }
                Kind::Mapped => {
                    mapped = Some(told.index..told.index + told.pages);
                    seen.events.push(Event(told.to_string()));
                }
                _ => seen.events.push(Event(told.to_string())),
            }
        }
        // Some arrived between the two looks: fault-around may have found them or not. Where it
        // mapped nothing, it found none.
        if let Some(mapped) = mapped {
            let mut between = seen.late.symmetric_difference(&still_late);
            let reaches = |index: &u64| *index < mapped.end && index + FOLIO_PAGES > mapped.start;
            seen.is_unsure = between.any(reaches);
        }
        seen.removed.sort_unstable();
        seen
    }

    /// Waits until all that was inserted is up to date, so that the next step finds the same
    /// whatever the device's speed. False when somebody else drops pages of the file, as
    /// `/proc/sys/vm/drop_caches` does.
    fn settle(&mut self) -> Result<bool, CheckError> {
        let Some(running) = &self.running else {
            return Ok(true);
        };
        let expected: u64 = running.cached.iter().map(|f| 1u64 << f.order).sum();
        let started = Instant::now();
        loop {
            let cached = running
                .residency
                .cached_pages(running.file_pages)
                .map_err(failed("look at the page cache"))?;
            // While somebody on another CPU tells of a drop, what this step did may come late.
            if !self.watcher.drain().is_empty() {
                return Ok(false);
            }
            if cached == expected {
                return Ok(true);
            }
            if started.elapsed() > PATIENCE {
                return Err(CheckError::Unsettled { cached, expected });
            }
            std::thread::yield_now();
        }
    }

    fn end(&mut self) -> Result<(), CheckError> {
        if let Some(mut running) = self.running.take() {
            running.view = None;
            running.descriptors = Default::default();
            forget(&running)?;
        }
        Ok(())
    }
}

/// Whether a step may have dropped a folio: whatever else did is a disturbance.
fn is_dropped_by(step: &Step, folio: &Placed) -> bool {
    match *step {
        Step::DontNeed {
            offset_bytes,
            bytes,
            ..
        } => {
            let (start, end) = (folio.index, folio.index + (1 << folio.order));
            let last = offset_bytes.saturating_add(bytes).div_ceil(PAGE_BYTES);
            start >= offset_bytes / PAGE_BYTES && end <= last
        }
        _ => false,
    }
}

/// Drops all pages of the file.
fn forget(running: &Running) -> Result<(), CheckError> {
    let started = Instant::now();
    loop {
        let file = running.residency.file();
        fadvise(file, 0, None, FileAdvice::DontNeed)
            .map_err(|error| failed("drop a file from the page cache")(error.into()))?;
        let cached = running
            .residency
            .cached_pages(running.file_pages)
            .map_err(failed("look at the page cache"))?;
        if cached == 0 {
            return Ok(());
        }
        if started.elapsed() > PATIENCE {
            return Err(CheckError::Kept(cached));
        }
        std::thread::yield_now();
    }
}

impl Machine for Kernel<'_> {
    type Error = CheckError;

    fn begin(&mut self, program: &Program) -> Result<Facts, CheckError> {
        self.end()?;
        self.watcher.watch(0);
        if let Some(set) = self.set_read_ahead {
            set(program.read_ahead_kib).map_err(failed("set read_ahead_kb"))?;
        }
        let file = self.files.open(program.file)?;
        let looked = self.watcher.look(file.as_fd().as_raw_fd())?;
        let residency = Residency::new(file, program.file_bytes()).map_err(failed("map a file"))?;
        let running = Running {
            residency,
            file_pages: program.file_bytes().div_ceil(PAGE_BYTES),
            descriptors: Default::default(),
            view: None,
            cached: BTreeSet::new(),
        };
        forget(&running)?;
        self.running = Some(running);
        self.watcher.watch(looked.host);
        self.watcher.drain();
        Ok(looked.facts)
    }

    fn step(&mut self, step: &Step) -> Result<Seen, CheckError> {
        let Some(running) = &mut self.running else {
            return Ok(Seen::default());
        };
        self.watcher.begin_step(matches!(step, Step::Touch { .. }));
        running.play(step, &self.files)?;
        // Looking at the page cache takes the lock of the mappings, too.
        self.watcher.begin_step(false);
        let told = self.watcher.drain();
        let lost = self.watcher.lost();
        if lost > 0 {
            return Err(CheckError::Lost(lost));
        }
        let mut seen = self.seen(told);
        seen.is_unsure |= seen.removed.iter().any(|folio| !is_dropped_by(step, folio));
        seen.is_unsure |= !self.settle()?;
        let Some(running) = &self.running else {
            return Ok(seen);
        };
        for (number, descriptor) in running.descriptors.iter().enumerate() {
            if let Some(file) = descriptor {
                let looked = self.watcher.look(file.as_raw_fd())?;
                seen.remembered[number] = Some(looked.remembered);
            }
        }
        if let Some(view) = &running.view {
            seen.mapped = view
                .mapped_runs(running.file_pages)
                .map_err(failed("read /proc/self/pagemap"))?;
        }
        Ok(seen)
    }
}

impl Drop for Kernel<'_> {
    fn drop(&mut self) {
        // The files go anyway; what stays cached of them is dropped with them.
        let _ = self.end();
    }
}

impl Running {
    fn play(&mut self, step: &Step, files: &Files) -> Result<(), CheckError> {
        match *step {
            Step::Open { descriptor } => {
                self.descriptors[descriptor] = None;
                self.descriptors[descriptor] = Some(files.reopen(self.residency.file())?);
                Ok(())
            }
            Step::Map {
                descriptor,
                start,
                pages,
                slot,
                exec,
            } => {
                self.view = None;
                if let Some(file) = &self.descriptors[descriptor] {
                    let view = View::new(file.as_fd(), start, pages, slot, exec);
                    self.view = Some(view.map_err(failed("map a file"))?);
                }
                Ok(())
            }
            Step::Unmap => {
                self.view = None;
                Ok(())
            }
            Step::Touch { page } => {
                if let Some(view) = &self.view {
                    view.touch(page, self.file_pages);
                }
                Ok(())
            }
            Step::MapAdvise { advice } => match &self.view {
                Some(view) => view.advise(advice).map_err(failed("advise on a mapping")),
                None => Ok(()),
            },
            Step::MapWillNeed { start, pages } => match &self.view {
                Some(view) => view
                    .will_need(start, pages)
                    .map_err(failed("advise on a mapping")),
                None => Ok(()),
            },
            Step::Read { descriptor, .. }
            | Step::ReadOn { descriptor, .. }
            | Step::Seek { descriptor, .. }
            | Step::Advise { descriptor, .. }
            | Step::WillNeed { descriptor, .. }
            | Step::Readahead { descriptor, .. }
            | Step::DontNeed { descriptor, .. } => match &self.descriptors[descriptor] {
                Some(file) => on_descriptor(file, step),
                None => Ok(()),
            },
        }
    }
}

/// One system call on a descriptor.
fn on_descriptor(file: &File, step: &Step) -> Result<(), CheckError> {
    use io::{Read as _, Seek as _};
    let done = match *step {
        Step::Read {
            offset_bytes,
            bytes,
            ..
        } => {
            let mut buffer = vec![0; bytes as usize];
            file.read_at(&mut buffer, offset_bytes).map(drop)
        }
        Step::ReadOn { bytes, .. } => {
            let mut buffer = vec![0; bytes as usize];
            (&*file).read(&mut buffer).map(drop)
        }
        Step::Seek { offset_bytes, .. } => {
            (&*file).seek(io::SeekFrom::Start(offset_bytes)).map(drop)
        }
        Step::Advise { advice, .. } => {
            use foreread_sim::check::FileWideAdvice as Wide;
            let advice = match advice {
                Wide::Normal => FileAdvice::Normal,
                Wide::Sequential => FileAdvice::Sequential,
                Wide::Random => FileAdvice::Random,
            };
            fadvise(file, 0, None, advice).map_err(io::Error::from)
        }
        Step::WillNeed {
            offset_bytes,
            bytes,
            ..
        } => advise_range(file, offset_bytes, bytes, FileAdvice::WillNeed),
        Step::DontNeed {
            offset_bytes,
            bytes,
            ..
        } => advise_range(file, offset_bytes, bytes, FileAdvice::DontNeed),
        Step::Readahead {
            offset_bytes,
            bytes,
            ..
        } => readahead(file, offset_bytes, bytes),
        _ => Ok(()),
    };
    done.map_err(failed("carry out a step"))
}

fn advise_range(file: &File, offset: u64, bytes: u64, advice: FileAdvice) -> io::Result<()> {
    let length = std::num::NonZeroU64::new(bytes);
    fadvise(file, offset, length, advice).map_err(io::Error::from)
}

fn readahead(file: &File, offset_bytes: u64, bytes: u64) -> io::Result<()> {
    let descriptor = file.as_raw_fd();
    let offset = libc::off64_t::try_from(offset_bytes).unwrap_or(libc::off64_t::MAX);
    // SAFETY: a system call on an open descriptor that takes no memory.
    let done = unsafe { libc::readahead(descriptor, offset, bytes as usize) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
