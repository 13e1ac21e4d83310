// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two traces of one program on Linux 2.6.32. In one, a readahead lay in the plug until the next
//! one came. In the other, it was sent at once.

mod common;

use common::report;
use foreread_blocktrace::{Joined, Leg, Release, story};

const STALLED: &str = include_str!("../../../tests/blktrace/plug-stalled.blkparse");
const UNPLUGGED: &str = include_str!("../../../tests/blktrace/plug-unplugged.blkparse");

#[test]
fn the_stall_is_named() {
    let report = report(STALLED);
    let [request] = &report.kept[..] else {
        panic!("{} requests", report.kept.len());
    };
    let legs = Leg::ALL.map(|leg| request.leg_ns(leg));
    let expected = [438, 2_531, 469_126, 4_359_407, 472_095, 4_831_502];
    assert_eq!(legs, expected.map(Some));
    assert_eq!((request.sector, request.sectors), (173_880, 2048));
    let joined: Vec<Joined> = request.bios.iter().map(|bio| bio.joined).collect();
    assert_eq!(joined, [Joined::First, Joined::Back]);
    let hold = request.plug.as_ref().expect("a stay in a plug");
    // From P to U, and the disk had nothing else to do.
    assert_eq!((hold.held_ns(), hold.idle_ns), (468_845, 468_845));
    let Release::Merge(later) = &hold.release else {
        panic!("{:?}", hold.release);
    };
    assert_eq!(
        (later.sector, later.sectors, later.is_same),
        (174_904, 1024, true)
    );
    assert_eq!(report.reads.held.requests, 1);
    assert_eq!(
        story(request, 100_000),
        "0.47 ms from queue to issue, 4.36 ms at the device; held in a plug for 0.47 ms (the device \
         stood idle for 0.47 ms of it), released by the next readahead's merge (174904+1024)"
    );
}

#[test]
fn where_there_is_none_none_is_named() {
    let report = report(UNPLUGGED);
    let [done, request] = &report.kept[..] else {
        panic!("{} requests", report.kept.len());
    };
    // The trace has only the end of this request, and the time that the device took.
    assert_eq!(done.leg_ns(Leg::IssueToComplete), Some(3_111_375));
    assert_eq!(done.leg_ns(Leg::QueueToIssue), None);
    assert_eq!(request.leg_ns(Leg::QueueToIssue), Some(3_812));
    let hold = request.plug.as_ref().expect("a stay in a plug");
    // The device may have been busy: it had a request from before the trace.
    assert_eq!((hold.held_ns(), hold.idle_ns), (688, 0));
    assert_eq!(hold.release, Release::Owner);
    assert_eq!(report.reads.held.requests, 0);
    assert_eq!((report.reads.requests, report.reads.incomplete), (2, 2));
    assert_eq!(report.counts.unseen_issues, 1);
    assert_eq!(
        story(request, 100_000),
        "3.81 us from queue to issue, not done within the trace"
    );
}
