// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which system calls take names, and where in their arguments.

use libc::c_long;

/// As `enum syscall_class` in `bpf/record.h`.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Class {
    OpenAt = 1,
    Open = 2,
    LookAt = 3,
    Look = 4,
    List = 5,
    Exec = 6,
    Read = 7,
    Pread = 8,
    Map = 9,
    Advise = 10,
    Ahead = 11,
    AdviseMapping = 12,
    /// A symlink at the end of the path isn't followed.
    LookAtLink = 3 | 0x10,
    /// The same, of calls without a directory.
    LookLink = 4 | 0x10,
    /// Whether it is followed is said in the third argument.
    LookAtFlags2 = 3 | 0x20,
    /// In the fourth.
    LookAtFlags3 = 3 | 0x40,
    /// The third argument is the number of requested bytes.
    ReadCount2 = 7 | 0x80,
    /// The same, at a position.
    PreadCount2 = 8 | 0x80,
}

/// Calls of every architecture.
const COMMON: [(c_long, Class); 27] = [
    (libc::SYS_openat, Class::OpenAt),
    (libc::SYS_openat2, Class::OpenAt),
    (libc::SYS_newfstatat, Class::LookAtFlags3),
    (libc::SYS_statx, Class::LookAtFlags2),
    (libc::SYS_faccessat, Class::LookAt),
    (libc::SYS_faccessat2, Class::LookAtFlags3),
    (libc::SYS_readlinkat, Class::LookAtLink),
    (libc::SYS_name_to_handle_at, Class::LookAt),
    (libc::SYS_statfs, Class::Look),
    (libc::SYS_chdir, Class::Look),
    (libc::SYS_chroot, Class::Look),
    (libc::SYS_getxattr, Class::Look),
    (libc::SYS_lgetxattr, Class::LookLink),
    (libc::SYS_listxattr, Class::Look),
    (libc::SYS_llistxattr, Class::LookLink),
    (libc::SYS_getdents64, Class::List),
    (libc::SYS_execve, Class::Exec),
    (libc::SYS_truncate, Class::Look),
    (libc::SYS_read, Class::ReadCount2),
    (libc::SYS_readv, Class::Read),
    (libc::SYS_pread64, Class::PreadCount2),
    (libc::SYS_preadv, Class::Pread),
    (libc::SYS_preadv2, Class::Pread),
    (libc::SYS_mmap, Class::Map),
    (libc::SYS_fadvise64, Class::Advise),
    (libc::SYS_readahead, Class::Ahead),
    (libc::SYS_madvise, Class::AdviseMapping),
];

/// Older calls that newer architectures never had.
#[cfg(target_arch = "x86_64")]
const OLD: [(c_long, Class); 7] = [
    (libc::SYS_open, Class::Open),
    (libc::SYS_stat, Class::Look),
    (libc::SYS_lstat, Class::LookLink),
    (libc::SYS_access, Class::Look),
    (libc::SYS_readlink, Class::LookLink),
    (libc::SYS_getdents, Class::List),
    (libc::SYS_creat, Class::Open),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: [(c_long, Class); 0] = [];

/// Fills the table of `SYSCALLS_MAX` classes by call number.
pub fn fill(classes: &mut [u8]) {
    for (number, class) in COMMON.iter().chain(&OLD) {
        if let Some(slot) = usize::try_from(*number)
            .ok()
            .and_then(|n| classes.get_mut(n))
        {
            *slot = *class as u8;
        }
    }
}
