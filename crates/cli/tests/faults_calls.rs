// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whatever system call of Foreread fails, the wrapped command runs exactly once, whole, with its
//! own output and exit status.
//!
//! strace fails calls of Foreread's own processes and threads, and leaves the command alone. Each
//! run fails one call: the first, second or last of its kind of a thread, with one error. By
//! default a fixed sample of all cases is run; with `FOREREAD_FAULTS=all` in the environment, all
//! are, and a table is printed.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use common::{World, can_record, drop_pages, is_root, stderr, stdout};

const ERRORS: [&str; 7] = [
    "ENOSYS", "EPERM", "EMFILE", "ENOMEM", "EIO", "EINTR", "ENOSPC",
];

/// Cases of the sample.
const SAMPLE: usize = 280;

/// Runs at the same time.
const THREADS: usize = 3;

/// More than any run needs. A run that is still there then hangs.
const LIMIT_S: &str = "60";

/// So large that a run without it in memory is replayed.
const DATA_BYTES: usize = 12 << 20;

/// Reads when it is told so. Else it leaves a mark of each run, and fails in its own way.
const SCRIPT: &str = "if [ -e read ]; then cat data > /dev/null; exit 0; fi
echo out; echo once >> end; exit 7";

/// From this call on errors of the process are Foreread's to handle; before, the dynamic linker and
/// the runtime of the language end the process.
const HELD: &str = "signalfd4(";

/// Calls that can't fail, and locks: a thread whose waker fails waits for ever, in any program.
const WITHOUT_ERROR: [&str; 5] = [
    "exit",
    "exit_group",
    "futex",
    "restart_syscall",
    "rt_sigreturn",
];

/// What Foreread does for the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Recorded,
    Replayed,
    Kept,
    Watched,
    Counted,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Recorded,
        Self::Replayed,
        Self::Kept,
        Self::Watched,
        Self::Counted,
    ];

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Recorded | Self::Replayed => &["run", "--"],
            Self::Kept => &["record", "--output", "kept.frp", "--"],
            Self::Watched => &["watch", "--"],
            Self::Counted => &["stat", "--"],
        }
    }
}

impl Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Recorded => "run, recorded",
            Self::Replayed => "run, replayed",
            Self::Kept => "record",
            Self::Watched => "watch --",
            Self::Counted => "stat --",
        })
    }
}

/// A call that fails.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fault {
    kind: Kind,
    call: String,
    /// Counted from 1, in each thread.
    number: usize,
    error: &'static str,
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, call, number, error) = (self.kind, &self.call, self.number, self.error);
        write!(f, "{kind}: {call} {number}: {error}")
    }
}

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Nothing was lost, or a line said what.
    Ran,
    /// The handler of failures beyond repair took over.
    LastResort,
    /// A command that was only to be recorded was not started, and a line said why.
    Refused,
    Violation,
}

/// Where commands run.
struct Place {
    world: World,
    profile: Option<(PathBuf, Vec<u8>)>,
}

impl Place {
    fn new() -> Self {
        let world = World::new();
        fs::write(world.path("data"), vec![b'x'; DATA_BYTES]).expect("a file");
        fs::write(world.path("read"), "").expect("a file");
        let mut place = Self {
            world,
            profile: None,
        };
        place.evict();
        let recorded = place.world.output(&["run", "--", "sh", "-c", SCRIPT]);
        assert!(recorded.status.success(), "{}", stderr(&recorded));
        fs::remove_file(place.world.path("read")).expect("it was there");
        let path = place.world.profiles().pop().expect("a profile");
        let bytes = fs::read(&path).expect("a profile");
        place.profile = Some((path, bytes));
        place
    }

    fn evict(&self) {
        drop_pages(&self.world.path("data"));
    }

    /// Runs the command under strace.
    fn run(&self, kind: Kind, strace: &[&str]) -> Output {
        for name in ["end", "kept.frp"] {
            let _ = fs::remove_file(self.world.path(name));
        }
        let _ = fs::remove_dir_all(self.world.state());
        fs::create_dir(self.world.state()).expect("a store");
        if let (Kind::Replayed, Some((path, bytes))) = (kind, &self.profile) {
            fs::write(path, bytes).expect("a profile");
            self.evict();
        }
        let wrapped = self.world.foreread(kind.arguments());
        let mut command = Command::new("timeout");
        command
            .args([
                "--signal=KILL",
                LIMIT_S,
                "strace",
                "-D",
                "-f",
                "-qq",
                "-b",
                "execve",
            ])
            .args(strace)
            .arg(wrapped.get_program())
            .args(wrapped.get_args())
            .args(["sh", "-c", SCRIPT])
            .env("FOREREAD_STATE_DIR", self.world.state())
            .current_dir(self.world.path(""))
            .stdin(std::process::Stdio::null());
        command.output().expect("strace starts")
    }

    /// The faults of a kind of run.
    fn faults(&self, kind: Kind) -> BTreeSet<Fault> {
        let log = self.world.path("log");
        let output = self.run(kind, &["-o", &log.to_string_lossy()]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(7), "{kind}: {said}");
        let log = fs::read_to_string(log).expect("a log");
        let mut faults = BTreeSet::new();
        for (call, number) in calls(&log) {
            for error in ERRORS {
                let call = call.clone();
                faults.insert(Fault {
                    kind,
                    call,
                    number,
                    error,
                });
            }
        }
        faults
    }

    /// Fails a call; says what became of the command, and why that is a violation.
    fn try_one(&self, fault: &Fault) -> (Outcome, String) {
        let call = &fault.call;
        let trace = format!("trace={call}");
        let inject = format!("inject={call}:error={}:when={}", fault.error, fault.number);
        let output = self.run(
            fault.kind,
            &["-o", "/dev/null", "-e", &trace, "-e", &inject],
        );
        let said = stderr(&output);
        let ran = fs::read_to_string(self.world.path("end")).unwrap_or_default();
        let (code, out) = (output.status.code(), stdout(&output));
        let outcome = match (code, ran.as_str(), out.as_str()) {
            (Some(7), "once\n", "out\n") if said.contains("internal error") => Outcome::LastResort,
            (Some(7), "once\n", "out\n") if !self.is_lost_untold(fault.kind, &said) => Outcome::Ran,
            (Some(2), "", "") if fault.kind == Kind::Kept && said.starts_with("foreread: ") => {
                Outcome::Refused
            }
            _ => Outcome::Violation,
        };
        let what = format!("{fault}: {}, ran {ran:?}, {out:?}: {said}", output.status);
        (outcome, what)
    }

    /// Whether what was recorded is nowhere, and no line says so.
    fn is_lost_untold(&self, kind: Kind, said: &str) -> bool {
        let is_there = match kind {
            Kind::Recorded => !self.world.profiles().is_empty(),
            Kind::Kept => self.world.path("kept.frp").exists(),
            Kind::Replayed | Kind::Watched | Kind::Counted => true,
        };
        let is_praise =
            |line: &str| line.starts_with("foreread: recorded") && !line.contains("cannot");
        !is_there && said.lines().all(is_praise)
    }
}

/// From a log of strace: each call of Foreread, with its numbers in its thread: first, second, last
/// of those that come after the start of the process.
fn calls(log: &str) -> BTreeSet<(String, usize)> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    // How many of each the first thread makes before they count. strace counts in each thread, and
    // fails them all.
    let mut before: BTreeMap<&str, usize> = BTreeMap::new();
    // Number of the first that counts, and the last.
    let mut spans: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    let first_thread = log.split_whitespace().next().unwrap_or_default();
    let mut is_held = false;
    for line in log.lines() {
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        is_held |= thread == first_thread && rest.starts_with(HELD);
        let Some((call, _)) = rest.split_once('(') else {
            continue;
        };
        let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        // strace fails only calls that it knows by name.
        let is_known = call.bytes().all(is_name) && !call.starts_with("syscall_");
        if call.is_empty() || !is_known || WITHOUT_ERROR.contains(&call) {
            continue;
        }
        let count = counts.entry((thread, call)).or_default();
        *count += 1;
        if thread == first_thread && !is_held {
            before.insert(call, *count);
        }
        if call == "execve" || *count <= before.get(call).copied().unwrap_or(0) {
            continue;
        }
        let span = spans.entry((thread, call)).or_insert((*count, *count));
        span.1 = *count;
    }
    let mut calls = BTreeSet::new();
    for ((_, call), (first, last)) in spans {
        for number in [first, (first + 1).min(last), last] {
            calls.insert((call.to_owned(), number));
        }
    }
    calls
}

/// How many runs of each kind came to what.
type Table = BTreeMap<Kind, BTreeMap<Outcome, usize>>;

/// Runs all of these, several at a time.
fn try_all(faults: &[Fault]) -> (Table, Vec<String>) {
    let next = AtomicUsize::new(0);
    let done = Mutex::new((Table::new(), Vec::new()));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let place = Place::new();
                while let Some(fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (outcome, what) = place.try_one(fault);
                    let mut done = done.lock().expect("no thread panics with it");
                    let row = done.0.entry(fault.kind).or_default();
                    *row.entry(outcome).or_default() += 1;
                    if outcome == Outcome::Violation {
                        eprintln!("{what}");
                        done.1.push(what);
                    }
                }
            });
        }
    });
    done.into_inner().expect("no thread has it")
}

fn print(table: &Table, calls: &BTreeMap<Kind, usize>) {
    println!("| run | calls | faults | ran | last resort | refused | violations |");
    for (kind, row) in table {
        let of = |outcome| row.get(&outcome).copied().unwrap_or(0);
        let faults: usize = row.values().sum();
        println!(
            "| {kind} | {} | {faults} | {} | {} | {} | {} |",
            calls[kind],
            of(Outcome::Ran),
            of(Outcome::LastResort),
            of(Outcome::Refused),
            of(Outcome::Violation),
        );
    }
}

#[test]
fn a_command_runs_once_whichever_call_fails() {
    if !is_root() || !can_record() {
        return;
    }
    let strace = Command::new("strace")
        .args(["-f", "-b", "execve", "true"])
        .output();
    if !strace.is_ok_and(|output| output.status.success()) {
        println!("skipped: needs strace, and the right to use it");
        return;
    }
    let place = Place::new();
    let mut faults = Vec::new();
    let mut kinds = BTreeMap::new();
    for kind in Kind::ALL {
        let all = place.faults(kind);
        let calls: BTreeSet<&str> = all.iter().map(|fault| fault.call.as_str()).collect();
        assert!(calls.len() > 30, "{kind}: {calls:?}");
        kinds.insert(kind, calls.len());
        faults.extend(all);
    }
    if let Ok(only) = std::env::var("FOREREAD_FAULTS") {
        faults.retain(|fault| only == "all" || fault.to_string().contains(&only));
    } else {
        let step = faults.len().div_ceil(SAMPLE);
        faults = faults.into_iter().step_by(step).collect();
    }
    let (table, violations) = try_all(&faults);
    print(&table, &kinds);
    assert!(
        violations.is_empty(),
        "{} of {} faults:\n{}",
        violations.len(),
        faults.len(),
        violations.join("\n")
    );
}
