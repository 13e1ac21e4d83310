// SPDX-License-Identifier: MIT OR Apache-2.0
//! The largest folio of a file system, measured: no call reports it.
//!
//! A stream of reads leaves folios of the largest size. Then aligned blocks of pages are dropped,
//! smaller ones first. The kernel drops a folio only with all of its pages
//! (mapping_try_invalidate), so a folio that stays is larger than the block.

use foreread_core::policy::Policy;
use foreread_profile::PAGE_BYTES;
use foreread_sim::check::{FILE_BYTES, Facts, Machine, Model, Modelled, Program, Step};
use rustix::fs::{Advice, fadvise};

use super::files::Files;
use super::resident::Resident;
use super::{CheckError, Running, SetReadAhead, failed, forget};

/// MAX_PAGECACHE_ORDER, of huge pages: no file system has larger folios.
const ORDER_MAX: u8 = 9;
/// With these settings the windows of a stream are 4, 16, 64, 128, 256 and 512 pages. The last of
/// them is aligned, and its order has grown to the largest.
const READ_AHEAD_KIB: u64 = 4096;
const FIRST_PAGE: u64 = 43;
/// A process that drops the page cache meanwhile makes folios smaller, never larger.
const TRIES: usize = 3;

/// Measures it with the readahead that the device has or is given.
pub(super) fn measure(
    resident: &mut Resident,
    files: &Files,
    set_read_ahead: Option<&SetReadAhead<'_>>,
) -> Result<u8, CheckError> {
    if let Some(set) = set_read_ahead {
        set(READ_AHEAD_KIB).map_err(failed("set read_ahead_kb"))?;
    }
    let stream = stream();
    let mut running = Running::new(files.open(stream.file)?, stream.file_bytes())?;
    let facts = Facts {
        folio_order_max: ORDER_MAX,
        ..resident.begin(&running)?
    };
    let without_limit = modelled(Policy::Linux, &stream, facts);
    let mut most = 0;
    for _ in 0..TRIES {
        for step in &stream.steps {
            running.play(step, files)?;
        }
        resident.settle(&running)?;
        most = most.max(largest(&running)?);
        if most >= without_limit {
            // There is no limit, or none that this readahead comes to.
            return Ok(ORDER_MAX);
        }
        forget(&running.residency, running.file_pages)?;
    }
    Ok(most)
}

/// Reads of one page each, through the largest file.
fn stream() -> Program {
    let file = FILE_BYTES.len() - 1;
    let pages = FIRST_PAGE..FILE_BYTES[file].div_ceil(PAGE_BYTES);
    let reads = pages.map(|page| Step::Read {
        descriptor: 0,
        offset_bytes: page * PAGE_BYTES,
        bytes: PAGE_BYTES,
    });
    Program {
        seed: 0,
        number: 0,
        file,
        read_ahead_kib: READ_AHEAD_KIB,
        steps: [Step::Open { descriptor: 0 }]
            .into_iter()
            .chain(reads)
            .collect(),
    }
}

/// The largest order of the folios that are cached, which it drops.
fn largest(running: &Running) -> Result<u8, CheckError> {
    for order in 0..ORDER_MAX {
        let block = 1 << order;
        for start in (0..running.file_pages).step_by(block) {
            let (at, bytes) = (start * PAGE_BYTES, block as u64 * PAGE_BYTES);
            let file = running.residency.file();
            fadvise(file, at, std::num::NonZeroU64::new(bytes), Advice::DontNeed)
                .map_err(|error| failed("drop pages from the page cache")(error.into()))?;
        }
        let left = running.residency.cached_pages(running.file_pages);
        if left.map_err(failed("look at the page cache"))? == 0 {
            return Ok(order);
        }
    }
    Ok(ORDER_MAX)
}

/// The same of the model of a kernel; the last windows of the stream are alike in all of them.
fn modelled(policy: Policy, program: &Program, facts: Facts) -> u8 {
    let model = Model {
        quirks: 0,
        ..Model::of(policy)
    };
    let mut model = Modelled::new(model).with_facts(facts);
    let Ok(_) = model.begin(program);
    let mut largest = 0;
    for step in &program.steps {
        let Ok(seen) = model.step(step);
        let orders = seen.inserted.iter().map(|folio| folio.order);
        largest = orders.fold(largest, u8::max);
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_core::policy::Kernel;

    #[test]
    fn the_stream_comes_to_the_largest_folio_that_there_may_be() {
        for kernel in Kernel::ALL {
            for folio_order_max in 0..=ORDER_MAX {
                // Linux 6.1 has no folios of two pages, and no limit but its own.
                if kernel.policy == Policy::Linux61 && folio_order_max == 1 {
                    continue;
                }
                let facts = Facts {
                    ra_pages: 1024,
                    io_pages: 320,
                    folio_order_max,
                };
                let largest = modelled(kernel.policy, &stream(), facts);
                assert_eq!(largest, folio_order_max, "{kernel}");
            }
        }
    }
}
