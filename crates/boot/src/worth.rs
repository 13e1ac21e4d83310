// SPDX-License-Identifier: MIT OR Apache-2.0
//! What replays were worth: typical boots with one against typical boots without.

use std::cmp::Ordering;

use serde::Serialize;

use crate::history::{Boot, History, Mode};

/// Boots of each kind that are needed for a judgement.
pub const JUDGED_MIN: usize = 3;
/// Latest boots of each kind that count. With as many and no clear gain, there is none.
pub const JUDGED_MAX: usize = 8;
/// The median with a replay must be below this share of the one without, in thousandths.
const TARGET_BELOW_PERMILLE: u64 = 980;
/// Of all pairs of a boot with and one without, this share must be faster with it, in thousandths.
/// Where a replay changes nothing it is 500 on average.
const PAIRS_MIN_PERMILLE: u64 = 750;
/// A boot that waits for disks for less than this share of its time can't gain more: the sum over
/// all processes is never less than what the boot as a whole waited. That is so of the part that
/// was recorded. The part before it is taken to have waited as much. Times of boots with a replay
/// and without say more than this share.
const STALL_MIN_PERMILLE: u64 = 20;

/// Times to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// How many boots.
    pub boots: usize,
    /// The shortest, in ns.
    pub least_ns: u64,
    /// The one in the middle, in ns.
    pub median_ns: u64,
    /// The longest, in ns.
    pub most_ns: u64,
}

impl Spread {
    fn of(times: &[u64]) -> Option<Self> {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let (least_ns, most_ns) = (*sorted.first()?, *sorted.last()?);
        let (below, above) = ((sorted.len() - 1) / 2, sorted.len() / 2);
        Some(Self {
            boots: sorted.len(),
            least_ns,
            median_ns: u64::midpoint(sorted[below], sorted[above]),
            most_ns,
        })
    }
}

/// What follows from the times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// There are fewer than [`JUDGED_MIN`] boots of a kind.
    TooFew,
    /// Boots are clearly faster with a replay.
    Gains,
    /// They may be; more boots will tell.
    Unclear,
    /// They are not clearly faster, or have nothing to gain.
    NoGain,
}

/// What replays were worth so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worth {
    /// Boots with a replay.
    pub with: Option<Spread>,
    /// Boots without.
    pub without: Option<Spread>,
    /// Of all pairs of a boot with and one without, how many were faster with it, in thousandths;
    /// equal ones count half.
    pub faster_pairs_permille: Option<u64>,
    /// The latest boot without a replay that was recorded, of those that begin where the latest
    /// boot does: how long it waited for disks, in thousandths of the time for which it was
    /// recorded. Can be above 1,000, as the sum over all processes.
    pub stall_permille: Option<u64>,
    /// What follows.
    pub verdict: Verdict,
}

impl Worth {
    /// What the median boot gains by a replay, in ns; negative when it loses.
    #[must_use]
    pub fn saved_ns(&self) -> Option<i64> {
        let (with, without) = (self.with?, self.without?);
        let saved = i128::from(without.median_ns) - i128::from(with.median_ns);
        Some(i64::try_from(saved).unwrap_or(if saved < 0 { i64::MIN } else { i64::MAX }))
    }

    /// Boots with a replay and without, where there are enough of each for a judgement.
    #[must_use]
    pub fn timed(&self) -> Option<(Spread, Spread)> {
        let (with, without) = (self.with?, self.without?);
        (with.boots.min(without.boots) >= JUDGED_MIN).then_some((with, without))
    }
}

/// Judges from the latest [`JUDGED_MAX`] typical boots of each kind. Times from the initramfs on
/// and times from init on are not held against each other: those count that the latest boot has.
#[must_use]
pub fn worth(history: &History) -> Worth {
    let with = latest(history, true);
    let without = latest(history, false);
    let faster_pairs_permille = faster_pairs_permille(&with, &without);
    let stall_permille = stall_permille(history);
    let mut worth = Worth {
        with: Spread::of(&with),
        without: Spread::of(&without),
        faster_pairs_permille,
        stall_permille,
        verdict: Verdict::TooFew,
    };
    worth.verdict = verdict(&worth);
    worth
}

fn verdict(worth: &Worth) -> Verdict {
    let (Some((with, without)), Some(pairs)) = (worth.timed(), worth.faster_pairs_permille) else {
        return forecast(worth);
    };
    let limit_ns = u128::from(without.median_ns) * u128::from(TARGET_BELOW_PERMILLE) / 1000;
    let is_faster = u128::from(with.median_ns) <= limit_ns;
    match (is_faster, pairs >= PAIRS_MIN_PERMILLE) {
        (true, true) => Verdict::Gains,
        (false, false) => Verdict::NoGain,
        _ if with.boots.min(without.boots) >= JUDGED_MAX => Verdict::NoGain,
        _ => Verdict::Unclear,
    }
}

/// The verdict where too few boots were timed.
fn forecast(worth: &Worth) -> Verdict {
    match worth.stall_permille {
        Some(stall) if stall < STALL_MIN_PERMILLE => Verdict::NoGain,
        _ => Verdict::TooFew,
    }
}

fn latest(history: &History, replayed: bool) -> Vec<u64> {
    // A recorder beside a replay takes time that the replay is not to blame for.
    let is_of_kind = |boot: &&Boot| match replayed {
        true => boot.mode == Mode::Replayed,
        false => !boot.mode.replays(),
    };
    let of_kind = comparable(history.boots()).rev().filter(is_of_kind);
    let times = of_kind.filter_map(|boot| boot.measured.map(|measured| measured.target_ns));
    times.take(JUDGED_MAX).collect()
}

/// Typical boots whose times may be held against that of the latest one.
pub(crate) fn comparable(boots: &[Boot]) -> impl DoubleEndedIterator<Item = &Boot> {
    let begin = |boot: &Boot| boot.typical().map(|measured| measured.from_initramfs);
    let typical = boots.iter().filter(|boot| boot.counts());
    let latest = typical.clone().next_back().and_then(begin);
    typical.filter(move |boot| begin(boot) == latest)
}

/// Of all pairs of a time with and one without, how many are less with it, in thousandths; equal
/// ones count half. `None` without a pair.
#[must_use]
pub fn faster_pairs_permille(with: &[u64], without: &[u64]) -> Option<u64> {
    let pairs = (with.len() * without.len()) as u64;
    let halves = with.iter().flat_map(|with| {
        without.iter().map(move |without| match with.cmp(without) {
            Ordering::Less => 2,
            Ordering::Equal => 1,
            Ordering::Greater => 0,
        })
    });
    (halves.sum::<u64>() * 500).checked_div(pairs)
}

fn stall_permille(history: &History) -> Option<u64> {
    let boots = comparable(history.boots()).rev();
    let mut recorded = boots.filter(|boot| boot.mode == Mode::Recorded);
    recorded.find_map(|boot| {
        let measured = boot.typical()?;
        let stall_ns = u128::from(measured.stall_ns?);
        let recorded_ns = measured.recorded_ns.unwrap_or(measured.target_ns);
        let permille = (stall_ns * 1000).checked_div(recorded_ns.into())?;
        Some(u64::try_from(permille).unwrap_or(u64::MAX))
    })
}
