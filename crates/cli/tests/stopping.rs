// SPDX-License-Identifier: MIT OR Apache-2.0
//! SIGTERM ends `foreread` within a second, whatever it does at that moment and whatever does not
//! answer it.
//!
//! A state is a verb, an obstacle and a moment. By default a fixed sample of all states is played,
//! and only has to end. With `FOREREAD_STOPS=all` in the environment all are played. Each then has
//! to end within a second on processors that aren't busy. `FOREREAD_STOPS='Replay, Hangs(Read)'`
//! selects by the words of a state.

mod common;

use std::fmt::Debug;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use foreread_measure::sample::Sample;
use foreread_testbed::hanging_server::{HangingServer, Operation};
use foreread_testbed::{Testbed, race};
use rustix::process::Signal;

use common::served::{Running, forget, let_go, reader, script, server};
use common::service::until;
use common::watched::{can_watch, disk, slow_down, speed_up};
use common::{World, drop_pages, profile_of, write};

/// Promised in docs/SECURITY.md and docs/faults.md.
const STOP_MAX: Duration = Duration::from_secs(1);
/// Every so many states are in the sample. This and the numbers of verbs, obstacles and moments
/// have no common divisor, so the sample has some of each.
const SAMPLE_STEP: usize = 13;
/// A disk that takes this long for each read: longer than any that works.
const SLOW_READ: &str = "400ms";
/// In the middle it has worked for this long beside its obstacle.
const MIDDLE: Duration = Duration::from_millis(300);
/// At the beginning it is stopped so long after its start, evenly spread over the states.
const BEGINNING_MS: u64 = 80;
/// Files that a profile has: they keep the slow disk busy beyond the middle.
const FILES: u64 = 100;
const FILE_BYTES: u64 = HangingServer::FILE_PAGES * 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Replay,
    RunRecorded,
    RunReplayed,
    Record,
    StatCommand,
    WatchCommand,
    Stat,
    Watch,
}

impl Verb {
    const ALL: [Self; 8] = [
        Self::Replay,
        Self::RunRecorded,
        Self::RunReplayed,
        Self::Record,
        Self::StatCommand,
        Self::WatchCommand,
        Self::Stat,
        Self::Watch,
    ];

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Replay => &["replay", "profile.frp"],
            Self::RunRecorded => &["run", "--fresh", "--"],
            Self::RunReplayed => &["run", "--"],
            Self::Record => &["record", "--output", "output.frp", "--"],
            Self::StatCommand => &["stat", "--"],
            Self::WatchCommand => &["watch", "--"],
            Self::Stat => &["stat", "--by", "file", "100ms"],
            Self::Watch => &["watch"],
        }
    }

    /// Whether it works for a command.
    fn wraps(self) -> bool {
        !matches!(self, Self::Replay | Self::Stat | Self::Watch)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    Nothing,
    Hangs(Operation),
    Died,
    SlowDisk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Beginning,
    Middle,
}

#[derive(Clone, Copy, Debug)]
struct State {
    verb: Verb,
    obstacle: Obstacle,
    moment: Moment,
    /// Of all states.
    number: usize,
}

impl State {
    fn all() -> Vec<Self> {
        let hangs = Operation::ALL.map(Obstacle::Hangs);
        let mut obstacles = vec![Obstacle::Nothing, Obstacle::Died, Obstacle::SlowDisk];
        obstacles.extend(hangs);
        let mut all = Vec::new();
        for verb in Verb::ALL {
            for &obstacle in &obstacles {
                for moment in [Moment::Beginning, Moment::Middle] {
                    let number = all.len();
                    all.push(Self {
                        verb,
                        obstacle,
                        moment,
                        number,
                    });
                }
            }
        }
        all
    }

    fn name(self) -> String {
        format!("{:?}, {:?}, {:?}", self.verb, self.obstacle, self.moment)
    }
}

/// What files lie on.
enum Files {
    Served(HangingServer),
    OnDisk(Testbed, PathBuf),
}

impl Files {
    /// `None` where that can't be had, and says so.
    fn make(world: &World, obstacle: Obstacle) -> Option<Self> {
        if obstacle != Obstacle::SlowDisk {
            return server(world).map(Self::Served);
        }
        let (testbed, root) = disk(world, "instant", 64 << 20)?;
        let make = || {
            fs::create_dir(root.join("directory"))?;
            fs::write(root.join("directory/inner"), "")?;
            symlink("0", root.join("link"))?;
            let bytes = vec![b'x'; FILE_BYTES as usize];
            (0..HangingServer::FILES)
                .try_for_each(|at| fs::write(root.join(at.to_string()), &bytes))
        };
        make().expect("files");
        testbed.drop_caches().expect("they are on the disk");
        testbed.enter().expect("its mounts");
        Some(Self::OnDisk(testbed, root))
    }

    fn point(&self) -> &Path {
        match self {
            Self::Served(server) => server.point(),
            Self::OnDisk(_, root) => root,
        }
    }

    /// From now on it is in the way.
    fn obstruct(&self, obstacle: Obstacle) {
        match (self, obstacle) {
            (Self::Served(server), Obstacle::Hangs(operation)) => server.hang(&[operation]),
            (Self::Served(server), Obstacle::Died) => server.die(),
            (Self::OnDisk(testbed, _), _) => slow_down(testbed, SLOW_READ),
            (Self::Served(_), _) => {}
        }
    }

    /// Lets go of everything that waits.
    fn free(&self) {
        match self {
            Self::Served(server) => server.die(),
            Self::OnDisk(testbed, _) => speed_up(testbed),
        }
    }
}

/// A state that is set up, and `foreread` in it.
struct Played<'a> {
    world: &'a World,
    state: State,
    files: &'a Files,
    large: PathBuf,
}

impl<'a> Played<'a> {
    fn new(world: &'a World, state: State, files: &'a Files) -> Self {
        let large = world.path("large");
        fs::write(&large, vec![1; 4 << 20]).expect("a file");
        let played = Self {
            world,
            state,
            files,
            large,
        };
        if state.verb == Verb::Replay {
            let names: Vec<PathBuf> = (0..FILES).map(|at| played.at(&at.to_string())).collect();
            let names: Vec<&Path> = names.iter().map(PathBuf::as_path).collect();
            write(&world.path("profile.frp"), &profile_of(&names));
        }
        if state.verb == Verb::RunReplayed {
            played.learn();
        }
        played
    }

    fn at(&self, name: &str) -> PathBuf {
        self.files.point().join(name)
    }

    fn command(&self, is_busy: bool) -> Command {
        let mut command = self.world.foreread(self.state.verb.arguments());
        if self.state.verb.wraps() {
            let script = script(self.files.point(), &self.large, self.world);
            command.args(["sh", "-c", &script]);
        }
        if is_busy {
            command.env("BUSY", "1");
        }
        command
    }

    /// Records a run, for a later one to replay.
    fn learn(&self) {
        let run = Running::start(self.world, "learned", self.command(true));
        let_go(self.world);
        assert_eq!(run.end("learned").code, Some(7));
        forget(self.world);
    }

    fn is_ready(&self) -> bool {
        self.world.path("ready").exists()
    }

    /// Drops what is in memory of the files.
    fn make_cold(&self) {
        let names = (0..FILES).map(|at| self.at(&at.to_string()));
        for name in names.chain([self.large.clone()]) {
            drop_pages(&name);
        }
        if let Files::OnDisk(testbed, _) = self.files {
            testbed.drop_caches().expect("a cold cache");
        }
    }

    /// How long it took to stop; `None` if it had ended by itself before.
    fn stopped(&self) -> Option<Duration> {
        self.make_cold();
        let mut beside = None;
        let mut running = match self.state.moment {
            Moment::Beginning => {
                self.files.obstruct(self.state.obstacle);
                let is_busy = self.state.verb != Verb::RunReplayed;
                let running = Running::start(self.world, "stopped", self.command(is_busy));
                let after_ms = self.state.number as u64 * 7 % BEGINNING_MS;
                thread::sleep(Duration::from_millis(after_ms));
                running
            }
            Moment::Middle => self.in_the_middle(&mut beside),
        };
        let stopped = running.runs().then(|| {
            running.signal(Signal::TERM);
            running.end(&self.state.name()).took
        });
        self.files.free();
        if let Some(mut reader) = beside {
            // It may have ended.
            let _ = reader.kill();
            let _ = reader.wait();
        }
        stopped
    }

    fn in_the_middle(&self, beside: &mut Option<Child>) -> Running {
        let obstruct = || self.files.obstruct(self.state.obstacle);
        let start = |is_busy| Running::start(self.world, "stopped", self.command(is_busy));
        let running = match self.state.verb {
            Verb::Replay => {
                obstruct();
                start(false)
            }
            Verb::RunReplayed => {
                obstruct();
                let running = start(false);
                until("the command is ready", || self.is_ready());
                running
            }
            Verb::Stat | Verb::Watch => {
                let running = start(false);
                thread::sleep(MIDDLE);
                let mut reader = reader(self.files.point());
                reader.stdout(Stdio::null());
                *beside = Some(reader.spawn().expect("it starts"));
                thread::sleep(MIDDLE);
                obstruct();
                running
            }
            Verb::RunRecorded | Verb::Record | Verb::StatCommand | Verb::WatchCommand => {
                let running = start(true);
                until("the command is ready", || self.is_ready());
                obstruct();
                running
            }
        };
        thread::sleep(MIDDLE);
        running
    }
}

/// Plays it in a thread, for a server moves its thread to mounts of its own.
fn play(state: State) -> Option<Duration> {
    let play = || {
        let world = World::new();
        let files = Files::make(&world, state.obstacle)?;
        Played::new(&world, state, &files).stopped()
    };
    thread::scope(|scope| scope.spawn(play).join().expect("its state is played"))
}

fn print(stops: &[(State, Duration)], what: &str, is_it: impl Fn(&State) -> bool) {
    let took = stops.iter().filter(|(state, _)| is_it(state));
    let took_ms = Sample::new(took.map(|(_, took)| took.as_secs_f64() * 1e3));
    let (median, longest) = (took_ms.median(), took_ms.quantile(1.0));
    println!(
        "| {what} | {} | {median:.0} | {longest:.0} |",
        took_ms.len()
    );
}

fn kinds<T: Copy + Debug + PartialEq>(stops: &[(State, Duration)], of: impl Fn(&State) -> T) {
    let mut seen: Vec<T> = Vec::new();
    for (state, _) in stops {
        let kind = of(state);
        if !seen.contains(&kind) {
            seen.push(kind);
            print(stops, &format!("{kind:?}"), |other| of(other) == kind);
        }
    }
}

#[test]
fn it_stops_in_each_state() {
    if !can_watch(&World::new()) {
        return;
    }
    let wanted = std::env::var("FOREREAD_STOPS");
    let states = State::all().into_iter();
    let states: Vec<State> = match &wanted {
        Ok(only) => states
            .filter(|state| only == "all" || state.name().contains(only))
            .collect(),
        Err(_) => states.step_by(SAMPLE_STEP).collect(),
    };
    let (mut stops, mut late) = (Vec::new(), Vec::new());
    let played = states.len();
    for state in states {
        // Whoever can't have a processor can't end.
        let stopped = std::cell::Cell::new(None);
        let stop = || {
            // If it fails, an earlier try says nothing.
            stopped.set(None);
            stopped.set(play(state));
            let took = stopped.get().unwrap_or_default();
            assert!(wanted.is_err() || took <= STOP_MAX, "{took:?}");
        };
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| race(stop))).is_err() {
            late.push(format!("{}: {:?}", state.name(), stopped.get()));
        }
        stops.extend(stopped.get().map(|took| (state, took)));
    }
    println!("| | stops | median, ms | longest, ms |\n|---|---|---|---|");
    kinds(&stops, |state| state.verb);
    kinds(&stops, |state| state.obstacle);
    kinds(&stops, |state| state.moment);
    print(&stops, "all", |_| true);
    println!(
        "{} of {played} had ended by themselves",
        played - stops.len()
    );
    assert!(
        late.is_empty(),
        "{} of {played}:\n{}",
        late.len(),
        late.join("\n")
    );
}
