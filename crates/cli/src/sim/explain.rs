// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--access`: what the policy saw, what it decided and why, around one access.

use foreread_core::grouped;
use foreread_core::policy::Kind;
use foreread_sim::engine::{Explained, Explanation};

use super::Ran;
use super::human::{size, time};
use crate::text::printable;

pub fn of(ran: &Ran) -> String {
    let mut text = String::new();
    let runs = ran.runs.iter().zip(&ran.outcomes);
    for (run, outcome) in runs {
        let Some(explanation) = &outcome.explanation else {
            continue;
        };
        let setup = ran.scenario.setup(run);
        let stream = outcome.streams.get(explanation.call.stream.number());
        let (program, file) = stream.map_or((0, 0), |stream| (stream.program, stream.file));
        let program = setup.programs.get(program).map_or("", |p| &p.name);
        let file = setup.files.get(file).map_or("", |f| &f.name);
        text += &format!(
            "{} on {}, read-ahead {} KiB: {} reads {}\n",
            run.policy,
            printable(&run.device.name),
            u64::from(run.read_ahead_pages) * 4,
            printable(program),
            printable(file),
        );
        text += &one(explanation);
        text += "\n";
    }
    text
}

fn one(explanation: &Explanation) -> String {
    let call = &explanation.call;
    let first = call.offset_bytes / 4096;
    let last = (call.offset_bytes + call.bytes).saturating_sub(1) / 4096;
    let mut text = format!(
        "  access {}: {} at page {}, at {}; took {}, of which waited {}\n",
        grouped(call.call),
        size(call.bytes),
        grouped(first),
        time(call.start_ns),
        time(call.took_ns),
        time(call.stall_ns),
    );
    let mut in_call = false;
    for explained in &explanation.decisions {
        let here = explained.call == call.call;
        in_call |= here;
        let mark = if here { ">" } else { " " };
        text += &format!("{mark} {}\n", decision(explained));
    }
    if !in_call {
        text += &format!(
            "> pages {first} to {last} were cached and unmarked: the policy was not asked\n"
        );
    }
    text
}

fn decision(explained: &Explained) -> String {
    let access = &explained.access;
    let what = match access.kind {
        Kind::ReadMiss => "a miss",
        Kind::ReadMark => "a marked page",
        Kind::ReadLook => "a look",
        Kind::FaultMiss => "a fault that missed",
        Kind::FaultMark => "a fault on a marked page",
        Kind::FaultHit => "a fault that hit",
        Kind::Force => "forced readahead",
    };
    let before = &explained.before;
    let window = match before.size {
        0 => "no window before".to_owned(),
        size => format!(
            "window before {}+{size} a{}",
            before.start, before.async_size
        ),
    };
    format!(
        "{:>9}  access {}: {what} at page {}, {} pages left, {window}\n             {}; {} pages \
         were not cached",
        time(explained.time_ns),
        grouped(explained.call),
        access.index,
        access.req_pages,
        explained.decision.explain(),
        explained.fetched_pages,
    )
}
