// SPDX-License-Identifier: MIT OR Apache-2.0
//! The running kernel as a [`Machine`]: carries out programs of `foreread_sim::check` on real
//! files. Reports the kernel's actions folio by folio by BPF, or the cached pages after each step.
#![forbid(unsafe_code)]

mod device;
mod events;
mod files;
mod folio_order;
mod play;
mod resident;
mod watched;

pub use events::Watcher;
pub use files::{FileError, Files};

use std::fs::File;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use foreread_bpf::BpfError;
use foreread_profile::PAGE_BYTES;
use foreread_sim::check::{DESCRIPTORS, Facts, Machine, Program, Seen, Sight, Step, runs};
use foreread_sys::cache::cached_pages;
use foreread_sys::mapping::{Residency, View};
use rustix::fs::{Advice as FileAdvice, fadvise};
use thiserror::Error;

use device::Device;
use resident::Resident;
use watched::Watched;

/// Time limit of a read, after which the check gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// The means by which the kernel is observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// By BPF where that works, else by residency.
    #[default]
    Auto,
    /// BPF on the tracepoints of the page cache and of readahead (Linux 6.18).
    Bpf,
    /// The cached and the mapped pages after each step.
    Residency,
}

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
        /// The step that was attempted.
        what: &'static str,
        /// The kernel's error.
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
    /// The device of a file is not known.
    #[error(
        "by residency, files are checked on a block device, for only of that it is known how far it \
         reads ahead; the file system of the directory (type {0:#x}) has none"
    )]
    NoDevice(u64),
    /// Neither way works.
    #[error("{bpf}; and {residency}")]
    NoWay {
        /// Why BPF does not.
        bpf: BpfError,
        /// Why residency does not.
        residency: Box<Self>,
    },
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
    eye: Eye,
    /// Why it is not BPF, when that was tried.
    refusal: Option<BpfError>,
    files: Files,
    set_read_ahead: Option<&'a SetReadAhead<'a>>,
    running: Option<Running>,
}

/// The means by which the kernel is observed.
enum Eye {
    Bpf(Box<Watched>),
    Residency(Resident),
}

/// A program in progress.
struct Running {
    /// Looks at residency and drops the file; programs know nothing of it.
    residency: Residency,
    file_pages: u64,
    descriptors: [Option<File>; DESCRIPTORS],
    view: Option<View>,
}

impl<'a> Kernel<'a> {
    /// A machine that reads `files`. Without `set_read_ahead` the device keeps its setting.
    ///
    /// # Errors
    /// BPF is refused and nothing else was to be tried, or pages are not of 4 KiB.
    pub fn new(
        files: Files,
        set_read_ahead: Option<&'a SetReadAhead<'a>>,
        by: By,
    ) -> Result<Self, CheckError> {
        let page_bytes = rustix::param::page_size();
        if page_bytes as u64 != PAGE_BYTES {
            return Err(CheckError::PageSize(page_bytes));
        }
        let mut refusal = None;
        let eye = match by {
            By::Residency => Eye::Residency(Resident::new()),
            By::Bpf => Eye::Bpf(Box::new(Watched::new(Watcher::load()?))),
            By::Auto => match Watcher::load() {
                Ok(watcher) => Eye::Bpf(Box::new(Watched::new(watcher))),
                Err(error) => {
                    refusal = Some(error);
                    Eye::Residency(Resident::new())
                }
            },
        };
        Ok(Self {
            eye,
            refusal,
            files,
            set_read_ahead,
            running: None,
        })
    }

    /// Why BPF does not look at the kernel, when it was tried.
    #[must_use]
    pub fn refusal(&self) -> Option<&BpfError> {
        self.refusal.as_ref()
    }

    /// By residency: whether cachestat(2) tells when all has arrived; else it is waited for until
    /// nothing changes any more.
    #[must_use]
    pub fn counts_arrivals(&self) -> bool {
        match &self.eye {
            Eye::Bpf(_) => true,
            Eye::Residency(resident) => resident.counts_arrivals(),
        }
    }

    /// Does without cachestat(2), as before Linux 6.5.
    pub fn without_cachestat(&mut self) {
        if let Eye::Residency(resident) = &mut self.eye {
            resident.without_cachestat();
        }
    }

    fn start(&mut self, program: &Program) -> Result<Facts, CheckError> {
        self.end()?;
        if let Eye::Bpf(watched) = &mut self.eye {
            watched.rest();
        }
        if let Eye::Residency(resident) = &mut self.eye {
            // No call reports it.
            if !resident.knows_folio_order() {
                let order = folio_order::measure(resident, &self.files, self.set_read_ahead)?;
                resident.set_folio_order_max(order);
            }
        }
        if let Some(set) = self.set_read_ahead {
            set(program.read_ahead_kib).map_err(failed("set read_ahead_kb"))?;
        }
        let file = self.files.open(program.file)?;
        let running = Running::new(file, program.file_bytes())?;
        let facts = match &mut self.eye {
            Eye::Bpf(watched) => watched.begin(&running)?,
            Eye::Residency(resident) => resident.begin(&running)?,
        };
        self.running = Some(running);
        Ok(facts)
    }

    fn end(&mut self) -> Result<(), CheckError> {
        if let Some(mut running) = self.running.take() {
            running.view = None;
            running.descriptors = Default::default();
            forget(&running.residency, running.file_pages)?;
        }
        Ok(())
    }
}

impl Running {
    /// A program that has done nothing yet, on a file of which nothing is cached.
    fn new(file: File, file_bytes: u64) -> Result<Self, CheckError> {
        let residency = Residency::new(file, file_bytes).map_err(failed("map a file"))?;
        let file_pages = file_bytes.div_ceil(PAGE_BYTES);
        forget(&residency, file_pages)?;
        Ok(Self {
            residency,
            file_pages,
            descriptors: Default::default(),
            view: None,
        })
    }
}

/// Whether a step may have dropped pages: whatever else did is a disturbance.
fn is_dropped_by(step: &Step, pages: &Range<u64>) -> bool {
    match *step {
        Step::DontNeed {
            offset_bytes,
            bytes,
            ..
        } => {
            let last = offset_bytes.saturating_add(bytes).div_ceil(PAGE_BYTES);
            pages.start >= offset_bytes / PAGE_BYTES && pages.end <= last
        }
        _ => false,
    }
}

/// Drops all pages of the file, also those in flight. The kernel keeps them until they have
/// arrived, and a disturbed step has not waited for that.
fn forget(residency: &Residency, file_pages: u64) -> Result<(), CheckError> {
    let started = Instant::now();
    let file = residency.file();
    loop {
        fadvise(file, 0, None, FileAdvice::DontNeed)
            .map_err(|error| failed("drop a file from the page cache")(error.into()))?;
        let cached = residency
            .cached_pages(file_pages)
            .map_err(failed("look at the page cache"))?;
        // Without cachestat(2) only the device knows which reads are in flight.
        let is_under_way = match cached_pages(file, 0, file_pages) {
            Ok(pages) => pages > 0,
            Err(_) => Device::of(file).is_ok_and(|device| device.is_busy()),
        };
        if cached == 0 && !is_under_way {
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

    fn sight(&self) -> Sight {
        match self.eye {
            Eye::Bpf(_) => Sight::Events,
            Eye::Residency(_) => Sight::Residency,
        }
    }

    fn take_care(&mut self, is_doubted: bool) {
        if let Eye::Residency(resident) = &mut self.eye {
            resident.take_care(is_doubted);
        }
    }

    fn has_missed_events(&mut self) -> bool {
        match &self.eye {
            Eye::Bpf(watched) => watched.has_missed_events(),
            Eye::Residency(_) => false,
        }
    }

    fn begin(&mut self, program: &Program) -> Result<Facts, CheckError> {
        let begun = self.start(program);
        match (begun, self.refusal.take()) {
            (Err(residency), Some(bpf)) => Err(CheckError::NoWay {
                bpf,
                residency: Box::new(residency),
            }),
            (begun, refusal) => {
                self.refusal = refusal;
                begun
            }
        }
    }

    fn step(&mut self, step: &Step) -> Result<Seen, CheckError> {
        let Some(running) = &mut self.running else {
            return Ok(Seen::default());
        };
        if let Eye::Bpf(watched) = &mut self.eye {
            watched.before_step(step);
        }
        running.play(step, &self.files)?;
        let mut seen = match &mut self.eye {
            Eye::Bpf(watched) => watched.after_step(step, running)?,
            Eye::Residency(resident) => resident.after_step(step, running)?,
        };
        if let Some(view) = &running.view {
            let mapped = view
                .mapped_pages(running.file_pages)
                .map_err(failed("read /proc/self/pagemap"))?;
            seen.mapped = runs(mapped);
        }
        Ok(seen)
    }
}

impl Drop for Kernel<'_> {
    fn drop(&mut self) {
        // The files are removed anyway; their cached pages are dropped with them.
        let _ = self.end();
    }
}
