// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads and unloads of the kernel module under I/O, with memory pressure, and with a processor
//! that goes and comes back.

use std::time::Duration;

use foreread_core::grouped;
use foreread_guest::{GuestError, Lab, Outcome};

use super::module::{Results, guest_of_readers, log_row, of, results};
use super::{Beside, Case};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "module-loads",
    about: "`foreread.ko`: loads and unloads under I/O of 8 processes, memory pressure and CPU hotplug",
    beside: Beside::Another,
    run,
};

/// A load with its unload takes 4 s beside 8 readers, and three times that beside other load.
const SECONDS_A_LOAD: u64 = 30;
/// With fewer loads, a cache that has one object more for each can't be told from one that grew by
/// itself.
const LOADS_TO_JUDGE: u64 = 100;
/// A load that leaves its code behind leaves 150 KiB. Both sums also grow by themselves.
const VMALLOC_KIB_A_LOAD: i64 = 2;
const PERCPU_KIB_A_LOAD: i64 = 1;

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let lab = Lab::build_module()?;
    let loads = context.loads;
    let outcome = guest_of_readers(&lab, kernel)?
        .time_limit(Duration::from_secs(300 + u64::from(loads) * SECONDS_A_LOAD))
        .script(format!(
            "set -u\n. ./module.sh\nmodule_prepare\nmodule_loads {loads}\nmodule_log\n"
        ))
        .run()?;
    rows(&outcome, &results(&outcome.file("results")?))
}

fn rows(outcome: &Outcome, results: &Results) -> Result<Vec<Row>, GuestError> {
    let number = |name: &str| of(results, name).first().copied().unwrap_or(0);
    let (done, asked) = pair(results, "loads");
    let (unmounted, mounted) = pair(results, "unmounted");
    Ok(vec![
        Row::asserted(
            "loads and unloads under I/O of 8 processes",
            "all",
            format!("{} of {}", grouped(done), grouped(asked)),
            done == asked,
        ),
        Row::asserted(
            "meanwhile: a processor went away, pages that reclaim took",
            "at least one, and one",
            [number("unplugged"), number("reclaimed")]
                .map(grouped)
                .join(", "),
            number("unplugged") > 0 && number("reclaimed") > 0,
        ),
        Row::asserted(
            "file systems that could be unmounted after it",
            "all",
            format!("{unmounted} of {mounted}"),
            unmounted == mounted,
        ),
        Grown::of(&outcome.file("grown")?).row(done),
        log_row(outcome, results)?,
    ])
}

/// The two numbers of a result: how many were done, and how many were asked for.
fn pair(results: &Results, name: &str) -> (u64, u64) {
    match of(results, name) {
        [done, asked] => (*done, *asked),
        _ => (0, 1),
    }
}

/// Growth of the kernel's memory over all loads.
#[derive(Default)]
struct Grown {
    /// Names of slab caches that have an object more for each load, with the number of objects.
    caches: Vec<String>,
    percpu_kib: i64,
    vmalloc_kib: i64,
}

impl Grown {
    fn of(text: &str) -> Self {
        let mut grown = Self::default();
        for line in text.lines() {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["grown", name, objects] => grown.caches.push(format!("{name} by {objects}")),
                ["grown-kib", "Percpu:", kib] => grown.percpu_kib = kib.parse().unwrap_or(i64::MAX),
                ["grown-kib", "VmallocUsed:", kib] => {
                    grown.vmalloc_kib = kib.parse().unwrap_or(i64::MAX);
                }
                _ => {}
            }
        }
        grown
    }

    fn row(&self, loads: u64) -> Row {
        let name = "slab caches with an object more for each load; KiB of Percpu, VmallocUsed";
        if loads < LOADS_TO_JUDGE {
            return Row::told(name, format!("{loads} loads are too few to tell"));
        }
        let bound = |kib: i64| i64::try_from(loads).unwrap_or(i64::MAX).saturating_mul(kib);
        let is_none = self.caches.is_empty()
            && self.percpu_kib < bound(PERCPU_KIB_A_LOAD)
            && self.vmalloc_kib < bound(VMALLOC_KIB_A_LOAD);
        let value = format!(
            "{}; {:+}, {:+}",
            self.caches.len(),
            self.percpu_kib,
            self.vmalloc_kib
        );
        Row::asserted(name, "0; less than 1 and 2 KiB a load", value, is_none)
            .detail(self.caches.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Verdict;

    #[test]
    fn what_grows_with_the_loads_is_a_miss() {
        let verdict = |text: &str, loads| Grown::of(text).row(loads).verdict;
        let quiet = "grown-kib VmallocUsed: 112\ngrown-kib Percpu: -8\n";
        assert_eq!(verdict(quiet, 200), Verdict::Reached);
        assert_eq!(
            verdict("grown-kib VmallocUsed: 400\n", 200),
            Verdict::Missed
        );
        assert_eq!(verdict("grown-kib Percpu: 200\n", 200), Verdict::Missed);
        assert_eq!(verdict("grown kmalloc-64 200\n", 200), Verdict::Missed);
        assert_eq!(verdict("grown kmalloc-64 99\n", 99), Verdict::Told);
    }
}
