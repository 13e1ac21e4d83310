// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums over a recording.

use std::ops::AddAssign;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Sums over a recording; those of all CPUs are added up.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl AddAssign for Counts {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counts! {
    /// Page accesses seen, hits included.
    calls,
    /// Accesses with a page not accessed before.
    news,
    /// Time that threads of the program waited for reads.
    stall_ns,
    /// How often they did.
    stalls,
    /// Pages of file data that the program itself brought into the page cache.
    missed_pages,
    /// The same, of block devices.
    missed_metadata_pages,
    /// Pages of file data that the replay brought in.
    fetched_pages,
    /// The same, of block devices.
    fetched_metadata_pages,
    /// Pages fetched by the replay and then accessed.
    used_pages,
    /// Used pages that the program waited for.
    late_pages,
    /// Distinct pages that the program accessed.
    accessed_pages,
    /// Ring buffer full.
    lost_records,
    /// Table of inodes full.
    lost_inodes,
    /// Table of chunks full.
    lost_chunks,
    /// Table of processes full.
    lost_processes,
    /// A path that couldn't be read from the program's memory.
    lost_paths,
    /// A page fault whose mapping couldn't be looked at.
    lost_faults,
    /// Events of the whole machine at which the kernel has not run a program; at most so many were
    /// the program's own.
    missed_events,
}

impl Counts {
    /// Events that should have been noted and weren't.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.losses().iter().map(|(events, _)| events).sum()
    }

    /// The same, by what they were, or what there was no room for. Some are 0.
    #[must_use]
    pub fn losses(&self) -> [(u64, &'static str); 7] {
        [
            (self.lost_records, "records"),
            (self.lost_inodes, "inodes"),
            (self.lost_chunks, "chunks of pages"),
            (self.lost_processes, "processes"),
            (self.lost_paths, "paths"),
            (self.lost_faults, "page faults"),
            (self.missed_events, "events of all processes"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_losses_add_up() {
        let mut sum = Counts {
            calls: 1,
            lost_records: 12,
            lost_inodes: 13,
            lost_chunks: 14,
            lost_processes: 15,
            lost_paths: 16,
            lost_faults: 17,
            ..Counts::default()
        };
        sum += sum;
        assert_eq!((sum.calls, sum.lost_faults), (2, 34));
        assert_eq!(sum.lost(), 2 * (12 + 13 + 14 + 15 + 16 + 17));
    }
}
