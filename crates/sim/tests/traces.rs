// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces in place of programs. The same accesses give the same run. Threads think, begin and wait
//! as they did. No valid trace stops a simulation.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;

use foreread_core::policy::Policy;
use foreread_sim::Contender;
use foreread_sim::Scenario;
use foreread_sim::engine::{Keep, Outcome, Simulation};
use foreread_sim::scenario::Overrides;
use foreread_sim::trace::Survey;
use foreread_trace::{
    Access, Event, Events, Extent, File, FileId, Findings, Flags, Header, Kind, ReadError, Source,
    Thread, ThreadId, TimeIs,
};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;

/// A trace in memory.
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

fn made(time_is: TimeIs, events: &[Event]) -> Box<Made> {
    Box::new(Made {
        header: Header::new(Source::Recorded, time_is),
        events: events.iter().cloned().collect(),
        findings: Findings::default(),
    })
}

fn file(id: u32, bytes: u64) -> Event {
    let file = File {
        path: format!("/f{id}").into_bytes(),
        size_bytes: Some(bytes),
        ..File::default()
    };
    Event::File(FileId(id), Box::new(file))
}

/// A disk of this size, whose pages are metadata.
fn disk(bytes: u64) -> Event {
    let disk = File {
        path: b"/dev/disk".to_vec(),
        size_bytes: Some(bytes),
        metadata: true,
        ..File::default()
    };
    Event::File(FileId(0), Box::new(disk))
}

fn thread(id: u32, parent: Option<u32>) -> Event {
    let thread = Thread {
        pid: id + 1,
        tid: id + 1,
        parent: parent.map(ThreadId),
        name: b"reader".to_vec(),
    };
    Event::Thread(ThreadId(id), Box::new(thread))
}

/// A read of 4 KiB.
fn read(thread: u32, time_ns: u64, offset_bytes: u64) -> Access {
    Access {
        time_ns,
        thread: ThreadId(thread),
        file: FileId(0),
        stream: 1,
        offset_bytes,
        length_bytes: 4096,
        kind: Kind::Read,
        flags: Flags::default(),
        waited_ns: None,
        duration_ns: None,
    }
}

fn end(thread: u32, time_ns: u64) -> Event {
    let thread = ThreadId(thread);
    Event::ThreadEnd { time_ns, thread }
}

fn surveyed(events: &[Event], time_is: TimeIs) -> (Scenario, Arc<Survey>) {
    let survey = Survey::read(&mut *made(time_is, events)).expect("a survey");
    let survey = Arc::new(survey);
    let scenario = Scenario::of_trace("made", Arc::clone(&survey));
    (scenario.expect("something to simulate"), survey)
}

fn played(events: &[Event], time_is: TimeIs, device: &str) -> Outcome {
    let devices = vec![device.to_owned()];
    played_with(
        events,
        time_is,
        &Overrides {
            devices,
            ..Overrides::default()
        },
    )
}

fn played_with(events: &[Event], time_is: TimeIs, overrides: &Overrides) -> Outcome {
    let (mut scenario, survey) = surveyed(events, time_is);
    scenario.set(overrides).expect("there are such");
    let setup = scenario.setup(&scenario.combinations()[0]);
    let events = made(time_is, events);
    let simulation = Simulation::of_trace(setup, Keep::default(), &survey, events);
    simulation.run_trace().expect("a run")
}

/// The compared numbers of a run.
fn numbers(outcome: &Outcome) -> impl PartialEq + std::fmt::Debug {
    let total = outcome.total.clone();
    (outcome.elapsed_ns, total, outcome.programs[0].read_bytes)
}

#[test]
fn a_trace_of_the_accesses_of_a_scenario_gives_the_same_run() {
    for (through, kind) in [("read", Kind::Read), ("mmap", Kind::Fault)] {
        for (pattern, backward) in [("sequential", false), ("backward", true)] {
            let text = format!(
                "[device]\npreset = \"hdd\"\n[[file]]\nname = \"/f0\"\nsize = \"4M\"\n\
                 [[program]]\nname = \"reader\"\nfile = \"/f0\"\npattern = \"{pattern}\"\n\
                 request = \"16K\"\nthink = \"1ms\"\nthrough = \"{through}\"\n"
            );
            let scenario = Scenario::parse("x", &text).expect("a scenario");
            let run = &scenario.combinations()[0];
            let written = Simulation::new(scenario.setup(run), Keep::default()).run();
            let mut events = vec![file(0, 4 * MIB), thread(0, None)];
            for step in 0..256 {
                let at = if backward { 255 - step } else { step };
                events.push(Event::Access(Access {
                    length_bytes: 16 << 10,
                    kind,
                    ..read(0, step * MS, at * (16 << 10))
                }));
            }
            let traced = played(&events, TimeIs::Began, "hdd");
            // A program of a scenario thinks once more, after its last access.
            let elapsed_ns = written.elapsed_ns - MS;
            let written = Outcome {
                elapsed_ns,
                ..written
            };
            assert_eq!(numbers(&traced), numbers(&written), "{through} {pattern}");
        }
    }
}

#[test]
fn thinking_is_kept_and_waiting_is_not() {
    // It waited 7 ms of each 10, and worked for 1.
    let access = |step: u64| {
        Event::Access(Access {
            waited_ns: Some(7 * MS),
            duration_ns: Some(8 * MS),
            ..read(0, (step + 1) * 10 * MS, step * MIB)
        })
    };
    let mut events = vec![file(0, 10 * MIB), thread(0, None)];
    events.extend((0..10).map(access));
    let instant = played(&events, TimeIs::Returned, "instant");
    assert_eq!(
        instant.elapsed_ns,
        9 * 2 * MS + 10 * MS,
        "thinking, and work"
    );
    let disk = played(&events, TimeIs::Returned, "hdd");
    assert_eq!(disk.elapsed_ns, instant.elapsed_ns + disk.total.stall_ns);
    // Nothing but the order is known: no time passes but the device's.
    let order = played(&events, TimeIs::Order, "instant");
    assert_eq!(order.elapsed_ns, 10 * MS);
}

#[test]
fn a_child_begins_after_what_its_parent_did_and_the_parent_waits_for_it() {
    // Each read waits for the device; the parent goes on 2 ms after the end of the child.
    let events = [
        file(0, 10 * MIB),
        thread(0, None),
        thread(1, Some(0)),
        thread(2, Some(1)),
        Event::Access(read(0, 0, 0)),
        Event::Access(read(2, 3 * MS, MIB)),
        Event::Access(read(2, 4 * MS, 5 * MIB)),
        end(2, 5 * MS),
        end(1, 6 * MS),
        Event::Access(read(0, 7 * MS, 9 * MIB)),
    ];
    let instant = played(&events, TimeIs::Began, "instant");
    assert_eq!(instant.elapsed_ns, 7 * MS, "as it was");
    let disk = played(&events, TimeIs::Began, "hdd");
    assert!(disk.total.stall_ns > 4 * 4 * MS, "{}", disk.total.stall_ns);
    // They take turns, so all that is waited adds up.
    assert_eq!(disk.elapsed_ns, 7 * MS + disk.total.stall_ns);
    assert_eq!(disk.programs.len(), 2, "the one between them reads nothing");
}

#[test]
fn the_end_of_a_thread_that_did_nothing_yet_holds_nobody_up() {
    let readahead = |thread, length_bytes| {
        Event::Access(Access {
            kind: Kind::Readahead,
            length_bytes,
            ..read(thread, 0, 0)
        })
    };
    let events = [
        file(0, MIB),
        thread(0, None),
        thread(1, Some(0)),
        readahead(0, 0),
        end(1, 0),
        readahead(0, 4096),
        readahead(1, 4096),
    ];
    let outcome = played(&events, TimeIs::Returned, "nvme");
    assert!(outcome.programs.iter().all(|program| program.finished));
}

#[test]
fn threads_that_share_an_open_file_are_one_stream_and_others_are_not() {
    let fetched = |streams: [u32; 2]| {
        let [advised, other] = [0, 1].map(|who: u32| Access {
            stream: streams[who as usize],
            ..read(who, 0, 0)
        });
        let advice = Access {
            kind: Kind::AdviseRandom,
            ..advised
        };
        let mut events = vec![file(0, 8 * MIB), thread(0, None), thread(1, None)];
        events.extend([advice, other].map(Event::Access));
        played(&events, TimeIs::Began, "nvme").total.pages.fetched
    };
    assert_eq!(fetched([1, 1]), 1, "the advice is for both");
    assert!(fetched([1, 2]) > 1);
    assert!(fetched([0, 0]) > 1, "not known: each has its own");
}

#[test]
fn advice_readahead_and_closing_do_what_they_do() {
    let of = |kind, offset_bytes, length_bytes| {
        Event::Access(Access {
            kind,
            length_bytes,
            ..read(0, 0, offset_bytes)
        })
    };
    let run = |events: &[Event]| {
        let defined = [file(0, 8 * MIB), thread(0, None)];
        played(&[&defined[..], events].concat(), TimeIs::Order, "hdd")
            .total
            .pages
    };
    let random = run(&[of(Kind::AdviseRandom, 0, 0), of(Kind::Read, 0, 4096)]);
    assert_eq!((random.fetched, random.accesses), (1, 1));
    let ahead = run(&[
        of(Kind::Readahead, MIB, MIB),
        of(Kind::Read, MIB + 4096, 4096),
    ]);
    assert_eq!((ahead.fetched, ahead.accesses), (256, 1));
    let again = [
        of(Kind::Read, 0, 16384),
        of(Kind::AdviseDontNeed, 0, 0),
        of(Kind::Close, 0, 0),
        of(Kind::Open, 0, 0),
        of(Kind::Read, 0, 16384),
    ];
    let again = run(&again);
    assert!(again.fetched >= 8 && again.distinct == 4, "{again:?}");
}

/// The first requests of the disk: first page and pages of each.
fn requests(events: &[Event]) -> Vec<(u64, u64)> {
    let (scenario, survey) = surveyed(events, TimeIs::Returned);
    let setup = scenario.setup(&scenario.combinations()[0]);
    let keep = Keep {
        requests_max: 100,
        ..Keep::default()
    };
    let events = made(TimeIs::Returned, events);
    let outcome = Simulation::of_trace(setup, keep, &survey, events).run_trace();
    let mut requests = outcome.expect("a run").requests;
    requests.sort_by_key(|request| (request.asked_ns, request.offset_bytes));
    let pages = requests
        .iter()
        .map(|request| (request.offset_bytes, request.length_bytes));
    pages.map(|(at, bytes)| (at / 4096, bytes / 4096)).collect()
}

#[test]
fn metadata_is_read_as_it_was_and_no_policy_is_asked() {
    let access = |kind, page: u64, pages: u64, time_ns| {
        Event::Access(Access {
            kind,
            length_bytes: pages * 4096,
            waited_ns: Some(0),
            ..read(0, time_ns, page * 4096)
        })
    };
    let events = [
        disk(1 << 30),
        thread(0, None),
        access(Kind::Readahead, 64, 5, MS),
        access(Kind::Readahead, 70, 2, MS),
        access(Kind::Read, 69, 1, MS),
        // Pages that were brought in are cached.
        access(Kind::Read, 64, 8, 900 * MS),
        access(Kind::Read, 200, 1, 1000 * MS),
    ];
    assert_eq!(requests(&events), [(64, 5), (69, 1), (70, 2), (200, 1)]);
}

#[test]
fn metadata_that_is_larger_than_memory_is_read_as_far_as_it_fits() {
    let access = |kind, length_bytes| {
        Event::Access(Access {
            kind,
            length_bytes,
            waited_ns: Some(0),
            ..read(0, MS, 4096)
        })
    };
    let small = Overrides {
        memory_pages: vec![32],
        ..Overrides::default()
    };
    for kind in [Kind::Readahead, Kind::Read] {
        let events = [
            disk(1 << 60),
            thread(0, None),
            access(kind, 1 << 59),
            access(Kind::Read, 4096),
        ];
        let outcome = played_with(&events, TimeIs::Began, &small);
        assert!(outcome.total.pages.balances(), "{kind:?}");
        assert!(
            outcome.total.pages.fetched <= 33,
            "{kind:?}: {:?}",
            outcome.total.pages
        );
    }
}

#[test]
fn text_is_read_ahead_within_its_mapping() {
    let fault = |kind, offset_bytes, length_bytes, flags| {
        Event::Access(Access {
            kind,
            length_bytes,
            flags,
            waited_ns: Some(0),
            ..read(0, MS, offset_bytes)
        })
    };
    let faults = |flags| {
        [
            file(0, 1 << 20),
            thread(0, None),
            fault(Kind::Map, 100 * 4096, 10 * 4096, flags),
            fault(Kind::Fault, 103 * 4096, 4096, flags),
        ]
    };
    assert_eq!(requests(&faults(Flags::EXEC)), [(103, 7)]);
    assert_eq!(requests(&faults(Flags::default())), [(87, 32)]);
}

#[test]
fn what_was_mapped_around_a_fault_is_what_was_cached() {
    let access = |kind, page: u64, pages: u64| {
        Event::Access(Access {
            kind,
            length_bytes: pages * 4096,
            waited_ns: Some(0),
            flags: Flags::RANDOM,
            ..read(0, MS, page * 4096)
        })
    };
    let events = [
        file(0, 1 << 20),
        thread(0, None),
        access(Kind::Fault, 5, 1),
        access(Kind::MapAround, 0, 16),
    ];
    assert_eq!(requests(&events), [(5, 1)]);
}

#[test]
fn the_machine_adds_its_own_time_to_each_request() {
    let events = [
        file(0, 1 << 30),
        thread(0, None),
        Event::Access(read(0, MS, 0)),
        Event::Access(read(0, 2 * MS, 500 << 20)),
    ];
    let (scenario, survey) = surveyed(&events, TimeIs::Returned);
    let elapsed_ns = |host_ns| {
        let mut setup = scenario.setup(&scenario.combinations()[0]);
        setup.queue.host_ns = host_ns;
        let events = made(TimeIs::Returned, &events);
        let simulation = Simulation::of_trace(setup, Keep::default(), &survey, events);
        simulation.run_trace().expect("a run").elapsed_ns
    };
    assert_eq!(elapsed_ns(MS) - elapsed_ns(0), 2 * MS);
}

#[test]
fn files_are_where_their_extents_say() {
    let extent = |logical_bytes, physical_bytes| Extent {
        logical_bytes,
        physical_bytes,
        length_bytes: MIB,
    };
    let scattered = vec![extent(0, 100 << 30), extent(MIB, 1 << 30)];
    let events = |extents: &[Extent]| {
        let mut events = vec![file(0, 2 * MIB), thread(0, None)];
        events.push(Event::Extents(FileId(0), extents.to_vec()));
        events.extend((0..512).map(|page| Event::Access(read(0, 0, page * 4096))));
        played(&events, TimeIs::Order, "hdd").total
    };
    let (scattered, whole) = (events(&scattered), events(&[]));
    assert_eq!(scattered.seeks, whole.seeks + 1);
    assert!(scattered.stall_ns > whole.stall_ns);
}

#[test]
fn what_is_not_simulated_is_counted() {
    let with = |flags| {
        Event::Access(Access {
            flags,
            ..read(0, 0, 0)
        })
    };
    let long = Event::Access(Access {
        length_bytes: 1 << 62,
        ..read(0, 0, 0)
    });
    let events = [
        file(0, MIB),
        thread(0, None),
        with(Flags::DIRECT),
        with(Flags::AHEAD),
        long,
    ];
    let survey = Survey::read(&mut *made(TimeIs::Began, &events)).expect("a survey");
    let aside = survey.aside;
    assert_eq!((aside.direct, aside.ahead, aside.cut), (1, 1, 1));
    assert_eq!(survey.accesses, 1);
    assert_eq!(
        played(&events, TimeIs::Began, "hdd").total.pages.accesses,
        256
    );
    let nothing = Survey::read(&mut *made(TimeIs::Began, &events[..4])).expect("a survey");
    assert!(Scenario::of_trace("made", Arc::new(nothing)).is_err());
}

#[test]
fn a_thread_far_ahead_of_another_waits_for_it_and_all_is_read() {
    // One thread has its second access after 100,000 of another: more than are kept.
    let mut events = vec![file(0, 64 * MIB), thread(0, None), thread(1, None)];
    events.push(Event::Access(read(0, 0, 0)));
    for step in 0..100_000u64 {
        events.push(Event::Access(read(1, 0, step % 8192 * 4096)));
    }
    events.push(Event::Access(read(0, 0, 32 * MIB)));
    let outcome = played(&events, TimeIs::Order, "nvme");
    assert!(outcome.programs.iter().all(|program| program.finished));
    assert_eq!(outcome.total.pages.accesses, 100_002);
}

fn any_access() -> impl Strategy<Value = Access> {
    let offset = prop_oneof![0..MIB, 0..u64::MAX >> 1];
    let length = prop_oneof![0..65536u64, 0..1u64 << 40];
    let who = (0..4u32, 0..3u32, 0..3u32);
    let time = (
        0..1000u64,
        proptest::option::of(0..1000u64),
        proptest::option::of(0..1000u64),
    );
    (who, offset, length, 0..11usize, 0..32u8, time).prop_map(
        |((thread, file, stream), offset_bytes, length_bytes, kind, flags, time)| Access {
            time_ns: time.0 * MS / 10,
            thread: ThreadId(thread),
            file: FileId(file),
            stream,
            offset_bytes,
            length_bytes: length_bytes.min((1 << 63) - offset_bytes),
            kind: Kind::ALL[kind],
            flags: Flags(flags),
            waited_ns: time.1,
            duration_ns: time.2,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Times in any order, threads that end in the middle, parents in a circle.
    #[test]
    fn any_trace_comes_to_its_end_and_balances(
        accesses in proptest::collection::vec((any_access(), any::<bool>()), 1..60),
        parents in proptest::collection::vec(proptest::option::of(0..4u32), 4),
        sizes in proptest::collection::vec(0..4 * MIB, 3),
    ) {
        let mut events: Vec<Event> = (0..).zip(sizes).map(|(id, size)| file(id, size)).collect();
        events.extend((0..).zip(parents).map(|(id, parent)| thread(id, parent)));
        for (access, ends) in accesses {
            events.push(Event::Access(access));
            if ends {
                events.push(end(access.thread.0, access.time_ns));
            }
        }
        let survey = Survey::read(&mut *made(TimeIs::Returned, &events)).expect("a survey");
        if survey.accesses == 0 {
            return Ok(());
        }
        let outcome = played(&events, TimeIs::Returned, "nvme");
        prop_assert!(outcome.total.pages.balances());
        prop_assert!(outcome.programs.iter().all(|program| program.finished));
        let again = played(&events, TimeIs::Returned, "nvme");
        prop_assert_eq!(numbers(&again) , numbers(&outcome));
    }
}

/// As many as a trace made to do harm may have; each must not look at all others.
#[test]
fn threads_of_no_process_are_one_program() {
    const THREADS: u32 = 100_000;
    let mut events = vec![file(0, MIB)];
    for id in 0..THREADS {
        let thread = Thread {
            pid: 0,
            tid: id + 1,
            ..Thread::default()
        };
        events.push(Event::Thread(ThreadId(id), Box::new(thread)));
        events.push(Event::Access(read(id, 0, 0)));
    }
    let survey = Survey::read(&mut *made(TimeIs::Began, &events)).expect("a survey");
    let threads: Vec<u64> = survey.programs.iter().map(|p| p.threads).collect();
    assert_eq!(threads, [u64::from(THREADS)]);
}

#[test]
fn a_run_ends_where_time_does() {
    let mut events = vec![file(0, MIB), thread(0, None)];
    for time_ns in [0, u64::MAX, 0, u64::MAX] {
        events.push(Event::Access(read(0, time_ns, time_ns % 2 * 65536)));
    }
    let outcome = played(&events, TimeIs::Began, "hdd");
    assert!(outcome.total.pages.balances());
    assert!(outcome.total.pages.fetched > 0);
    assert!(!outcome.programs[0].finished);
}

#[test]
fn every_policy_plays_a_trace() {
    let mut events = vec![file(0, 4 * MIB), thread(0, None)];
    events.extend((0..1024).map(|page| Event::Access(read(0, 0, page * 4096))));
    let (mut scenario, survey) = surveyed(&events, TimeIs::Began);
    let overrides = Overrides {
        policies: Policy::ALL.map(Contender::from).to_vec(),
        ..Overrides::default()
    };
    scenario.set(&overrides).expect("policies");
    for run in scenario.combinations() {
        let events = made(TimeIs::Began, &events);
        let setup = scenario.setup(&run);
        let simulation = Simulation::of_trace(setup, Keep::default(), &survey, events);
        let outcome = simulation.run_trace().expect("a run");
        assert_eq!(outcome.total.pages.distinct, 1024, "{}", run.policy);
    }
}
