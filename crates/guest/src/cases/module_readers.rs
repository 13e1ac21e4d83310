// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sixteen sequential readers on one modelled hard disk: stock beside each policy of the module.

use std::time::Duration;

use foreread_core::grouped;
use foreread_guest::{Disk, Guest, GuestError, Lab, large_image};
use foreread_model::DiskParameters;

use super::module::{module_of, policy_name};
use super::{Beside, Case};
use crate::context::{Context, GUEST_SCRIPTS, Row};

pub const CASE: Case = Case {
    name: "module-readers",
    about: "`foreread.ko`: 16 sequential readers on a modelled hard disk, stock beside each policy",
    beside: Beside::Nothing,
    run,
};

const READERS: u32 = 16;
const FILE_MIB: u32 = 16;
/// `foreread` may make one request for this many of stock.
const FEWER: u64 = 6;
/// Each policy takes 4 to 35 s of the disk's time.
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// What one policy came to.
struct Reading {
    policy: String,
    requests: u64,
    sectors: u64,
    busy_ms: u64,
    elapsed_s: f64,
}

impl Reading {
    fn of(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let policy = words.next()?.to_owned();
        let mut number = || words.next()?.parse::<f64>().ok();
        Some(Self {
            policy,
            requests: number()? as u64,
            sectors: number()? as u64,
            busy_ms: number()? as u64,
            elapsed_s: number()?,
        })
    }

    /// Bytes by the time that the disk was busy, which no other load on this machine changes.
    fn mb_by_busy_s(&self) -> f64 {
        self.sectors as f64 * 512.0 / 1e3 / self.busy_ms.max(1) as f64
    }

    fn text(&self) -> String {
        format!(
            "{} requests, {:.1} MB/s of busy time ({:.1} s)",
            grouped(self.requests),
            self.mb_by_busy_s(),
            self.elapsed_s
        )
    }
}

fn run(_: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let lab = Lab::build_module()?;
    let hdd = DiskParameters::preset("hdd")
        .ok_or_else(|| GuestError::Unexpected("the model has no hdd".to_owned()))?;
    let image = large_image(&lab, READERS, FILE_MIB)?;
    let outcome = Guest::new(&lab, kernel)?
        .file(module_of(&lab, kernel)?, "foreread.ko")
        .file(format!("{GUEST_SCRIPTS}/module.sh"), "module.sh")
        .disk(Disk::modelled("data", &image, hdd))
        .time_limit(TIME_LIMIT)
        .script("set -u\n. ./module.sh\nmodule_readers\n")
        .run()?;
    let text = outcome.file("readers")?;
    let readings: Vec<Reading> = text.lines().filter_map(Reading::of).collect();
    let find = |policy: &str| {
        let found = readings.iter().find(|reading| reading.policy == policy);
        found.ok_or_else(|| GuestError::Unexpected(format!("no reading of {policy}")))
    };
    let (stock, own) = (find("off")?, find("foreread")?);
    let mut rows = vec![Row::asserted(
        "16 readers on hdd: requests by foreread",
        format!("at most 1/{FEWER} of stock's"),
        super::ratio(stock.requests, own.requests),
        own.requests * FEWER <= stock.requests,
    )];
    rows.extend(readings.iter().map(|reading| {
        let name = policy_name(&reading.policy);
        Row::told(format!("16 readers on hdd: {name}"), reading.text())
    }));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_script_is_a_reading() {
        let reading = Reading::of("foreread 287 524288 3028 3.58").unwrap();
        assert_eq!(reading.requests, 287);
        assert_eq!(
            reading.text(),
            "287 requests, 88.7 MB/s of busy time (3.6 s)"
        );
        assert!(Reading::of("foreread 287").is_none());
    }
}
