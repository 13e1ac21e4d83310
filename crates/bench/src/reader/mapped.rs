// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that map large files, such as checkpoints of neural networks.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use foreread_measure::MeasureError;
use foreread_testbed::mapped::MappedFile;

use super::order::{blocks_in_turn, part, random};
use super::{Done, PAGE_BYTES, SEED, panicked};

/// A tensor that one thread reads as a whole.
const TENSOR_BYTES: u64 = 16 << 20;
/// Bytes that one thread reads of each row of a matrix.
const SLICE_BYTES: u64 = 64 << 10;
/// Of so many pages one is read at random.
const RANDOM_OF: u64 = 128;

/// Bytes that a slow reader takes at once: 8 ms at 500 MB/s, against which a timer that is late
/// counts for little.
const STEP_BYTES: u64 = 4 << 20;

/// In which order the pages of a mapping are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MapOrder {
    /// From the start.
    Forward,
    /// From the end.
    Backward,
    /// Each thread a part of its own.
    Parts,
    /// The threads take tensors of 16 MiB in turn.
    Tensors,
    /// Each thread takes 64 KiB of each row.
    Slices,
    /// Pages here and there, one of 128.
    Random,
}

impl MapOrder {
    /// As it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Parts => "parts",
            Self::Tensors => "tensors",
            Self::Slices => "slices",
            Self::Random => "random",
        }
    }

    /// The pages that one of the threads reads.
    fn pages(self, pages: u64, threads: u64, thread: u64) -> Box<dyn Iterator<Item = u64>> {
        let in_turn = |bytes: u64| blocks_in_turn(pages, bytes / PAGE_BYTES, threads, thread);
        match self {
            Self::Forward | Self::Parts => Box::new(part(pages, threads, thread)),
            Self::Backward => {
                let forward = part(pages, threads, threads.saturating_sub(thread + 1));
                Box::new(forward.map(move |page| pages - 1 - page))
            }
            Self::Tensors => Box::new(in_turn(TENSOR_BYTES)),
            Self::Slices => Box::new(in_turn(SLICE_BYTES)),
            Self::Random => {
                let own = pages / RANDOM_OF / threads.max(1);
                Box::new(random(pages, own, SEED + thread))
            }
        }
    }
}

/// Reads `pages` pages of a mapped file, or all it has.
pub fn read(path: &Path, order: MapOrder, threads: u64, pages: u64) -> Result<Done, MeasureError> {
    let mapped = MappedFile::open(path)?;
    let pages = pages.min(mapped.pages());
    let first = match order {
        MapOrder::Backward => mapped.pages() - pages,
        _ => 0,
    };
    let touch_all = |thread: u64| -> u64 {
        let own = order.pages(pages, threads, thread);
        own.filter_map(|page| black_box(mapped.touch(first + page)))
            .fold(0, |count, _| count + 1)
    };
    let began = Instant::now();
    let touched = thread::scope(|scope| {
        let spawn = |thread| scope.spawn(move || touch_all(thread));
        let all: Vec<_> = (0..threads).map(spawn).collect();
        let counts = all.into_iter().map(|thread| thread.join());
        counts.sum::<Result<u64, _>>()
    });
    Ok(Done {
        elapsed: began.elapsed(),
        bytes: touched.map_err(|_| panicked())? * PAGE_BYTES,
    })
}

/// Maps one file after the other, reads each page, and consumes `bytes_per_s` meanwhile. Reading is
/// a step of 4 MiB ahead of the pages that are being consumed.
pub fn checkpoint(files: &[PathBuf], bytes_per_s: u64) -> Result<Done, MeasureError> {
    let began = Instant::now();
    let mut pace = Pace::new(bytes_per_s);
    let mut bytes = 0;
    for path in files {
        let mapped = MappedFile::open(path)?;
        for page in 0..mapped.pages() {
            black_box(mapped.touch(page));
            bytes += PAGE_BYTES;
            if let Some(wait) = pace.read(PAGE_BYTES, began.elapsed()) {
                thread::sleep(wait);
            }
        }
    }
    Ok(Done {
        elapsed: began.elapsed(),
        bytes,
    })
}

/// Consumes at a steady speed. A reader that has waited for a disk does not catch up.
struct Pace {
    bytes_per_s: u64,
    /// Read and not yet handed on.
    read_bytes: u64,
    /// When all that was handed on will be consumed.
    consumed: Duration,
}

impl Pace {
    fn new(bytes_per_s: u64) -> Self {
        Self {
            bytes_per_s: bytes_per_s.max(1),
            read_bytes: 0,
            consumed: Duration::ZERO,
        }
    }

    /// Time to wait at `now` after `bytes` more bytes were read, if any.
    fn read(&mut self, bytes: u64, now: Duration) -> Option<Duration> {
        self.read_bytes += bytes;
        if self.read_bytes < STEP_BYTES {
            return None;
        }
        let wait = self.consumed.checked_sub(now);
        let took = Duration::from_secs_f64(self.read_bytes as f64 / self.bytes_per_s as f64);
        self.consumed = self.consumed.max(now) + took;
        self.read_bytes = 0;
        wait.filter(|wait| !wait.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_but_random_has_each_page_once() {
        let random = |order: &&MapOrder| **order == MapOrder::Random;
        for order in MapOrder::value_variants().iter().filter(|it| !random(it)) {
            for (pages, threads) in [(1, 1), (9_000, 1), (9_000, 8), (65_537, 8)] {
                let threads_pages = (0..threads).map(|thread| order.pages(pages, threads, thread));
                let mut read: Vec<u64> = threads_pages.flatten().collect();
                read.sort_unstable();
                assert!(read.into_iter().eq(0..pages), "{order:?} {pages} {threads}");
            }
        }
        let some: Vec<u64> = MapOrder::Random.pages(9_000, 8, 3).collect();
        assert_eq!(some.len(), 9_000 / 128 / 8);
        assert!(some.iter().all(|page| *page < 9_000));
        assert!(MapOrder::Backward.pages(4, 1, 0).eq([3, 2, 1, 0]));
        assert!(
            MapOrder::Slices
                .pages(256, 8, 1)
                .eq((16..32).chain(144..160))
        );
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for order in MapOrder::value_variants() {
            let value = order.to_possible_value().unwrap();
            assert_eq!(value.get_name(), order.name());
        }
    }

    #[test]
    fn a_pace_is_kept_and_a_stall_not_caught_up() {
        let ms = Duration::from_millis;
        // A step takes 10 ms.
        let mut pace = Pace::new(STEP_BYTES * 100);
        assert_eq!(pace.read(STEP_BYTES, ms(0)), None);
        assert_eq!(pace.read(STEP_BYTES / 2, ms(1)), None);
        assert_eq!(pace.read(STEP_BYTES / 2, ms(2)), Some(ms(8)));
        assert_eq!(pace.read(STEP_BYTES, ms(11)), Some(ms(9)));
        // It waited until 50 ms: the next is consumed by 60 ms, not by 40 ms.
        assert_eq!(pace.read(STEP_BYTES, ms(50)), None);
        assert_eq!(pace.read(STEP_BYTES, ms(51)), Some(ms(9)));
    }
}
