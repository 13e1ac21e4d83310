// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of the log of `watch`: each call comes back as it was, and a missing or wrong field is an
//! error, never another call.
#![forbid(unsafe_code)]

use std::fmt::Debug;

use foreread_core::Device;
use foreread_core::policy::{Access, Budget, Decision, Done, Limits};
use foreread_watch::detect::{Missed, Passed, Suspicion};
use foreread_watch::log::detect_call::{DetectCall, DetectCalled};
use foreread_watch::log::replay::{Made, Replay};
use foreread_watch::log::rest_call::{Answer as RestAnswer, RestCall, RestCalled};
use foreread_watch::log::stream_call::{Call, Called, Decided, Remembered};
use foreread_watch::log::walk_call::{Answer, WalkCall, WalkCalled};
use foreread_watch::log::{self, Header, parsed};
use foreread_watch::look::Look;
use foreread_watch::order::{Entry, Lists, Order};
use foreread_watch::rest::{self, FilePart, Parts, Piece};
use foreread_watch::stream::FileKey;
use foreread_watch::walk::{Above, Met, Why};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn any_path() -> impl Strategy<Value = Vec<u8>> + Clone {
    prop::collection::vec(any::<u8>(), 0..12)
}

fn any_paths() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(any_path(), 0..5)
}

fn any_above() -> impl Strategy<Value = Above> {
    (any_path(), any_path(), any_path()).prop_map(|(top, old, new)| (top, [old, new]))
}

fn any_order() -> impl Strategy<Value = Order> {
    prop::sample::select(&Order::ALL[..])
}

fn any_why() -> impl Strategy<Value = Why> {
    prop::sample::select(&Why::ALL[..])
}

fn any_met() -> impl Strategy<Value = Met> {
    prop::sample::select(&[Met::Known, Met::Below, Met::Outside][..])
}

fn any_lists() -> impl Strategy<Value = Lists> {
    let name = prop::collection::vec(1u8..b'/', 1..9);
    let entries = prop::collection::btree_map(name, (any::<u64>(), any::<bool>()), 0..9);
    let entries = entries.prop_map(|entries| {
        let entry = |(name, (inode, is_directory))| Entry {
            name,
            inode,
            is_directory,
        };
        entries.into_iter().map(entry).collect()
    });
    prop::collection::btree_map(any_path(), entries, 0..4)
}

fn any_answer() -> impl Strategy<Value = Answer> {
    let fetch = (
        prop::collection::vec(any::<u64>(), 0..9),
        any::<u64>(),
        any::<u64>(),
    );
    prop_oneof![
        any_paths().prop_map(|directories| Answer::List { directories }),
        fetch.prop_map(|(inodes, names_hash, budget_bytes)| Answer::Fetch {
            inodes,
            names_hash,
            budget_bytes,
        }),
        Just(Answer::Wait),
        any_why().prop_map(|why| Answer::End { why }),
    ]
}

fn any_walk_called() -> impl Strategy<Value = WalkCalled> {
    let begin = (any_path(), any_order(), any::<u64>(), any::<bool>());
    let fetched = (any::<u32>(), any::<u32>());
    let missed = (any_path(), any::<u64>(), any_met());
    let looked = (any::<u64>(), any::<bool>(), any_met());
    prop_oneof![
        begin.prop_map(|(top, order, budget_bytes, reads)| WalkCalled::Begin {
            top,
            order,
            budget_bytes,
            reads,
        }),
        any_answer().prop_map(WalkCalled::Decide),
        (any_paths(), any_lists()).prop_map(|(tried, lists)| WalkCalled::Listed { tried, lists }),
        any::<u32>().prop_map(|files| WalkCalled::Fetching {
            files: files as usize
        }),
        fetched.prop_map(|(files, pages)| WalkCalled::Fetched {
            files: files.into(),
            pages: pages.into(),
        }),
        fetched.prop_map(|(files, pages)| WalkCalled::StoppedFetching {
            files: files as usize,
            pages: pages.into(),
        }),
        (any::<u64>(), any_met()).prop_map(|(inode, met)| WalkCalled::Hit { inode, met }),
        missed.prop_map(|(directory, inode, met)| WalkCalled::Missed {
            directory,
            inode,
            met,
        }),
        looked.prop_map(|(inode, is_late, met)| WalkCalled::Looked {
            inode,
            is_late,
            met,
        }),
        (any_path(), any_met()).prop_map(|(directory, met)| WalkCalled::WaitsIn { directory, met }),
        any_above().prop_map(|above| WalkCalled::Jumped { above }),
        (any_path(), prop::option::of(any_above()))
            .prop_map(|(directory, above)| WalkCalled::Rise { directory, above }),
        (any_path(), any_order()).prop_map(|(top, order)| WalkCalled::Raise { top, order }),
        any_why().prop_map(|why| WalkCalled::End { why }),
    ]
}

fn any_walk_call() -> impl Strategy<Value = WalkCall> {
    let call = (any::<u64>(), any::<u64>(), any_walk_called());
    call.prop_map(|(walk, number, what)| WalkCall { walk, number, what })
}

fn any_device() -> impl Strategy<Value = Device> + Clone {
    (any::<u32>(), any::<u32>()).prop_map(|(major, minor)| Device { major, minor })
}

fn any_suspicion(of: &(u32, u32), device: Device, reads: bool) -> BoxedStrategy<Suspicion> {
    let (process, parent) = *of;
    let passed = (any_path(), prop::collection::vec(any_path(), 0..4));
    let passed = passed.prop_map(|(directory, children)| Passed {
        directory,
        children,
    });
    let passed = prop::collection::vec(passed, 0..3);
    (any_path(), passed, prop::option::of(any_path()), 0usize..99)
        .prop_map(move |(directory, passed, start, threads)| Suspicion {
            process,
            parent,
            device,
            directory,
            passed,
            start,
            threads,
            reads,
        })
        .boxed()
}

fn any_detector_called(process: u32) -> impl Strategy<Value = DetectCalled> {
    let who = (any::<u32>(), any::<u32>(), any::<u32>(), any_device());
    let what = (
        any::<u64>(),
        any_path(),
        any_path(),
        prop::option::of(any_path()),
    );
    let missed = (who.clone(), what.clone()).prop_flat_map(
        move |((thread, parent, user, device), (inode, directory, name, _))| {
            let file = Missed {
                process,
                thread,
                parent,
                user,
                device,
                inode,
                directory,
                name,
            };
            let suspicion = any_suspicion(&(process, parent), device, true);
            prop::option::of(suspicion).prop_map(move |suspicion| DetectCalled::Missed {
                file: file.clone(),
                suspicion,
            })
        },
    );
    let waited = (who, what).prop_flat_map(
        move |((thread, parent, user, device), (_, directory, name, start))| {
            let look = Look {
                process,
                thread,
                parent,
                user,
                device,
                directory,
                name,
                start,
            };
            let suspicion = any_suspicion(&(process, parent), device, false);
            prop::option::of(suspicion).prop_map(move |suspicion| DetectCalled::Waited {
                look: look.clone(),
                suspicion,
            })
        },
    );
    let was_wrong = (any::<bool>(), any::<u32>());
    let was_wrong = was_wrong.prop_map(|(reads, user)| DetectCalled::WasWrong { reads, user });
    let others = prop_oneof![
        any::<u32>().prop_map(|user| DetectCalled::WasRight { user }),
        Just(DetectCalled::TooEarly),
        Just(DetectCalled::Ended),
    ];
    prop_oneof![missed, waited, was_wrong, others]
}

fn any_detector_call() -> impl Strategy<Value = DetectCall> {
    (any::<u64>(), any::<u32>()).prop_flat_map(|(number, process)| {
        any_detector_called(process).prop_map(move |what| DetectCall {
            number,
            process,
            what,
        })
    })
}

fn any_parts() -> impl Strategy<Value = Parts> {
    let key = (any::<u64>(), any_device());
    let files = prop::collection::vec((key, any::<bool>(), any::<bool>()), 0..9);
    let piece = (any::<prop::sample::Index>(), any::<u64>(), any::<u64>());
    let pieces = prop::collection::vec(piece, 0..9);
    (files, pieces).prop_map(|(files, pieces)| {
        let files: Vec<FilePart> = files
            .into_iter()
            .map(|((inode, device), is_ahead, counts)| FilePart {
                device,
                inode,
                is_ahead,
                counts,
            })
            .collect();
        let piece = |(number, (place, start_page, pages)): (usize, (prop::sample::Index, _, _))| {
            let file = files.get(place.index(files.len() + 1));
            let file = file.map(|file| (file.device, file.inode));
            Piece {
                number,
                file,
                start_page,
                pages,
            }
        };
        let pieces = pieces.into_iter().enumerate().map(piece).collect();
        Parts { files, pieces }
    })
}

fn any_rest_why() -> impl Strategy<Value = rest::Why> {
    prop::sample::select(&[rest::Why::Done, rest::Why::Unused, rest::Why::Memory][..])
}

fn any_rest_call() -> impl Strategy<Value = RestCall> {
    let fetch = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    let answer = prop_oneof![
        fetch.prop_map(
            |(pieces, pages, pieces_hash, budget_bytes)| RestAnswer::Fetch {
                pieces,
                pages,
                pieces_hash,
                budget_bytes,
            }
        ),
        Just(RestAnswer::Wait),
        any_rest_why().prop_map(|why| RestAnswer::End { why }),
    ];
    let access = (any_device(), any::<u64>(), any::<bool>());
    let what = prop_oneof![
        (any::<u64>(), any_parts()).prop_map(|(budget_bytes, parts)| RestCalled::Begin {
            budget_bytes,
            parts,
        }),
        answer.prop_map(RestCalled::Decide),
        access
            .clone()
            .prop_map(|(device, inode, is_first)| RestCalled::Hit {
                device,
                inode,
                is_first,
            }),
        access.prop_map(|(device, inode, is_first)| RestCalled::Missed {
            device,
            inode,
            is_first,
        }),
        (any::<u32>(), any::<u32>()).prop_map(|(pages, gone_files)| RestCalled::Fetched {
            pages: pages.into(),
            gone_files: gone_files.into(),
        }),
        any::<u32>().prop_map(|pages| RestCalled::Stopped {
            pages: pages.into(),
        }),
        any_rest_why().prop_map(|why| RestCalled::End { why }),
    ];
    let call = (any::<u64>(), any::<u64>(), what);
    call.prop_map(|(replay, number, what)| RestCall {
        replay,
        number,
        what,
    })
}

fn file() -> FileKey {
    FileKey {
        inode: u64::MAX,
        device: Device { major: 7, minor: 1 },
        generation: 3,
    }
}

fn stream_calls() -> Vec<Call> {
    let limits = Limits::new(1 << 16, 32);
    let mut decided = Decided {
        file: file(),
        is_new: true,
        ra_pages: 32,
        has_thrashed: false,
        access: Access::read_look(0, 4),
        limits,
        budget: Budget::default(),
        decision: Decision::from_bytes(&[0; 96]).expect("a decision"),
    };
    let call = |what| Call {
        number: 5,
        process: 9,
        disk: 7 << 32 | 1,
        what,
    };
    let access = call(Called::Access(Box::new(decided.clone())));
    decided.decision = Remembered::new().make(&access).expect("a decision");
    vec![
        call(Called::Access(Box::new(decided))),
        call(Called::Waited {
            file: file(),
            thread: 3,
            waited_ns: 77,
            asked: true,
        }),
        call(Called::Issued {
            file: file(),
            thread: 3,
            pages: 8,
            read_pages: 4,
        }),
        call(Called::Done(Done::new(9, 8, 7).first(true))),
        call(Called::Turns),
    ]
}

/// The line of a call, as it is when it has been written and read.
fn line<C: Serialize>(process: u32, call: &C) -> Value {
    let mut line = serde_json::to_value(call).expect("it can be written");
    line["schema"] = log::SCHEMA.into();
    line["since_start_ns"] = 7.into();
    line["process"] = process.into();
    serde_json::from_str(&line.to_string()).expect("it is a document")
}

/// A call comes back from its line, and its line is a call.
fn comes_back<C>(process: u32, call: &C)
where
    C: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let line = line(process, call);
    assert_eq!(Header::of(&line).expect("a header").process, process);
    assert_eq!(&parsed::<C>(&line).expect("a call"), call, "{line}");
}

/// Values that are wrong in most fields.
fn wrong_values() -> [Value; 4] {
    [Value::Null, json!([[]]), json!("%"), json!(-1)]
}

/// A line with a wrong value, or without a field, is no call, or the same one where that isn't
/// read.
fn wrong_is_refused<C>(process: u32, call: &C, optional: &[&str])
where
    C: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let whole = line(process, call);
    let names = whole.as_object().expect("an object").keys();
    for name in names {
        for wrong in wrong_values() {
            let mut line = whole.clone();
            line[name] = wrong.clone();
            match parsed::<C>(&line) {
                Ok(other) => {
                    let may_lack = wrong.is_null() && optional.contains(&name.as_str());
                    assert!(other == *call || may_lack, "{name}: {line}");
                }
                Err(error) => {
                    let quoted = format!("\"{name}\"");
                    assert!(
                        error.to_string().contains(&quoted),
                        "{name}: {error}: {line}"
                    );
                }
            }
        }
        let mut lacking = whole.clone();
        lacking.as_object_mut().expect("an object").remove(name);
        match parsed::<C>(&lacking) {
            Ok(other) => {
                assert!(
                    other == *call || optional.contains(&name.as_str()),
                    "{name}: {lacking}"
                );
            }
            Err(error) => assert!(error.to_string().contains(name.as_str()), "{name}: {error}"),
        }
    }
}

proptest! {
    #[test]
    fn lines_of_walks_are_calls_again(process in any::<u32>(), call in any_walk_call()) {
        comes_back(process, &call);
        wrong_is_refused(process, &call, &["above"]);
    }

    #[test]
    fn lines_of_replays_are_calls_again(process in any::<u32>(), call in any_rest_call()) {
        comes_back(process, &call);
        wrong_is_refused(process, &call, &[]);
    }

    #[test]
    fn lines_of_detectors_are_calls_again(call in any_detector_call()) {
        comes_back(call.process, &call);
        wrong_is_refused(call.process, &call, &["start", "suspicion", "user"]);
    }
}

#[test]
fn lines_of_streams_are_calls_again() {
    for call in stream_calls() {
        comes_back(call.process, &call);
        wrong_is_refused(call.process, &call, &[]);
    }
    let mut line = line(9, &stream_calls()[3]);
    for wrong in ["", "zz", "0", "00"] {
        line["done"] = wrong.into();
        let error = parsed::<Call>(&line).expect_err("no request");
        assert!(error.to_string().contains("are not the bytes"), "{error}");
    }
}

#[test]
fn a_replay_finds_what_differs_and_what_is_lost() {
    let mut access = stream_calls().swap_remove(0);
    if let Called::Access(decided) = &mut access.what {
        decided.access.flags = Access::MISSED;
    }
    let decision = Remembered::new().make(&access);
    if let (Called::Access(decided), Some(decision)) = (&mut access.what, decision) {
        assert!(!decision.windows().is_empty(), "{decision:?}");
        decided.decision = decision;
    }
    let first = Call {
        number: 1,
        ..access.clone()
    };
    let mut replay = Replay::default();
    assert_eq!(replay.take(&line(9, &first)).expect("a line"), Made::Same);
    let Made::Lost(lost) = replay.take(&line(9, &access)).expect("a line") else {
        panic!("calls 2 to 4 are not there");
    };
    assert_eq!(
        (lost.number, lost.who.as_str()),
        (2, "the streams of disk 7:1")
    );
    let counts: Vec<_> = replay
        .replayed()
        .into_iter()
        .map(|of| (of.name, of.calls))
        .collect();
    assert_eq!(
        counts,
        [
            ("streams", 1),
            ("walks", 0),
            ("detectors", 0),
            ("replays", 0)
        ]
    );

    // After a start, the first call is due again.
    let start = json!({
        "schema": log::SCHEMA, "since_start_ns": 0, "process": 1, "what": log::STARTED,
    });
    assert_eq!(replay.take(&start).expect("a line"), Made::Same);
    let mut other = first.clone();
    if let Called::Access(decided) = &mut other.what {
        decided.decision = Decision::from_bytes(&[0; 96]).expect("none");
    }
    let Made::Other(differs) = replay.take(&line(9, &other)).expect("a line") else {
        panic!("the decision is another one");
    };
    assert_eq!(differs.number, 1);
    assert!(differs.logged.contains("windows []"), "{}", differs.logged);
    assert!(!differs.made.contains("windows []"), "{}", differs.made);

    // Lines of other subjects are skipped, and a line without a header is an error.
    let other = json!({ "since_start_ns": 0, "process": 1, "what": "begun" });
    assert_eq!(replay.take(&other).expect("a line"), Made::Same);
    for wrong in [
        json!({}),
        json!([]),
        json!({ "what": "walk", "process": 1 }),
    ] {
        assert!(replay.take(&wrong).is_err(), "{wrong}");
    }
    // A walk that doesn't begin.
    let ended = WalkCall {
        walk: 1,
        number: 1,
        what: WalkCalled::End { why: Why::Idle },
    };
    let error = replay.take(&line(9, &ended)).expect_err("no walk");
    assert!(error.to_string().contains("begins nothing"), "{error}");
}
