// SPDX-License-Identifier: MIT OR Apache-2.0
//! The disk against numbers computed by hand, and its properties on any input.

use foreread_model::{Completion, Disk, DiskModel, DiskParameters, Request, TransferTimes};
use proptest::prelude::*;

fn preset(name: &str) -> DiskParameters {
    let mut parameters = DiskParameters::preset(name).expect("a preset of that name");
    parameters.capacity_bytes = 1_000_000_000;
    parameters
}

fn read(id: u64, offset_bytes: u64, length_bytes: u64) -> Request {
    Request {
        id,
        offset_bytes,
        length_bytes,
        write: false,
    }
}

fn drain(disk: &mut Disk) -> Vec<Completion> {
    let mut completions = Vec::new();
    while let Some(event_ns) = disk.next_event_ns() {
        disk.advance(event_ns, &mut completions);
    }
    completions
}

#[test]
fn hdd_times_a_seek_a_gap_and_a_neighbour() {
    let mut disk = Disk::new(preset("hdd"));
    // A quarter of the disk: 0.8 + 10 * 0.5 + 4.17 ms, then 120,000 bytes in 1 ms.
    disk.submit(0, read(1, 250_000_000, 120_000));
    // Directly behind: only its transfer. Waits for the first.
    disk.submit(0, read(2, 250_120_000, 12_000));
    // A gap of 60,000 bytes: 0.5 ms and 0.1 ms, then 0.1 ms of transfer.
    disk.submit(0, read(3, 250_192_000, 12_000));
    let done: Vec<_> = drain(&mut disk)
        .iter()
        .map(|c| (c.id, c.started_ns, c.done_ns))
        .collect();
    assert_eq!(
        done,
        [
            (1, 0, 10_970_000),
            (2, 10_970_000, 11_070_000),
            (3, 11_070_000, 11_070_000 + 700_000)
        ]
    );
    let counters = disk.counters();
    assert_eq!((counters.requests, counters.bytes), (3, 144_000));
    assert_eq!(
        (counters.seeks, counters.gaps, counters.queue_depth_max),
        (1, 1, 3)
    );
    assert_eq!(counters.busy_ns, 11_770_000);
}

#[test]
fn hdd_seeks_back_and_over_the_gap_limit() {
    let mut disk = Disk::new(preset("hdd"));
    disk.submit(0, read(1, 256 << 10, 0));
    assert_eq!(drain(&mut disk).len(), 1);
    assert_eq!(disk.counters().seeks, 1, "a gap at the limit is a seek");
    disk.submit(1_000_000_000, read(2, (256 << 10) - 1, 0));
    drain(&mut disk);
    assert_eq!(disk.counters().seeks, 2, "backward is always a seek");
    disk.submit(2_000_000_000, read(3, (512 << 10) - 2, 0));
    drain(&mut disk);
    assert_eq!((disk.counters().seeks, disk.counters().gaps), (2, 1));
}

#[test]
fn hdd_takes_the_nearest_that_has_arrived() {
    let mut disk = Disk::new(preset("hdd"));
    disk.submit(0, read(1, 500_000_000, 0));
    disk.submit(1, read(2, 900_000_000, 0));
    disk.submit(2, read(3, 400_000_000, 0));
    // As near as request 3, on the other side, and later.
    disk.submit(3, read(4, 600_000_000, 0));
    // Arrives when the head is on its way to request 3, which is chosen already.
    let first_done_ns = disk.next_event_ns().unwrap();
    disk.submit(first_done_ns + 1, read(5, 500_000_000, 0));
    let order: Vec<u64> = drain(&mut disk).iter().map(|c| c.id).collect();
    assert_eq!(order, [1, 3, 5, 4, 2]);
}

#[test]
fn a_late_caller_changes_nothing() {
    let submit = |disk: &mut Disk| {
        disk.submit(0, read(1, 500_000_000, 4096));
        disk.submit(0, read(2, 700_000_000, 4096));
        disk.submit(0, read(3, 600_000_000, 4096));
    };
    let (mut prompt, mut late) = (Disk::new(preset("hdd")), Disk::new(preset("hdd")));
    submit(&mut prompt);
    submit(&mut late);
    let mut completions = Vec::new();
    late.advance(3_600_000_000_000, &mut completions);
    assert_eq!(drain(&mut prompt), completions);
    // A time before the last counts as the last.
    late.submit(5, read(4, 0, 1));
    assert!(drain(&mut late)[0].arrived_ns == 3_600_000_000_000);
}

#[test]
fn usb_serves_one_at_a_time() {
    let mut disk = Disk::new(preset("usb"));
    disk.submit(0, read(1, 900_000, 25_000));
    disk.submit(0, read(2, 0, 50_000));
    let done: Vec<_> = drain(&mut disk).iter().map(|c| (c.id, c.done_ns)).collect();
    assert_eq!(done, [(1, 2_200_000), (2, 2_200_000 + 3_200_000)]);
}

#[test]
fn nvme_overlaps_latency_but_shares_the_pipe() {
    let mut disk = Disk::new(preset("nvme"));
    for id in 0..65 {
        disk.submit(0, read(id, id << 20, 15_000));
    }
    let done = drain(&mut disk);
    // 15,000 bytes take 10 us; 64 follow each other through the pipe after one latency.
    assert_eq!(done[0].done_ns, 100_000);
    assert_eq!(done[63].done_ns, 90_000 + 64 * 10_000);
    // The 65th waits for a slot, and pays its own latency, hidden behind the 63 others.
    assert_eq!(
        (done[64].started_ns, done[64].done_ns),
        (100_000, 90_000 + 65 * 10_000)
    );
    assert_eq!(disk.counters().queue_depth_max, 65);
}

#[test]
fn cloud_paces_its_starts() {
    let mut disk = Disk::new(preset("cloud"));
    for id in 0..3 {
        disk.submit(0, read(id, 0, 0));
    }
    let starts: Vec<u64> = drain(&mut disk).iter().map(|c| c.started_ns).collect();
    assert_eq!(starts, [0, 333_334, 666_668]);
}

#[test]
fn lazy_fetches_a_block_before_its_first_read_and_then_is_a_cloud() {
    let mut disk = Disk::new(preset("lazy"));
    // Two reads of one block wait for the same fetch, and share the pipe after it.
    disk.submit(0, read(1, 0, 125_000));
    disk.submit(0, read(2, 250_000, 125_000));
    let done: Vec<_> = drain(&mut disk).iter().map(|c| (c.id, c.done_ns)).collect();
    assert_eq!(done, [(1, 11_000_000), (2, 12_000_000)]);
    assert_eq!(disk.counters().first_touches, 1);
    // Now 0.7 ms and 1 ms for each, and a third of a millisecond between their starts.
    let now_ns = 20_000_000;
    disk.submit(now_ns, read(3, 0, 125_000));
    disk.submit(now_ns, read(4, 250_000, 125_000));
    let done: Vec<_> = drain(&mut disk)
        .iter()
        .map(|c| (c.id, c.done_ns - now_ns))
        .collect();
    assert_eq!(done, [(3, 1_700_000), (4, 2_700_000)]);
    assert_eq!(disk.counters().first_touches, 1);
}

#[test]
fn a_read_that_waits_for_its_fetch_holds_no_other_up() {
    let mut disk = Disk::new(preset("lazy"));
    disk.submit(0, read(1, 0, 4096));
    drain(&mut disk);
    let now_ns = 50_000_000;
    // 524,288 bytes is where the next block begins.
    disk.submit(now_ns, read(2, 524_288, 125_000));
    disk.submit(now_ns, read(3, 4096, 125_000));
    let done: Vec<_> = drain(&mut disk)
        .iter()
        .map(|c| (c.id, c.done_ns - now_ns))
        .collect();
    assert_eq!(done, [(3, 333_334 + 1_700_000), (2, 11_000_000)]);
}

#[test]
fn what_was_touched_is_forgotten_on_demand_and_with_other_parameters() {
    let mut disk = Disk::new(preset("lazy"));
    let touch = |disk: &mut Disk, at_ns| {
        disk.submit(at_ns, read(0, 0, 4096));
        drain(disk);
        disk.counters().first_touches
    };
    assert_eq!(touch(&mut disk, 0), 1);
    // To fill it, it is made another model, and what was touched stays so.
    let instant = DiskParameters {
        model: DiskModel::Instant,
        ..preset("lazy")
    };
    disk.set_parameters(20_000_000, instant);
    assert_eq!(touch(&mut disk, 20_000_000), 1);
    disk.set_parameters(30_000_000, preset("lazy"));
    assert_eq!(touch(&mut disk, 30_000_000), 1);
    disk.forget_touches(40_000_000);
    assert_eq!(touch(&mut disk, 40_000_000), 2);
    disk.set_parameters(60_000_000, preset("cloud"));
    disk.set_parameters(60_000_000, preset("lazy"));
    assert_eq!(touch(&mut disk, 60_000_000), 3);
}

#[test]
fn instant_is_done_on_arrival() {
    let mut disk = Disk::new(preset("instant"));
    disk.submit(77, read(1, 5, u64::MAX));
    assert_eq!(disk.next_event_ns(), Some(77));
    let mut completions = Vec::new();
    disk.advance(77, &mut completions);
    assert_eq!(completions[0].done_ns, 77);
    assert_eq!(disk.next_event_ns(), None);
}

#[test]
fn parameters_change_for_those_that_wait() {
    let mut disk = Disk::new(preset("usb"));
    disk.submit(0, read(1, 0, 25_000));
    disk.submit(0, read(2, 0, 25_000));
    disk.set_parameters(1_000, preset("instant"));
    let done: Vec<_> = drain(&mut disk).iter().map(|c| (c.id, c.done_ns)).collect();
    assert_eq!(done, [(2, 1_000), (1, 2_200_000)]);
}

#[test]
fn counters_can_start_anew_in_the_middle() {
    let mut disk = Disk::new(preset("usb"));
    disk.submit(
        0,
        Request {
            write: true,
            ..read(1, 0, 25_000)
        },
    );
    assert_eq!(
        (disk.counters().write_requests, disk.counters().write_bytes),
        (1, 25_000)
    );
    let mut completions = Vec::new();
    disk.advance(1_000_000, &mut completions);
    assert_eq!(disk.counters().busy_ns, 1_000_000);
    disk.reset_counters();
    drain(&mut disk);
    let counters = disk.counters();
    assert_eq!(
        (
            counters.requests,
            counters.busy_ns,
            counters.queue_depth_max
        ),
        (0, 1_200_000, 1)
    );
}

/// One step of a caller: some time passes, then a request comes.
type Step = (u64, u64, u64);

fn any_parameters() -> impl Strategy<Value = DiskParameters> {
    let number = || {
        prop_oneof![
            Just(0),
            Just(1),
            0..5_000_000_u64,
            Just(u64::MAX),
            any::<u64>()
        ]
    };
    let model = prop_oneof![
        Just(DiskModel::Head),
        Just(DiskModel::Parallel),
        Just(DiskModel::Instant)
    ];
    (model, proptest::collection::vec(number(), 14)).prop_map(|(model, n)| DiskParameters {
        model,
        capacity_bytes: n[0],
        bandwidth_bytes_per_s: n[1],
        transfer_times: TransferTimes::default(),
        latency_ns: n[2],
        parallel_requests: n[3],
        rate_requests_per_s: n[4],
        seek_min_ns: n[5],
        seek_span_ns: n[6],
        half_turn_ns: n[7],
        gap_limit_bytes: n[8],
        gap_ns: n[9],
        first_touch_bytes: n[10],
        first_touch_ns: n[11],
        first_touch_parallel_requests: n[12],
        first_touch_rate_requests_per_s: n[13],
    })
}

fn realistic() -> impl Strategy<Value = DiskParameters> {
    prop_oneof![
        Just("hdd"),
        Just("usb"),
        Just("cloud"),
        Just("nvme"),
        Just("nfs"),
        Just("lazy")
    ]
    .prop_map(preset)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(
        (0..3_000_000_u64, 0..1_000_000_000_u64, 0..2_000_000_u64),
        1..80,
    )
}

fn run(parameters: DiskParameters, steps: &[Step]) -> (Vec<Completion>, Disk) {
    let mut disk = Disk::new(parameters);
    let mut completions = Vec::new();
    let mut now_ns = 0_u64;
    for (id, &(wait_ns, offset_bytes, length_bytes)) in steps.iter().enumerate() {
        now_ns = now_ns.saturating_add(wait_ns);
        disk.advance(now_ns, &mut completions);
        disk.submit(now_ns, read(id as u64, offset_bytes, length_bytes));
    }
    completions.append(&mut drain(&mut disk));
    (completions, disk)
}

proptest! {
    #[test]
    fn every_request_completes_once_on_any_disk(
        parameters in any_parameters(),
        steps in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 1..40),
    ) {
        let (completions, disk) = run(parameters, &steps);
        let mut ids: Vec<u64> = completions.iter().map(|c| c.id).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..steps.len() as u64).collect::<Vec<_>>());
        prop_assert_eq!(disk.queue_depth(), 0);
        prop_assert_eq!(disk.counters().requests, steps.len() as u64);
        for c in &completions {
            prop_assert!(c.arrived_ns <= c.started_ns && c.started_ns <= c.done_ns);
        }
        prop_assert!(completions.windows(2).all(|pair| pair[0].done_ns <= pair[1].done_ns));
    }

    #[test]
    fn no_disk_is_faster_than_its_bandwidth(parameters in realistic(), steps in steps()) {
        let bandwidth = u128::from(parameters.bandwidth_bytes_per_s);
        let (completions, disk) = run(parameters, &steps);
        let bytes: u128 = steps.iter().map(|step| u128::from(step.2)).sum();
        let needed_ns = bytes * 1_000_000_000 / bandwidth;
        prop_assert!(u128::from(disk.counters().busy_ns) >= needed_ns);
        let first = completions.iter().map(|c| c.started_ns).min().unwrap_or(0);
        let last = completions.iter().map(|c| c.done_ns).max().unwrap_or(0);
        prop_assert!(u128::from(last - first) >= needed_ns);
    }

    #[test]
    fn rate_and_parallelism_are_held(steps in steps()) {
        let cloud = preset("cloud");
        let (completions, _) = run(cloud, &steps);
        let mut starts: Vec<u64> = completions.iter().map(|c| c.started_ns).collect();
        starts.sort_unstable();
        prop_assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 333_334));
        for c in &completions {
            let together = completions
                .iter()
                .filter(|o| o.started_ns <= c.started_ns && c.started_ns < o.done_ns)
                .count();
            prop_assert!(together <= 64);
        }
    }

    #[test]
    fn hdd_always_takes_the_nearest(steps in steps()) {
        let (completions, _) = run(preset("hdd"), &steps);
        let mut head = 0_u64;
        for (place, chosen) in completions.iter().enumerate() {
            let distance = |c: &Completion| steps[c.id as usize].1.abs_diff(head);
            for other in &completions[place + 1..] {
                // Only those that were there before the head turned to the chosen one.
                if other.arrived_ns < chosen.started_ns {
                    prop_assert!(distance(chosen) <= distance(other));
                }
            }
            let step = steps[chosen.id as usize];
            head = step.1 + step.2;
        }
    }

    #[test]
    fn how_often_the_caller_looks_does_not_matter(
        parameters in realistic(),
        steps in steps(),
        peeks in proptest::collection::vec(0..100_000_000_u64, 0..20),
    ) {
        let (expected, _) = run(parameters.clone(), &steps);
        let mut disk = Disk::new(parameters);
        let (mut completions, mut now_ns, mut peek) = (Vec::new(), 0_u64, peeks.iter().cycle());
        for (id, &(wait_ns, offset_bytes, length_bytes)) in steps.iter().enumerate() {
            let until_ns = now_ns + wait_ns;
            if let Some(&early_ns) = peek.next() {
                disk.advance(now_ns + early_ns.min(wait_ns), &mut completions);
            }
            now_ns = until_ns;
            disk.submit(now_ns, read(id as u64, offset_bytes, length_bytes));
        }
        disk.advance(u64::MAX, &mut completions);
        prop_assert_eq!(completions, expected);
    }
}
