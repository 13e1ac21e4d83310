// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads and unloads of the kernel module under I/O, with memory pressure, and with a processor
//! that goes and comes back.

use std::time::Duration;

use foreread_core::grouped;
use foreread_guest::{GuestError, Lab, Outcome};
use foreread_measure::sample::Sample;

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
/// Caches grow by dozens of objects by themselves. With fewer loads, one object more for each can't
/// be told from that.
const LOADS_TO_JUDGE: u64 = 100;
/// A load that leaves its code behind leaves 150 KiB. Both sums also grow by themselves.
const VMALLOC_KIB_A_LOAD: i64 = 2;
const PERCPU_KIB_A_LOAD: i64 = 1;

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let lab = Lab::build_module()?;
    let loads = context.loads;
    let outcome = guest_of_readers(&lab, kernel)?
        .time_limit(Duration::from_secs(300 + u64::from(loads) * SECONDS_A_LOAD))
        // Else a cache bears the name of another one with objects of the same size.
        .command_line("slab_nomerge")
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
        seconds_row(&outcome.file("loads")?),
        grown_row(&outcome.file("grown")?, done),
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

/// How long loads and unloads took, from lines of two numbers in hundredths of a second.
fn seconds_row(text: &str) -> Row {
    let of = |place: usize| {
        let hundredths = text.lines().filter_map(|line| {
            let word = line.split_whitespace().nth(place)?;
            word.parse::<f64>().ok()
        });
        let seconds = Sample::new(hundredths.map(|hundredths| hundredths / 100.0));
        format!("{:.2} ({:.2})", seconds.median(), seconds.quantile(1.0))
    };
    Row::told(
        "s for a load, an unload: median (longest)",
        format!("{}, {}", of(0), of(1)),
    )
}

/// Growth of the kernel's memory, beyond that of the same load without the module.
#[derive(Default)]
struct Grown {
    /// Slab caches that have an object more for each load: the name, and how many objects with and
    /// without the module.
    caches: Vec<String>,
    percpu_kib: i64,
    vmalloc_kib: i64,
}

impl Grown {
    /// Reads lines of a name, the growth with the module, and that of the same time without it.
    fn of(text: &str, loads: i64) -> Self {
        let mut grown = Self::default();
        for line in text.lines() {
            let [name, with, without] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                continue;
            };
            let with: i64 = with.parse().unwrap_or(i64::MAX);
            let without: i64 = without.parse().unwrap_or(0);
            let more = with.saturating_sub(without.max(0));
            match name {
                "Percpu:" => grown.percpu_kib = more,
                "VmallocUsed:" => grown.vmalloc_kib = more,
                _ if more >= loads => {
                    grown
                        .caches
                        .push(format!("{name} by {with}, and by {without} without it"));
                }
                _ => {}
            }
        }
        grown
    }
}

fn grown_row(text: &str, loads: u64) -> Row {
    let name = "slab caches with an object more for each load; KiB of Percpu, VmallocUsed";
    if loads < LOADS_TO_JUDGE {
        return Row::told(name, format!("{loads} loads are too few to tell"));
    }
    let loads = i64::try_from(loads).unwrap_or(i64::MAX);
    let grown = Grown::of(text, loads);
    let is_none = grown.caches.is_empty()
        && grown.percpu_kib < loads.saturating_mul(PERCPU_KIB_A_LOAD)
        && grown.vmalloc_kib < loads.saturating_mul(VMALLOC_KIB_A_LOAD);
    let value = format!(
        "{}; {:+}, {:+}",
        grown.caches.len(),
        grown.percpu_kib,
        grown.vmalloc_kib
    );
    Row::asserted(name, "0; less than 1 and 2 KiB a load", value, is_none)
        .detail(grown.caches.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Verdict;

    #[test]
    fn times_of_loads_are_told_in_seconds() {
        let row = seconds_row("120 300\n100 260\n450 280\n");
        assert_eq!(row.value, "1.20 (4.50), 2.80 (3.00)");
    }

    #[test]
    fn what_grows_with_the_loads_is_a_miss() {
        let verdict = |text: &str, loads| grown_row(text, loads).verdict;
        let quiet = "VmallocUsed: 112 0\nPercpu: -8 16\ndentry 5000 4900\n";
        assert_eq!(verdict(quiet, 200), Verdict::Reached);
        assert_eq!(verdict("VmallocUsed: 400 0\n", 200), Verdict::Missed);
        assert_eq!(verdict("Percpu: 200 -8\n", 200), Verdict::Missed);
        assert_eq!(verdict("kmalloc-64 200 0\n", 200), Verdict::Missed);
        assert_eq!(verdict("kmalloc-64 200 -50\n", 200), Verdict::Missed);
        assert_eq!(verdict("kmalloc-64 99 0\n", 99), Verdict::Told);
    }
}
