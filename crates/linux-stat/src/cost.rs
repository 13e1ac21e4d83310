// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of following pages, as the kernel measures it.

use std::fs;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use foreread_bpf::{BpfError, RunTime, hook_of, info, measure_run_time};
use libbpf_rs::{MapCore, ProgramMut};
use rustix::time::{ClockId, clock_gettime};

use super::error::StatError;

/// Cost of one BPF program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCost {
    /// Its hook, which is named after a tracepoint or near it.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Run time of all calls together, in nanoseconds.
    pub run_ns: u64,
}

/// Total cost since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The programs in the kernel, dearest first.
    pub programs: Vec<ProgramCost>,
    /// Processor time of this process.
    pub process_ns: u64,
    /// Time since the start.
    pub elapsed_ns: u64,
    /// Memory of the tables in the kernel.
    pub kernel_bytes: u64,
    /// Chunks of 64 pages in the table of pages.
    pub chunks: u64,
}

impl Cost {
    /// Processor time of all programs.
    #[must_use]
    pub fn programs_ns(&self) -> u64 {
        self.programs.iter().map(|program| program.run_ns).sum()
    }
}

/// The kernel measures programs for as long as this is there.
pub(super) struct Measured {
    _switch: RunTime,
    started: Instant,
    process_ns: u64,
}

impl Measured {
    pub fn start() -> Result<Self, StatError> {
        let switch = measure_run_time().map_err(|error| {
            StatError::Bpf(BpfError::Refused {
                step: "measuring programs",
                reason: error.to_string(),
            })
        })?;
        Ok(Self {
            _switch: switch,
            started: Instant::now(),
            process_ns: process_ns(),
        })
    }

    pub fn cost(&self, programs: &[ProgramMut<'_>]) -> Cost {
        let mut programs: Vec<ProgramCost> = programs.iter().filter_map(program).collect();
        programs.sort_by_key(|program| std::cmp::Reverse(program.run_ns));
        Cost {
            programs,
            process_ns: process_ns().saturating_sub(self.process_ns),
            elapsed_ns: u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            ..Cost::default()
        }
    }
}

fn program(program: &ProgramMut<'_>) -> Option<ProgramCost> {
    let info = info(program)?;
    Some(ProgramCost {
        name: hook_of(&program.name().to_string_lossy()).to_owned(),
        calls: info.run_cnt,
        run_ns: info.run_time_ns,
    })
}

/// Processor time of this process, in all its threads.
fn process_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let time = Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    );
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Memory of a map, as the kernel says; 0 where it doesn't.
pub(super) fn kernel_bytes(map: &impl MapCore) -> u64 {
    let path = format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd());
    let text = fs::read_to_string(path).unwrap_or_default();
    memlock(&text)
}

fn memlock(fdinfo: &str) -> u64 {
    let line = fdinfo
        .lines()
        .find_map(|line| line.strip_prefix("memlock:"));
    line.and_then(|bytes| bytes.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_map_is_a_line_of_its_descriptor() {
        assert_eq!(memlock("map_type:\t1\nmemlock:\t4096\nfrozen:\t0\n"), 4096);
        assert_eq!(memlock("memlock: many"), 0);
        assert_eq!(memlock(""), 0);
    }
}
