// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel module costs the processor, in virtual time: an instruction takes 1 ns.

use std::time::Duration;

use foreread_core::grouped;
use foreread_guest::{Guest, GuestError, Lab, Machine, large_image};
use foreread_model::DiskParameters;

use super::module::module_of;
use super::{Beside, Case};
use crate::context::{Context, GUEST_SCRIPTS, Row};

pub const CASE: Case = Case {
    name: "module-cost",
    about: "`foreread.ko`: instructions of a cached read, a page that is fetched, and a decision",
    beside: Beside::Anything,
    run,
};

const FILE_MIB: u32 = 16;
const TIME_LIMIT: Duration = Duration::from_secs(900);
/// A cached read may take so much longer, in hundredths: two runs without the module differ that
/// much, by interrupts.
const CACHED_MORE_PERCENT: u64 = 1;

/// Instructions, by one line of the script.
struct Cost {
    policy: String,
    cached: u64,
    fetched: u64,
    dropped: u64,
    decisions: u64,
    decision: u64,
}

impl Cost {
    fn of(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let policy = words.next()?.to_owned();
        let mut number = || words.next()?.parse::<u64>().ok();
        let (cached, fetched, dropped) = (number()?, number()?, number()?);
        let (decisions, all) = (number()?, number()?);
        Some(Self {
            policy,
            cached,
            fetched,
            dropped,
            decisions,
            decision: all / decisions.max(1),
        })
    }

    fn text(&self) -> String {
        format!(
            "{}; {}; {}; {} in {} calls",
            grouped(self.cached),
            grouped(self.fetched),
            grouped(self.dropped),
            grouped(self.decision),
            grouped(self.decisions)
        )
    }
}

fn run(_: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let module = module_of(&Lab::build_module()?, kernel)?;
    let lab = Lab::build_virtual(&[])?;
    let nvme = DiskParameters::preset("nvme")
        .ok_or_else(|| GuestError::Unexpected("the model has no nvme".to_owned()))?;
    let mut machine = Machine::of(lab.image(), nvme.clone())?;
    machine.add_disk("data", &large_image(&lab, 1, FILE_MIB)?, nvme)?;
    let outcome = Guest::new(&lab, kernel)?
        .machine(&machine)
        .file(module, "foreread.ko")
        .file(format!("{GUEST_SCRIPTS}/module.sh"), "module.sh")
        .file(format!("{GUEST_SCRIPTS}/cost.py"), "cost.py")
        .time_limit(TIME_LIMIT)
        .script("set -u\n. ./module.sh\nmodule_costs\n")
        .run()?;
    let text = outcome.file("costs")?;
    let costs: Vec<Cost> = text.lines().filter_map(Cost::of).collect();
    let [without, with @ ..] = costs.as_slice() else {
        return Err(GuestError::Unexpected("no costs".to_owned()));
    };
    let most = with.iter().map(|cost| cost.cached).max().unwrap_or(0);
    let mut rows = vec![Row::asserted(
        "instructions of a cached read without the module; at most with it",
        "the same",
        format!("{}; {}", grouped(without.cached), grouped(most)),
        most > 0 && most * 100 <= without.cached * (100 + CACHED_MORE_PERCENT),
    )];
    rows.extend(costs.iter().map(|cost| {
        Row::told(
            format!(
                "{}: instructions of a cached read; a page fetched; dropped; a decision",
                cost.policy
            ),
            cost.text(),
        )
    }));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_script_is_a_cost() {
        let cost = Cost::of("leap 2100 900 300 10 4000").unwrap();
        assert_eq!(cost.text(), "2,100; 900; 300; 400 in 10 calls");
        assert!(Cost::of("leap 2100").is_none());
    }
}
