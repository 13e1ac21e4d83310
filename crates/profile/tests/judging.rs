// SPDX-License-Identifier: MIT OR Apache-2.0
//! When replay turns itself off, and on again.

use foreread_profile::benefit::{Reason, Verdict, judge, saved_ns, wall_without_ns};
use foreread_profile::{RUNS_MAX, Run, RunMode};

const S: u64 = 1_000_000_000;

fn run(mode: RunMode, wall_ns: u64, cached_permille: u16) -> Run {
    Run {
        mode,
        wall_ns,
        cached_before_permille: Some(cached_permille),
        ..Run::default()
    }
}

/// A cold first run.
fn recorded(wall_ns: u64) -> Run {
    run(RunMode::Recorded, wall_ns, 0)
}

/// A cold run while replay is off.
fn plain(wall_ns: u64) -> Run {
    run(RunMode::Plain, wall_ns, 100)
}

/// A cold run with replay, all of whose pages were used.
fn replayed(wall_ns: u64) -> Run {
    with_use(run(RunMode::Replayed, wall_ns, 0), 10_000, 9_000, 1_000)
}

fn with_use(run: Run, fetched_pages: u64, on_time: u64, late: u64) -> Run {
    Run {
        fetched_pages,
        used_on_time_pages: Some(on_time),
        used_late_pages: Some(late),
        ..run
    }
}

fn wasted(wall_ns: u64) -> Run {
    with_use(replayed(wall_ns), 10_000, 1_000, 200)
}

/// The runs in order, started one second apart.
fn history(parts: &[&[Run]]) -> Vec<Run> {
    let mut runs: Vec<Run> = parts.concat();
    for (at, run) in (1u64..).zip(&mut runs) {
        run.started_unix_s = at;
    }
    runs
}

fn many(count: usize, run: Run) -> Vec<Run> {
    vec![run; count]
}

fn not_faster(with_ns: u64, without_ns: u64) -> Reason {
    Reason::NotFaster {
        with_ns,
        without_ns,
    }
}

fn off(reason: Reason, since_unix_s: u64, runs_until_retry: u32) -> Verdict {
    Verdict::Off {
        reason,
        since_unix_s,
        runs_until_retry,
    }
}

#[test]
fn the_rule() {
    let warm_replay = run(RunMode::Replayed, 9 * S, 900);
    let unknown_replay = Run {
        cached_before_permille: None,
        ..replayed(99 * S)
    };
    let cases: Vec<(&str, Vec<Run>, Verdict)> = vec![
        ("nothing is known", vec![], Verdict::Replay),
        (
            "only recorded",
            history(&[&[recorded(10 * S)]]),
            Verdict::Replay,
        ),
        (
            "faster",
            history(&[&[recorded(10 * S)], &many(5, replayed(2 * S))]),
            Verdict::Replay,
        ),
        (
            "two slow ones prove nothing",
            history(&[&[recorded(10 * S)], &many(2, replayed(20 * S))]),
            Verdict::Replay,
        ),
        (
            "three slow ones do",
            history(&[&[recorded(10 * S)], &many(3, replayed(11 * S))]),
            off(not_faster(11 * S, 10 * S), 4, 15),
        ),
        (
            "one per cent is no gain",
            history(&[&[recorded(1000 * S)], &many(3, replayed(990 * S))]),
            off(not_faster(990 * S, 1000 * S), 4, 15),
        ),
        (
            "two per cent is",
            history(&[&[recorded(1000 * S)], &many(3, replayed(980 * S))]),
            Verdict::Replay,
        ),
        (
            "the median forgives one slow run",
            history(&[&[
                recorded(10 * S),
                replayed(2 * S),
                replayed(90 * S),
                replayed(2 * S),
            ]]),
            Verdict::Replay,
        ),
        (
            "warm runs with replay say nothing",
            history(&[&[recorded(S)], &many(9, warm_replay.clone())]),
            Verdict::Replay,
        ),
        (
            "a warm recording is nothing to be held against",
            history(&[&[run(RunMode::Recorded, S, 950)], &many(9, replayed(5 * S))]),
            Verdict::Replay,
        ),
        (
            "unknown is not cold",
            history(&[&[recorded(S)], &many(9, unknown_replay)]),
            Verdict::Replay,
        ),
        (
            "fast and wasteful",
            history(&[&[recorded(10 * S)], &many(3, wasted(2 * S))]),
            off(Reason::Wasteful { used_permille: 120 }, 4, 15),
        ),
        (
            "waste counts over three runs together",
            history(&[&[
                recorded(10 * S),
                wasted(2 * S),
                wasted(2 * S),
                replayed(2 * S),
            ]]),
            Verdict::Replay,
        ),
        (
            "a little waste in warm runs is noise",
            history(&[
                &[recorded(10 * S)],
                &many(5, with_use(warm_replay, 100, 0, 0)),
            ]),
            Verdict::Replay,
        ),
        (
            "waste that wasn't measured is unknown",
            history(&[
                &[recorded(10 * S)],
                &many(
                    5,
                    Run {
                        used_on_time_pages: None,
                        used_late_pages: None,
                        ..wasted(2 * S)
                    },
                ),
            ]),
            Verdict::Replay,
        ),
        (
            "waste counts, too, where it is unknown which used pages were late",
            history(&[
                &[recorded(10 * S)],
                &many(
                    3,
                    Run {
                        used_late_pages: None,
                        ..wasted(2 * S)
                    },
                ),
            ]),
            off(Reason::Wasteful { used_permille: 100 }, 4, 15),
        ),
        (
            "off counts down",
            history(&[
                &[recorded(10 * S)],
                &many(3, replayed(11 * S)),
                &many(14, plain(10 * S)),
            ]),
            off(not_faster(11 * S, 10 * S), 4, 1),
        ),
        (
            "every sixteenth run tries again",
            history(&[
                &[recorded(10 * S)],
                &many(3, replayed(11 * S)),
                &many(15, plain(10 * S)),
            ]),
            Verdict::Retry {
                reason: not_faster(11 * S, 10 * S),
            },
        ),
        (
            "a retry that doesn't help leaves it off",
            history(&[
                &[recorded(10 * S)],
                &many(3, replayed(11 * S)),
                &many(15, plain(10 * S)),
                &[replayed(11 * S)],
                &many(3, plain(10 * S)),
            ]),
            off(not_faster(11 * S, 10 * S), 4, 12),
        ),
        (
            "a retry that helps turns it on",
            history(&[
                &[recorded(10 * S)],
                &many(3, replayed(11 * S)),
                &many(15, plain(10 * S)),
                &[replayed(2 * S)],
            ]),
            Verdict::Replay,
        ),
        (
            "and then it's judged afresh",
            history(&[
                &[recorded(10 * S)],
                &many(3, replayed(11 * S)),
                &many(15, plain(10 * S)),
                &[replayed(2 * S)],
                &many(2, replayed(30 * S)),
            ]),
            off(not_faster(30 * S, 10 * S), 22, 15),
        ),
        (
            "a wasteful retry leaves it off",
            history(&[
                &[recorded(10 * S)],
                &many(3, replayed(11 * S)),
                &many(15, plain(10 * S)),
                &[wasted(2 * S)],
            ]),
            off(not_faster(11 * S, 10 * S), 4, 15),
        ),
        (
            "a warm retry leaves it off",
            history(&[
                &[recorded(10 * S)],
                &many(3, replayed(11 * S)),
                &many(15, plain(10 * S)),
                &[run(RunMode::Replayed, S, 1000)],
            ]),
            off(not_faster(11 * S, 10 * S), 4, 15),
        ),
        (
            "only the latest five count: a program that became slower with replay",
            history(&[
                &[recorded(10 * S)],
                &many(9, replayed(2 * S)),
                &many(3, replayed(12 * S)),
            ]),
            off(not_faster(12 * S, 10 * S), 13, 15),
        ),
    ];
    for (name, runs, verdict) in cases {
        assert_eq!(judge(&runs), verdict, "{name}");
    }
}

#[test]
fn off_outlives_the_runs_that_decided_it() {
    let mut runs = history(&[&[recorded(10 * S)], &many(3, replayed(11 * S))]);
    let mut replays_after = 0;
    for started_unix_s in 5..400 {
        let verdict = judge(&runs);
        let next = if verdict.replays() {
            replayed(11 * S)
        } else {
            plain(10 * S)
        };
        replays_after += u32::from(verdict.replays());
        runs.push(Run {
            started_unix_s,
            ..next
        });
        let excess = runs.len().saturating_sub(RUNS_MAX);
        runs.drain(..excess);
    }
    // 395 runs: one in sixteen.
    assert_eq!(replays_after, 24);
}

#[test]
fn one_measurement_without_replay_does_not_turn_it_off() {
    let runs = history(&[
        &[recorded(10 * S)],
        &many(4, replayed(2 * S)),
        &[plain(10 * S)],
        &many(30, replayed(2 * S)),
    ]);
    let latest = &runs[runs.len() - RUNS_MAX..];
    assert_eq!(judge(latest), Verdict::Replay);
}

#[test]
fn savings_are_held_against_cold_runs_without_replay() {
    let runs = history(&[&[recorded(10 * S), plain(12 * S), run(RunMode::Plain, S, 800)]]);
    assert_eq!(wall_without_ns(&runs), Some(11 * S));
    assert_eq!(saved_ns(&runs, &replayed(2 * S)), Some(9_000_000_000));
    assert_eq!(saved_ns(&runs, &replayed(12 * S)), Some(-1_000_000_000));
    assert_eq!(saved_ns(&runs, &run(RunMode::Replayed, S, 700)), None);
    assert_eq!(saved_ns(&runs, &plain(2 * S)), None);
    assert_eq!(saved_ns(&[], &replayed(2 * S)), None);
    assert_eq!(saved_ns(&runs, &replayed(u64::MAX)), Some(i64::MIN));
}

#[test]
fn reasons_are_for_people() {
    assert_eq!(
        not_faster(11_500_000_000, 10 * S).to_string(),
        "cold runs took 11.50 s with replay and 10.00 s without"
    );
    assert_eq!(
        Reason::Wasteful { used_permille: 129 }.to_string(),
        "only 12 % of what was replayed was used"
    );
}
