// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides between a replay, a recording, both and nothing, and gives the reason.

use std::fmt;

use crate::command_line::Wish;
use crate::history::{Boot, History, Mode, Untypical};
use crate::worth::{Verdict, Worth, comparable, worth};

/// Where a replay gains nothing, one boot in this many tries it again.
pub const RETRY_EVERY: usize = 16;
/// A profile is stale when a boot reads this much more by itself than just after a recording...
const STALE_BYTES_MIN: u64 = 4 << 20;
/// ... and this part of all that it reads. A boot for comparison renews the profile in any case.
const STALE_SHARE: u64 = 10;
/// Once its worth is known, one boot in this many goes without a replay.
const WITHOUT_EVERY: usize = 8;
/// Boots that failed with a replay, and not without, until there are no more replays.
const FAILURES_MAX: usize = 2;

/// The profile of this system's boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// There is none.
    Missing,
    /// It can't be used; why, as the rest of a sentence that begins with its path.
    Unusable(String),
    /// It was made by this system.
    Own,
    /// It came with an image or was imported, and no boot has been merged into it yet.
    Foreign,
}

/// Facts about the machine at the start of a boot.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The kernel's random name of this boot.
    pub boot_id: &'a str,
    /// Release of the kernel.
    pub kernel: &'a str,
    /// Whether the boot had reached its target before we were started.
    pub is_reached: bool,
    /// Whether we were started after the target because [`is_timed_only`] had it so.
    pub is_timed_only: bool,
    /// The wish on the kernel's command line.
    pub wish: Wish,
    /// The profile.
    pub profile: Stored,
    /// Whether somebody noted that packages were changed since the last boot began.
    pub packages_changed: bool,
    /// State of the package managers' databases; `None` where there is none, or it isn't known yet.
    pub packages: Option<&'a str>,
    /// Whether the system boots for the first time.
    pub is_first_boot: bool,
    /// Whether all files will be labelled anew.
    pub relabels: bool,
}

/// Why a boot is given what it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The kernel's command line says so; the word.
    CommandLine(String),
    /// systemd installs updates in this boot.
    SystemUpdate,
    /// The boot had reached its target already. Somebody has started the unit once more.
    Over,
    /// There is no profile.
    NoProfile,
    /// The profile can't be used; why.
    Unusable(String),
    /// The last boot was replayed and did not reach its target.
    Unconfirmed,
    /// A boot did not reach its target with the profile, and the next one did without: the profile
    /// is to be set aside.
    Failed,
    /// That happened before, with another profile.
    FailedAgain,
    /// Something changed since the last boot: a good time to replay and record, not to compare.
    Changed(Untypical),
    /// A boot with a foreign profile, which becomes the system's own.
    Foreign,
    /// The last boot read more by itself than the first one after the last recording.
    Stale,
    /// Boots are not clearly faster with a replay.
    NoGain(Worth),
    /// The same, and this boot tries again.
    Retry,
    /// A boot without a replay, for comparison.
    Compared,
    /// The profile is good.
    Good,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::CommandLine(word) => write!(f, "the kernel's command line says {word}"),
            Self::SystemUpdate => f.write_str("this boot installs updates of the system"),
            Self::Over => f.write_str("the boot has reached its target already"),
            Self::NoProfile => f.write_str("there is no profile yet"),
            Self::Unusable(why) => write!(f, "the profile can't be used: {why}"),
            Self::Unconfirmed => {
                f.write_str("the last boot was replayed and did not reach its target")
            }
            Self::Failed => f.write_str(
                "a boot failed with the profile and the next one succeeded without: it is set \
                 aside and made anew",
            ),
            Self::FailedAgain => f.write_str(
                "boots failed with two profiles and succeeded without: see `foreread boot status`",
            ),
            Self::Changed(what) => write!(f, "{what}"),
            Self::Foreign => {
                f.write_str("the profile is another system's until this boot is added")
            }
            Self::Stale => f.write_str("the last boot read more that is not in the profile"),
            Self::NoGain(worth) => no_gain(worth, f),
            Self::Retry => f.write_str("earlier boots gained nothing; this one tries again"),
            Self::Compared => f.write_str("some boots go without, for comparison"),
            Self::Good => f.write_str("the profile is up to date"),
        }
    }
}

fn no_gain(worth: &Worth, f: &mut fmt::Formatter) -> fmt::Result {
    if let Some((with, without)) = worth.timed() {
        let seconds = |ns: u64| ns as f64 / 1e9;
        return write!(
            f,
            "boots took {:.2} s with a replay and {:.2} s without",
            seconds(with.median_ns),
            seconds(without.median_ns)
        );
    }
    let stall = worth.stall_permille.unwrap_or(0);
    write!(
        f,
        "boots wait for disks for {}.{} % of their time",
        stall / 10,
        stall % 10
    )
}

/// The result of [`decide`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What is done.
    pub mode: Mode,
    /// Why.
    pub reason: Reason,
    /// Why its time won't count, as far as is known at its start.
    pub untypical: Option<Untypical>,
}

/// Decides what a boot is given, from the boots before it.
#[must_use]
pub fn decide(history: &History, facts: &Facts) -> Decision {
    let untypical = untypical(history, facts);
    let (mode, reason) = mode(history, facts, untypical);
    Decision {
        mode,
        reason,
        untypical,
    }
}

/// Whether the boot after the last one is only timed, whatever changes until then, unless the
/// kernel's command line or a person asks for more: its time can be noted when it has reached its
/// target. To start before that costs a boot some of the time that it can't gain.
#[must_use]
pub fn is_timed_only(history: &History) -> bool {
    let Some(last) = history.boots().last() else {
        return false;
    };
    let next = Facts {
        boot_id: "",
        kernel: &last.kernel,
        is_reached: false,
        is_timed_only: false,
        wish: Wish::Usual,
        profile: Stored::Own,
        packages_changed: false,
        packages: last.packages.as_deref(),
        is_first_boot: false,
        relabels: false,
    };
    let decision = decide(history, &next);
    decision.mode == Mode::Plain && matches!(decision.reason, Reason::NoGain(_))
}

fn untypical(history: &History, facts: &Facts) -> Option<Untypical> {
    let last = history.boots().last();
    let other_kernel = last.is_some_and(|last| last.kernel != facts.kernel);
    let other_packages = last.is_some_and(|last| has_other_packages(last, facts));
    let signs = [
        (facts.is_first_boot, Untypical::FirstBoot),
        (facts.relabels, Untypical::Relabelled),
        (
            facts.packages_changed || other_packages,
            Untypical::PackagesChanged,
        ),
        (other_kernel, Untypical::OtherKernel),
    ];
    signs
        .into_iter()
        .find_map(|(holds, sign)| holds.then_some(sign))
}

/// Whether packages were changed since a boot.
fn has_other_packages(boot: &Boot, facts: &Facts) -> bool {
    let states = (boot.packages.as_deref(), facts.packages);
    matches!(states, (Some(then), Some(now)) if then != now)
}

/// What the profile doesn't know yet: what makes this boot untypical, or a change of packages since
/// a boot was recorded last. Boots in between may have been typical: those without a replay.
fn news(history: &History, facts: &Facts, untypical: Option<Untypical>) -> Option<Untypical> {
    let is_recorded = |boot: &&Boot| boot.mode.records() && boot.measured.is_some();
    let recorded = history.boots().iter().rev().find(is_recorded);
    let is_older = recorded.is_some_and(|boot| has_other_packages(boot, facts));
    untypical.or(is_older.then_some(Untypical::PackagesChanged))
}

fn mode(history: &History, facts: &Facts, untypical: Option<Untypical>) -> (Mode, Reason) {
    let boots = history.boots();
    // Its time is known. Another one would be until now, and what is read now is not for the boot.
    let is_confirmed = |boot: &Boot| boot.id == facts.boot_id && boot.measured.is_some();
    let is_over = facts.is_reached && !facts.is_timed_only;
    if is_over || boots.iter().any(is_confirmed) {
        return (Mode::Idle, Reason::Over);
    }
    match &facts.wish {
        Wish::Nothing(word) => return (Mode::Idle, Reason::CommandLine(word.clone())),
        Wish::Update => return (Mode::Idle, Reason::SystemUpdate),
        _ if facts.is_reached => {
            let worth = worth(history);
            let reason = match worth.verdict {
                Verdict::NoGain => Reason::NoGain(worth),
                // The history was lost meanwhile.
                _ => Reason::Compared,
            };
            return (Mode::Plain, reason);
        }
        Wish::Plain => return (Mode::Plain, asked_for("plain")),
        Wish::Record => return (Mode::Recorded, asked_for("record")),
        Wish::Replay | Wish::Refresh | Wish::Usual => {}
    }
    // Not even when asked for: the word may stand in a boot loader's settings for good.
    match trial(boots) {
        Trial::Unconfirmed => return (Mode::Plain, Reason::Unconfirmed),
        _ if failures(boots) >= FAILURES_MAX => return (Mode::Plain, Reason::FailedAgain),
        Trial::Failed => return (Mode::Recorded, Reason::Failed),
        Trial::Passed => {}
    }
    let worth = worth(history);
    let gains = worth.verdict != Verdict::NoGain;
    match &facts.profile {
        Stored::Missing if gains => return (Mode::Recorded, Reason::NoProfile),
        Stored::Unusable(why) if gains => return (Mode::Recorded, Reason::Unusable(why.clone())),
        Stored::Missing | Stored::Unusable(_) => return (Mode::Plain, Reason::NoGain(worth)),
        Stored::Own | Stored::Foreign => {}
    }
    match facts.wish {
        Wish::Replay => return (Mode::Replayed, asked_for("replay")),
        Wish::Refresh => return (Mode::Refreshed, asked_for("refresh")),
        _ => {}
    }
    if facts.profile == Stored::Foreign {
        return (Mode::Refreshed, Reason::Foreign);
    }
    let news = news(history, facts, untypical);
    if !gains {
        // One that is recorded, too, takes longer, and says nothing of the worth.
        let replayed = |boot: &&Boot| boot.mode == Mode::Replayed;
        let others = boots.iter().rev().take_while(|boot| !replayed(boot));
        if others.count() + 1 < RETRY_EVERY {
            return (Mode::Plain, Reason::NoGain(worth));
        }
        // A replay of what is not there any more would gain nothing for that reason.
        return match news {
            Some(what) => (Mode::Refreshed, Reason::Changed(what)),
            None => (Mode::Replayed, Reason::Retry),
        };
    }
    if let Some(what) = news {
        return (Mode::Refreshed, Reason::Changed(what));
    }
    if is_stale(boots) {
        return (Mode::Refreshed, Reason::Stale);
    }
    match is_due_without(boots, worth.verdict) {
        true => (Mode::Recorded, Reason::Compared),
        false => (Mode::Replayed, Reason::Good),
    }
}

fn asked_for(what: &str) -> Reason {
    Reason::CommandLine(format!("foreread.boot={what}"))
}

/// How the last replay ended.
enum Trial {
    /// The boot reached its target, or nothing speaks against the replay.
    Passed,
    /// It did not, and no boot did since.
    Unconfirmed,
    /// It did not, and the next one did without, and there was no other since.
    Failed,
}

/// Looks at the last boot with a replay, and at those after it.
fn trial(boots: &[Boot]) -> Trial {
    let Some(at) = boots.iter().rposition(|boot| boot.mode.replays()) else {
        return Trial::Passed;
    };
    let since = &boots[at + 1..];
    if boots[at].measured.is_some() {
        return Trial::Passed;
    }
    match since.iter().position(|boot| boot.measured.is_some()) {
        None => Trial::Unconfirmed,
        // The next one succeeded at once. One that records makes another profile.
        Some(0) if !since.iter().any(|boot| boot.mode.records()) => Trial::Failed,
        // Boots failed without it as well, or there is another profile.
        Some(_) => Trial::Passed,
    }
}

/// Boots that failed with a replay and whose next boot succeeded without.
fn failures(boots: &[Boot]) -> usize {
    let failed = |pair: &&[Boot]| {
        let [with, next] = pair else { return false };
        with.mode.replays()
            && with.measured.is_none()
            && !next.mode.replays()
            && next.measured.is_some()
    };
    boots.windows(2).filter(failed).count()
}

/// Whether boots read more and more that is not in the profile. Some of it never is, such as logs:
/// as much as the first replayed boot after a recording misses.
fn is_stale(boots: &[Boot]) -> bool {
    let since = boots.iter().rev().take_while(|boot| !boot.mode.records());
    let reads = since.filter(|boot| boot.mode.replays());
    let mut reads = reads.filter_map(|boot| boot.typical()?.reads);
    let Some(last) = reads.next() else {
        return false;
    };
    let Some(first) = reads.last() else {
        return false;
    };
    let more_bytes = last.missed_bytes().saturating_sub(first.missed_bytes());
    more_bytes > STALE_BYTES_MIN.max(last.disk_bytes / STALE_SHARE)
}

/// Whether it is time for a boot without a replay. After the recording, which is one, the fifth and
/// the seventh boot are, so that there are three of each kind; then every eighth.
fn is_due_without(boots: &[Boot], verdict: Verdict) -> bool {
    let without = comparable(boots).filter(|boot| !boot.mode.replays());
    let with_before = match (verdict, without.count()) {
        (Verdict::Unclear, _) => 1,
        (_, 0 | 1) => 3,
        (_, 2) => 1,
        _ => WITHOUT_EVERY - 1,
    };
    let since = boots.iter().rev().take_while(|boot| boot.mode.replays());
    since.count() >= with_before
}
