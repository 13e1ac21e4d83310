// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the policy `foreread` with `linux` on the workloads that distinguish policies: those
//! where it must be far better, and those where it must do no harm.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use foreread_core::policy::Policy;
use foreread_sim::Scenario;
use foreread_sim::engine::{Keep, Outcome, Simulation};
use foreread_sim::scenario::Overrides;

fn run(workload: &str, device: &str, policy: Policy) -> Outcome {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios/workloads");
    let path = folder.join(format!("{workload}.toml"));
    let text = fs::read_to_string(&path).expect("the workload");
    let mut scenario = Scenario::parse(workload, &text).expect("a scenario");
    let values = Overrides {
        policies: vec![policy.into()],
        devices: vec![device.to_owned()],
        memory_pages: vec![1 << 16],
        ..Overrides::default()
    };
    scenario.set(&values).expect("a device");
    let runs = scenario.combinations();
    let outcome = Simulation::new(scenario.setup(&runs[0]), Keep::default()).run();
    assert!(outcome.total.pages.balances(), "{workload} {device}");
    outcome
}

/// The stall of `foreread` as a part of that of `linux`.
fn part(workload: &str, device: &str) -> f64 {
    let ours = run(workload, device, Policy::Foreread).total.stall_ns;
    let theirs = run(workload, device, Policy::Linux).total.stall_ns;
    ours as f64 / theirs as f64
}

#[test]
fn streams_that_the_kernel_does_not_see_are_read_ahead_of() {
    let at_most = [
        ("w01-sequential-128k", "nfs", 0.3),
        ("w05-interleaved-8", "hdd", 0.4),
        ("w07-reordered-8", "nfs", 0.2),
        ("w09-backward", "hdd", 0.1),
        ("w09-stride-64k", "nvme", 0.1),
        ("w12-rows-1-rank", "cloud", 0.3),
        ("w12-tensors-1-thread", "nfs", 0.4),
    ];
    for (workload, device, most) in at_most {
        let part = part(workload, device);
        assert!(part <= most, "{workload} on {device}: {part:.3} of linux");
    }
}

#[test]
fn what_stops_early_is_learned() {
    for device in ["hdd", "usb", "cloud", "nvme", "nfs"] {
        for workload in [
            "w03-stops-after-1",
            "w03-stops-after-8",
            "w03-stops-after-64",
        ] {
            let part = part(workload, device);
            assert!(part <= 1.0, "{workload} on {device}: {part:.3} of linux");
        }
    }
}

#[test]
fn a_few_reads_that_are_near_each_other_by_chance_are_no_stream() {
    for device in ["hdd", "cloud", "nfs"] {
        let total = |policy| run("../live/random", device, policy).total;
        let (ours, theirs) = (total(Policy::Foreread), total(Policy::Linux));
        let (fetched, least) = (ours.pages.fetched, theirs.pages.fetched);
        assert!(
            fetched * 100 <= least * 102,
            "{device}: {fetched} and {least}"
        );
        let (ours, theirs) = (ours.stall_ns, theirs.stall_ns);
        assert!(ours * 100 <= theirs * 101, "{device}: {ours} and {theirs}");
    }
}

#[test]
fn random_reads_are_left_alone() {
    for workload in ["w10-random-4k", "w10-random-128k"] {
        for device in ["hdd", "nvme"] {
            let outcome = run(workload, device, Policy::Foreread);
            let amplification = outcome.total.pages.amplification().expect("pages");
            assert!(amplification <= 1.1, "{workload} {device}: {amplification}");
            let part = part(workload, device);
            assert!(part <= 1.02, "{workload} on {device}: {part:.3} of linux");
        }
    }
}

#[test]
fn the_same_run_gives_the_same_again() {
    let stall = |()| {
        run("w06-streams-noise-10", "cloud", Policy::Foreread)
            .total
            .stall_ns
    };
    assert_eq!(stall(()), stall(()));
}
