// SPDX-License-Identifier: MIT OR Apache-2.0
//! The free space of a mounted file system, as the file system tells (`FS_IOC_GETFSMAP`).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use foreread_prefetch::ext4::Extent;

/// `_IOWR('X', 59, struct fsmap_head)`.
const FS_IOC_GETFSMAP: libc::c_ulong = 0xc0c0_583b;
const FLAG_SPECIAL_OWNER: u32 = 0x10;
const FLAG_LAST: u32 = 0x20;
/// `FMR_OWN_FREE`.
const OWNER_FREE: u64 = 1;
const RECORDS: usize = 256;

/// `struct fsmap` of `<linux/fsmap.h>`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Record {
    device: u32,
    flags: u32,
    physical: u64,
    owner: u64,
    offset: u64,
    length: u64,
    reserved: [u64; 3],
}

/// `struct fsmap_head`, with room for records.
#[repr(C)]
struct Request {
    in_flags: u32,
    out_flags: u32,
    count: u32,
    entries: u32,
    reserved: [u64; 6],
    low: Record,
    high: Record,
    records: [Record; RECORDS],
}

/// Free extents, in bytes of the device, in order.
///
/// # Errors
/// `EOPNOTSUPP` or `ENOTTY` where the file system doesn't tell (ext4 and XFS do), `EPERM` without
/// the right to administrate.
pub fn free_extents(directory: impl AsFd) -> io::Result<Vec<Extent>> {
    let mut free = Vec::new();
    let high = Record {
        device: u32::MAX,
        flags: u32::MAX,
        physical: u64::MAX,
        owner: u64::MAX,
        offset: u64::MAX,
        ..Record::default()
    };
    let mut request = Request {
        in_flags: 0,
        out_flags: 0,
        count: RECORDS as u32,
        entries: 0,
        reserved: [0; 6],
        low: Record::default(),
        high,
        records: [Record::default(); RECORDS],
    };
    loop {
        // SAFETY: the struct is laid out as the kernel's, has the room it claims, and lives through
        // the call.
        let result = unsafe {
            libc::ioctl(
                directory.as_fd().as_raw_fd(),
                FS_IOC_GETFSMAP,
                &raw mut request,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let entries = (request.entries as usize).min(RECORDS);
        let records = &request.records[..entries];
        free.extend(records.iter().filter(|one| is_free(one)).map(|one| Extent {
            offset_bytes: one.physical,
            length_bytes: one.length,
        }));
        match records.last() {
            // The next call begins behind the last record.
            Some(last) if last.flags & FLAG_LAST == 0 => request.low = *last,
            _ => return Ok(free),
        }
        request.entries = 0;
    }
}

fn is_free(record: &Record) -> bool {
    record.flags & FLAG_SPECIAL_OWNER != 0 && record.owner == OWNER_FREE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structs_are_as_large_as_the_kernels() {
        assert_eq!(size_of::<Record>(), 64);
        assert_eq!(size_of::<Request>(), 192 + RECORDS * 64);
    }

    #[test]
    fn who_cannot_tell_says_so() {
        let proc = std::fs::File::open("/proc").expect("a directory");
        assert!(free_extents(&proc).is_err());
    }
}
