// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of boots of a machine that is made up: what each is given follows from those before it.

use foreread_boot::{
    BOOTS_MAX, Boot, Decision, Facts, History, JUDGED_MAX, JUDGED_MIN, Measured, Mode, RETRY_EVERY,
    Reads, Reason, Stored, Untypical, Verdict, Wish, decide, is_timed_only, worth,
};
use proptest::prelude::*;

const SECOND_NS: u64 = 1_000_000_000;

/// A machine with its disk.
struct Machine {
    history: History,
    has_profile: bool,
    boots: u64,
    /// A boot without a replay.
    cold_ns: u64,
    /// A boot with one.
    warm_ns: u64,
    /// What is recorded of a boot without.
    stall_ns: u64,
    recorded_ns: Option<u64>,
    /// What disks are read for.
    reads: Reads,
    from_initramfs: bool,
}

impl Machine {
    fn new(cold_ns: u64, warm_ns: u64) -> Self {
        Self {
            history: History::default(),
            has_profile: false,
            boots: 0,
            cold_ns,
            warm_ns,
            stall_ns: cold_ns / 2,
            recorded_ns: None,
            reads: Reads::default(),
            from_initramfs: false,
        }
    }

    fn facts(&self) -> Facts<'static> {
        Facts {
            boot_id: "this one",
            kernel: "6.1.0-56-amd64",
            is_reached: false,
            is_timed_only: false,
            wish: Wish::Usual,
            profile: match self.has_profile {
                true => Stored::Own,
                false => Stored::Missing,
            },
            packages_changed: false,
            packages: Some("dpkg 1"),
            is_first_boot: false,
            relabels: false,
        }
    }

    /// A boot that `reaches` its target with the mode that it is given, or not.
    fn boot(&mut self, facts: &Facts, reaches: impl Fn(Mode) -> bool) -> Decision {
        self.boot_with(facts, 0, reaches)
    }

    fn boot_with(
        &mut self,
        facts: &Facts,
        more_ns: u64,
        reaches: impl Fn(Mode) -> bool,
    ) -> Decision {
        let decision = decide(&self.history, facts);
        self.boots += 1;
        let id = self.boots.to_string();
        self.history.begin(Boot {
            id: id.clone(),
            started_unix_s: self.boots,
            kernel: facts.kernel.to_owned(),
            mode: decision.mode,
            untypical: decision.untypical,
            packages: facts.packages.map(str::to_owned),
            measured: None,
        });
        if reaches(decision.mode) {
            let target_ns = match decision.mode.replays() {
                true => self.warm_ns,
                false => self.cold_ns,
            } + more_ns;
            let stall_ns = (decision.mode != Mode::Plain).then_some(self.stall_ns);
            let measured = Measured {
                target_ns,
                from_initramfs: self.from_initramfs,
                stall_ns,
                recorded_ns: stall_ns.and(self.recorded_ns),
                reads: Some(self.reads),
            };
            assert!(self.history.confirm(&id, measured, None));
            self.has_profile |= decision.mode.records();
        }
        decision
    }

    fn usual_boots(&mut self, count: usize) -> Vec<Mode> {
        (0..count)
            .map(|_| {
                let facts = self.facts();
                self.boot(&facts, |_| true).mode
            })
            .collect()
    }
}

#[test]
fn three_of_each_kind_are_known_after_seven_boots_and_then_every_eighth_goes_without() {
    use Mode::{Recorded, Replayed};
    let mut machine = Machine::new(10 * SECOND_NS, 6 * SECOND_NS);
    let first = [
        Recorded, Replayed, Replayed, Replayed, Recorded, Replayed, Recorded,
    ];
    assert_eq!(machine.usual_boots(7), first);
    let judged = worth(&machine.history);
    assert_eq!(judged.verdict, Verdict::Gains);
    assert_eq!(judged.without.unwrap().boots, JUDGED_MIN);
    assert_eq!(judged.saved_ns(), Some(4 * SECOND_NS.cast_signed()));
    assert_eq!(judged.faster_pairs_permille, Some(1000));
    let modes = machine.usual_boots(80);
    for eight in modes.chunks(8) {
        assert_eq!(
            eight.iter().filter(|mode| !mode.replays()).count(),
            1,
            "{modes:?}"
        );
    }
}

#[test]
fn where_a_replay_gains_nothing_there_is_none_but_for_a_try_now_and_then() {
    let mut machine = Machine::new(10 * SECOND_NS, 10 * SECOND_NS);
    machine.usual_boots(7);
    assert_eq!(worth(&machine.history).verdict, Verdict::NoGain);
    let modes = machine.usual_boots(RETRY_EVERY * 10);
    assert!(!modes.contains(&Mode::Recorded));
    assert_eq!(modes.iter().filter(|mode| mode.replays()).count(), 10);
    // The disk has become slow, or another one has taken its place.
    machine.cold_ns = 30 * SECOND_NS;
    machine.warm_ns = 15 * SECOND_NS;
    let modes = machine.usual_boots(RETRY_EVERY * 8);
    assert_eq!(worth(&machine.history).verdict, Verdict::Gains, "{modes:?}");
}

#[test]
fn a_disk_that_nobody_waits_for_is_left_alone_from_the_second_boot_on() {
    let mut machine = Machine::new(4 * SECOND_NS, 4 * SECOND_NS);
    machine.stall_ns = SECOND_NS / 20;
    let facts = machine.facts();
    assert_eq!(machine.boot(&facts, |_| true).reason, Reason::NoProfile);
    let facts = machine.facts();
    let second = machine.boot(&facts, |_| true);
    assert_eq!(second.mode, Mode::Plain);
    let said = second.reason.to_string();
    assert_eq!(said, "boots wait for disks for 1.2 % of their time");
}

#[test]
fn the_share_of_waits_is_of_the_time_that_was_recorded() {
    let mut machine = Machine::new(4 * SECOND_NS, 4 * SECOND_NS);
    machine.stall_ns = SECOND_NS / 20;
    machine.recorded_ns = Some(SECOND_NS);
    machine.usual_boots(1);
    assert_eq!(worth(&machine.history).stall_permille, Some(50));
    assert_eq!(machine.usual_boots(1), [Mode::Replayed]);
}

#[test]
fn waits_that_a_unit_saw_say_nothing_of_boots_that_begin_in_the_initramfs() {
    let mut machine = Machine::new(4 * SECOND_NS, 4 * SECOND_NS);
    machine.stall_ns = SECOND_NS / 20;
    assert_eq!(machine.usual_boots(2), [Mode::Recorded, Mode::Plain]);
    machine.from_initramfs = true;
    machine.stall_ns = SECOND_NS;
    assert_eq!(machine.usual_boots(2), [Mode::Plain, Mode::Replayed]);
}

#[test]
fn times_say_more_than_what_was_seen_of_the_waits() {
    let mut machine = Machine::new(10 * SECOND_NS, 6 * SECOND_NS);
    machine.usual_boots(JUDGED_MAX * 3);
    assert_eq!(worth(&machine.history).verdict, Verdict::Gains);
    // A recorder that comes late sees few waits.
    machine.stall_ns = SECOND_NS / 20;
    machine.usual_boots(JUDGED_MAX * 3);
    let judged = worth(&machine.history);
    assert_eq!(judged.stall_permille, Some(5));
    assert_eq!(judged.verdict, Verdict::Gains);
}

#[test]
fn a_profile_with_which_boots_fail_is_set_aside_and_the_second_such_ends_it() {
    let mut machine = Machine::new(10 * SECOND_NS, 6 * SECOND_NS);
    let fails = |mode: Mode| !mode.replays();
    let mut modes = Vec::new();
    for _ in 0..20 {
        let facts = machine.facts();
        let decision = machine.boot(&facts, fails);
        modes.push((decision.mode, decision.reason));
    }
    use Mode::{Plain, Recorded, Replayed};
    let begin = [
        (Recorded, Reason::NoProfile),
        (Replayed, Reason::Good),
        (Plain, Reason::Unconfirmed),
        (Recorded, Reason::Failed),
        (Replayed, Reason::Good),
        (Plain, Reason::Unconfirmed),
    ];
    assert_eq!(modes[..6], begin);
    let rest = &modes[6..];
    assert!(
        rest.iter()
            .all(|boot| *boot == (Plain, Reason::FailedAgain)),
        "{rest:?}"
    );
}

#[test]
fn a_machine_that_fails_with_and_without_is_not_our_fault() {
    let mut machine = Machine::new(10 * SECOND_NS, 6 * SECOND_NS);
    machine.usual_boots(3);
    for expected in [Mode::Replayed, Mode::Plain, Mode::Plain] {
        let facts = machine.facts();
        assert_eq!(machine.boot(&facts, |_| false).mode, expected);
    }
    assert_eq!(machine.usual_boots(2), [Mode::Plain, Mode::Replayed]);
}

#[test]
fn what_changes_is_recorded_beside_the_replay_and_its_time_does_not_count() {
    let mut machine = Machine::new(10 * SECOND_NS, 6 * SECOND_NS);
    machine.usual_boots(2);
    let changes: [(Facts, Untypical); 5] = [
        (
            Facts {
                packages: Some("dpkg 2"),
                ..machine.facts()
            },
            Untypical::PackagesChanged,
        ),
        (
            Facts {
                packages_changed: true,
                ..machine.facts()
            },
            Untypical::PackagesChanged,
        ),
        (
            Facts {
                kernel: "6.12",
                ..machine.facts()
            },
            Untypical::OtherKernel,
        ),
        (
            Facts {
                relabels: true,
                kernel: "6.12",
                ..machine.facts()
            },
            Untypical::Relabelled,
        ),
        (
            Facts {
                is_first_boot: true,
                kernel: "6.12",
                ..machine.facts()
            },
            Untypical::FirstBoot,
        ),
    ];
    for (facts, untypical) in changes {
        let before = worth(&machine.history).with;
        let decision = machine.boot_with(&facts, 100 * SECOND_NS, |_| true);
        assert_eq!(decision.mode, Mode::Refreshed);
        assert_eq!(decision.reason, Reason::Changed(untypical));
        assert_eq!(worth(&machine.history).with, before);
    }
}

#[test]
fn while_replays_are_off_only_the_first_boot_after_a_change_does_not_count() {
    let mut machine = Machine::new(10 * SECOND_NS, 10 * SECOND_NS);
    machine.usual_boots(7);
    let after = |packages: &'static str, machine: &Machine| Facts {
        packages: Some(packages),
        ..machine.facts()
    };
    let mut decisions = Vec::new();
    for _ in 0..RETRY_EVERY + 1 {
        let facts = after("dpkg 2", &machine);
        decisions.push(machine.boot(&facts, |_| true));
    }
    let changed = Some(Untypical::PackagesChanged);
    let untypical: Vec<_> = decisions.iter().map(|one| one.untypical).collect();
    assert_eq!(untypical[0], changed);
    assert!(untypical[1..].iter().all(Option::is_none), "{untypical:?}");
    // The profile is of before: it is recorded anew, and then tried.
    let mut modes = decisions.iter().map(|one| one.mode);
    assert!(modes.any(|mode| mode == Mode::Refreshed), "{decisions:?}");
    assert_eq!(modes.next(), Some(Mode::Replayed));
    // Boots without a replay say how long they take now.
    machine.cold_ns = 30 * SECOND_NS;
    machine.warm_ns = 15 * SECOND_NS;
    for _ in 0..RETRY_EVERY * 8 {
        let facts = after("dpkg 2", &machine);
        machine.boot(&facts, |_| true);
    }
    assert_eq!(worth(&machine.history).verdict, Verdict::Gains);
}

#[test]
fn it_is_known_before_which_boots_are_only_timed() {
    let mut timed = 0;
    for warm_ns in [10 * SECOND_NS, 6 * SECOND_NS] {
        let mut machine = Machine::new(10 * SECOND_NS, warm_ns);
        assert!(!is_timed_only(&machine.history));
        for _ in 0..RETRY_EVERY * 4 {
            let is_timed_only = is_timed_only(&machine.history);
            let facts = machine.facts();
            let decision = machine.boot(&facts, |_| true);
            assert_eq!(is_timed_only, decision.mode == Mode::Plain, "{decision:?}");
            timed += u32::from(is_timed_only);
        }
    }
    assert!(timed > 40, "{timed}");
}

#[test]
fn a_boot_that_is_only_timed_is_entered_when_it_has_reached_its_target() {
    let mut machine = Machine::new(10 * SECOND_NS, 10 * SECOND_NS);
    machine.usual_boots(8);
    let over = Facts {
        is_reached: true,
        is_timed_only: true,
        ..machine.facts()
    };
    let decision = decide(&machine.history, &over);
    assert_eq!(decision.mode, Mode::Plain);
    assert!(matches!(decision.reason, Reason::NoGain(_)), "{decision:?}");
    // The command line asked for nothing, and the unit was started and ended before.
    let word = "no-such-word".to_owned();
    let asked = Facts {
        wish: Wish::Nothing(word.clone()),
        ..over.clone()
    };
    let decision = decide(&machine.history, &asked);
    assert_eq!(
        (decision.mode, decision.reason),
        (Mode::Idle, Reason::CommandLine(word))
    );
    // The unit is started once more.
    let again = Facts {
        boot_id: "8",
        ..over.clone()
    };
    let decision = decide(&machine.history, &again);
    assert_eq!((decision.mode, decision.reason), (Mode::Idle, Reason::Over));
    // The history was lost. This boot doesn't stay the last one that is entered.
    let decision = decide(&History::default(), &over);
    assert_eq!(
        (decision.mode, decision.reason),
        (Mode::Plain, Reason::Compared)
    );
}

#[test]
fn a_boot_that_is_over_is_left_alone() {
    let mut machine = Machine::new(10 * SECOND_NS, 6 * SECOND_NS);
    machine.usual_boots(2);
    let later = Facts {
        is_reached: true,
        ..machine.facts()
    };
    let again = Facts {
        boot_id: "2",
        ..machine.facts()
    };
    for facts in [later, again] {
        let decision = decide(&machine.history, &facts);
        assert_eq!((decision.mode, decision.reason), (Mode::Idle, Reason::Over));
    }
    // One that was begun and has not reached its target may still do so.
    let facts = machine.facts();
    machine.boot(&facts, |_| false);
    let again = Facts {
        boot_id: "3",
        ..machine.facts()
    };
    assert_eq!(decide(&machine.history, &again).mode, Mode::Plain);
}

#[test]
fn a_profile_that_misses_more_and_more_is_refreshed_once() {
    let mut machine = Machine::new(10 * SECOND_NS, 6 * SECOND_NS);
    machine.usual_boots(7);
    let replayed = |disk_mib: u64, replay_mib: u64| Reads {
        disk_bytes: disk_mib << 20,
        replay_bytes: replay_mib << 20,
    };
    // Some of what a boot reads is never in the profile.
    machine.reads = replayed(40, 30);
    assert_eq!(machine.usual_boots(2), [Mode::Replayed; 2]);
    machine.reads = replayed(45, 30);
    assert_eq!(machine.usual_boots(1), [Mode::Replayed]);
    let facts = machine.facts();
    let decision = machine.boot(&facts, |_| true);
    assert_eq!(decision.mode, Mode::Refreshed);
    assert_eq!(decision.reason, Reason::Stale);
    // From then on that is what is missed.
    assert_eq!(machine.usual_boots(3), [Mode::Replayed; 3]);
}

#[test]
fn times_from_the_initramfs_on_are_not_held_against_those_from_init_on() {
    let mut machine = Machine::new(10 * SECOND_NS, 6 * SECOND_NS);
    machine.usual_boots(7);
    assert_eq!(worth(&machine.history).verdict, Verdict::Gains);
    machine.from_initramfs = true;
    machine.usual_boots(1);
    let judged = worth(&machine.history);
    assert_eq!(judged.verdict, Verdict::TooFew);
    let boots = judged.with.map_or(0, |s| s.boots) + judged.without.map_or(0, |s| s.boots);
    assert_eq!(boots, 1);
    // Three without a replay are needed again.
    let modes = machine.usual_boots(9);
    assert_eq!(modes.iter().filter(|mode| !mode.replays()).count(), 3);
    assert_eq!(worth(&machine.history).verdict, Verdict::Gains);
}

#[test]
fn what_is_found_during_the_boot_makes_it_untypical_too() {
    let mut machine = Machine::new(10 * SECOND_NS, 6 * SECOND_NS);
    machine.usual_boots(2);
    let before = worth(&machine.history);
    let id = machine.history.boots().last().unwrap().id.clone();
    let measured = Measured {
        target_ns: SECOND_NS,
        ..Measured::default()
    };
    assert!(
        machine
            .history
            .confirm(&id, measured, Some(Untypical::Checked))
    );
    assert_eq!(worth(&machine.history).with, None);
    assert_ne!(worth(&machine.history), before);
    assert!(!machine.history.confirm("another", measured, None));
}

#[test]
fn a_boot_that_was_ended_in_order_is_no_failure() {
    let mut machine = Machine::new(10 * SECOND_NS, 6 * SECOND_NS);
    machine.usual_boots(1);
    let facts = machine.facts();
    assert_eq!(machine.boot(&facts, |_| false).mode, Mode::Replayed);
    let ended = machine.history.boots().last().unwrap().id.clone();
    assert!(machine.history.withdraw(&ended) && !machine.history.withdraw(&ended));
    let reached = machine.history.boots()[0].id.clone();
    assert!(
        !machine.history.withdraw(&reached),
        "what has succeeded stays"
    );
    assert_eq!(machine.usual_boots(1), [Mode::Replayed]);
}

#[test]
fn the_command_line_has_the_last_word_but_not_against_safety() {
    let mut machine = Machine::new(10 * SECOND_NS, 10 * SECOND_NS);
    machine.usual_boots(7);
    let with = |wish: Wish| {
        decide(
            &machine.history,
            &Facts {
                wish,
                ..machine.facts()
            },
        )
    };
    let rescue = with(Wish::Nothing("rescue".to_owned()));
    assert_eq!(rescue.mode, Mode::Idle);
    assert_eq!(
        rescue.reason.to_string(),
        "the kernel's command line says rescue"
    );
    assert_eq!(with(Wish::Plain).mode, Mode::Plain);
    assert_eq!(with(Wish::Record).mode, Mode::Recorded);
    assert_eq!(with(Wish::Usual).mode, Mode::Plain);
    assert_eq!(with(Wish::Replay).mode, Mode::Replayed);
    assert_eq!(with(Wish::Refresh).mode, Mode::Refreshed);
    let facts = Facts {
        wish: Wish::Replay,
        ..machine.facts()
    };
    machine.boot(&facts, |_| false);
    assert_eq!(decide(&machine.history, &facts).mode, Mode::Plain);
}

#[test]
fn a_profile_of_another_machine_is_replayed_and_made_the_own_one() {
    let machine = Machine::new(10 * SECOND_NS, 6 * SECOND_NS);
    let with = |profile: Stored| {
        decide(
            &machine.history,
            &Facts {
                profile,
                ..machine.facts()
            },
        )
    };
    let foreign = with(Stored::Foreign);
    assert_eq!(foreign.mode, Mode::Refreshed);
    assert_eq!(foreign.reason, Reason::Foreign);
    let unusable = with(Stored::Unusable("it is cut off".to_owned()));
    assert_eq!(unusable.mode, Mode::Recorded);
    assert_eq!(
        unusable.reason.to_string(),
        "the profile can't be used: it is cut off"
    );
}

#[test]
fn a_history_that_is_none_is_refused() {
    for bad in [
        "",
        "{}",
        "[]",
        "{\"schema\":\"foreread.boot.history/2\",\"boots\":[]}",
    ] {
        assert!(History::from_json(bad).is_err(), "{bad}");
    }
}

prop_compose! {
    fn any_boot()(
        id in "\\PC{0,300}",
        mode in prop_oneof![
            Just(Mode::Idle), Just(Mode::Plain), Just(Mode::Recorded), Just(Mode::Replayed),
            Just(Mode::Refreshed),
        ],
        untypical in proptest::option::weighted(0.2, Just(Untypical::Checked)),
        times in proptest::option::weighted(
            0.8, (any::<u64>(), proptest::option::of(any::<u64>())),
        ),
        bytes in proptest::option::of(any::<(u64, u64)>()),
    ) -> Boot {
        let reads = bytes.map(|(disk_bytes, replay_bytes)| Reads { disk_bytes, replay_bytes });
        let measured = times.map(|(target_ns, stall_ns)| Measured {
            target_ns, from_initramfs: target_ns % 2 == 0, stall_ns, recorded_ns: stall_ns, reads,
        });
        Boot { id, started_unix_s: 0, kernel: "k".repeat(300), packages: None, mode, untypical, measured }
    }
}

fn facts_of(wish: Wish, profile: Stored, packages_changed: bool) -> Facts<'static> {
    Facts {
        boot_id: "this one",
        kernel: "k",
        is_reached: false,
        is_timed_only: false,
        wish,
        profile,
        packages_changed,
        packages: None,
        is_first_boot: false,
        relabels: false,
    }
}

proptest! {
    #[test]
    fn any_history_is_kept_and_leads_to_a_decision(
        boots in proptest::collection::vec(any_boot(), 0..100),
        packages_changed in any::<bool>(),
    ) {
        let mut history = History::default();
        for boot in boots {
            history.begin(boot);
        }
        prop_assert!(history.boots().len() <= BOOTS_MAX);
        let text = history.to_json().unwrap();
        prop_assert_eq!(&History::from_json(&text).unwrap(), &history);
        for wish in [Wish::Usual, Wish::Replay, Wish::Record] {
            for profile in [Stored::Own, Stored::Foreign, Stored::Missing] {
                let facts = facts_of(wish.clone(), profile.clone(), packages_changed);
                let decision = decide(&history, &facts);
                let last = history.boots().last();
                let failed = |last: &Boot| last.mode.replays() && last.measured.is_none();
                prop_assert!(!(last.is_some_and(failed) && decision.mode.replays()));
                prop_assert!(!(profile == Stored::Missing && decision.mode.replays()));
                prop_assert!(!decision.reason.to_string().is_empty());
            }
        }
    }

    /// However boots fail, a profile that is at fault for all of it fails twice at most.
    #[test]
    fn no_row_of_failures_is_long(luck in proptest::collection::vec(any::<bool>(), 0..60)) {
        let mut machine = Machine::new(10 * SECOND_NS, 6 * SECOND_NS);
        let mut failed = 0;
        for changes in luck {
            let facts = Facts { packages_changed: changes, ..machine.facts() };
            let decision = machine.boot(&facts, |mode| !mode.replays());
            failed += u32::from(decision.mode.replays());
        }
        prop_assert!(failed <= 2);
    }

    /// A gain of a tenth is found though boots vary by as much.
    #[test]
    fn a_gain_is_found_among_boots_that_vary(
        noise in proptest::collection::vec(0..SECOND_NS, 60),
    ) {
        let mut machine = Machine::new(11 * SECOND_NS, 9 * SECOND_NS);
        for more_ns in noise {
            let facts = machine.facts();
            machine.boot_with(&facts, more_ns, |_| true);
        }
        prop_assert_eq!(worth(&machine.history).verdict, Verdict::Gains);
    }
}
