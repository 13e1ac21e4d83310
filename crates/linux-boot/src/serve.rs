// SPDX-License-Identifier: MIT OR Apache-2.0
//! One boot, from the start of our unit until the disks are quiet.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use foreread_boot::portable::{is_of_another_file_system, is_unplaced, own_key, portable};
use foreread_boot::{
    Boot, DELAYING_UNITS, Decision, Facts, History, Measured, Mode, Reason, Stored, Wish, decide,
    delay,
};
use foreread_bpf::BpfError;
use foreread_linux_recorder::{AnyRecorder, BpfRecorder, Counts, Watch};
use foreread_profile::{
    Observation, PAGE_BYTES, Phase, PhaseKind, Profile, Program, Source, merge, merge_profiles,
};
use foreread_sys::clock::{now_unix_s, since_kernel_start};
use foreread_sys::file_system_id::file_system_id;
use foreread_sys::interrupt::{Interrupt, Told as Signalled};
use foreread_sys::memory::memory;
use foreread_sys::new_root::NewRoot;
use foreread_sys::rights::{Capability, keep_only};
use foreread_sys::service_manager::ServiceManager;
use thiserror::Error;

use crate::disks::{Quiet, reads_so_far};
use crate::facts::{Machine, Signs, wish_at};
use crate::keeper::{Keeper, Reached, Told};
use crate::packages::packages;
use crate::placing::{Placed, ToPlace, place_first, shipped};
use crate::replay::{Brought, Replay};
use crate::server::{Server, Wait, note_end};
use crate::state::StateDirectory;
use crate::systemd;
use crate::tracing::BootTracer;

/// How often the recorder's ring buffer is emptied.
const DRAIN_EVERY: Duration = Duration::from_millis(20);
/// How often it is looked whether a boot that takes long has reached its target.
const WAIT_EVERY: Duration = Duration::from_millis(500);
/// How often it is looked whether an initramfs has ended.
const LOOK_FOR_ROOT_EVERY: Duration = Duration::from_millis(1);
/// An initramfs that has mounted the root file system ends within a second. It may stop in a shell
/// for somebody who repairs the system.
const ROOT_WITHIN: Duration = Duration::from_secs(60);

/// When a boot is over.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Its target is reached, and disks have been quiet for so long.
    pub quiet: Duration,
    /// Most time for replay and recording.
    pub recorded: Duration,
    /// A target that is not reached by then never is, unless somebody is asked for a passphrase, or
    /// a file system is checked.
    pub reached: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            quiet: Duration::from_secs(5),
            recorded: Duration::from_secs(120),
            reached: Duration::from_secs(900),
        }
    }
}

/// What to do, and where.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is kept from boot to boot.
    pub state: StateDirectory,
    /// A file that is made when the boot reaches its target.
    pub reached: PathBuf,
    /// A file whose lock is held by the process that goes beside this boot.
    pub lock: PathBuf,
    /// When it is over.
    pub limits: Limits,
}

/// Why nothing was done.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Signals can't be held back.
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
    /// It can't be found out whether another process goes beside this boot.
    #[error("cannot take the lock {}: {error}", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// The kernel's reason.
        error: io::Error,
    },
    /// The root file system of an initramfs can't be used.
    #[error("cannot go on from the initramfs at {}: {error}", path.display())]
    NewRoot {
        /// Where it is mounted.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// What was done beside a boot.
#[derive(Clone, Debug)]
pub struct Served {
    /// What the boot was given.
    pub decision: Decision,
    /// What was measured, if it has reached its target.
    pub measured: Option<Measured>,
    /// What the replay did.
    pub replay: Option<Brought>,
    /// What the recorder counted.
    pub counts: Option<Counts>,
    /// Paths and pages of the profile as it is now; `None` if it stayed as it was.
    pub kept: Option<(usize, u64)>,
    /// Where the trace of the boot is kept; `None` if it was not traced.
    pub trace: Option<PathBuf>,
}

/// Goes beside a boot until it is over. `tell` is called with lines for the journal. Returns `None`
/// if another process went beside it, from the initramfs on; then it has waited for that.
///
/// # Errors
/// [`ServeError`]; everything else is told, and leaves the boot as it is without us.
pub fn serve(
    settings: &Settings,
    tell: &mut dyn FnMut(&str),
) -> Result<Option<Served>, ServeError> {
    // Before the first thread, so that no other one is ended by a signal.
    let interrupt = Interrupt::hold().map_err(ServeError::Signals)?;
    let _lock = match find_server(settings)? {
        Server::This(lock) => lock,
        Server::Other(other) => {
            let mut manager = ServiceManager::of_environment();
            let pid = other
                .pid()
                .map_or("unknown".to_owned(), |pid| pid.to_string());
            tell(&format!(
                "process {pid} serves this boot from its initramfs on"
            ));
            if let Err(error) = other.adopt() {
                tell(&format!("it stays outside of this unit's limits: {error}"));
            }
            manager.ready();
            if other.wait(&interrupt) == Wait::Killed {
                tell(&format!(
                    "process {pid} was killed before it had done its work for this boot"
                ));
            }
            return Ok(None);
        }
    };
    let begun = Begun::read(&settings.state, Path::new("/"), tell);
    begun.serve(settings, &interrupt, tell).map(Some)
}

/// Goes beside a boot from its initramfs on, once the root file system is mounted at `new_root`.
/// Goes on in that file system when the initramfs ends. Returns `None` if the boot is to be left
/// alone, or left to the unit.
///
/// # Errors
/// As [`serve`].
pub fn serve_from_initramfs(
    settings: &Settings,
    new_root: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<Option<Served>, ServeError> {
    let interrupt = Interrupt::hold().map_err(ServeError::Signals)?;
    let failed = |error| ServeError::NewRoot {
        path: new_root.to_owned(),
        error,
    };
    let root = NewRoot::open(new_root).map_err(failed)?;
    let command_line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let left_alone = match wish_at(new_root, &command_line) {
        Wish::Nothing(word) => Some(Reason::CommandLine(word)),
        Wish::Update => Some(Reason::SystemUpdate),
        _ => None,
    };
    if let Some(reason) = left_alone {
        // The unit may not be started at all.
        tell(&format!("{}: {reason}", what(Mode::Idle)));
        return Ok(None);
    }
    root.make_working_directory().map_err(failed)?;
    let here = Path::new(".");
    let state = settings.state.below(here);
    if !state.exists() {
        // It may be on another file system, which is not mounted yet.
        return Ok(None);
    }
    let begun = Begun {
        from_initramfs: true,
        ..Begun::read(&state, here, tell)
    };
    let waited = Instant::now();
    while !root.is_complete() {
        let is_ended = interrupt.wait(LOOK_FOR_ROOT_EVERY).unwrap_or(false);
        if is_ended || waited.elapsed() > ROOT_WITHIN {
            return Ok(None);
        }
    }
    root.enter().map_err(failed)?;
    // Not before: `/run` is moved at some time, and the path then leads into the initramfs itself.
    let Server::This(lock) = find_server(settings)? else {
        return Ok(None);
    };
    let served = begun.serve(settings, &interrupt, tell);
    // The unit then says that it was killed, which is no harm.
    let _ = note_end(&lock);
    served.map(Some)
}

fn find_server(settings: &Settings) -> Result<Server, ServeError> {
    Server::find(&settings.lock).map_err(|error| ServeError::Lock {
        path: settings.lock.clone(),
        error,
    })
}

/// What is read before anything is done.
struct Begun {
    /// When we were started, since the kernel was.
    served_from: Duration,
    from_initramfs: bool,
    history: History,
    profile: Option<Profile>,
    /// The profile that came with the system, where there is no other one, the own one of another
    /// system, or one that was imported into an image. It isn't placed yet.
    shipped: Option<Profile>,
    stored: Stored,
}

impl Begun {
    /// Of the system at `root`.
    fn read(state: &StateDirectory, root: &Path, tell: &mut dyn FnMut(&str)) -> Self {
        let served_from = since_kernel_start();
        let history = state.history(tell);
        let (mut profile, mut stored) = state.profile();
        let file_system = file_system_id(root);
        // An image that was built with an imported profile has files with other inode numbers.
        let is_to_place = |profile: &Profile| {
            is_of_another_file_system(profile, file_system) || is_unplaced(profile)
        };
        let shipped = match profile.take_if(|profile| is_to_place(profile)) {
            Some(to_place) => Some(portable(&to_place)),
            None if stored == Stored::Missing => shipped(root, tell),
            None => None,
        };
        if shipped.is_some() {
            stored = Stored::Foreign;
        }
        Self {
            served_from,
            from_initramfs: false,
            history,
            profile,
            shipped,
            stored,
        }
    }

    fn serve(
        self,
        settings: &Settings,
        interrupt: &Interrupt,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Served, ServeError> {
        let Self {
            served_from,
            from_initramfs,
            history,
            profile,
            shipped,
            stored,
        } = self;
        let mut manager = ServiceManager::of_environment();
        let machine = Machine::look();
        let state = &settings.state;
        let was_reached = settings.reached.exists();
        let facts = Facts {
            boot_id: &machine.boot_id,
            kernel: &machine.kernel,
            is_reached: was_reached,
            // A look at the disk, so not before the target.
            is_timed_only: was_reached && state.is_timed_only(),
            wish: machine.wish.clone(),
            profile: stored,
            packages_changed: false,
            packages: None,
            is_first_boot: false,
            relabels: false,
        };
        let is_traced = machine.asks_for_trace || state.is_trace_wanted();
        let mode = decide(&history, &facts).mode;
        let shipped = shipped.filter(|_| mode.replays());
        let (first, to_place) = match shipped.as_ref().map(place_first) {
            Some((first, rest)) => (Some(first), Some(rest)),
            None => (None, None),
        };
        let profile = profile.or(first);
        // A trace that lacks the begin of the replay shows less than it was asked for.
        let tracer = is_traced.then(|| start_tracer(tell)).flatten();
        // Each look at the disk waits for seeks among those of the boot. So a replay that needs no
        // further look begins at once.
        let start_replay = |mode: Mode| {
            let replayed = profile.as_ref().filter(|_| mode.replays());
            // Its reads wait for the recorder.
            replayed.map(|profile| Replay::start(profile, budget_bytes(), mode.records()))
        };
        let mut replay = start_replay(mode);
        let signs = Signs::look();
        let packages = packages(Path::new("/"));
        let decision = decide(
            &history,
            &Facts {
                packages_changed: state.packages_changed(),
                packages: packages.as_deref(),
                is_first_boot: signs.is_first_boot,
                relabels: signs.relabels,
                ..facts
            },
        );
        match decision.mode.replays() {
            true => replay = replay.or_else(|| start_replay(decision.mode)),
            false => replay = None,
        }
        tell(&format!("{}: {}", what(decision.mode), decision.reason));
        let mut served = Served {
            decision: decision.clone(),
            measured: None,
            replay: None,
            counts: None,
            kept: None,
            trace: None,
        };
        if decision.mode == Mode::Idle {
            manager.ready();
            return Ok(served);
        }
        let boot = Boot {
            id: machine.boot_id.clone(),
            started_unix_s: now_unix_s(),
            kernel: machine.kernel.clone(),
            mode: decision.mode,
            untypical: decision.untypical,
            packages,
            measured: None,
        };
        let sets_aside = decision.reason == Reason::Failed;
        let Some(keeper) = Keeper::start(state.clone(), history, boot, sets_aside) else {
            tell("no thread can be started; nothing is done");
            manager.ready();
            return Ok(served);
        };
        let recorder = decision
            .mode
            .records()
            .then(|| start_recorder(replay.as_ref(), tell))
            .flatten();
        if let Some(replay) = &mut replay {
            replay.release();
        }
        // To load programs isn't needed any more. Without the right to give rights up, they stay.
        let _ = keep_only(&[Capability::DacReadSearch, Capability::Fowner]);
        let mut session = Session {
            settings,
            begun: Instant::now(),
            served_from,
            from_initramfs,
            was_reached,
            keeper,
            placing: (to_place.filter(|_| replay.is_some())).and_then(ToPlace::start),
            placed: None,
            replay,
            recorder,
            recording: None,
            tracer,
            kernel: &machine.kernel,
            reached: None,
            measured: None,
        };
        manager.ready();
        session.follow(interrupt, tell);
        manager.stopping();
        let known = match (profile, session.placed.take()) {
            (Some(first), Some(rest)) => Some(merge_profiles(&first, &rest)),
            (first, _) => first,
        };
        let known = known
            .filter(|_| !sets_aside)
            .map(|known| match decision.mode {
                // All that the boot reads of devices is in its recording.
                Mode::Recorded => Profile {
                    devices: Vec::new(),
                    ..known
                },
                _ => known,
            });
        session.keep_trace(&machine, &mut served, tell);
        session.end(known, &mut served, tell);
        Ok(served)
    }
}

/// A boot that is under way.
struct Session<'a> {
    settings: &'a Settings,
    begun: Instant,
    served_from: Duration,
    from_initramfs: bool,
    /// Whether the boot had reached its target before.
    was_reached: bool,
    keeper: Keeper,
    replay: Option<Replay>,
    /// What of a shipped profile is needed later; it is being placed.
    placing: Option<JoinHandle<Placed>>,
    placed: Option<Profile>,
    recorder: Option<MachineRecorder>,
    /// Of a recorder that has had its time.
    recording: Option<Recording>,
    tracer: Option<BootTracer>,
    /// Release of the kernel.
    kernel: &'a str,
    /// When it has reached its target, since the kernel started.
    reached: Option<Duration>,
    measured: Option<Measured>,
}

/// A recorder, and when it began, since the kernel started.
struct MachineRecorder {
    recorder: BpfRecorder,
    begun: Duration,
}

/// What a recorder has recorded, and from when to when, since the kernel started.
struct Recording {
    begun: Duration,
    ended: Duration,
    /// Without phases.
    profile: Profile,
    counts: Counts,
}

impl Session<'_> {
    /// Goes on until the boot is over, or we are told to end.
    fn follow(&mut self, interrupt: &Interrupt, tell: &mut dyn FnMut(&str)) {
        let limits = self.settings.limits;
        let mut quiet = Quiet::begin();
        let mut reached_within = limits.reached;
        loop {
            let is_over = match self.reached {
                Some(_) => quiet.look() >= limits.quiet || self.has_recorded(),
                None => self.begun.elapsed() >= reached_within,
            };
            if is_over && self.reached.is_none() && is_delayed() {
                reached_within += limits.reached;
                continue;
            }
            if is_over {
                return;
            }
            let every = match self.has_recorded() {
                true => {
                    let was_recording = self.recorder.is_some();
                    self.end_recording();
                    if was_recording {
                        tell("the recording has had its time; the boot is not over");
                    }
                    WAIT_EVERY
                }
                false => DRAIN_EVERY,
            };
            // An error is as good as nothing: the loop goes on at its pace.
            if interrupt.wait(every).unwrap_or(false)
                && matches!(interrupt.take(), Ok(Some(Signalled::End)))
            {
                self.told_to_end(tell);
                return;
            }
            if let Some(MachineRecorder { recorder, .. }) = &mut self.recorder {
                recorder.note_helpers();
                recorder.drain();
            }
            if let Some(tracer) = &mut self.tracer {
                tracer.drain();
            }
            self.look_for_placed(tell);
            if let Some(replay) = &mut self.replay {
                match self.begun.elapsed() < limits.recorded {
                    true => replay.look(),
                    false => replay.stop(),
                }
            }
            while let Some(told) = self.keeper.told() {
                self.hear(told, tell);
            }
            if self.reached.is_none() && self.settings.reached.exists() {
                self.reach();
            }
        }
    }

    /// Replays the rest of a shipped profile, once it is placed.
    fn look_for_placed(&mut self, tell: &mut dyn FnMut(&str)) {
        let is_placed = self.placing.as_ref().is_some_and(JoinHandle::is_finished);
        let placing = self.placing.take_if(|_| is_placed);
        // A thread that panicked has placed nothing.
        let Some(Placed { profile, fit }) = placing.and_then(|thread| thread.join().ok()) else {
            return;
        };
        tell(&format!(
            "of the profile of another system {} paths are the same, {} are of another \
             kind or size, and {} are missing",
            fit.same, fit.others, fit.missing
        ));
        if let Some(replay) = &mut self.replay {
            replay.add(&profile);
        }
        self.placed = Some(profile);
    }

    /// Whether replay and recording have had their time.
    fn has_recorded(&self) -> bool {
        self.begun.elapsed() >= self.settings.limits.recorded
    }

    /// As systemd tells.
    fn parts(&self, recorded: Duration) -> Parts {
        Parts {
            recorded,
            init: (self.from_initramfs.then(systemd::init_started)).flatten(),
            target: systemd::active_since("sysinit.target"),
            session: systemd::first_session(),
        }
    }

    /// Has the recorder end. What is read later is not recorded.
    fn end_recording(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            self.recording = Some(recorder.finish(self.kernel));
        }
    }

    /// How long processes have waited for disks so far, in ns, and for how long that was recorded.
    fn stalled(&self, now: Duration) -> Option<(u64, Duration)> {
        if let Some(recorder) = &self.recorder {
            let stall_ns = recorder.recorder.counts().stall_ns;
            return Some((stall_ns, now.saturating_sub(recorder.begun)));
        }
        let recording = self.recording.as_ref()?;
        let recorded_for = recording.ended.saturating_sub(recording.begun);
        Some((recording.counts.stall_ns, recorded_for))
    }

    fn reach(&mut self) {
        let at = since_kernel_start();
        self.reached = Some(at);
        let stalled = self.stalled(at);
        self.keeper.reached(Reached {
            at,
            was_reached: self.was_reached,
            served_from: self.served_from,
            from_initramfs: self.from_initramfs,
            stall_ns: stalled.map(|(stall_ns, _)| stall_ns),
            recorded_for: stalled.map(|(_, recorded_for)| recorded_for),
            reads: self.replay.as_ref().and_then(|_| reads_so_far()),
        });
    }

    /// A boot that is shut down has not failed. One that goes to rescue or emergency mode has.
    fn told_to_end(&self, tell: &mut dyn FnMut(&str)) {
        if self.reached.is_some() {
            return;
        }
        if systemd::is_stopping() {
            self.keeper.withdraw();
            tell("the system is shut down before it reached its target; this boot doesn't count");
        } else {
            tell("stopped before the boot reached its target; the next one goes without a replay");
        }
    }

    fn hear(&mut self, told: Told, tell: &mut dyn FnMut(&str)) {
        match told {
            Told::NotEntered(error) => {
                tell(&format!("{error}; a boot that isn't noted is not replayed"));
                if let Some(replay) = &self.replay {
                    replay.stop();
                }
            }
            Told::Confirmed(measured, kept) => {
                if let Err(error) = kept {
                    tell(&error.to_string());
                }
                let seconds = measured.target_ns as f64 / 1e9;
                tell(&format!("the boot reached its target after {seconds:.2} s"));
                self.measured = Some(measured);
            }
        }
    }

    fn keep_trace(&mut self, machine: &Machine, served: &mut Served, tell: &mut dyn FnMut(&str)) {
        let Some(tracer) = self.tracer.take() else {
            return;
        };
        let (boot, kernel) = (machine.boot_id.clone(), machine.kernel.clone());
        let trace = tracer.finish(boot, kernel, served.decision.mode, self.reached);
        match self.settings.state.keep_trace(&trace) {
            Ok(path) => {
                self.settings.state.forget_trace_wish();
                tell("the trace of this boot is kept; `foreread boot chart` draws it");
                served.trace = Some(path);
            }
            Err(error) => tell(&error.to_string()),
        }
    }

    fn end(mut self, known: Option<Profile>, served: &mut Served, tell: &mut dyn FnMut(&str)) {
        if let Some(replay) = &self.replay {
            replay.stop();
            let brought = replay.brought();
            tell(&format!(
                "read ahead {} MiB of {}; {} were cached",
                mib(brought.arrived_pages),
                mib(brought.planned_pages),
                mib(brought.cached_pages)
            ));
            served.replay = Some(brought);
        }
        // Of a boot that was cut short, what is missing was not needed yet.
        if let Some(reached) = self.reached {
            self.end_recording();
            let parts = self.recording.as_ref().map(|one| self.parts(one.begun));
            if let Some((recording, parts)) = self.recording.take().zip(parts) {
                self.keep(recording, parts, reached, known, served, tell);
            }
        }
        for told in self.keeper.finish() {
            self.hear(told, tell);
        }
        served.measured = self.measured;
    }

    /// Adds what was recorded to the profile.
    fn keep(
        &self,
        recording: Recording,
        parts: Parts,
        reached: Duration,
        known: Option<Profile>,
        served: &mut Served,
        tell: &mut dyn FnMut(&str),
    ) {
        let counts = recording.counts;
        if counts.lost() > 0 {
            let losses = counts
                .losses()
                .into_iter()
                .filter(|(events, _)| *events > 0);
            let losses: Vec<String> = losses
                .map(|(events, of)| format!("{events} {of}"))
                .collect();
            tell(&format!("lost while recording: {}", losses.join(", ")));
        }
        served.counts = Some(counts);
        let observation = match recording.ended >= reached {
            true => Observation::Full,
            // What the rest of the boot needed was not seen, and does not fade.
            false => Observation::Refresh {
                data: false,
                lookups: false,
            },
        };
        let recorded = Profile {
            phases: parts.phases(),
            ..recording.profile
        };
        let profile = match &known {
            Some(known) => merge(known, &recorded, observation),
            None => recorded,
        };
        match self.settings.state.keep_profile(&profile) {
            Ok(()) => served.kept = Some((profile.nodes.len(), profile.total_pages())),
            Err(error) => tell(&error.to_string()),
        }
    }
}

impl MachineRecorder {
    /// The replay may have brought in pages by now: of devices, and of files too if it was not
    /// held.
    fn start(replay: Option<&Replay>) -> Result<Self, BpfError> {
        let mut recorder = BpfRecorder::load(Watch::Machine)?;
        recorder.attach_to_machine()?;
        // Before the look at what is in memory: beside other processes that took 0.2 to 1.4 s.
        let begun = since_kernel_start();
        if replay.is_none_or(Replay::is_held) {
            // Without it only these files are missing.
            let _ = recorder.note_files_read_earlier();
        }
        if replay.is_none() {
            recorder.note_resident_device_pages();
        }
        recorder.count_own_reads(true);
        recorder.note_helpers();
        Ok(Self { recorder, begun })
    }

    fn finish(mut self, kernel: &str) -> Recording {
        let ended = since_kernel_start();
        self.recorder.count_own_reads(false);
        let source = Source {
            recorded_unix_s: now_unix_s(),
            kernel: kernel.as_bytes().to_vec(),
            ..Source::default()
        };
        let program = Program {
            // A boot has no executable.
            key: own_key(file_system_id(Path::new("/"))),
            ..Program::default()
        };
        let recorded = AnyRecorder::Bpf(Box::new(self.recorder)).finish(program, source, None);
        Recording {
            begun: self.begun,
            ended,
            profile: recorded.profile,
            counts: recorded.counts,
        }
    }
}

fn start_recorder(replay: Option<&Replay>, tell: &mut dyn FnMut(&str)) -> Option<MachineRecorder> {
    let started = MachineRecorder::start(replay);
    let tell = |error: BpfError| tell(&format!("the boot can't be recorded: {error}"));
    started.map_err(tell).ok()
}

fn start_tracer(tell: &mut dyn FnMut(&str)) -> Option<BootTracer> {
    let tell = |error: BpfError| tell(&format!("the boot can't be traced: {error}"));
    BootTracer::start().map_err(tell).ok()
}

/// Whether the boot waits for somebody, or for a check of a file system.
fn is_delayed() -> bool {
    let now_ns = u64::try_from(since_kernel_start().as_nanos()).unwrap_or(u64::MAX);
    delay(&systemd::units(&DELAYING_UNITS), now_ns).is_some()
}

/// When the parts of a boot began, since the kernel started; `None` for one that there was not.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    /// The recording.
    recorded: Duration,
    /// Init, if the recording began in the initramfs.
    init: Option<Duration>,
    /// The units after `sysinit.target`.
    target: Option<Duration>,
    /// The session of the first login.
    session: Option<Duration>,
}

impl Parts {
    /// With their starts from that of the recording on.
    fn phases(self) -> Vec<Phase> {
        let phase = |kind, at: Duration| {
            let start = at.saturating_sub(self.recorded);
            let start_ns = u64::try_from(start.as_nanos()).unwrap_or(u64::MAX);
            Phase { kind, start_ns }
        };
        let first = match self.init {
            Some(_) => PhaseKind::Initramfs,
            None => PhaseKind::Sysinit,
        };
        let mut phases = vec![phase(first, self.recorded)];
        phases.extend(self.init.map(|at| phase(PhaseKind::Sysinit, at)));
        phases.extend(self.target.map(|at| phase(PhaseKind::Target, at)));
        phases.extend(self.session.map(|at| phase(PhaseKind::Session, at)));
        // Clocks that disagree must not make the profile invalid.
        phases.dedup_by(|later, earlier| later.start_ns < earlier.start_ns);
        phases
    }
}

/// Half of the memory that is available: what the boot itself takes must fit beside it.
fn budget_bytes() -> u64 {
    memory().available_bytes / 2
}

fn what(mode: Mode) -> &'static str {
    match mode {
        Mode::Idle => "nothing is done",
        Mode::Plain => "this boot is timed only",
        Mode::Recorded => "this boot is recorded",
        Mode::Replayed => "this boot is replayed",
        Mode::Refreshed => "this boot is replayed and recorded",
    }
}

fn mib(pages: u64) -> u64 {
    (pages * PAGE_BYTES) >> 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_in_their_order_whatever_the_clocks_say() {
        use PhaseKind::{Initramfs, Session, Sysinit, Target};
        let seconds = |at| Some(Duration::from_secs(at));
        let of = |parts: Parts| {
            let phases = parts.phases().into_iter();
            let phases = phases.map(|phase| (phase.kind, phase.start_ns / 1_000_000_000));
            phases.collect::<Vec<_>>()
        };
        let by_unit = Parts {
            recorded: Duration::from_secs(3),
            ..Parts::default()
        };
        assert_eq!(of(by_unit), [(Sysinit, 0)]);
        let whole = Parts {
            init: seconds(4),
            target: seconds(8),
            session: seconds(20),
            ..by_unit
        };
        let all = [(Initramfs, 0), (Sysinit, 1), (Target, 5), (Session, 17)];
        assert_eq!(of(whole), all);
        let odd = Parts {
            session: seconds(1),
            ..whole
        };
        assert_eq!(of(odd), all[..3]);
    }
}
