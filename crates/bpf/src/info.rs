// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters that the kernel keeps of a loaded program.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::{ProgramMut, libbpf_sys};

/// The kernel's information on one program; `None` if the kernel refuses it.
pub fn info(program: &ProgramMut<'_>) -> Option<libbpf_sys::bpf_prog_info> {
    // SAFETY: plain data, for which all zeros are a value.
    let mut info: libbpf_sys::bpf_prog_info = unsafe { std::mem::zeroed() };
    let mut bytes = u32::try_from(size_of_val(&info)).unwrap_or(0);
    // SAFETY: the kernel writes at most that many bytes into what is there for it. All addresses in
    // it are null, so nothing else is written.
    let asked = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(
            program.as_fd().as_raw_fd(),
            (&raw mut info).cast(),
            &raw mut bytes,
        )
    };
    (asked == 0).then_some(info)
}

/// Number of events that these programs have missed (`recursion_misses`).
///
/// The kernel skips a program that is already running on the same CPU. Since Linux 7.0 a thread may
/// be preempted inside a program of a tracepoint; before, only inside one of a function. Until that
/// thread runs again, the program misses the events of other threads on its CPU. With two busy
/// readers on one CPU, a second of cold reads misses some hundred events.
pub fn missed_calls(programs: &[ProgramMut<'_>]) -> u64 {
    let infos = programs.iter().filter_map(info);
    infos.map(|info| info.recursion_misses).sum()
}

/// The kernel measures the run time of programs until this is dropped.
#[derive(Debug)]
pub struct RunTime {
    _switch: OwnedFd,
}

/// Makes the kernel measure the run time of all programs.
///
/// # Errors
/// As the kernel says: before Linux 5.8, or without rights.
pub fn measure_run_time() -> io::Result<RunTime> {
    // SAFETY: a system call that takes a number.
    let descriptor = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(-descriptor));
    }
    Ok(RunTime {
        // SAFETY: the call has returned a new descriptor, which nothing else owns.
        _switch: unsafe { OwnedFd::from_raw_fd(descriptor) },
    })
}
