// SPDX-License-Identifier: MIT OR Apache-2.0
//! Common functions of all BPF programs: loading, listing what they see, attaching.

mod btf;
mod error;
mod hooks;
mod info;
pub mod layout;
mod load;
mod missing_hook;
pub mod skeletons;
mod survey;
pub mod system_calls;
mod tables;
mod verifier_log;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use foreread_sys::interrupt::timespec;
use libbpf_rs::{MapCore, OpenObject, RingBuffer, RingBufferBuilder};
use rustix::event::{PollFd, PollFlags, poll};

pub use error::BpfError;
pub use error::refused;
pub use hooks::hook_of;
pub use info::{RunTime, info, measure_run_time, missed_calls};
pub use load::{Served, Wanted, likes, load, needs};
pub use missing_hook::MissingHook;
pub use survey::leave_out_so_far;
pub use survey::{ProgramMet, Survey};
pub use tables::{entries, read_counter, wait_for_programs};

/// Where a skeleton is opened.
///
/// The skeleton borrows its object for its whole life. To have a skeleton without a lifetime, a few
/// hundred bytes are leaked for each object that is opened.
fn storage() -> &'static mut MaybeUninit<OpenObject> {
    // libbpf prints a refused program's whole log; callers get the reason in one line.
    verifier_log::quieten();
    Box::leak(Box::new(MaybeUninit::uninit()))
}

/// Whether a filter of system calls refuses bpf(2) to this process.
fn bpf_is_filtered() -> bool {
    /// No command has this number: the kernel itself answers that with `EINVAL`.
    const NO_COMMAND: libc::c_long = 9999;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mode = status.lines().find_map(|l| l.strip_prefix("Seccomp:"));
    if mode.map(str::trim) != Some("2") {
        return false;
    }
    let attributes = [0u8; 128];
    // SAFETY: the attributes are as many bytes as is said, and the call writes nothing.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            NO_COMMAND,
            attributes.as_ptr(),
            attributes.len(),
        )
    };
    let code = io::Error::last_os_error().raw_os_error();
    result < 0 && matches!(code, Some(libc::EPERM | libc::ENOSYS | libc::EACCES))
}

/// Adds the ring buffer of a map; each record is given to `receive` when it is consumed.
///
/// # Errors
/// [`BpfError`] when it can't be mapped.
pub fn add_ring<'a>(
    builder: &mut RingBufferBuilder<'a, 'static>,
    map: &'a dyn MapCore,
    mut receive: impl FnMut(&[u8]) + 'static,
) -> Result<(), BpfError> {
    let added = builder.add(map, move |bytes| {
        receive(bytes);
        0
    });
    added.map(drop).map_err(refused("mapping the ring buffer"))
}

/// The ring buffer of a map alone.
///
/// # Errors
/// [`BpfError`] when it can't be mapped.
pub fn ring(
    map: &dyn MapCore,
    receive: impl FnMut(&[u8]) + 'static,
) -> Result<RingBuffer<'static>, BpfError> {
    let mut builder = RingBufferBuilder::new();
    add_ring(&mut builder, map, receive)?;
    builder.build().map_err(refused("mapping the ring buffer"))
}

/// Waits at most for `limit` (`None`: for ever) for a record or for `also`.
pub fn wait(ring: &RingBuffer<'_>, also: Option<BorrowedFd<'_>>, limit: Option<Duration>) {
    // SAFETY: the ring's descriptor is open for as long as the ring is.
    let records = unsafe { BorrowedFd::borrow_raw(ring.epoll_fd()) };
    let fds = [Some(records), also].into_iter().flatten();
    let fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    // Interrupted or not, available records are taken.
    let _ = poll(&mut fds.collect::<Vec<_>>(), limit.map(timespec).as_ref());
}
