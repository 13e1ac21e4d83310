// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that share an open file, files that are cached at the start, and the workloads of
//! `tests/scenarios/workloads/`.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use foreread_core::policy::Policy;
use foreread_sim::engine::{Keep, Outcome, Setup, Simulation};
use foreread_sim::scenario::Overrides;
use foreread_sim::{Scenario, WORKLOADS};

fn setup(program: &str, file: &str, policy: Policy) -> Setup {
    let text = format!(
        "[machine]\nmemory = \"64M\"\n[device]\npreset = \"cloud\"\n[[file]]\nname = \"a\"\n\
         {file}\n[[program]]\nfile = \"a\"\n{program}\n"
    );
    let mut scenario = Scenario::parse("x.toml", &text).expect("a scenario");
    scenario
        .set(&Overrides {
            policies: vec![policy.into()],
            ..Overrides::default()
        })
        .expect("values");
    scenario.setup(&scenario.combinations()[0])
}

fn run(program: &str, file: &str, policy: Policy) -> Outcome {
    Simulation::new(setup(program, file, policy), Keep::default()).run()
}

#[test]
fn threads_are_one_program_with_one_stream() {
    for (pieces, through) in [("", "read"), ("pieces = \"64K\"\n", "mmap")] {
        let program = format!(
            "threads = 4\nrequest = \"16K\"\nrepeat = 2\nthrough = \"{through}\"\n{pieces}"
        );
        let outcome = run(&program, "size = \"8M\"\ncount = 3", Policy::Linux);
        assert_eq!(outcome.programs.len(), 1);
        assert_eq!(outcome.streams.len(), 3, "one for each file");
        assert_eq!(outcome.programs[0].read_bytes, 2 * 3 * (8 << 20));
        assert!(outcome.programs[0].finished);
        assert_eq!(outcome.total.calls, 2 * 3 * 512);
        assert_eq!(outcome.total.pages.distinct, 3 * 2048);
        assert!(outcome.total.pages.balances());
        assert!(
            outcome.total.stall_ns > outcome.elapsed_ns,
            "all of them wait"
        );
    }
}

#[test]
fn threads_that_take_turns_are_one_stream_to_readahead_and_programs_are_not() {
    let threads = "threads = 2\npieces = \"4K\"\nrequest = \"4K\"\ncpu_per_page = \"50us\"";
    let together = run(threads, "size = \"8M\"", Policy::Linux);
    let apart = "count = 2\npattern = \"strided\"\nstride = \"8K\"\ncpu_per_page = \"50us\"";
    let apart = run(apart, "size = \"8M\"", Policy::Linux);
    assert_eq!(together.total.pages.distinct, 2048);
    assert!(
        together.total.requests * 4 < apart.total.requests,
        "{} requests together, {} apart",
        together.total.requests,
        apart.total.requests
    );
}

#[test]
fn what_is_cached_at_the_start_is_neither_waited_for_nor_counted() {
    let all = run("", "size = \"4M\"\ncached = \"all\"", Policy::Linux);
    assert_eq!((all.total.stall_ns, all.total.pages.fetched), (0, 0));
    assert_eq!(all.total.pages.distinct, 1024);
    assert_eq!(all.streams.len(), 1);
    for seed in ["", "missing_seed = 3"] {
        let file = format!("size = \"4M\"\ncached = \"all\"\nmissing_one_in = 8\n{seed}");
        let outcome = run("", &file, Policy::None);
        assert_eq!(outcome.total.pages.fetched, 128);
        assert_eq!(outcome.total.pages.used_late, 128);
    }
    let blocks = "size = \"4M\"\ncached = \"all\"\nmissing_one_in = 4\nmissing_block = \"64K\"";
    assert_eq!(run("", blocks, Policy::None).total.pages.fetched, 256);
}

#[test]
fn a_cached_file_larger_than_memory_is_cached_as_far_as_it_fits() {
    let outcome = run("", "size = \"80M\"\ncached = \"all\"", Policy::None);
    assert!(outcome.total.pages.fetched >= 4096);
    assert!(outcome.total.pages.balances());
}

fn workloads() -> Vec<(String, Scenario)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios/workloads");
    let entries = fs::read_dir(folder).expect("the workloads");
    let mut found: Vec<(String, Scenario)> = entries
        .flatten()
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let text = fs::read_to_string(entry.path()).expect("a text");
            let scenario = Scenario::parse(&name, &text).unwrap_or_else(|e| panic!("{e}"));
            (name, scenario)
        })
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

#[test]
fn all_workloads_of_the_folder_belong_to_the_program() {
    let own = WORKLOADS.iter().map(|(name, _)| format!("{name}.toml"));
    let folder = workloads().into_iter().map(|(name, _)| name);
    assert_eq!(
        own.collect::<BTreeSet<_>>(),
        folder.collect::<BTreeSet<_>>()
    );
}

#[test]
fn each_workload_says_which_it_is_and_is_small_enough_to_be_run_often() {
    let workloads = workloads();
    assert!(workloads.len() > 30);
    for (name, mut scenario) in workloads {
        let number: u32 = scenario.workload[1..].parse().expect(&name);
        assert!(name.starts_with(&format!("w{number:02}-")), "{name}");
        assert!(!scenario.about.is_empty(), "{name}");
        scenario
            .set(&Overrides {
                policies: vec![Policy::Linux.into()],
                devices: vec!["nvme".into()],
                memory_pages: vec![32 << 10],
                ..Overrides::default()
            })
            .expect(&name);
        let runs = scenario.combinations();
        assert_eq!(runs.len(), 1, "{name}");
        let outcome = Simulation::new(scenario.setup(&runs[0]), Keep::default()).run();
        assert!(
            outcome.programs.iter().all(|program| program.finished),
            "{name}"
        );
        assert!(outcome.total.pages.balances(), "{name}");
        assert!(outcome.total.stall_ns > 0, "{name}");
        assert!(outcome.total.pages.accesses < 1 << 20, "{name}");
        let amplification = outcome.total.pages.amplification().expect(&name);
        assert!(!scenario.is_random || amplification >= 1.0, "{name}");
    }
}
