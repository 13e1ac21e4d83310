// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs, page cache and disks together: accounts at every instant, the same result every time,
//! times that can be computed by hand.
#![forbid(unsafe_code)]

use foreread_core::policy::{Access, Limits, Policy, Reason};
use foreread_model::DiskParameters;
use foreread_sim::block::{Elevator, PlugRules, QueueRules, Unplug};
use foreread_sim::cache::Fate;
use foreread_sim::engine::{
    FileSetup, Keep, Outcome, Pattern, Phase, ProgramSetup, RequestSeen, Setup, Simulation, Through,
};

const MIB: u64 = 1 << 20;

fn disk(text: &[&str]) -> DiskParameters {
    let mut disk = DiskParameters::preset("usb").expect("a preset");
    for assignment in text {
        disk.set_assignment(assignment).expect("a parameter");
    }
    disk
}

fn program(file: usize, request_bytes: u64) -> ProgramSetup {
    reading(Pattern::Sequential, file, request_bytes)
}

fn reading(pattern: Pattern, file: usize, request_bytes: u64) -> ProgramSetup {
    ProgramSetup {
        phases: vec![Phase {
            pattern,
            request_bytes,
            ..Phase::default()
        }],
        ..ProgramSetup::new("reader", vec![file])
    }
}

/// One file of `file_bytes` bytes for each program.
fn setup(policy: Policy, ra_pages: u32, file_bytes: u64, programs: Vec<ProgramSetup>) -> Setup {
    let file = |number: usize| FileSetup {
        name: format!("file-{number}"),
        bytes: file_bytes,
        disk: 0,
        offset_bytes: number as u64 * file_bytes,
        extent_step_bytes: 0,
        extents: Default::default(),
        cached: None,
    };
    Setup {
        memory_pages: Some(4096),
        cpus: None,
        until_ns: None,
        disk: disk(&[
            "latency_ns=1ms",
            "bandwidth_bytes_per_s=100MB",
            "parallel_requests=1",
        ]),
        disks: 1,
        queue: QueueRules::default(),
        policy,
        foresight: None,
        limits: Limits::new(0, ra_pages),
        files: (0..programs.len()).map(file).collect(),
        programs,
    }
}

fn run(setup: Setup) -> Outcome {
    Simulation::new(setup, Keep::default()).run()
}

#[test]
fn without_readahead_every_request_is_waited_for() {
    let outcome = run(setup(Policy::None, 0, 64 * 4096, vec![program(0, 4096)]));
    // 64 requests of 1 ms and 4,096 bytes at 100 MB/s, one after the other.
    assert_eq!(outcome.elapsed_ns, 64 * 1_040_960);
    assert_eq!(outcome.total.stall_ns, outcome.elapsed_ns);
    assert_eq!(outcome.total.requests, 64);
    assert_eq!(outcome.total.pages.used_late, 64);
    assert_eq!(outcome.total.latencies.max_ns(), 1_040_960);
    assert_eq!(outcome.total.pages.amplification(), Some(1.0));
}

#[test]
fn pages_that_are_fetched_and_not_used_take_processor_time_too() {
    let mut few = setup(Policy::Linux, 32, MIB, vec![program(0, 4096)]);
    few.programs[0].phases[0].length_bytes = 4096;
    few.programs[0].cpu_per_page_ns = 1_000;
    let before = run(few.clone());
    few.programs[0].cpu_per_fetched_page_ns = 3_000;
    let after = run(few);
    // Of the first window, and of the next one, which its mark on the first page begins.
    assert_eq!(before.total.pages.fetched, after.total.pages.fetched);
    assert!(after.total.pages.fetched > 1);
    let more_ns = after.total.pages.fetched * 3_000;
    assert_eq!(after.elapsed_ns, before.elapsed_ns + more_ns);
}

#[test]
fn a_disk_is_asked_when_there_is_room_for_all_pages_of_a_window() {
    let mut reader = program(0, 65536);
    reader.cpu_per_fetched_page_ns = 3_000;
    let setup = setup(Policy::Linux, 32, MIB, vec![reader]);
    let keep = Keep {
        requests_max: 2,
        ..Keep::default()
    };
    let outcome = Simulation::new(setup, keep).run();
    let [first, second] = &outcome.requests[..] else {
        panic!("{:?}", outcome.requests);
    };
    let pages = |request: &RequestSeen| request.length_bytes / 4096;
    assert_eq!(first.asked_ns, pages(first) * 3_000);
    // The second window is decided once the disk was asked for the first one.
    assert!(second.asked_ns >= first.asked_ns + pages(second) * 3_000);
}

#[test]
fn a_page_that_arrives_while_room_is_made_is_not_waited_for() {
    // A request takes 1 ms, and room for one page 2 ms. So a page that is in flight when the next
    // window is decided has arrived when there is room for that.
    let mut reader = program(0, 4096);
    reader.cpu_per_fetched_page_ns = 2_000_000;
    let other = ProgramSetup {
        start_ns: 2_500_000,
        cpu_per_fetched_page_ns: 0,
        ..program(0, 4096)
    };
    let outcome = run(setup(Policy::Linux, 32, 32 * 4096, vec![reader, other]));
    assert_eq!(outcome.total.pages.fetched, 32);
    assert_eq!(outcome.total.calls, 64);
    assert!(outcome.programs.iter().all(|program| program.finished));
}

#[test]
fn readahead_hides_the_latency_behind_the_transfer() {
    let plain = run(setup(Policy::None, 0, 64 * MIB, vec![program(0, 4096)]));
    let linux = run(setup(Policy::Linux, 128, 64 * MIB, vec![program(0, 4096)]));
    assert!(linux.elapsed_ns * 8 < plain.elapsed_ns);
    assert!(linux.total.pages.used_on_time > 100 * linux.total.pages.used_late);
    assert!(linux.total.reason(Reason::Subsequent) > 100);
}

fn several() -> Vec<ProgramSetup> {
    let random = ProgramSetup {
        think_ns: 50_000,
        ..reading(Pattern::Random { requests: 300 }, 1, 16384)
    };
    let mapped = ProgramSetup {
        through: Through::Mapping(0),
        cpu_per_page_ns: 700,
        ..program(2, 65536)
    };
    let text = ProgramSetup {
        through: Through::Mapping(Access::VMA_EXEC),
        ..reading(Pattern::Zipf { requests: 500 }, 3, 4096)
    };
    let backward = ProgramSetup {
        repeat: 2,
        ..reading(Pattern::Backward { stride_bytes: 0 }, 4, 12288)
    };
    let two = ProgramSetup {
        rate_bytes_per_s: 20_000_000,
        ..reading(Pattern::Interleaved { streams: 2 }, 5, 32768)
    };
    vec![program(0, 32768), random, mapped, text, backward, two]
}

fn queues() -> Vec<QueueRules> {
    let plug = |unplug| PlugRules::Device {
        unplug,
        threshold_requests: 4,
        timer_ns: 3_000_000,
    };
    let slices = Elevator::Slices {
        slice_ns: 100_000_000,
        idle_ns: 8_000_000,
    };
    let rules = [
        (PlugRules::OnStack, Elevator::Fifo),
        (PlugRules::OnStack, slices),
        (plug(Unplug::Waiter), Elevator::Scan),
        (plug(Unplug::Always), Elevator::Fifo),
        (plug(Unplug::UpToDate), slices),
    ];
    let queue = |(plug, elevator)| QueueRules {
        plug,
        elevator,
        depth: 2,
        ..QueueRules::default()
    };
    rules.map(queue).to_vec()
}

#[test]
fn every_page_is_in_one_place_at_every_instant() {
    for policy in Policy::ALL {
        for queue in queues() {
            let mut setup = setup(policy, 64, 4 * MIB, several());
            setup.queue = queue.clone();
            setup.memory_pages = Some(700);
            setup.limits.folio_order_max = 4;
            let mut simulation = Simulation::new(setup, Keep::default());
            let mut steps = 0;
            while simulation.step() {
                let total = simulation.cache().total();
                assert!(total.balances(), "{policy} {queue:?}: {total:?}");
                if steps % 400 == 0 {
                    let counted = (total.resident_unused, total.in_flight);
                    assert_eq!(simulation.cache().recount(), counted, "{policy} {queue:?}");
                }
                steps += 1;
            }
            let total = simulation.cache().total();
            assert_eq!(total.in_flight, 0, "{policy} {queue:?}");
            assert!(simulation.cache().resident_pages() <= 700);
            assert!(steps > 1000, "{policy} {queue:?}: {steps}");
        }
    }
}

/// The parts of windows are the pages of the accounts.
#[test]
fn what_became_of_windows_is_what_the_accounts_count() {
    let keep = Keep {
        windows: true,
        ..Keep::default()
    };
    for queue in queues() {
        for policy in Policy::ALL {
            for memory_pages in [Some(700), None] {
                let mut setup = setup(policy, 64, 4 * MIB, several());
                setup.queue = queue.clone();
                setup.memory_pages = memory_pages;
                let outcome = Simulation::new(setup, keep).run();
                assert_eq!(outcome.windows_dropped, 0);
                let parts = || outcome.windows.iter().flat_map(|window| &window.parts);
                let sum = |fate| {
                    let pages = parts().filter(|part| part.fate == fate);
                    pages
                        .map(|part| part.pages.end - part.pages.start)
                        .sum::<u64>()
                };
                let pages = &outcome.total.pages;
                let unread = pages.resident_unused + pages.in_flight;
                let counted = [pages.used_on_time, pages.used_late, pages.wasted, unread];
                let fates = [Fate::OnTime, Fate::Late, Fate::Wasted, Fate::Unread];
                assert_eq!(fates.map(sum), counted, "{policy} {memory_pages:?}");
                let all: u64 = outcome.windows.iter().map(|window| window.pages).sum();
                assert_eq!(all, pages.fetched);
                let arrivals = outcome.windows.iter().flat_map(|window| &window.arrivals);
                let arrived = arrivals.map(|arrival| arrival.pages.end - arrival.pages.start);
                assert_eq!(arrived.sum::<u64>(), pages.fetched - pages.in_flight);
                for window in &outcome.windows {
                    let mut at = window.start;
                    for part in &window.parts {
                        assert_eq!(part.pages.start, at, "{window:?}");
                        assert!(part.time_ns.is_none_or(|ns| ns >= window.time_ns));
                        at = part.pages.end;
                    }
                    assert_eq!(at, window.start + window.pages, "{window:?}");
                    assert!(window.program.is_some() && window.file < 16, "{window:?}");
                }
            }
        }
    }
}

#[test]
fn the_same_setup_gives_the_same_result() {
    let outcome = || {
        let mut setup = setup(Policy::Linux, 64, 4 * MIB, several());
        setup.memory_pages = Some(700);
        let outcome = run(setup);
        format!(
            "{:?} {:?} {:?}",
            outcome.total, outcome.programs, outcome.disks
        )
    };
    assert_eq!(outcome(), outcome());
}

#[test]
fn parts_add_up_to_the_whole() {
    let setup = setup(Policy::Linux, 64, 4 * MIB, several());
    let mut simulation = Simulation::new(setup, Keep::default());
    while simulation.step() {}
    let outcome = simulation.outcome();
    let mut sum = foreread_sim::engine::Stats::default();
    for program in 0..outcome.programs.len() {
        sum.merge(&outcome.part(|of, _| of == program));
    }
    assert_eq!(sum, outcome.total);
    assert_eq!(outcome.total.requests, outcome.disks[0].requests);
    assert_eq!(outcome.total.pages.fetched * 4096, outcome.disks[0].bytes);
    assert!(outcome.programs.iter().all(|program| program.finished));
}

#[test]
fn a_plugged_request_waits_for_the_reader() {
    let mut late = setup(Policy::Linux, 128, 16 * MIB, vec![program(0, 32768)]);
    late.programs[0].cpu_per_page_ns = 6_000;
    late.disk = disk(&["latency_ns=1ms", "bandwidth_bytes_per_s=1GB"]);
    late.queue.plug = PlugRules::Device {
        unplug: Unplug::Waiter,
        threshold_requests: 4,
        timer_ns: 3_000_000,
    };
    let mut soon = late.clone();
    soon.queue.plug = PlugRules::OnStack;
    let (late, soon) = (run(late), run(soon));
    assert!(late.elapsed_ns > soon.elapsed_ns * 11 / 10);
    // Held back, two windows become one request.
    assert!(late.total.requests < soon.total.requests * 7 / 10);
}

#[test]
fn a_call_is_explained_with_the_decisions_around_it() {
    let keep = Keep {
        explain_call: Some(12),
        windows: true,
        ..Keep::default()
    };
    let setup = setup(Policy::Linux, 32, MIB, vec![program(0, 4096)]);
    let outcome = Simulation::new(setup, keep).run();
    let explanation = outcome.explanation.expect("there are 256 calls");
    assert_eq!(explanation.call.offset_bytes, 11 * 4096);
    let windows: Vec<String> = explanation
        .decisions
        .iter()
        .flat_map(|explained| explained.decision.windows().to_vec())
        .map(|window| window.to_string())
        .collect();
    assert_eq!(windows[..3], ["0+4 a3", "4+8 a8", "12+16 a16"]);
    assert_eq!(windows.len(), 6);
    assert_eq!(outcome.windows.len() as u64, outcome.total.windows);
}

#[test]
fn a_run_ends_when_it_is_told_to() {
    let mut setup = setup(Policy::None, 0, 64 * 4096, vec![program(0, 4096)]);
    setup.until_ns = Some(10_500_000);
    let outcome = run(setup);
    assert_eq!(outcome.elapsed_ns, 10_500_000);
    assert!(!outcome.programs[0].finished);
    assert_eq!(outcome.total.stall_ns, 10_500_000);
    assert_eq!(outcome.total.pages.in_flight, 1);
    assert!(outcome.total.pages.balances());
}
