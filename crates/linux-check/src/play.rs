// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps of programs as system calls and accesses to memory.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use foreread_sim::check::{MapAdvice, Step};
use foreread_sys::mapping::View;
use foreread_sys::read_ahead::readahead;
use rustix::fs::{Advice as FileAdvice, fadvise};

use super::files::Files;
use super::{CheckError, Running, failed};

impl Running {
    pub fn play(&mut self, step: &Step, files: &Files) -> Result<(), CheckError> {
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
                Some(view) => view
                    .advise(advice_of(advice))
                    .map_err(failed("advise on a mapping")),
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

/// Advice about a mapping, as the kernel calls it.
fn advice_of(advice: MapAdvice) -> rustix::mm::Advice {
    match advice {
        MapAdvice::Normal => rustix::mm::Advice::Normal,
        MapAdvice::Sequential => rustix::mm::Advice::Sequential,
        MapAdvice::Random => rustix::mm::Advice::Random,
    }
}
