// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides from the remembered runs whether replay helps. `docs/benefit.md` gives the reasons for
//! the numbers here.

use std::fmt;

use crate::types::{PAGE_BYTES, RUNS_MAX, Run, RunMode};

/// A run is cold when fewer of the profile's pages than this were cached before it, in thousandths.
pub const COLD_BELOW_PERMILLE: u16 = 500;

/// Replayed runs that are needed before replay can be turned off.
pub const REPLAYS_MIN: usize = 3;

/// Latest runs of either kind whose median counts.
pub const RUNS_JUDGED: usize = 5;

/// The median with replay must be below this share of the one without, in thousandths.
pub const WALL_BELOW_PERMILLE: u64 = 980;

/// Fewer of the fetched pages used than this is waste, in thousandths.
pub const USED_MIN_PERMILLE: u64 = 250;

/// Fetched pages below which their use says nothing: 4 MiB.
pub const FETCHED_MIN_PAGES: u64 = (4 << 20) / PAGE_BYTES;

/// While replay is off, one run in this many tries it again.
pub const RETRY_EVERY: u32 = 16;

/// The decision for the next run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Replay.
    Replay,
    /// Don't replay; measure only.
    Off {
        /// The reason.
        reason: Reason,
        /// When the run started that decided it, in seconds since 1970.
        since_unix_s: u64,
        /// Runs until replay is tried again, at least one.
        runs_until_retry: u32,
    },
    /// Replay is off, and this run tries whether that is still right.
    Retry {
        /// Why it's off.
        reason: Reason,
    },
}

impl Verdict {
    /// Whether the next run replays.
    #[must_use]
    pub const fn replays(self) -> bool {
        matches!(self, Self::Replay | Self::Retry { .. })
    }
}

/// Why replay is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Cold runs with it were not faster.
    NotFaster {
        /// Median with replay.
        with_ns: u64,
        /// Median without.
        without_ns: u64,
    },
    /// Most of the fetched pages weren't used.
    Wasteful {
        /// Share of the fetched pages that were used, in thousandths.
        used_permille: u16,
    },
    /// It was off before the oldest remembered run.
    Forgotten,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::NotFaster {
                with_ns,
                without_ns,
            } => {
                let seconds = |ns: u64| ns as f64 / 1e9;
                write!(
                    f,
                    "cold runs took {:.2} s with replay and {:.2} s without",
                    seconds(*with_ns),
                    seconds(*without_ns)
                )
            }
            Self::Wasteful { used_permille } => {
                write!(
                    f,
                    "only {} % of what was replayed was used",
                    used_permille / 10
                )
            }
            Self::Forgotten => write!(f, "replay didn't help in earlier runs"),
        }
    }
}

/// Decides from the remembered runs, oldest first, what the next run should do.
///
/// Evaluates the runs in their order. Replay is on until [`REPLAYS_MIN`] cold runs with it show no
/// gain or its pages go unused; then it is off. After that every [`RETRY_EVERY`]th run replays, and
/// one that helps turns it on again. Runs that found most pages cached say nothing about time.
#[must_use]
pub fn judge(runs: &[Run]) -> Verdict {
    let mut judge = Judge::default();
    if off_before(runs) {
        let since_unix_s = runs.first().map_or(0, |run| run.started_unix_s);
        judge.off = Some(Off {
            reason: Reason::Forgotten,
            since_unix_s,
            plain_runs: 0,
        });
    }
    for run in runs {
        judge.follow(run);
    }
    match judge.off {
        None => Verdict::Replay,
        Some(Off {
            reason, plain_runs, ..
        }) if plain_runs + 1 >= RETRY_EVERY => Verdict::Retry { reason },
        Some(Off {
            reason,
            since_unix_s,
            plain_runs,
        }) => Verdict::Off {
            reason,
            since_unix_s,
            runs_until_retry: RETRY_EVERY - 1 - plain_runs,
        },
    }
}

/// Whether replay was off when the oldest remembered run started. Only a full history has forgotten
/// anything; and where replay is on, two of three runs are not without it.
fn off_before(runs: &[Run]) -> bool {
    let plain = runs
        .iter()
        .take(3)
        .filter(|run| run.mode == RunMode::Plain)
        .count();
    runs.len() >= RUNS_MAX && plain >= 2
}

/// Time that replay saved in `run`, against the median of the cold runs without it among `runs`;
/// negative when it cost time. `None` when `run` wasn't a cold run with replay, or when there is
/// nothing to hold it against.
#[must_use]
pub fn saved_ns(runs: &[Run], run: &Run) -> Option<i64> {
    if !is_replayed(run) || !is_cold(run) {
        return None;
    }
    let saved = i128::from(wall_without_ns(runs)?) - i128::from(run.wall_ns);
    Some(i64::try_from(saved).unwrap_or(if saved < 0 { i64::MIN } else { i64::MAX }))
}

/// Median time of the latest cold runs without replay; `None` when there are none.
#[must_use]
pub fn wall_without_ns(runs: &[Run]) -> Option<u64> {
    let walls = runs
        .iter()
        .filter(|run| !is_replayed(run) && is_cold(run))
        .map(|run| run.wall_ns);
    median_of_latest(&walls.collect::<Vec<_>>())
}

/// Whether most pages that the run reads had to be fetched. Unknown is no.
#[must_use]
pub fn is_cold(run: &Run) -> bool {
    run.cached_before_permille
        .is_some_and(|cached| cached < COLD_BELOW_PERMILLE)
}

/// Whether the profile was replayed.
#[must_use]
pub const fn is_replayed(run: &Run) -> bool {
    matches!(run.mode, RunMode::Replayed | RunMode::ReplayedRecorded)
}

/// Whether too few of the pages that a run fetched were used. Unknown is no.
#[must_use]
pub fn is_wasteful(run: &Run) -> bool {
    wasteful(&[run]).is_some()
}

/// State at one point of the history.
#[derive(Default)]
struct Judge<'a> {
    /// Times of cold runs without replay, in ns.
    without: Vec<u64>,
    /// Times of cold runs with it since it was last turned on, in ns.
    with: Vec<u64>,
    /// All runs with it since it was last turned on.
    replays: Vec<&'a Run>,
    off: Option<Off>,
}

/// Replay is off.
#[derive(Clone, Copy)]
struct Off {
    reason: Reason,
    since_unix_s: u64,
    plain_runs: u32,
}

impl<'a> Judge<'a> {
    fn follow(&mut self, run: &'a Run) {
        match (is_replayed(run), self.off) {
            (true, None) => self.replayed(run),
            (true, Some(off)) => self.retried(run, off),
            (false, _) => {
                if is_cold(run) {
                    self.without.push(run.wall_ns);
                }
                if let Some(off) = &mut self.off {
                    off.plain_runs += 1;
                }
            }
        }
    }

    fn replayed(&mut self, run: &'a Run) {
        self.replays.push(run);
        if is_cold(run) {
            self.with.push(run.wall_ns);
        }
        let latest = &self.replays[self.replays.len().saturating_sub(REPLAYS_MIN)..];
        let waste = if latest.len() >= REPLAYS_MIN {
            wasteful(latest)
        } else {
            None
        };
        let slow = if self.with.len() >= REPLAYS_MIN {
            self.not_faster(&self.with)
        } else {
            None
        };
        if let Some(reason) = waste.or(slow) {
            self.off = Some(Off {
                reason,
                since_unix_s: run.started_unix_s,
                plain_runs: 0,
            });
        }
    }

    /// A retry that helps turns replay on, with that run as the first to judge by. One that found
    /// its pages cached, or has nothing to be held against, leaves it off like one that didn't
    /// help: there's another one coming.
    fn retried(&mut self, run: &'a Run, off: Off) {
        let helped = is_cold(run)
            && !self.without.is_empty()
            && self.not_faster(&[run.wall_ns]).is_none()
            && wasteful(&[run]).is_none();
        if helped {
            self.off = None;
            self.with = vec![run.wall_ns];
            self.replays = vec![run];
        } else {
            self.off = Some(Off {
                plain_runs: 0,
                ..off
            });
        }
    }

    /// The reason to turn replay off if these times with it are no gain.
    fn not_faster(&self, with: &[u64]) -> Option<Reason> {
        let with_ns = median_of_latest(with)?;
        let without_ns = median_of_latest(&self.without)?;
        let limit = u128::from(without_ns) * u128::from(WALL_BELOW_PERMILLE);
        let is_faster = u128::from(with_ns) * 1000 <= limit;
        (!is_faster).then_some(Reason::NotFaster {
            with_ns,
            without_ns,
        })
    }
}

/// The reason to turn replay off if too few of the pages fetched by these runs were used. Runs that
/// didn't measure it don't count.
fn wasteful(runs: &[&Run]) -> Option<Reason> {
    let (mut fetched, mut used) = (0u128, 0u128);
    for run in runs {
        let Some(used_pages) = run.used_pages() else {
            continue;
        };
        fetched += u128::from(run.fetched_pages);
        used += u128::from(used_pages);
    }
    if fetched < u128::from(FETCHED_MIN_PAGES)
        || used * 1000 >= fetched * u128::from(USED_MIN_PERMILLE)
    {
        return None;
    }
    let used_permille = u16::try_from(used * 1000 / fetched).unwrap_or(1000);
    Some(Reason::Wasteful { used_permille })
}

/// The median; for an even number, the mean of the two in the middle.
fn median_of_latest(values: &[u64]) -> Option<u64> {
    let mut latest = values[values.len().saturating_sub(RUNS_JUDGED)..].to_vec();
    latest.sort_unstable();
    let middle = latest.len() / 2;
    let upper = *latest.get(middle)?;
    if latest.len() % 2 == 1 {
        Some(upper)
    } else {
        Some(latest[middle - 1].midpoint(upper))
    }
}
