// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of a command, with whatever is done ahead of it and seen of it.

use std::ffi::OsString;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foreread_linux_prefetcher::warm;
use foreread_linux_prefetcher::{Executor, Fetch, Guard, Options};
use foreread_linux_recorder::{
    AnyRecorder, Choice, Counts, Fetched, Refreshed, Watch, Watched, Watcher, account_fetched,
    in_first_pid_namespace,
};
use foreread_prefetch::plan::ReadPlan;
use foreread_prefetch::proof::Followed;
use foreread_profile::benefit::{Verdict, is_wasteful};
use foreread_profile::{PAGE_BYTES, Profile, Program, Recorder, Run, RunMode, Source};
use foreread_sys::child::{self, Running, SpawnError};
use foreread_sys::clock::now_unix_s;

use super::measured::Measured;
use super::timeline::Timeline;
use crate::store::Lesson;

/// Work of `run` beside the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Record it in full.
    Record,
    /// Replay, and see what was used and what was missing.
    Replay,
    /// Replay, and record in full beside it.
    ReplayAndRecord,
    /// Leave it alone.
    Nothing,
}

/// After so many runs that refreshed a profile, one records in full again: lookups are seen by full
/// recordings only, and what isn't looked up any more should leave.
const FULL_EVERY_RUNS: usize = 16;

/// Share of the profile, in thousandths, from which on a run is warm: a replay could bring in the
/// rest only, which costs the program less than loading the programs that watch it.
const WARM_PERMILLE: u16 = 950;

impl Work {
    /// Chooses by the profile, if there is one, and the verdict on its runs.
    ///
    /// Without BPF nothing is seen beside a replay but how much the program still had disks read.
    /// So it is replayed alone, until that shows that the profile misses much. `in_doubt` is
    /// whether the program may read something else by now: then the judgement of its runs isn't its
    /// own.
    pub fn choose(
        profile: Option<&Profile>,
        verdict: Option<Verdict>,
        may_use_bpf: bool,
        in_doubt: bool,
    ) -> Self {
        let Some(profile) = profile else {
            return Self::Record;
        };
        if in_doubt {
            return Self::ReplayAndRecord;
        }
        if verdict.is_some_and(|verdict| !verdict.replays()) {
            return Self::Nothing;
        }
        let full = |run: &Run| matches!(run.mode, RunMode::Recorded | RunMode::ReplayedRecorded);
        let since_full = profile
            .runs
            .iter()
            .rev()
            .take_while(|run| !full(run))
            .count();
        let is_incomplete = match may_use_bpf {
            true => profile.source.recorder != Recorder::Bpf,
            false => misses_much(profile),
        };
        if since_full + 1 >= FULL_EVERY_RUNS || is_incomplete {
            Self::ReplayAndRecord
        } else {
            Self::Replay
        }
    }
}

/// Whether the last run, replayed and unrecorded, had disks read more than a sixteenth of what the
/// profile holds: enough to make the next one worth recording, and more than metadata takes.
fn misses_much(profile: &Profile) -> bool {
    const SHARE: u64 = 16;
    let last = profile.runs.last();
    let missed = last
        .filter(|run| run.mode == RunMode::Replayed)
        .and_then(|run| run.missed_pages);
    missed.is_some_and(|missed| missed > profile.total_pages() / SHARE)
}

/// Whether a run with this recorder may load BPF programs.
pub fn may_use_bpf(recorder: Choice) -> bool {
    matches!(recorder, Choice::Best | Choice::Bpf)
}

/// How often the recorder's ring buffer is emptied.
const DRAIN_EVERY: Duration = Duration::from_millis(20);

/// Why a command wasn't run.
#[derive(Debug)]
pub enum Failure {
    /// It couldn't be started.
    Spawn(SpawnError),
    /// It was to be recorded, and nothing here can: a reason for each recorder.
    NoRecorder(Vec<String>),
}

impl From<SpawnError> for Failure {
    fn from(error: SpawnError) -> Self {
        Self::Spawn(error)
    }
}

/// A run that has ended.
pub struct Done {
    pub status: ExitStatus,
    pub measured: Measured,
    pub lesson: Option<Lesson>,
    /// Why the kernel refused BPF, when it was tried; empty else.
    pub bpf_refused: Vec<String>,
    pub timeline: Timeline,
}

/// A command to run.
pub struct Session<'a> {
    pub arguments: &'a [OsString],
    pub program: Program,
    pub recorder: Choice,
    /// Why BPF isn't tried, where an earlier run was refused it.
    pub refused: Vec<String>,
    /// Whether there is no point in running the command unrecorded.
    pub must_record: bool,
    /// Whether the program may read something else by now than its profile says.
    pub in_doubt: bool,
    pub budget_bytes: Option<u64>,
    /// When `foreread` started: what it does before the command is part of the time that a user
    /// waits.
    pub started: Instant,
}

impl Session<'_> {
    /// Runs the command.
    pub fn run(&self, profile: Option<Arc<Profile>>, work: Work) -> Result<Done, Failure> {
        let mut timeline = Timeline::new(self.started);
        timeline.mark("load_profile");
        let cached_permille = profile.as_ref().and_then(warm::cached_permille_soon);
        timeline.mark("look_whether_cached");
        let warm = cached_permille.is_some_and(|cached| cached >= WARM_PERMILLE);
        match (profile, work) {
            (Some(profile), Work::Replay)
                if !warm && (in_first_pid_namespace() || !may_use_bpf(self.recorder)) =>
            {
                self.run_replayed(&profile, cached_permille, timeline)
            }
            (Some(profile), Work::Replay | Work::ReplayAndRecord) if !warm || self.in_doubt => {
                self.run_replayed_recorded(&profile, cached_permille, timeline)
            }
            (Some(_), Work::Record) | (None, _) => self.run_recorded(timeline),
            (Some(profile), _) => self.run_plain(&profile, work, cached_permille, timeline),
        }
    }

    fn run_recorded(&self, mut timeline: Timeline) -> Result<Done, Failure> {
        let mut refusals = self.refused.clone();
        let mut recorder = AnyRecorder::start(self.recorder, Watch::Everything, &mut refusals);
        let bpf_refused = refused_bpf(recorder.as_ref(), &refusals);
        timeline.mark("start_recorder");
        if recorder.is_none() && self.must_record {
            return Err(Failure::NoRecorder(refusals));
        }
        let mut running = child::spawn(self.arguments)?;
        let status = wait(&mut running, recorder.as_mut(), |_| {});
        let wall = self.started.elapsed();
        timeline.mark("command");
        let mut measured = Measured::new(wall, &self.program);
        measured.refused(recorder.as_ref().map(AnyRecorder::kind), refusals);
        measured.read_bytes = running.read_bytes();
        let Some(recorder) = recorder else {
            return Ok(Done {
                status,
                measured,
                lesson: None,
                bpf_refused,
                timeline,
            });
        };
        let recorded = recorder.finish(self.program.clone(), source(), None);
        timeline.mark("resolve");
        let mut run = run_of(RunMode::Recorded, wall, &recorded.counts, recorded.measured);
        let mut profile = recorded.profile;
        if !recorded.measured {
            run.missed_pages = running.read_bytes().map(pages_of);
        }
        let cached = |missed| cached_before(missed, profile.total_pages());
        run.cached_before_permille = run.missed_pages.map(cached);
        measured.recorded(&profile, &run, &recorded.counts, recorded.unresolved);
        profile.push_run(run);
        let lesson = Some(Lesson::Recorded(profile));
        Ok(Done {
            status,
            measured,
            lesson,
            bpf_refused,
            timeline,
        })
    }

    /// Replays, and sees in a thread of its own what the profile got wrong.
    fn run_replayed(
        &self,
        profile: &Arc<Profile>,
        cached_permille: Option<u16>,
        mut timeline: Timeline,
    ) -> Result<Done, Failure> {
        let guard = self.guard(profile);
        let replay = Arc::new(self.start_replay(profile, &guard));
        let mut running = match child::spawn(self.arguments) {
            Ok(running) => running,
            Err(error) => {
                replay.stop();
                return Err(error.into());
            }
        };
        guard.program_started(running.id());
        timeline.mark("start_command");
        let watched = Watched {
            pid: running.id(),
            started: Instant::now(),
            program: self.program.clone(),
            source: source(),
            known: Arc::clone(profile),
        };
        let released = Arc::clone(&replay);
        let watcher = match may_use_bpf(self.recorder) {
            true => Watcher::start(watched, move || released.release(), guard.used_pages()),
            false => None,
        };
        if watcher.is_none() {
            replay.release();
        }
        let status = wait(&mut running, None, |_| {});
        let wall = self.started.elapsed();
        timeline.mark("command");
        match watcher {
            // The kernel counts the pages that it fetches.
            Some(_) => replay.stop(),
            None => replay.settle(),
        }
        let followed = guard.followed();
        let is_watched = watcher.is_some();
        let fetched = replay.fetched();
        let report = replay.report();
        // The next run records in full, otherwise.
        let wants_news = !went_elsewhere(followed);
        let refreshed = watcher.map_or(Ok(None), |watcher| watcher.finish(wants_news));
        timeline.mark("resolve");
        let mut measured = Measured::new(wall, &self.program);
        measured.read_bytes = running.read_bytes();
        let mut refusals = self.refused.clone();
        let mut bpf_refused = Vec::new();
        let refreshed = refreshed.unwrap_or_else(|error| {
            bpf_refused.push(error.to_string());
            refusals.push(error.to_string());
            None
        });
        if refreshed.is_none() && refusals.is_empty() {
            refusals.push(unwatched_because(is_watched, self.recorder).to_owned());
        }
        let mode = RunMode::Replayed;
        let run = match &refreshed {
            Some(refreshed) => run_of(mode, wall, &refreshed.counts, true),
            None => {
                let fetched = account_fetched(&fetched, profile, None);
                measured.fetched = Some(fetched);
                unwatched_run(mode, wall, &fetched, running.read_bytes())
            }
        };
        let run = Run {
            cached_before_permille: cached_permille,
            ..run
        };
        let counted = refreshed.as_ref().map(|r| (r.counts, r.wasted_pages));
        measured.watched(counted.map(|_| Recorder::Bpf), refusals);
        let is_astray = is_astray(followed, &run);
        measured.followed(followed, is_astray);
        measured.replayed(profile, &run, counted, &report);
        let replayed = Arc::clone(profile);
        let lesson = Some(match refreshed {
            Some(Refreshed { news, unused, .. }) => Lesson::Replayed {
                replayed,
                news,
                unused,
                run,
                is_astray,
            },
            None => Lesson::Timed {
                profile: replayed,
                run,
                is_astray,
            },
        });
        Ok(Done {
            status,
            measured,
            lesson,
            bpf_refused,
            timeline,
        })
    }

    /// Without BPF too little is seen of a program for a replay to wait for proof: on busy
    /// processors a right profile came too late in 1 of 3 runs. A profile in doubt has to wait.
    fn guard(&self, profile: &Arc<Profile>) -> Guard {
        match may_use_bpf(self.recorder) || self.in_doubt {
            true => Guard::start(Arc::clone(profile), self.in_doubt),
            false => Guard::absent(),
        }
    }

    /// Metadata is read at once; data is held back until what becomes of it can be counted.
    fn start_replay(&self, profile: &Arc<Profile>, guard: &Guard) -> Fetch {
        let hold_data = may_use_bpf(self.recorder);
        let options = Options {
            budget_bytes: self.budget_bytes,
            hold_data,
            stops_when_overtaken: true,
            keeps_fetched: true,
            gate: Some(guard.gate()),
            ..Options::default()
        };
        let plan = Arc::new(ReadPlan::from(&**profile));
        Executor::default().start_then(plan, &options, guard.replay_ended())
    }

    /// Replays, and records in full beside it.
    fn run_replayed_recorded(
        &self,
        profile: &Arc<Profile>,
        cached_permille: Option<u16>,
        mut timeline: Timeline,
    ) -> Result<Done, Failure> {
        let mut refusals = self.refused.clone();
        let guard = self.guard(profile);
        let replay = self.start_replay(profile, &guard);
        let mut recorder = AnyRecorder::start(self.recorder, Watch::Everything, &mut refusals);
        let bpf_refused = refused_bpf(recorder.as_ref(), &refusals);
        if let Some(AnyRecorder::Bpf(recorder)) = &mut recorder {
            recorder.count_own_reads(true);
        }
        timeline.mark("start_recorder");
        let running = child::spawn(self.arguments);
        replay.release();
        let mut running = match running {
            Ok(running) => running,
            Err(error) => {
                replay.stop();
                return Err(error.into());
            }
        };
        guard.program_started(running.id());
        let status = wait(&mut running, recorder.as_mut(), guard.used_pages());
        let wall = self.started.elapsed();
        timeline.mark("command");
        let followed = guard.followed();
        match recorder {
            Some(AnyRecorder::Bpf(_)) => replay.stop(),
            _ => replay.settle(),
        }
        let fetched = replay.fetched();
        let report = replay.report();
        let mut measured = Measured::new(wall, &self.program);
        measured.read_bytes = running.read_bytes();
        measured.refused(recorder.as_ref().map(AnyRecorder::kind), refusals);
        let mode = RunMode::ReplayedRecorded;
        let Some(mut recorder) = recorder else {
            let fetched = account_fetched(&fetched, profile, None);
            measured.fetched = Some(fetched);
            let run = Run {
                cached_before_permille: cached_permille,
                ..unwatched_run(mode, wall, &fetched, running.read_bytes())
            };
            measured.replayed(profile, &run, None, &report);
            let is_astray = is_astray(followed, &run);
            measured.followed(followed, is_astray);
            let lesson = Some(Lesson::Timed {
                profile: Arc::clone(profile),
                run,
                is_astray,
            });
            return Ok(Done {
                status,
                measured,
                lesson,
                bpf_refused,
                timeline,
            });
        };
        if let AnyRecorder::Bpf(recorder) = &mut recorder {
            recorder.count_own_reads(false);
        }
        let mut recorded = recorder.finish(self.program.clone(), source(), Some(profile));
        timeline.mark("resolve");
        let run = match recorded.measured {
            true => run_of(mode, wall, &recorded.counts, true),
            false => {
                let fetched = account_fetched(&fetched, profile, Some(&recorded.profile));
                measured.fetched = Some(fetched);
                unwatched_run(mode, wall, &fetched, running.read_bytes())
            }
        };
        let run = Run {
            cached_before_permille: cached_permille,
            ..run
        };
        let counted = recorded
            .measured
            .then_some((recorded.counts, recorded.wasted_pages));
        // It has just been recorded.
        measured.followed(followed, false);
        measured.replayed(profile, &run, counted, &report);
        recorded.profile.push_run(run);
        let lesson = Some(Lesson::Recorded(recorded.profile));
        Ok(Done {
            status,
            measured,
            lesson,
            bpf_refused,
            timeline,
        })
    }

    fn run_plain(
        &self,
        profile: &Arc<Profile>,
        work: Work,
        cached_permille: Option<u16>,
        mut timeline: Timeline,
    ) -> Result<Done, Failure> {
        let mut running = child::spawn(self.arguments)?;
        let status = wait(&mut running, None, |_| {});
        let wall = self.started.elapsed();
        timeline.mark("command");
        let mut measured = Measured::new(wall, &self.program);
        measured.read_bytes = running.read_bytes();
        let run = Run {
            cached_before_permille: cached_permille,
            missed_pages: running.read_bytes().map(pages_of),
            ..plain_run(RunMode::Plain, wall)
        };
        measured.plain(profile, &run);
        // A warm run teaches nothing; one without replay is what replays are held against.
        let lesson = (work == Work::Nothing).then(|| Lesson::Timed {
            profile: Arc::clone(profile),
            run,
            is_astray: profile.is_astray,
        });
        Ok(Done {
            status,
            measured,
            lesson,
            bpf_refused: Vec::new(),
            timeline,
        })
    }
}

/// Why BPF was refused, when another recorder, or none, took its place.
fn refused_bpf(recorder: Option<&AnyRecorder>, refusals: &[String]) -> Vec<String> {
    match recorder {
        Some(AnyRecorder::Bpf(_)) => Vec::new(),
        // It is tried first.
        _ => refusals.iter().take(1).cloned().collect(),
    }
}

/// Pages that so many bytes fill.
fn pages_of(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES)
}

/// A replayed run that no BPF program watched.
fn unwatched_run(mode: RunMode, wall: Duration, fetched: &Fetched, read: Option<u64>) -> Run {
    Run {
        missed_pages: read.map(pages_of),
        fetched_pages: fetched.arrived,
        used_on_time_pages: fetched.used,
        ..plain_run(mode, wall)
    }
}

/// Origin of a recording that begins now.
fn source() -> Source {
    Source {
        recorded_unix_s: now_unix_s(),
        kernel: rustix::system::uname().release().to_bytes().to_vec(),
        ..Source::default()
    }
}

/// Waits for the end of the command, and keeps the recorder going. `used` is told how many pages of
/// a replay were used.
fn wait(
    running: &mut Running,
    mut recorder: Option<&mut AnyRecorder>,
    used: impl Fn(u64),
) -> ExitStatus {
    let every = recorder.is_some().then_some(DRAIN_EVERY);
    running.wait_with(every, || {
        if let Some(recorder) = &mut recorder {
            recorder.drain();
            if let AnyRecorder::Bpf(recorder) = recorder {
                used(recorder.counts().used_pages);
            }
        }
    })
}

/// Whether the next run is to record a program that was replayed: it went elsewhere, or used little
/// of what was fetched.
fn is_astray(followed: Followed, run: &Run) -> bool {
    went_elsewhere(followed) || is_wasteful(run)
}

/// Whether a program mostly read by itself what isn't in its profile.
fn went_elsewhere(followed: Followed) -> bool {
    const MISSES_MIN: u64 = 16;
    !followed.is_proven && followed.astray_misses >= followed.signs.max(MISSES_MIN)
}

/// Why a replayed run has no recorder.
fn unwatched_because(was_started: bool, recorder: Choice) -> &'static str {
    match (was_started, may_use_bpf(recorder)) {
        (true, _) => "the command ended before the BPF recorder had started",
        (false, true) => "no thread could be started for the BPF recorder",
        (false, false) => "a replay is watched by the BPF recorder only, and another was asked for",
    }
}

/// A run of which only the time is known.
fn plain_run(mode: RunMode, wall: Duration) -> Run {
    Run {
        started_unix_s: now_unix_s().saturating_sub(wall.as_secs()),
        mode,
        wall_ns: u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX),
        ..Run::default()
    }
}

fn run_of(mode: RunMode, wall: Duration, counts: &Counts, measured: bool) -> Run {
    let late_pages = counts.late_pages.min(counts.used_pages);
    let if_measured = |n: u64| measured.then_some(n);
    Run {
        stall_ns: if_measured(counts.stall_ns),
        missed_pages: if_measured(counts.missed_pages),
        fetched_pages: counts.fetched_pages,
        used_on_time_pages: if_measured(counts.used_pages - late_pages),
        used_late_pages: if_measured(late_pages),
        ..plain_run(mode, wall)
    }
}

/// How much of what a recorded run read was cached: what it didn't have to fetch.
fn cached_before(missed_pages: u64, read_pages: u64) -> u16 {
    let missed = missed_pages.min(read_pages);
    let permille = 1000 - (missed * 1000).checked_div(read_pages).unwrap_or(0);
    u16::try_from(permille).unwrap_or(1000)
}
