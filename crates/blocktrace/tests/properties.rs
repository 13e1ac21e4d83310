// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text and any events: read or refused, written and read back, followed without a fault.

use foreread_blocktrace::{
    Action, Analysis, Device, Event, Letters, Options, Reader, Report, Rwbs, parse_line, story,
};
use proptest::prelude::*;

fn action() -> impl Strategy<Value = Action> {
    let plain = prop::sample::select(vec![
        Action::Queued,
        Action::GotRequest,
        Action::Slept,
        Action::Plugged,
        Action::Inserted,
        Action::BackMerged,
        Action::FrontMerged,
        Action::Issued,
        Action::Bounced,
        Action::Unknown(Letters::new("Z9").expect("letters")),
    ]);
    let requests = prop::option::of(any::<u32>());
    prop_oneof![
        12 => plain,
        2 => requests.clone().prop_map(|requests| Action::Unplugged { requests }),
        1 => requests.prop_map(|requests| Action::TimerUnplugged { requests }),
        4 => (-9..2i32).prop_map(|error| Action::Completed { error }),
        1 => (-9..2i32).prop_map(|error| Action::Requeued { error }),
        1 => (0..300u64).prop_map(|at_sector| Action::Split { at_sector }),
        1 => (0..9u32, any::<u64>()).prop_map(|(minor, from_sector)| Action::Remapped {
            from: Device { major: 8, minor },
            from_sector,
        }),
        1 => any::<u64>().prop_map(|events| Action::Lost { events }),
    ]
}

/// The event as it is read back: fields that a line doesn't have come back empty.
fn written(mut event: Event) -> Event {
    match event.action {
        Action::Plugged | Action::Unplugged { .. } | Action::TimerUnplugged { .. } => {
            (event.sector, event.sectors, event.elapsed_ns) = (0, 0, None);
        }
        Action::Split { .. } => (event.sectors, event.elapsed_ns) = (0, None),
        Action::Remapped { .. } => {
            event.elapsed_ns = None;
            event.process = "".into();
        }
        Action::Completed { .. } | Action::Requeued { .. } => event.process = "".into(),
        Action::Unknown(_) => (event.sector, event.sectors, event.elapsed_ns) = (0, 0, None),
        Action::Lost { .. } => {
            (event.sector, event.sectors, event.elapsed_ns) = (0, 0, None);
            event.process = "".into();
        }
        _ => {}
    }
    // Without a length there is no place.
    if event.sectors == 0 && !matches!(event.action, Action::Split { .. } | Action::Remapped { .. })
    {
        event.sector = 0;
    }
    event
}

prop_compose! {
    /// Places and threads lie close together, so that events have to do with each other.
    fn event()(
        action in action(),
        rwbs in prop::sample::select(vec!["R", "RA", "WS", "N", "D"]),
        sector in prop_oneof![20 => (0..32u64).prop_map(|s| s * 8), 1 => any::<u64>()],
        sectors in prop_oneof![20 => (0..5u32).prop_map(|s| s * 8), 1 => any::<u32>()],
        time_ns in prop_oneof![20 => 0..5_000_000u64, 1 => any::<u64>()],
        pid in 0..4u32,
        minor in 0..2u32,
        elapsed_ns in prop::option::weighted(0.1, any::<u64>()),
        process in "[ -~]{0,15}|ä|\\[\\] 1",
    ) -> Event {
        Event {
            device: Device { major: 8, minor },
            cpu: pid,
            sequence: 0,
            time_ns,
            pid,
            action,
            rwbs: Rwbs(Letters::new(rwbs).expect("letters")),
            sector: sector.min(u64::MAX - u64::from(sectors)),
            sectors,
            elapsed_ns,
            process: process.into(),
        }
    }
}

fn report(events: &[Event]) -> Report {
    let mut analysis = Analysis::new(Options {
        kept: usize::MAX,
        ..Options::default()
    });
    for event in events {
        analysis.event(event.clone());
    }
    analysis.finish()
}

proptest! {
    #[test]
    fn events_are_read_back_as_they_were_written(event in event()) {
        let event = written(event);
        prop_assert_eq!(parse_line(&event.to_string()), Ok(Some(event)));
    }

    #[test]
    fn any_line_is_read_or_refused_in_one_line(line in "[0-9,.: QGIDMCU+/()<>\\[\\]-]{0,80}|.{0,80}") {
        if let Err(error) = parse_line(&line) {
            let text = error.to_string();
            prop_assert!(text.len() < 600, "{}", text);
        }
    }

    #[test]
    fn any_bytes_are_read_to_their_end(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let lines = bytes.split(|b| *b == b'\n').count();
        prop_assert!(Reader::new(&bytes[..]).count() <= lines + 1);
    }

    #[test]
    fn requests_have_their_steps_in_order(
        mut events in prop::collection::vec(event(), 0..300)
    ) {
        let report = report(&events);
        prop_assert_eq!(report.kept.len() as u64, report.reads.requests + report.others.requests);
        for request in &report.kept {
            let steps = [request.got_ns, request.inserted_ns, request.issued_ns];
            let steps: Vec<u64> = steps.into_iter().flatten().collect();
            prop_assert!(steps.is_sorted() || request.requeues > 0, "{:?}", request);
            if let Some(hold) = &request.plug {
                prop_assert!(hold.idle_ns <= hold.held_ns(), "{:?}", hold);
            }
            if let Some(wait) = &request.queue {
                prop_assert!(wait.idle_ns <= wait.room_ns, "{:?}", wait);
                prop_assert!(wait.room_ns <= wait.waited_ns(), "{:?}", wait);
            }
            prop_assert!(!story(request, 0).is_empty());
        }
        for depth in report.depths.values() {
            prop_assert!(depth.busy_ns <= depth.traced_ns);
            prop_assert!(depth.idle_while_reads_waited_ns <= depth.traced_ns - depth.busy_ns);
        }
        // The order in which processors are read doesn't matter.
        events.sort_by_key(|event| (event.time_ns, event.cpu));
        let sorted: Vec<Event> = events.clone();
        events.sort_by_key(|event| event.cpu);
        prop_assume!(sorted.windows(2).all(|pair| pair[0].time_ns < pair[1].time_ns));
        prop_assert_eq!(self::report(&events).kept, self::report(&sorted).kept);
    }
}
