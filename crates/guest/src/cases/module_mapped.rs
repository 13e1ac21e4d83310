// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults of mappings under the kernel module, in virtual time: stock beside each policy on the
//! modelled disk `nfs`, which has a latency of 1 ms and serves 64 requests at once.

use std::collections::BTreeMap;
use std::time::Duration;

use foreread_core::grouped;
use foreread_guest::{Guest, GuestError, Lab, Machine, large_image};
use foreread_model::DiskParameters;

use super::module::{module_of, policy_name};
use super::{Beside, Case};
use crate::context::{Context, GUEST_SCRIPTS, Row};

pub const CASE: Case = Case {
    name: "module-mapped",
    about: "`foreread.ko`: mappings of a large file on the modelled disk `nfs`, stock beside each policy",
    beside: Beside::Anything,
    run,
};

/// Eight threads read tensors of 16 MiB.
const FILE_MIB: u32 = 128;
const TIME_LIMIT: Duration = Duration::from_secs(1800);
/// `foreread` must reach this share of the speed of read(2) in order with a readahead of 64
/// requests. The bench asks the same of `watch`.
const OF_BEST_PERCENT: u64 = 90;
/// Faults at random, and the bytes that are read for them, may cost so much more than stock's.
const RANDOM_MORE_PERCENT: u64 = 2;

/// One line of the script: a program under a policy.
struct Speed {
    order: String,
    policy: String,
    pages: u64,
    took_ns: u64,
    requests: u64,
    sectors: u64,
}

impl Speed {
    fn of(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (order, policy) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut number = || words.next()?.parse::<u64>().ok();
        Some(Self {
            order,
            policy,
            pages: number()?,
            took_ns: number()?,
            requests: number()?,
            sectors: number()?,
        })
    }

    fn mb_per_s(&self) -> f64 {
        self.pages as f64 * 4096.0 * 1e3 / self.took_ns.max(1) as f64
    }

    fn text(&self) -> String {
        format!(
            "{:.0} MB/s, {} requests, {:.1} MiB",
            self.mb_per_s(),
            grouped(self.requests),
            self.sectors as f64 / 2048.0
        )
    }
}

/// The speeds of one program: by policy.
type Speeds = BTreeMap<String, Speed>;

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let module = module_of(&Lab::build_module()?, kernel)?;
    let lab = Lab::build_virtual(&[])?;
    let nfs = DiskParameters::preset("nfs")
        .ok_or_else(|| GuestError::Unexpected("the model has no nfs".to_owned()))?;
    let instant = DiskParameters::instant();
    let mut machine = Machine::of(lab.image(), instant)?;
    machine.add_disk("data", &large_image(&lab, 1, FILE_MIB)?, nfs)?;
    let outcome = Guest::new(&lab, kernel)?
        .machine(&machine)
        .file(module, "foreread.ko")
        .file(context.reader()?, "reader")
        .file(format!("{GUEST_SCRIPTS}/module.sh"), "module.sh")
        .time_limit(TIME_LIMIT)
        .script("set -u\n. ./module.sh\nmodule_mapped\n")
        .run()?;
    let text = outcome.file("mapped")?;
    let mut orders: BTreeMap<String, Speeds> = BTreeMap::new();
    for speed in text.lines().filter_map(Speed::of) {
        let speeds = orders.entry(speed.order.clone()).or_default();
        speeds.insert(speed.policy.clone(), speed);
    }
    let best = orders
        .remove("best")
        .and_then(|mut speeds| speeds.remove("off"));
    let best = best.ok_or_else(|| GuestError::Unexpected("the best was not timed".to_owned()))?;
    let mut rows = vec![Row::told(
        "read(2) in order, 64 requests ahead",
        best.text(),
    )];
    for (order, speeds) in &orders {
        rows.push(judge(order, speeds, &best)?);
        rows.extend(speeds.values().map(|speed| {
            let name = policy_name(&speed.policy);
            Row::told(format!("mapped, {order}: {name}"), speed.text())
        }));
    }
    Ok(rows)
}

/// Programs that read all of what they map are held to the best; those that read at random, to
/// stock.
fn judge(order: &str, speeds: &Speeds, best: &Speed) -> Result<Row, GuestError> {
    let find = |policy: &str| {
        let found = speeds.get(policy);
        found.ok_or_else(|| GuestError::Unexpected(format!("no time of {policy}")))
    };
    let (stock, own) = (find("off")?, find("foreread")?);
    let value = format!(
        "{:.0} MB/s; stock {:.0}, best {:.0}",
        own.mb_per_s(),
        stock.mb_per_s(),
        best.mb_per_s()
    );
    if order == "random" {
        let most = |stock: u64| stock * (100 + RANDOM_MORE_PERCENT) / 100;
        return Ok(Row::asserted(
            format!("mapped, {order}: foreread, at most {RANDOM_MORE_PERCENT} % over stock"),
            "time and sectors",
            format!("{value}; {} sectors of {}", own.sectors, stock.sectors),
            own.took_ns <= most(stock.took_ns) && own.sectors <= most(stock.sectors),
        ));
    }
    Ok(Row::asserted(
        format!("mapped, {order}: foreread, of the best"),
        format!("at least {OF_BEST_PERCENT} %"),
        value,
        own.mb_per_s() * 100.0 >= best.mb_per_s() * OF_BEST_PERCENT as f64,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Verdict;

    fn speeds(lines: &str) -> Speeds {
        lines
            .lines()
            .filter_map(Speed::of)
            .map(|speed| (speed.policy.clone(), speed))
            .collect()
    }

    #[test]
    fn orders_are_held_to_the_best_and_random_faults_to_stock() {
        let best = Speed::of("best off 2000 2000000 4 16000").unwrap();
        assert_eq!(best.text(), "4096 MB/s, 4 requests, 7.8 MiB");
        let verdict =
            |order: &str, lines: &str| judge(order, &speeds(lines), &best).unwrap().verdict;
        let good = "back off 1000 9000000 4 8000\nback foreread 1000 1100000 4 8000\n";
        let slow = "back off 1000 9000000 4 8000\nback foreread 1000 1200000 4 8000\n";
        assert_eq!(verdict("back", good), Verdict::Reached);
        assert_eq!(verdict("back", slow), Verdict::Missed);
        assert_eq!(verdict("random", slow), Verdict::Reached);
        let wide = "random off 1000 900000 4 8000\nrandom foreread 1000 900000 4 9000\n";
        assert_eq!(verdict("random", wide), Verdict::Missed);
        assert!(judge("random", &speeds("random off 1 1 1 1\n"), &best).is_err());
    }
}
