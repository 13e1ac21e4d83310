// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading out tables of the kernel's side.

use std::os::fd::AsRawFd;

use libbpf_rs::{MapCore, MapFlags, libbpf_sys};

/// All entries of a hash map; by batches where the kernel can (5.6), else one by one.
#[must_use]
pub fn entries(map: &impl MapCore) -> Vec<(Vec<u8>, Vec<u8>)> {
    in_batches(map).unwrap_or_else(|| {
        let value = |key: Vec<u8>| {
            let value = map.lookup(&key, MapFlags::ANY).ok().flatten()?;
            Some((key, value))
        };
        map.keys().filter_map(value).collect()
    })
}

/// The kernel ends a batch before the first bucket that doesn't fit whole, so a short batch isn't
/// the last one; only `ENOENT` says so. (libbpf-rs 0.27 takes a short batch for the last.)
fn in_batches(map: &impl MapCore) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    const BATCH_ENTRIES: u32 = 8192;
    let (key_size, value_size) = (map.key_size() as usize, map.value_size() as usize);
    let mut entries = Vec::new();
    let mut keys = vec![0u8; key_size * BATCH_ENTRIES as usize];
    let mut values = vec![0u8; value_size * BATCH_ENTRIES as usize];
    // The place of a hash map's batch is the number of a bucket.
    let mut place: Option<u32> = None;
    loop {
        let mut count = BATCH_ENTRIES;
        let mut next = 0u32;
        let from = place
            .as_mut()
            .map_or(std::ptr::null_mut(), |place| &raw mut *place);
        // SAFETY: the buffers hold `count` keys and values of the map's sizes, and all pointers
        // live through the call.
        let result = unsafe {
            libbpf_sys::bpf_map_lookup_batch(
                map.as_fd().as_raw_fd(),
                from.cast(),
                (&raw mut next).cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &raw mut count,
                std::ptr::null(),
            )
        };
        let last = result == -libc::ENOENT;
        if result < 0 && !last {
            return None;
        }
        let keys = keys.chunks_exact(key_size).take(count as usize);
        let values = values.chunks_exact(value_size);
        entries.extend(
            keys.zip(values)
                .map(|(key, value)| (key.to_vec(), value.to_vec())),
        );
        if last {
            return Some(entries);
        }
        place = Some(next);
    }
}

/// Waits until each program that ran when this was called has ended.
pub fn wait_for_programs() {
    /// `MEMBARRIER_CMD_GLOBAL`: synchronize_rcu(), and programs run inside of that.
    const GLOBAL: libc::c_long = 1;
    // SAFETY: a system call with numbers only. Where it isn't there, programs have had the time of
    // a system call, which is more than they take.
    unsafe {
        libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0);
    }
}

/// A counter in mapped memory of a table, which programs in the kernel write meanwhile: it is read
/// as it is, once.
#[must_use]
pub fn read_counter(counter: &u64) -> u64 {
    // SAFETY: a reference is valid and aligned.
    unsafe { std::ptr::read_volatile(counter) }
}
