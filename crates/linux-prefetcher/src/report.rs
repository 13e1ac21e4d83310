// SPDX-License-Identifier: MIT OR Apache-2.0
//! Report on a plan, counted by several threads.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! report {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The results of a plan. Pages are of 4 KiB.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Report {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// A report that is being written by several threads.
        #[derive(Default)]
        pub(super) struct Tally {
            $(pub(super) $name: AtomicU64,)*
        }

        impl Report {
            /// All counters, in their order.
            pub(super) fn counters(&self) -> Vec<u64> {
                vec![$(self.$name,)*]
            }
        }

        impl Tally {
            /// All counters, in their order.
            pub(super) fn all(&self) -> Vec<&AtomicU64> {
                vec![$(&self.$name,)*]
            }

            pub(super) fn report(&self) -> Report {
                Report { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

report! {
    /// Pages that the plan names.
    planned_pages,
    /// Planned pages that were cached.
    cached_pages,
    /// Pages asked for.
    asked_pages,
    /// Pages that arrived.
    arrived_pages,
    /// Pages left out because they exceed the budget.
    over_budget_pages,
    /// Pages for which nothing was read: pages of files that are gone, replaced or unreadable,
    /// behind the end of a file, in holes, or on file systems in memory. Planned pages are the sum
    /// of these, the cached ones, the requested ones and those over the budget. A replay that was
    /// stopped has not processed all of them.
    skipped_pages,
    /// Pages that it didn't come to, because the program was ahead of it.
    overtaken_pages,
    /// Bytes of metadata read from block devices.
    metadata_bytes,
    /// Inodes looked at one by one, where the device couldn't be read.
    looked_at,
    /// Reads made.
    reads,
    /// Files read.
    files,
    /// Paths that name nothing any more.
    gone_files,
    /// Paths that name another file now.
    replaced_files,
    /// Files that are shorter than the pages named.
    shrunk_files,
    /// Files changed since, read all the same.
    changed_files,
    /// Files that may not be opened for reading.
    unreadable_files,
    /// Files with a write lease, which opening them would break.
    leased_files,
    /// Reads of data or metadata that failed.
    failed_reads,
    /// Reads of data that ended before the last page asked for.
    short_reads,
    /// File systems on which no more reads could be made at all, for want of threads or memory.
    failed_file_systems,
    /// File systems that did not answer in time, or were left alone because they had not answered
    /// before.
    left_alone_file_systems,
    /// Error number of what failed first; 0 when nothing did.
    first_error_number,
    /// File systems read through their block device.
    raw_file_systems,
    /// File systems read inode by inode.
    looked_file_systems,
    /// Whether memory ran short: 1 when it did.
    stopped_for_memory,
}

impl Tally {
    /// Adds what another report has more than it had before.
    pub(super) fn add_more(&self, counters: &[u64], before: &[u64]) {
        let before = before.iter().copied().chain(std::iter::repeat(0));
        for ((own, now), before) in self.all().into_iter().zip(counters).zip(before) {
            if std::ptr::eq(own, &self.first_error_number) {
                let _ = own.compare_exchange(0, *now, Ordering::Relaxed, Ordering::Relaxed);
            } else {
                own.fetch_add(now.saturating_sub(before), Ordering::Relaxed);
            }
        }
    }

    pub(super) fn add(&self, counter: impl FnOnce(&Self) -> &AtomicU64, n: u64) {
        counter(self).fetch_add(n, Ordering::Relaxed);
    }
}
