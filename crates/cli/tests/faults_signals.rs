// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each signal, sent in each way to a wrapped command in each state, does what it does to the same
//! command without Foreread: the shell is told the same of the job, and the command receives the
//! same signals, each as often.
//!
//! `signals/send.py` is the shell; `signals/receive.py` is the command.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

use common::{World, can_record, drop_pages, is_root, read, stderr, stdout};
use serde_json::Value;

/// So large that a run without it in memory is replayed.
const DATA_BYTES: usize = 32 << 20;
const TRIES: u32 = 5;

const SIGNALS: [&str; 8] = [
    "TERM",
    "INT",
    "HUP",
    "QUIT",
    "USR1",
    "STOP-CONT",
    "PIPE",
    "WINCH",
];
/// What a terminal sends by a key, a changed size or its end.
const OF_TERMINALS: [&str; 5] = ["INT", "HUP", "QUIT", "STOP-CONT", "WINCH"];

/// What Foreread does for the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Recorded,
    Replayed,
    Both,
    Plain,
    Watched,
    Counted,
    Kept,
}

impl State {
    const ALL: [Self; 7] = [
        Self::Recorded,
        Self::Replayed,
        Self::Both,
        Self::Plain,
        Self::Watched,
        Self::Counted,
        Self::Kept,
    ];

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Recorded => &["run", "--fresh", "--json", "-o", "run.json", "--"],
            Self::Replayed | Self::Both | Self::Plain => &["run", "--json", "-o", "run.json", "--"],
            Self::Watched => &["watch", "--"],
            Self::Counted => &["stat", "--"],
            Self::Kept => &["record", "--output", "kept.frp", "--"],
        }
    }

    /// How a run says that it was in this state.
    fn modes(self) -> &'static [&'static str] {
        match self {
            Self::Recorded => &["recorded"],
            // On busy processors too little is seen of a run at times, and the next one records.
            Self::Replayed => &["replayed", "replayed-recorded"],
            Self::Both => &["replayed-recorded"],
            // Some kernels take pages out of the cache by themselves.
            Self::Plain => &["plain", "replayed"],
            Self::Watched | Self::Counted | Self::Kept => &[],
        }
    }
}

fn script(name: &str) -> PathBuf {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/signals");
    scripts.join(name)
}

/// The interpreter itself: what `PATH` leads to may be a script that changes `PATH`.
fn python() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let script = "import sys; print(sys.executable)";
        let output = Command::new("python3").args(["-c", script]).output();
        stdout(&output.expect("python3")).trim_end().to_owned()
    })
}

/// A directory in which a command is signalled.
struct Place {
    world: World,
    state: Option<State>,
    handled: &'static str,
    /// Profiles to begin each run with.
    profiles: Vec<(PathBuf, Vec<u8>)>,
}

impl Place {
    fn new(state: Option<State>, handled: &'static str) -> Self {
        let world = World::new();
        let data = File::create(world.path("data")).expect("a file");
        let is_read = matches!(state, Some(State::Replayed | State::Both | State::Plain));
        let mut place = Self {
            world,
            state,
            handled,
            profiles: Vec::new(),
        };
        if is_read {
            drop(data);
            let bytes = vec![b'x'; DATA_BYTES];
            fs::write(place.world.path("data"), bytes).expect("a file");
            place.learn();
        }
        place
    }

    /// Records a run that reads the data. Some kernels take pages out of the cache by themselves.
    /// A recorder that looks at residency then misses the data, and the run is recorded again.
    fn learn(&mut self) {
        for _ in 0..TRIES {
            self.learn_once();
            if self.has_learned_the_data() {
                return;
            }
            for (path, _) in self.profiles.drain(..) {
                fs::remove_file(path).expect("it was there");
            }
        }
        panic!("{TRIES} recordings lack the data");
    }

    fn has_learned_the_data(&self) -> bool {
        let profile = read(&self.profiles[0].0);
        let path = self.world.path("data").canonicalize().expect("a path");
        let data = profile.find(path.as_os_str().as_encoded_bytes());
        let pages = data.map_or(0, |id| {
            profile.ranges(id).iter().map(|range| range.pages).sum()
        });
        pages * 4096 >= DATA_BYTES as u64 * 9 / 10
    }

    fn learn_once(&mut self) {
        fs::write(self.world.path("read"), "").expect("a file");
        // What another recorder saw is recorded in full once more, beside its replay.
        let recorder = match self.state {
            Some(State::Both) => "fanotify",
            _ => "auto",
        };
        self.evict();
        let mut run = self.world.foreread(&["run", "--recorder", recorder, "--"]);
        run.args(self.command());
        let output = run.output().expect("it starts");
        assert!(output.status.success(), "{}", stderr(&output));
        fs::remove_file(self.world.path("read")).expect("it was there");
        let read = |path: PathBuf| {
            let bytes = fs::read(&path).expect("a profile");
            (path, bytes)
        };
        self.profiles = self.world.profiles().into_iter().map(read).collect();
        assert_eq!(self.profiles.len(), 1, "{}", stderr(&output));
    }

    fn evict(&self) {
        drop_pages(&self.world.path("data"));
    }

    fn command(&self) -> Vec<String> {
        let receive = script("receive.py").to_string_lossy().into_owned();
        [python(), &receive, ".", self.handled]
            .map(str::to_owned)
            .to_vec()
    }

    /// Signals a command in this state. Returns how its shell and the command itself saw that. On a
    /// busy machine the data may be in memory again when a run begins, which then has nothing to
    /// replay. So it is tried again.
    fn try_one(&self, way: &str, signal: &str) -> Value {
        let mut others = Vec::new();
        for _ in 0..TRIES {
            match self.try_once(way, signal) {
                Ok(came) => return came,
                Err(other) => others.push(other),
            }
        }
        panic!("{TRIES} runs of another state: {others:#?}");
    }

    /// `Err` tells of a run that was in another state.
    fn try_once(&self, way: &str, signal: &str) -> Result<Value, String> {
        for name in ["ready", "end", "received", "pid", "output", "run.json"] {
            let _ = fs::remove_file(self.world.path(name));
        }
        for (path, bytes) in &self.profiles {
            fs::write(path, bytes).expect("a profile");
        }
        if matches!(self.state, Some(State::Replayed | State::Both)) {
            self.evict();
        }
        let mut send = Command::new(python());
        send.arg(script("send.py"))
            .args([".", way, signal, self.handled])
            .current_dir(self.world.path(""))
            .env("FOREREAD_STATE_DIR", self.world.state());
        if let Some(state) = self.state {
            send.arg(env!("CARGO_BIN_EXE_foreread"))
                .args(state.arguments());
        }
        let output = send.args(self.command()).output().expect("python3");
        let said = fs::read_to_string(self.world.path("output")).unwrap_or_default();
        let what = format!(
            "{:?}, {way}, {signal}, {}: {said}",
            self.state, self.handled
        );
        assert!(output.status.success(), "{what}{}", stderr(&output));
        let modes = self.state.map_or(&[][..], State::modes);
        if !modes.is_empty() {
            let document = fs::read(self.world.path("run.json")).expect(&what);
            let document: Value = serde_json::from_slice(&document).expect(&what);
            if !modes.iter().any(|mode| document["mode"] == *mode) {
                return Err(format!("{}: {what}", document["mode"]));
            }
        }
        Ok(serde_json::from_str(&stdout(&output)).expect(&what))
    }

    fn try_all(&self) -> BTreeMap<String, Value> {
        let mut seen = BTreeMap::new();
        for signal in SIGNALS {
            for way in ["process", "group", "terminal"] {
                if way == "terminal" && !OF_TERMINALS.contains(&signal) {
                    continue;
                }
                let came = self.try_one(way, signal);
                seen.insert(format!("{signal} to the {way}, {}", self.handled), came);
            }
        }
        seen
    }
}

/// 21 kinds of signals, two commands.
const CASES: usize = 42;

fn of_both_commands(state: Option<State>) -> BTreeMap<String, Value> {
    let mut seen = Place::new(state, "handled").try_all();
    seen.extend(Place::new(state, "default").try_all());
    assert_eq!(seen.len(), CASES);
    seen
}

#[test]
fn signals_do_what_they_do_without_us() {
    let world = World::new();
    if !is_root() || !can_record() || !world.can(&["watch", "--", "true"]) {
        return;
    }
    let (alone, wrapped) = thread::scope(|scope| {
        let alone = scope.spawn(|| of_both_commands(None));
        let wrapped = State::ALL.map(|state| scope.spawn(move || of_both_commands(Some(state))));
        let wrapped = wrapped.map(|thread| thread.join().expect("its cases"));
        (alone.join().expect("its cases"), wrapped)
    });
    let mut differing = Vec::new();
    for (state, seen) in State::ALL.iter().zip(&wrapped) {
        for (case, came) in seen {
            if came != &alone[case] {
                differing.push(format!("{state:?}: {case}: {came}, alone {}", alone[case]));
            }
        }
    }
    let received = alone["TERM to the group, handled"].clone();
    assert_eq!(received["received"], serde_json::json!(["TERM"]));
    let cases = CASES * State::ALL.len();
    assert!(
        differing.is_empty(),
        "{} of {cases} cases differ:\n{}",
        differing.len(),
        differing.join("\n")
    );
    println!("{cases} cases are as without Foreread");
}
