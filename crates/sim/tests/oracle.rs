// SPDX-License-Identifier: MIT OR Apache-2.0
//! The oracle, held against every policy: no policy may be better, and it must keep its bounds.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foreread_core::policy::Policy;
use foreread_sim::engine::{Foresight, Keep, Outcome, Setup, Simulation, Turns};
use foreread_sim::scenario::Overrides;
use foreread_sim::trace::Survey;
use foreread_sim::{Contender, Scenario};

/// Margin by which a policy may be better: one part in this many.
const LESS_PART: u64 = 50;

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests")
}

fn setup_of(
    mut scenario: Scenario,
    device: &str,
    memory_mib: u64,
    contender: impl Into<Contender>,
) -> Setup {
    let values = Overrides {
        policies: vec![contender.into()],
        devices: vec![device.to_owned()],
        memory_pages: vec![memory_mib << 8],
        ..Overrides::default()
    };
    scenario.set(&values).expect("a device");
    let runs = scenario.combinations();
    scenario.setup(&runs[0])
}

fn workload(name: &str) -> Scenario {
    let path = tests().join(format!("scenarios/workloads/{name}.toml"));
    let text = fs::read_to_string(&path).expect("the workload");
    Scenario::parse(name, &text).expect("a scenario")
}

fn written(text: &str) -> Scenario {
    Scenario::parse("test", text).expect("a scenario")
}

/// The run with the least stall of those that count.
fn best(setup: &Setup) -> Outcome {
    let tries = setup.tries().into_iter();
    let outcomes = tries.map(|setup| Simulation::new(setup, Keep::default()).run());
    let best = outcomes.min_by_key(|outcome| outcome.total.stall_ns);
    best.expect("one run at least")
}

fn assert_no_policy_is_better(
    name: &str,
    scenario: &Scenario,
    device: &str,
    memory_mib: u64,
    policies: impl Iterator<Item = Policy>,
) {
    let run =
        |contender: Contender| best(&setup_of(scenario.clone(), device, memory_mib, contender));
    let oracle = run(Contender::Oracle);
    assert!(oracle.total.pages.balances(), "{name} on {device}");
    for policy in policies {
        let stall_ns = run(policy.into()).total.stall_ns;
        let most_ns = stall_ns + stall_ns / LESS_PART + 1_000;
        let ours_ns = oracle.total.stall_ns;
        assert!(
            ours_ns <= most_ns,
            "{name} on {device}: the oracle waits {ours_ns} ns, {policy} {stall_ns}"
        );
    }
}

#[test]
fn no_policy_is_better_than_the_oracle() {
    for name in [
        "w02-slow-consumer",
        "w03-stops-after-8",
        "w09-stride-64k",
        "w10-random-4k",
    ] {
        for device in ["hdd", "usb", "cloud", "nvme", "nfs"] {
            // Files of gigabytes as a whole take long, and are no rival.
            let policies = Policy::ALL.into_iter();
            let policies = policies.filter(|policy| *policy != Policy::WholeFile);
            assert_no_policy_is_better(name, &workload(name), device, 128, policies);
        }
    }
}

/// Eight threads in a mapped file that memory does not hold, twice.
const THREADS: &str = "[[file]]\nname = \"model\"\nsize = \"24M\"\n[[program]]\nfile = \"model\"\n\
    threads = 8\npieces = \"1M\"\nrequest = \"64K\"\nthrough = \"mmap\"\nrepeat = 2\n\
    cpu_per_page = \"350ns\"\n";

/// A scan beside random reads, and programs of one rate that begin one after the other.
const BESIDE: &str = "[[file]]\nname = \"scanned\"\nsize = \"32M\"\n[[file]]\nname = \"table\"\n\
    size = \"512M\"\n[[file]]\nname = \"own\"\nsize = \"512K\"\ncount = 20\n\
    [[program]]\nname = \"scan\"\nfile = \"scanned\"\nrequest = \"128K\"\n\
    [[program]]\nname = \"lookups\"\nfile = \"table\"\npattern = \"random\"\nrequests = 100\n\
    think = \"2ms\"\n[[program]]\nname = \"paced\"\nfile = \"own\"\ncount = 20\n\
    own_files = true\nrate = \"1M\"\nstart_step = \"1ms\"\nrequest = \"64K\"\n";

#[test]
fn nor_with_threads_and_programs_beside_each_other() {
    for device in ["hdd", "usb", "cloud", "nvme", "nfs"] {
        for (name, text) in [("threads", THREADS), ("beside", BESIDE)] {
            let policies = Policy::ALL.into_iter();
            assert_no_policy_is_better(name, &written(text), device, 16, policies);
        }
    }
}

#[test]
fn memory_and_queue_are_bounded_at_every_instant() {
    const MEMORY_PAGES: u64 = 16 << 8;
    for (text, threads) in [(THREADS, 8), (BESIDE, 22)] {
        for device in ["hdd", "nfs"] {
            let setup = setup_of(written(text), device, 16, Contender::Oracle);
            for setup in setup.tries() {
                let foresight = setup.foresight.expect("the oracle's");
                // An access of 128 KiB at most is under way in each thread.
                let asked = threads * 32;
                let low = 2_000_000 / 4096 + 1;
                let flight_max = foresight.batch_pages.min(MEMORY_PAGES / 2) + low + asked;
                let mut simulation = Simulation::new(setup, Keep::default());
                let mut steps = 0u64;
                while simulation.step() {
                    let total = simulation.cache().total();
                    assert!(total.balances());
                    let unused = total.in_flight + total.resident_unused;
                    assert!(
                        unused <= MEMORY_PAGES / 2 + asked,
                        "{unused} pages unused on {device}, {foresight:?}"
                    );
                    let misses = match foresight.miss_pages {
                        0 => 0,
                        _ => MEMORY_PAGES / 2,
                    };
                    assert!(
                        total.in_flight <= flight_max + misses,
                        "{} pages in flight on {device}, {foresight:?}",
                        total.in_flight
                    );
                    steps += 1;
                }
                assert!(steps > 100);
            }
        }
    }
}

#[test]
fn files_are_read_ahead_before_they_are_opened() {
    let text = "[[file]]\nname = \"small\"\nsize = \"16K\"\ncount = 50\n[[program]]\n\
        file = \"small\"\nthink = \"1ms\"\n";
    let outcome = best(&setup_of(written(text), "nvme", 64, Contender::Oracle));
    assert_eq!(outcome.streams.len(), 50);
    for stream in &outcome.streams[1..] {
        let pages = stream.stats.pages;
        assert_eq!((pages.used_on_time, pages.distinct), (4, 4));
        assert_eq!(stream.stats.stall_ns, 0);
    }
}

#[test]
fn one_thread_is_not_tried_in_turns() {
    let one = setup_of(workload("w09-backward"), "hdd", 128, Contender::Oracle);
    let turns = |setup: &Setup| setup.foresight.map(|foresight| foresight.turns);
    let tries = one.tries();
    assert!(tries.len() > 1 && tries.len() < Foresight::ALL.len());
    assert!(tries.iter().all(|t| turns(t) == Some(Turns::ByNeed)));
    let linux = setup_of(workload("w09-backward"), "hdd", 128, Policy::Linux);
    assert_eq!(linux.tries().len(), 1);
    assert_eq!(linux.tries()[0].foresight, None);
}

fn traced(name: &str, device: &str, contender: Contender) -> Outcome {
    let path = tests().join(format!("traces/corpus/{name}.frt"));
    let events = || {
        let file = File::open(&path).expect("the trace");
        foreread_trace::open(file, Default::default()).expect("a trace")
    };
    let survey = Arc::new(Survey::read(&mut *events()).expect("a survey"));
    let scenario = Scenario::of_trace(name, Arc::clone(&survey)).expect("accesses");
    let tries = setup_of(scenario, device, 64, contender)
        .tries()
        .into_iter();
    let outcomes = tries.map(|setup| {
        let simulation = Simulation::of_trace(setup, Keep::default(), &survey, events());
        simulation.run_trace().expect("a run")
    });
    let best = outcomes.min_by_key(|outcome| outcome.total.stall_ns);
    best.expect("one run at least")
}

#[test]
fn no_policy_plays_a_recorded_trace_better() {
    for name in [
        "grep",
        "mapped-8-threads",
        "column-reader",
        "sqlite-lookups",
    ] {
        for device in ["hdd", "nvme"] {
            let oracle = traced(name, device, Contender::Oracle);
            assert!(oracle.total.pages.balances());
            for policy in [
                Policy::Linux,
                Policy::Distance,
                Policy::Foreread,
                Policy::None,
            ] {
                let other = traced(name, device, policy.into());
                assert_eq!(other.total.pages.distinct, oracle.total.pages.distinct);
                let (ours_ns, stall_ns) = (oracle.total.stall_ns, other.total.stall_ns);
                assert!(
                    ours_ns <= stall_ns + stall_ns / LESS_PART + 1_000,
                    "{name} on {device}: the oracle waits {ours_ns} ns, {policy} {stall_ns}"
                );
            }
        }
    }
}

#[test]
fn the_same_run_gives_the_same_again() {
    let setup = setup_of(written(BESIDE), "hdd", 16, Contender::Oracle);
    assert_eq!(best(&setup).total, best(&setup).total);
}
