// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurements of a run, as text and as JSON.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use foreread_core::Bytes;
use foreread_linux_prefetcher::Report;
use foreread_linux_recorder::{Counts, Fetched, Unresolved};
use foreread_prefetch::proof::Followed;
use foreread_profile::benefit::{COLD_BELOW_PERMILLE, Verdict, judge, saved_ns};
use foreread_profile::{BlindSpots, PAGE_BYTES, Profile, Program, Recorder, Run, RunMode};
use serde_json::Value;

use super::json::{AccountingReport, FollowingReport, ProfileReport, RunReport};
use super::replayed::ReplayReport;
use super::shortfall;
use super::timeline::Timeline;
use crate::output::{pages, percent, time};
use crate::{show, text, without_root};

/// Measurements of a run, with the time that it saved.
pub struct Measured {
    wall: Duration,
    program: String,
    run: Option<Run>,
    counts: Option<Counts>,
    wasted_pages: u64,
    recorder: Option<Recorder>,
    replay: Option<Report>,
    /// Whether the command followed the profile that was replayed.
    followed: Option<Followed>,
    is_astray: bool,
    /// Use of the pages that the replay fetched, if no BPF program watched it.
    pub fetched: Option<Fetched>,
    /// Bytes that disks read for the command.
    pub read_bytes: Option<u64>,
    /// Why no better recorder was used, a line each.
    refusals: Vec<String>,
    /// Accesses that the recorder could not see.
    blind_spots: BlindSpots,
    files: u64,
    pages: u64,
    unresolved: Unresolved,
    saved_ns: Option<i64>,
    first: Option<Run>,
    /// The judgement before this run.
    pub verdict: Option<Verdict>,
    after: Option<Verdict>,
    /// Failures, a line each.
    pub trouble: Vec<String>,
    /// What a recording is good for.
    pub next: Next,
}

/// What can be said of the start after a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Next {
    /// `run` replays it.
    #[default]
    Replayed,
    /// The same, and this is the first recording of this command line.
    ReplayedFromNowOn(String),
    /// It is in this file, which only a replay by hand uses.
    InFile(PathBuf),
    /// The command failed or was ended, so another start may read more.
    Unknown,
}

impl Next {
    /// Of a command that ended so; `usual` if it ended well.
    pub fn after(status: ExitStatus, usual: Self) -> Self {
        match status.success() {
            true => usual,
            false => Self::Unknown,
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Replayed => "the next cold start will be faster".to_owned(),
            Self::ReplayedFromNowOn(command) => format!(
                "the next cold start will be faster; `{}foreread show -- {command}` says what it reads",
                without_root::sudo(),
            ),
            Self::InFile(path) => {
                let path = text::command_line(&[path.as_os_str().as_bytes().to_vec()]);
                format!("`foreread replay {path}` brings that into memory")
            }
            Self::Unknown => "it did not end well, so its next start may read more".to_owned(),
        }
    }
}

impl Measured {
    pub fn new(wall: Duration, program: &Program) -> Self {
        Self {
            wall,
            program: String::from_utf8_lossy(&program.executable).into_owned(),
            run: None,
            counts: None,
            wasted_pages: 0,
            recorder: None,
            replay: None,
            followed: None,
            is_astray: false,
            fetched: None,
            read_bytes: None,
            refusals: Vec::new(),
            blind_spots: BlindSpots::default(),
            files: 0,
            pages: 0,
            unresolved: Unresolved::default(),
            saved_ns: None,
            first: None,
            verdict: None,
            after: None,
            trouble: Vec::new(),
            next: Next::default(),
        }
    }

    pub fn recorded(
        &mut self,
        profile: &Profile,
        run: &Run,
        counts: &Counts,
        unresolved: Unresolved,
    ) {
        self.run = Some(run.clone());
        self.counts = Some(*counts);
        self.holds(profile);
        self.unresolved = unresolved;
        self.blind_spots = profile.source.blind_spots;
    }

    pub fn replayed(
        &mut self,
        profile: &Profile,
        run: &Run,
        counted: Option<(Counts, u64)>,
        replay: &Report,
    ) {
        self.run = Some(run.clone());
        self.counts = counted.map(|(counts, _)| counts);
        self.wasted_pages = counted.map_or(0, |(_, wasted)| wasted);
        self.replay = Some(*replay);
        self.holds(profile);
        self.first = profile.runs.first().cloned();
        self.saved_ns = saved_ns(&profile.runs, run);
    }

    pub fn plain(&mut self, profile: &Profile, run: &Run) {
        self.run = Some(run.clone());
        self.holds(profile);
        self.first = profile.runs.first().cloned();
    }

    fn holds(&mut self, profile: &Profile) {
        self.files = profile.files().count() as u64;
        self.pages = profile.total_pages();
    }

    /// Takes which recorder was used, and why no better one.
    pub fn refused(&mut self, recorder: Option<Recorder>, refusals: Vec<String>) {
        self.recorder = recorder;
        match recorder {
            Some(_) => {}
            None if without_root::lacks_rights() => self.trouble.push(without_root::recording()),
            None => self.trouble.extend_from_slice(&refusals),
        }
        self.refusals = refusals;
    }

    /// Takes which recorder watched a replayed run, and why none did. A run without one measures
    /// what it can, so that is no trouble.
    pub fn watched(&mut self, recorder: Option<Recorder>, refusals: Vec<String>) {
        self.recorder = recorder;
        self.refusals = refusals;
    }

    /// Takes whether the command followed the profile, and whether the next run records it.
    pub fn followed(&mut self, followed: Followed, is_astray: bool) {
        self.followed = Some(followed);
        self.is_astray = is_astray;
    }

    /// Judges the runs with this one among them.
    pub fn judge_after(&mut self, runs: &[Run]) {
        self.after = Some(judge(runs));
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let mut line = match &self.run {
            None => "nothing was recorded".to_string(),
            Some(run) => match run.mode {
                RunMode::Recorded => self.recorded_line(run),
                RunMode::Replayed | RunMode::ReplayedRecorded => self.replayed_line(run),
                RunMode::Plain => self.plain_line(run),
            },
        };
        let was_off = matches!(self.verdict, Some(Verdict::Off { .. }));
        if let (false, Some(Verdict::Off { reason, .. })) = (was_off, self.after) {
            line += &format!("; replay turned off for this program: {reason}");
        }
        for trouble in &self.trouble {
            line += "; ";
            line += trouble;
        }
        line
    }

    fn recorded_line(&self, run: &Run) -> String {
        let lost = match self.counts.map_or((0, 0), |c| (c.lost(), c.missed_events)) {
            (0, _) => String::new(),
            (lost, 0) => format!(", {lost} events lost"),
            // Those that the kernel left out are counted for the whole machine.
            (lost, _) => format!(", up to {lost} events lost"),
        };
        let cached = match run.cached_before_permille {
            Some(cached) if cached >= COLD_BELOW_PERMILLE => "most was cached already; ",
            _ => "",
        };
        let next = self.next.words();
        format!(
            "recorded {} files, {}{lost}, in {}{}; {cached}{next}{}",
            foreread_core::grouped(self.files),
            pages(self.pages),
            time(run.wall_ns),
            match (run.stall_ns, self.read_bytes) {
                (Some(ns), _) => format!(" ({} waiting for reads)", time(ns)),
                (None, Some(bytes)) => format!(" ({} read from disks)", bytes_text(bytes)),
                (None, None) => String::new(),
            },
            self.stepped_down(),
        )
    }

    /// Which recorder it was where BPF is refused, what that one doesn't see, and why it was taken.
    fn stepped_down(&self) -> String {
        let (Some(used), Some(reason)) = (self.recorder, self.refusals.first()) else {
            return String::new();
        };
        let lost = show::blind_spot_names(self.blind_spots).join(", ");
        format!("; recorded by {} ({lost}): {reason}", show::recorder(used))
    }

    fn replayed_line(&self, run: &Run) -> String {
        // Pages are counted from when the kernel has taken the programs that do it.
        let arrived_pages = self.replay.as_ref().map_or(0, |r| r.arrived_pages);
        let in_part = arrived_pages > run.fetched_pages + run.fetched_pages / 8;
        let used = run.used_pages().filter(|_| run.fetched_pages > 0);
        let used = match used.map(|used| percent(used, run.fetched_pages)) {
            Some(used) if in_part => {
                format!(" ({} counted, {used} used)", pages(run.fetched_pages))
            }
            Some(used) => format!(", {used} used"),
            None if in_part => ", not counted".to_owned(),
            None => String::new(),
        };
        let waited = match (run.stall_ns, self.read_bytes) {
            (Some(ns), _) => format!(", {} waiting for reads", time(ns)),
            (None, Some(bytes)) => {
                format!(", {} read by the command itself", bytes_text(bytes))
            }
            (None, None) => String::new(),
        };
        let first = self.first.as_ref().filter(|_| self.saved_ns.is_some());
        let first = first.map_or(String::new(), |first| {
            format!(" instead of {} at first", time(first.wall_ns))
        });
        let shortfall = match self.is_astray {
            true => vec!["the command read something else; the next run records it".to_owned()],
            false => self.replay.as_ref().map_or(Vec::new(), shortfall::of),
        };
        let shortfall: String = shortfall.iter().map(|why| format!("; {why}")).collect();
        let saved = match self.saved_ns {
            Some(ns) if ns >= 0 => format!(": saved {}", time(ns.unsigned_abs())),
            Some(ns) => format!(": lost {}", time(ns.unsigned_abs())),
            None => String::new(),
        };
        format!(
            "replayed {}{used}; {}{waited}{first}{saved}{shortfall}",
            pages(run.fetched_pages.max(arrived_pages)),
            time(run.wall_ns),
        )
    }

    fn plain_line(&self, run: &Run) -> String {
        match self.verdict {
            Some(Verdict::Off {
                reason,
                runs_until_retry,
                ..
            }) => format!(
                "replay is off for this program ({reason}); {}; tried again in {runs_until_retry} runs",
                time(run.wall_ns)
            ),
            _ => format!(
                "nothing to do, what is needed was cached; {}",
                time(run.wall_ns)
            ),
        }
    }

    /// Whether pages were counted in the kernel as they came and were used.
    fn is_counted(&self) -> bool {
        self.recorder == Some(Recorder::Bpf)
    }

    /// One document for programs.
    pub fn json(&self, timeline: &Timeline) -> Value {
        let run = self.run.clone().unwrap_or_default();
        let counts = self.counts.filter(|_| self.is_counted());
        let accounting = match (&self.fetched, &self.replay) {
            (Some(fetched), Some(replay)) => Some(AccountingReport::of_unwatched(
                fetched,
                replay,
                run.missed_pages,
            )),
            _ => counts.map(|counts| {
                AccountingReport::of_counts(&counts, self.wasted_pages, self.replay.as_ref())
            }),
        };
        let report = RunReport {
            schema: "foreread.run/1",
            program: &self.program,
            mode: mode_name(&self.run),
            wall_ns: u64::try_from(self.wall.as_nanos()).unwrap_or(u64::MAX),
            stall_ns: run.stall_ns,
            cached_before_permille: run.cached_before_permille,
            profile: ProfileReport {
                files: self.files,
                pages: self.pages,
                page_bytes: PAGE_BYTES,
            },
            missed_pages: run.missed_pages,
            missed_metadata_pages: counts.map(|counts| counts.missed_metadata_pages),
            command_read_bytes: self.read_bytes,
            events_lost: self.counts.map(|counts| counts.lost()),
            unreachable_inodes: self.unresolved.unreachable,
            gone_inodes: self.unresolved.gone,
            accounting,
            replay: self.replay.as_ref().map(ReplayReport::of),
            following: self.followed.map(FollowingReport::of),
            recorded_next: self.is_astray,
            first_wall_ns: self.first.as_ref().map(|first| first.wall_ns),
            saved_ns: self.saved_ns,
            replay_turned_off: matches!(self.after, Some(Verdict::Off { .. })),
            recorder: self.recorder.map(|r| format!("{r:?}").to_lowercase()),
            recorder_refusals: &self.refusals,
            steps_ns: timeline.steps_ns.iter().copied().collect(),
            trouble: &self.trouble,
        };
        text::json(&report)
    }
}

fn mode_name(run: &Option<Run>) -> &'static str {
    match run.as_ref().map(|run| run.mode) {
        None => "none",
        Some(RunMode::Recorded) => "recorded",
        Some(RunMode::Replayed) => "replayed",
        Some(RunMode::ReplayedRecorded) => "replayed-recorded",
        Some(RunMode::Plain) => "plain",
    }
}

fn bytes_text(bytes: u64) -> String {
    Bytes::new(bytes).human().to_string()
}
