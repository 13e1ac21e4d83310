// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that read by NFS over loopback, in virtual time: stock beside each policy of the kernel
//! module.
//!
//! The server is in the same guest, with eight threads, and its disk takes no time. A round trip
//! takes 1 ms, which is all that a reader can wait for.

use std::time::Duration;

use foreread_core::grouped;
use foreread_guest::{Guest, GuestError, Lab, Machine, large_image};
use foreread_model::DiskParameters;

use super::module::{complaints_row, module_of, of, policy_name, results};
use super::module_live::SCENARIOS;
use super::{Beside, Case};
use crate::context::{Context, GUEST_SCRIPTS, Row};

pub const CASE: Case = Case {
    name: "module-nfs",
    about: "`foreread.ko`: reads by NFS over loopback with a round trip of 1 ms, stock beside each policy",
    beside: Beside::Anything,
    run,
};

/// Scenarios of one file of this size.
const NAMES: [&str; 5] = ["sequential", "interleaved", "reordered", "sparse", "random"];
const FILE_MIB: u32 = 64;
const TIME_LIMIT: Duration = Duration::from_secs(3600);
/// A program may take so much longer than with stock.
const MORE_PERCENT_MAX: u64 = 2;

/// A run of one scenario under one policy.
#[derive(Debug, PartialEq, Eq)]
struct Played {
    scenario: String,
    policy: String,
    bytes: u64,
    took_ns: u64,
    calls: u64,
    brought_bytes: u64,
}

impl Played {
    fn of(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let mut name = || words.next().map(str::to_owned);
        let (scenario, policy) = (name()?, name()?);
        let mut number = || words.next()?.parse().ok();
        Some(Self {
            scenario,
            policy,
            bytes: number()?,
            took_ns: number()?,
            calls: number()?,
            brought_bytes: number()?,
        })
    }

    fn text(&self) -> String {
        format!(
            "{:.1} MB/s, {} calls, {:.1} MiB",
            self.bytes as f64 * 1e3 / self.took_ns.max(1) as f64,
            grouped(self.calls),
            self.brought_bytes as f64 / f64::from(1 << 20)
        )
    }
}

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let module = module_of(&Lab::build_module()?, kernel)?;
    let lab = Lab::build_virtual(&[])?;
    let mut machine = Machine::of(lab.image(), DiskParameters::instant())?;
    let image = large_image(&lab, 1, FILE_MIB)?;
    machine.add_disk("data", &image, DiskParameters::instant())?;
    let mut guest = Guest::new(&lab, kernel)?
        .machine(&machine)
        .file(module, "foreread.ko")
        .file(context.reader()?, "reader")
        .file(format!("{GUEST_SCRIPTS}/module.sh"), "module.sh")
        .time_limit(TIME_LIMIT)
        .script(format!(
            "set -u\n. ./module.sh\nmodule_nfs {}\nmodule_log\n",
            NAMES.join(" ")
        ));
    for name in NAMES {
        guest = guest.file(
            format!("{SCENARIOS}/{name}.toml"),
            &format!("scenario-{name}"),
        );
    }
    let outcome = guest.run()?;
    let results = results(&outcome.file("results")?);
    if of(&results, "mounted") != [1] {
        return Err(GuestError::Unexpected(
            "NFS could not be mounted".to_owned(),
        ));
    }
    let text = outcome.file("nfs")?;
    let played: Vec<Played> = text.lines().filter_map(Played::of).collect();
    let is_unmounted = of(&results, "unmounted") == [1];
    let mut rows = vec![
        Row::asserted(
            "NFS can be unmounted after it",
            "yes",
            if is_unmounted { "yes" } else { "no" },
            is_unmounted,
        ),
        complaints_row(&results, "complaints of the kernel, caches left"),
    ];
    for name in NAMES {
        rows.extend(judge(name, &played)?);
    }
    Ok(rows)
}

/// The rows of one scenario: `foreread` beside stock, then all.
fn judge(name: &str, played: &[Played]) -> Result<Vec<Row>, GuestError> {
    let all = || played.iter().filter(|played| played.scenario == name);
    let find = |policy: &str| {
        let found = all().find(|played| played.policy == policy);
        found.ok_or_else(|| GuestError::Unexpected(format!("{name} under {policy} has no line")))
    };
    let (stock, own) = (find("off")?, find("foreread")?);
    let mut rows = vec![Row::asserted(
        format!("{name} by NFS: foreread, time"),
        format!("at most {MORE_PERCENT_MAX} % over stock"),
        format!(
            "{:.1} ms; stock {:.1} ms",
            own.took_ns as f64 / 1e6,
            stock.took_ns as f64 / 1e6
        ),
        own.took_ns <= stock.took_ns * (100 + MORE_PERCENT_MAX) / 100,
    )];
    rows.extend(all().map(|played| {
        let policy = policy_name(&played.policy);
        Row::told(format!("{name} by NFS: {policy}"), played.text())
    }));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Verdict;

    #[test]
    fn a_program_that_takes_longer_than_with_stock_is_a_miss() {
        let played = |own_ns: u64| {
            let text =
                format!("random off 1000 100000 3 4096\nrandom foreread 1000 {own_ns} 2 8192\n");
            let played: Vec<Played> = text.lines().filter_map(Played::of).collect();
            judge("random", &played).unwrap()
        };
        let rows = played(102_000);
        assert_eq!(rows[0].verdict, Verdict::Reached);
        assert_eq!(rows[1].name, "random by NFS: stock");
        assert_eq!(rows[1].value, "10.0 MB/s, 3 calls, 0.0 MiB");
        assert_eq!(played(102_001)[0].verdict, Verdict::Missed);
        assert!(judge("sparse", &[]).is_err());
    }
}
