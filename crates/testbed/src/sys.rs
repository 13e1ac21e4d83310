// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls that have no safe face elsewhere. All `unsafe` of this crate is here.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::UnshareFlags;

const LOOP_CLR_FD: libc::Ioctl = 0x4c01;
const LOOP_CONFIGURE: libc::Ioctl = 0x4c0a;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;
const BLKFLSBUF: libc::Ioctl = 0x1261;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64` of `linux/loop.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of `linux/loop.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// The number of a free loop device, created if none is free.
pub(crate) fn loop_get_free(control: &File) -> io::Result<u32> {
    // SAFETY: the descriptor is open and the request takes no argument.
    let number = check(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) })?;
    u32::try_from(number).map_err(io::Error::other)
}

/// Binds `backing` to the loop device with direct I/O; the device frees itself with its last user.
pub(crate) fn loop_configure(device: &File, backing: &File, name: &str) -> io::Result<()> {
    // SAFETY: both are plain integers and arrays of them, for which all zeroes is a value.
    let mut config: LoopConfig = unsafe { std::mem::zeroed() };
    config.fd = u32::try_from(backing.as_raw_fd()).map_err(io::Error::other)?;
    config.info.flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    // The last byte stays 0: the kernel reads a C string.
    for (to, from) in config.info.file_name[..63].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    // SAFETY: the descriptor is open; `config` is a whole `struct loop_config` that outlives the
    // call, and the kernel only reads it.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) })?;
    Ok(())
}

/// Frees the loop device, at once or with its last user.
pub(crate) fn loop_clear(device: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open and the request takes no argument.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD) })?;
    Ok(())
}

/// Writes back and drops the pages that the page cache holds of a block device.
pub(crate) fn flush_block_device(device: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open and the request ignores its argument.
    check(unsafe { libc::ioctl(device.as_raw_fd(), BLKFLSBUF, 0) })?;
    Ok(())
}

/// Gives the calling thread its own copy of the mount namespace (and of the working directory).
pub(crate) fn unshare_mounts() -> io::Result<()> {
    // SAFETY: file descriptors stay shared; only mounts, root and working directory part.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.map_err(Into::into)
}

/// Parts the calling thread's root and working directory from the other threads', which
/// `setns(2)` to a mount namespace demands.
pub(crate) fn unshare_working_directory() -> io::Result<()> {
    // SAFETY: file descriptors stay shared; only root and working directory part.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }.map_err(Into::into)
}

/// Gives the calling thread, and those it creates from then on, a file descriptor table of their
/// own. Only the standard streams and `kept` are open in it.
///
/// Descriptors of the other threads' are then mere numbers here, and the other way round. A value
/// that owns a descriptor must not pass between the tables, unless it owns one of `kept`, which are
/// open in both.
pub(crate) fn part_descriptors(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    // SAFETY: all descriptors that this thread closes below are copies in its own table, which no
    // object owns; objects of other threads keep theirs.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FILES) }?;
    let mut numbers: Vec<libc::c_int> = kept.iter().map(AsRawFd::as_raw_fd).collect();
    numbers.sort_unstable();
    let mut first = libc::STDERR_FILENO + 1;
    for number in numbers {
        if number > first {
            close_range(first, number - 1)?;
        }
        first = first.max(number + 1);
    }
    close_range(first, libc::c_int::MAX)
}

fn close_range(first: libc::c_int, last: libc::c_int) -> io::Result<()> {
    // SAFETY: see `part_descriptors`, the only caller. By number, for not every libc has a wrapper.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Puts the calling thread, and those it creates, ahead of ordinary ones. A real disk does not wait
/// for a processor that a program keeps busy.
pub(crate) fn run_in_real_time() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: `parameters` outlives the call and 0 names the calling thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const parameters) })?;
    Ok(())
}

/// Makes the command die when the thread that starts it dies.
pub(crate) fn die_with_parent(command: &mut Command) -> &mut Command {
    let parent = getpid();
    // SAFETY: between fork and exec the closure makes two system calls and nothing else.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died before the signal was asked for.
            if getppid() != Some(parent) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        })
    }
}

/// A part of this process's memory that is a file's pages, from its first byte on.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory can only be read, and is unmapped when its only owner goes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of a file, which must not be 0, to be read.
    pub(crate) fn new(file: &File, bytes: usize) -> io::Result<Self> {
        // SAFETY: the kernel chooses the place, so no memory that is in use is replaced.
        let start = unsafe {
            let any = std::ptr::null_mut();
            mmap(any, bytes, ProtFlags::READ, MapFlags::SHARED, file, 0)?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }

    /// The byte at a place, read now, whatever was read there before; `None` beyond the end.
    ///
    /// The kernel ends the process with SIGBUS where the file has become shorter or can't be read.
    pub(crate) fn byte(&self, at: usize) -> Option<u8> {
        // SAFETY: `at` is within the mapping, which lasts as long as `self`. Others may write to
        // the file meanwhile: a volatile read of one byte has then the one value or the other.
        (at < self.bytes).then(|| unsafe { self.start.as_ptr().add(at).read_volatile() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: these are start and length of the mapping, and nothing refers into it.
        // It can't fail for a mapping like this.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
