// SPDX-License-Identifier: MIT OR Apache-2.0
//! From events to lives: merges, splits, plugs of both kinds, the scheduler, unfinished business.

mod common;

use common::{report, report_with, trace};
use foreread_blocktrace::follow::FOLLOWED_MAX;
use foreread_blocktrace::{Joined, Leg, Options, Release, Request, story};

const OVER_NS: u64 = 100_000;

/// The only request of a trace.
fn only(lines: &[&str]) -> Request {
    let kept = report(&trace(lines)).kept;
    assert_eq!(kept.len(), 1, "{kept:#?}");
    kept.into_iter().next().expect("one")
}

fn release_of(request: &Request) -> &Release {
    &request.plug.as_ref().expect("a stay in a plug").release
}

#[test]
fn a_plug_of_a_thread_ends_before_the_insert() {
    let request = only(&[
        "10 7 Q 0 + 8",
        "11 7 G 0 + 8",
        "12 7 P",
        "13 7 Q 8 + 8",
        "14 7 M 8 + 8",
        "15 7 Q 16 + 8",
        "16 7 M 16 + 8",
        "17 7 U 1",
        "18 7 I 0 + 24",
        "19 7 D 0 + 24",
        "119 0 C 0 + 24",
    ]);
    assert_eq!((request.bio_count, request.sectors), (3, 24));
    assert_eq!(request.leg_ns(Leg::GetToInsert), Some(7_000));
    let hold = request.plug.as_ref().expect("a stay in a plug");
    assert_eq!((hold.since_ns, hold.until_ns), (12_000, 17_000));
    // Bios came one after the other: no single one of them let it go.
    assert_eq!(hold.release, Release::Owner);
    assert_eq!(request.held_ns(OVER_NS), 0);
}

#[test]
fn a_thread_that_sleeps_lets_its_plug_go_and_a_timer_is_somebody_else() {
    let lines = |unplug| {
        [
            "10 7 Q 0 + 8",
            "11 7 G 0 + 8",
            "12 7 P",
            unplug,
            "3014 7 D 0 + 8",
            "3100 0 C 0 + 8",
        ]
    };
    assert_eq!(release_of(&only(&lines("3012 7 UT 1"))), &Release::Sleep);
    let timer = only(&lines("3012 0 UT 1"));
    // A timer of another thread doesn't touch the plug of a thread.
    assert_eq!(timer.plug, None);
    let timer = only(&[
        "10 7 Q 0 + 8",
        "11 7 G 0 + 8",
        "12 7 P",
        "13 7 I 0 + 8",
        "3012 0 UT 1",
        "3014 0 D 0 + 8",
        "3100 0 C 0 + 8",
    ]);
    assert_eq!(release_of(&timer), &Release::Timer);
    assert_eq!(timer.held_ns(OVER_NS), 3_000_000);
    assert!(story(&timer, OVER_NS).contains("by the plug's timer"));
}

#[test]
fn a_plug_of_the_device_holds_requests_of_all_threads_until_it_is_full() {
    let report = report(&trace(&[
        "10 7 Q 0 + 8",
        "11 7 G 0 + 8",
        "12 7 P",
        "13 7 I 0 + 8",
        "20 9 Q 100 + 8",
        "21 9 G 100 + 8",
        "22 9 I 100 + 8",
        "1000 7 Q 200 + 8",
        "1001 7 G 200 + 8",
        "1002 7 I 200 + 8",
        "1010 9 Q 300 + 8",
        "1011 9 G 300 + 8",
        "1012 9 I 300 + 8",
        "1013 9 D 0 + 8",
        "1014 9 D 100 + 8",
    ]));
    let full = Release::Full { requests: 4 };
    let held = report.kept.iter().filter(|r| r.plug.is_some());
    assert!(held.clone().all(|r| release_of(r) == &full));
    assert_eq!(held.count(), 4);
    assert_eq!(report.reads.by_plug.requests, 2);
}

#[test]
fn other_requests_and_other_processes_let_go_too() {
    let opening = ["10 7 Q 0 + 8", "11 7 G 0 + 8", "12 7 P", "13 7 I 0 + 8"];
    let with = |more: &[&str]| {
        let lines = [&opening[..], more, &["2000 7 D 0 + 8", "2100 0 C 0 + 8"]].concat();
        let kept = report(&trace(&lines)).kept;
        kept.into_iter().find(|r| r.sector == 0).expect("the first")
    };
    let far = with(&[
        "900 7 Q 99 + 8",
        "901 7 G 99 + 8",
        "902 7 I 99 + 8",
        "903 7 U 2",
    ]);
    let Release::LaterRequest(later) = release_of(&far) else {
        panic!("{far:?}");
    };
    assert_eq!(later.sector, 99);
    let waiter = with(&["900 9 U 1"]);
    let other = Release::Other {
        pid: 9,
        process: "p".into(),
    };
    assert_eq!(release_of(&waiter), &other);
    let merger = with(&["900 9 Q 8 + 8", "901 9 M 8 + 8", "902 9 U 1"]);
    assert!(story(&merger, OVER_NS).contains("released by a merge by p (9)"));
    let unseen = with(&[]);
    assert_eq!(release_of(&unseen), &Release::NotSeen);
}

#[test]
fn the_scheduler_is_named_when_others_go_first() {
    let report = report(&trace(&[
        "1 7 Q 0 + 8",
        "2 7 G 0 + 8",
        "3 7 I 0 + 8",
        "10 8 Q 100 + 8",
        "11 8 G 100 + 8",
        "12 8 I 100 + 8",
        "13 8 D 100 + 8",
        "20 8 Q 108 + 8",
        "21 8 G 108 + 8",
        "22 8 I 108 + 8",
        "500 0 C 100 + 8",
        "501 8 D 108 + 8",
        "1000 0 C 108 + 8",
        "1003 7 D 0 + 8",
        "1100 0 C 0 + 8",
    ]));
    let request = report.kept.iter().find(|r| r.sector == 0).expect("it");
    let wait = request.held_by_scheduler(OVER_NS).expect("held");
    assert_eq!((wait.overtaken, wait.held_ns()), (2, 1_000_000));
    // Before the first other, between the two, and behind them.
    assert_eq!(wait.idle_ns, 14_000);
    assert_eq!(report.reads.by_scheduler.requests, 1);
    assert!(story(request, OVER_NS).contains("overtaken by 2 later requests"));
}

#[test]
fn waiting_for_a_busy_device_is_no_hold() {
    let report = report(&trace(&[
        "1 7 Q 0 + 8",
        "2 7 G 0 + 8",
        "3 7 I 0 + 8",
        "4 7 D 0 + 8",
        "10 8 Q 100 + 8",
        "11 8 G 100 + 8",
        "12 8 I 100 + 8",
        "5000 0 C 0 + 8",
        "5001 8 D 100 + 8",
        "9000 0 C 100 + 8",
    ]));
    assert_eq!(report.reads.held.requests, 0);
    let waited = report.kept.iter().find(|r| r.sector == 100).expect("it");
    assert!(story(waited, OVER_NS).contains("waited 4.99 ms for a busy device"));
    let depth = report.depths.values().next().expect("a device");
    assert_eq!((depth.in_flight_max, depth.busy_ns), (1, 8_995_000));
}

#[test]
fn a_device_that_stands_idle_while_the_scheduler_waits_is_noticed() {
    let request = only(&[
        "1 7 Q 0 + 8",
        "2 7 G 0 + 8",
        "3 7 I 0 + 8",
        "8003 7 D 0 + 8",
        "9000 0 C 0 + 8",
    ]);
    let wait = request.held_by_scheduler(OVER_NS).expect("held");
    assert_eq!((wait.idle_ns, wait.overtaken), (8_000_000, 0));
    assert!(story(&request, OVER_NS).contains("fewer requests than it takes"));
}

#[test]
fn parts_of_a_split_bio_keep_its_time() {
    let report = report(&trace(&[
        "1 7 Q 0 + 32",
        "2 7 X 0 / 8",
        "3 7 G 0 + 8",
        "4 7 D 0 + 8",
        "5 7 X 8 / 16",
        "6 7 G 8 + 8",
        "7 7 D 8 + 8",
        "8 7 G 16 + 16",
        "9 7 D 16 + 16",
    ]));
    let queued: Vec<_> = report
        .kept
        .iter()
        .map(|r| (r.sector, r.queued_ns()))
        .collect();
    assert_eq!(
        queued,
        [(0, Some(1_000)), (8, Some(1_000)), (16, Some(1_000))]
    );
    assert_eq!(report.counts.splits, 2);
}

#[test]
fn requests_merge_at_the_front_and_as_a_whole() {
    let request = only(&[
        "1 7 Q 8 + 8",
        "2 7 G 8 + 8",
        "3 7 I 8 + 8",
        "4 9 Q 0 + 8",
        "5 9 F 0 + 8",
        "6 7 Q 24 + 8",
        "7 7 G 24 + 8",
        "8 7 I 24 + 8",
        "9 8 Q 16 + 8",
        "10 8 M 16 + 8",
        "11 8 M 24 + 8",
        "12 7 D 0 + 32",
        "13 0 C 0 + 16",
        "14 0 C 16 + 16",
    ]);
    let bios = request.bios.iter().map(|bio| (bio.sector, bio.joined));
    assert_eq!(
        bios.collect::<Vec<_>>(),
        [
            (8, Joined::First),
            (0, Joined::Front),
            (16, Joined::Back),
            (24, Joined::WithRequest)
        ]
    );
    assert_eq!(request.completed_ns, Some(14_000));
    assert_eq!(request.queued_ns(), Some(1_000));
}

#[test]
fn what_the_driver_gives_back_goes_again() {
    let request = only(&[
        "1 7 Q 0 + 8",
        "2 7 G 0 + 8",
        "3 7 D 0 + 8",
        "4 0 R 0 + 8",
        "500 0 D 0 + 8",
        "600 0 C 0 + 8",
    ]);
    assert_eq!((request.requeues, request.issued_ns), (1, Some(500_000)));
}

#[test]
fn a_trace_that_begins_in_the_middle_says_what_is_known() {
    let report = report(&trace(&[
        "1 7 M 8 + 8",
        "2 7 U 1",
        "3 7 D 0 + 16",
        "4 0 C 0 + 16",
        "5 0 C 500 + 8",
        "6 7 I 700 + 8",
        "7 7 Q 900 + 8",
        "8 7 G 900 + 8",
    ]));
    let places: Vec<u64> = report.kept.iter().map(|r| r.sector).collect();
    assert_eq!(places, [0, 500, 700, 900]);
    assert_eq!(report.reads.incomplete, 4);
    let merged = &report.kept[0];
    assert_eq!((merged.sectors, merged.bios.len()), (16, 1));
    assert_eq!(merged.queued_ns(), None);
    assert!(story(merged, OVER_NS).starts_with("queued before the trace"));
    assert!(story(&report.kept[3], OVER_NS).starts_with("not issued"));
    assert_eq!(
        (report.counts.unseen_issues, report.counts.unseen_merges),
        (1, 1)
    );
}

#[test]
fn devices_without_requests_complete_bios() {
    let request = only(&["1 7 Q 0 + 8", "500 0 C 0 + 8"]);
    assert_eq!(request.leg_ns(Leg::QueueToComplete), Some(499_000));
    assert_eq!(request.issued_ns, None);
}

#[test]
fn what_is_followed_is_bounded() {
    let mut lines = Vec::new();
    for number in 0..FOLLOWED_MAX + 100 {
        lines.push(format!("{number} 7 G {} + 8", number * 8));
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let report = report(&trace(&lines));
    assert_eq!(report.counts.given_up, 100);
    assert_eq!(report.reads.requests, FOLLOWED_MAX as u64 + 100);
}

#[test]
fn devices_and_processes_can_be_chosen() {
    let lines = ["1 7 Q 0 + 8", "2 7 G 0 + 8", "3 9 Q 80 + 8", "4 9 G 80 + 8"];
    let text = trace(&lines) + &trace(&lines).replace("8,0 ", "9,1 ");
    let requests = |devices: &[&str], processes: &[&str]| {
        let options = Options {
            devices: devices
                .iter()
                .map(|d| d.parse().expect("a device"))
                .collect(),
            processes: processes.iter().map(ToString::to_string).collect(),
            ..Options::default()
        };
        report_with(&text, options).reads.requests
    };
    assert_eq!(requests(&[], &[]), 4);
    assert_eq!(requests(&["8:0"], &[]), 2);
    assert_eq!(requests(&["9,1", "8,0"], &["7"]), 2);
    assert_eq!(requests(&[], &["p"]), 4);
    assert_eq!(requests(&[], &["q"]), 0);
}
