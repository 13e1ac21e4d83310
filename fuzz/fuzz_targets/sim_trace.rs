// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulates an arbitrary trace: events that are odd but that a reader may give, and whatever the
//! readers make of the bytes.
#![no_main]

use std::collections::VecDeque;
use std::sync::Arc;

use foreread_core::policy::Policy;
use foreread_fuzz::{drawn::events, sealed};
use foreread_sim::engine::{Keep, Simulation};
use foreread_sim::scenario::Overrides;
use foreread_sim::trace::Survey;
use foreread_sim::{Contender, Scenario};
use foreread_trace::{
    Event, Events, Findings, Header, ReadError, ReadOptions, Source, TimeIs, open,
};
use libfuzzer_sys::fuzz_target;

/// More than this takes too long to be played thousands of times a second.
const PLAYED_BYTES_MAX: u64 = 8 << 20;
const DEVICES: [&str; 5] = ["hdd", "usb", "cloud", "nvme", "nfs"];
const TIMES: [TimeIs; 3] = [TimeIs::Began, TimeIs::Returned, TimeIs::Order];
const SOURCES: [Source; 3] = [Source::Recorded, Source::Blkparse, Source::Strace];

fuzz_target!(|input: &[u8]| {
    let [how, bytes @ ..] = input else {
        return;
    };
    let how = usize::from(*how);
    let header = Header::new(SOURCES[how / 3 % 3], TIMES[how % 3]);
    simulate(how, header, events(bytes));
    for bytes in [bytes, &sealed(bytes)] {
        let Ok(mut reader) = open(bytes, ReadOptions::default()) else {
            continue;
        };
        let header = reader.header().clone();
        let mut events = Vec::new();
        while let Ok(Some(event)) = reader.next_event() {
            events.push(event);
        }
        simulate(how, header, events);
    }
});

fn simulate(how: usize, header: Header, events: Vec<Event>) {
    let made = || Made {
        header: header.clone(),
        events: events.iter().cloned().collect(),
        findings: Findings::default(),
    };
    let survey = Survey::read(&mut made()).expect("nothing fails to be read");
    let accesses = events.iter().filter_map(|event| match event {
        Event::Access(access) if access.kind.uses_pages() => Some(access.length_bytes),
        _ => None,
    });
    let bytes = accesses.fold(0, u64::saturating_add);
    let survey = Arc::new(survey);
    let Ok(mut scenario) = Scenario::of_trace("fuzzed", Arc::clone(&survey)) else {
        assert_eq!(survey.accesses, 0);
        return;
    };
    if bytes > PLAYED_BYTES_MAX {
        return;
    }
    let overrides = Overrides {
        policies: vec![Contender::Policy(Policy::ALL[how % Policy::ALL.len()])],
        devices: vec![DEVICES[how % DEVICES.len()].to_owned()],
        memory_pages: vec![[32, 1024, 1 << 20][how % 3]],
        ..Overrides::default()
    };
    scenario.set(&overrides).expect("there are such");
    let setup = scenario.setup(&scenario.combinations()[0]);
    let simulation = Simulation::of_trace(setup, Keep::default(), &survey, Box::new(made()));
    let outcome = simulation.run_trace().expect("a run");
    assert!(outcome.total.pages.balances());
    // A trace may say that centuries pass; a program is cut off where time can't be counted on.
    let is_time_up = outcome.elapsed_ns > u64::MAX / 2;
    assert!(is_time_up || outcome.programs.iter().all(|program| program.finished));
}

struct Made {
    header: Header,
    events: VecDeque<Event>,
    findings: Findings,
}

impl Events for Made {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        Ok(self.events.pop_front())
    }

    fn findings(&self) -> &Findings {
        &self.findings
    }
}
