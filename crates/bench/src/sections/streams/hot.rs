// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `foreread watch --all` costs programs whose files are in memory, and a machine that does
//! nothing.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use foreread_bench::BenchError;
use foreread_bench::programs::made_up_tree;
use foreread_bench::sample::{Rounds, Sample, in_turn};
use foreread_testbed::workload::{ABSENT_PATTERN, SMALL_FILES};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::bed::{Bed, EXIT_PARTLY, Program};
use super::{Cells, Judged, MIB, Streams, fio, row};
use crate::report::{Row, Target};
use crate::sections::costs::{WARM_READ_BYTES_MAX, pairs_json, spread};

pub const PROGRAMS: [&str; 4] = ["hot-dd", "hot-random", "hot-grep", "idle"];

/// With `foreread watch --all` on the machine, of without.
const TIME: Target = Target::AtMost(1.01);
/// Of one processor, while nothing happens.
const IDLE: Target = Target::AtMost(0.001);

const FILE_BYTES: u64 = 512 * MIB;
const TREE: &str = "tree";
/// Runs whose median is one time.
const RUNS: usize = 5;
/// Times that something is measured again when it had to read from the disk, because somebody else
/// has dropped the caches.
const ATTEMPTS: usize = 5;
/// How long one run of fio reads.
const FIO_SECONDS: u64 = 1;
/// Until `foreread watch --all` has loaded its programs.
const SETTLE: Duration = Duration::from_secs(2);
const IDLE_SECONDS: u64 = 10;

pub fn measure(streams: &mut Streams<'_>) -> Result<(), BenchError> {
    if streams.context.programs_of(&PROGRAMS).is_empty() {
        return Ok(());
    }
    let mut bed = Bed::make(streams, "nvme", &[("file".to_owned(), FILE_BYTES)])?;
    bed.disk
        .fill(|root| made_up_tree(&root.join(TREE), SMALL_FILES))?;
    bed.bring_in("file")?;
    for name in PROGRAMS {
        if !streams.wants(name) {
            continue;
        }
        streams.context.say(&format!("streams: {name}"));
        let row = match name {
            "idle" => idle(streams)?,
            "hot-random" if !fio::is_there() => {
                streams.note(format!("{name} is left out: {}.", fio::MISSING));
                continue;
            }
            "hot-random" => {
                let path = PathBuf::from(bed.file("file"));
                let once = || fio::cached_read_ns(&bed, &path, FIO_SECONDS);
                one(streams, &bed, name, 1, &once)?
            }
            name => {
                let program = program(streams, &bed, name);
                let once = || Ok(bed.run(&program, &[])?.inside_ns as f64);
                one(streams, &bed, name, RUNS, &once)?
            }
        };
        streams.rows.push(row);
    }
    Ok(())
}

fn program(streams: &Streams<'_>, bed: &Bed, name: &'static str) -> Program {
    if name == "hot-dd" {
        return bed.dd(streams, name, "file", FILE_BYTES);
    }
    let mut command = ["grep", "-rq", ABSENT_PATTERN].map(OsString::from).to_vec();
    command.push(bed.file(TREE));
    Program {
        // It found nothing.
        good_end: 1,
        ..bed.timed(streams, name, &command)
    }
}

/// Times `once` with `foreread watch --all` on the machine and without.
fn one(
    streams: &Streams<'_>,
    bed: &Bed,
    name: &str,
    runs: usize,
    once: &dyn Fn() -> Result<f64, BenchError>,
) -> Result<Row, BenchError> {
    let undisturbed = || -> Result<f64, BenchError> {
        let testbed = bed.disk.testbed();
        let mut time_ns = f64::NAN;
        for _ in 0..ATTEMPTS {
            testbed.reset_counters();
            time_ns = once()?;
            if testbed.counters().bytes <= WARM_READ_BYTES_MAX {
                break;
            }
        }
        Ok(time_ns)
    };
    let several = || -> Result<f64, BenchError> {
        let times: Result<Vec<f64>, BenchError> = (0..runs).map(|_| undisturbed()).collect();
        Ok(Sample::new(times?).median())
    };
    // What isn't in memory yet comes into it.
    bed.disk.testbed().instantly(once)?;
    let said = RefCell::new(Vec::new());
    let rounds = match streams.context.quick {
        true => Rounds {
            min: 3,
            max: 3,
            time: Duration::ZERO,
        },
        false => Rounds {
            min: 7,
            max: 7,
            time: Duration::ZERO,
        },
    };
    let pairs = in_turn(rounds, several, || {
        let all = All::start(streams)?;
        let time_ns = several()?;
        said.borrow_mut().push(all.end()?);
        Ok::<f64, BenchError>(time_ns)
    })?;
    let cell = |sample: Sample| match sample.median() {
        ns if ns < 1e5 => format!("{:.3} us", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    };
    Ok(row(
        Cells {
            program: name,
            disk: "memory",
            alone: cell(pairs.without()),
            watched: format!(
                "{} ({} %)",
                cell(pairs.with()),
                spread(&pairs.slowdowns(), 100.0)
            ),
            best: String::new(),
            start_and_end: String::new(),
            judged: "time, watch --all / without",
        },
        Judged {
            value: 1.0 + pairs.slowdown(),
            target: TIME,
            digits: 3,
        },
        json!({
            "program": name,
            "pairs_ns": pairs_json(&pairs),
            "watch": said.into_inner(),
        }),
    ))
}

/// The share of a processor that `foreread watch --all` takes while nothing happens.
fn idle(streams: &mut Streams<'_>) -> Result<Row, BenchError> {
    let all = All::start(streams)?;
    let before_ticks = all.processor_ticks()?;
    thread::sleep(Duration::from_secs(IDLE_SECONDS));
    let ticks = all.processor_ticks()?.saturating_sub(before_ticks);
    let said = all.end()?;
    if let Some(misses) = said["misses"].as_u64().filter(|misses| *misses > 0) {
        let note = "programs of this machine read meanwhile, so the row says less";
        streams.note(format!("idle: {note} ({misses} files missed)."));
    }
    let seconds = ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64;
    Ok(row(
        Cells {
            program: "idle",
            disk: "",
            alone: String::new(),
            watched: format!("{:.0} ms in {IDLE_SECONDS} s", seconds * 1e3),
            best: String::new(),
            start_and_end: String::new(),
            judged: "processor time / time",
        },
        Judged {
            value: seconds / IDLE_SECONDS as f64,
            target: IDLE,
            digits: 4,
        },
        json!({ "program": "idle", "processor_seconds": seconds, "watch": said }),
    ))
}

/// A `foreread watch --all`, which ends with this.
struct All {
    child: Child,
    pid: Pid,
}

impl All {
    /// Starts it and gives it time to be ready.
    fn start(streams: &Streams<'_>) -> Result<Self, BenchError> {
        let mut command = Command::new(streams.foreread.executable());
        command.args(["watch", "--all", "--json"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::inherit());
        let child = command.spawn();
        let child = child.map_err(BenchError::system("start foreread watch --all"))?;
        let pid = Pid::from_child(&child);
        let mut all = Self { child, pid };
        thread::sleep(SETTLE);
        let ended = all.child.try_wait();
        match ended.map_err(BenchError::system("wait for foreread watch"))? {
            None => Ok(all),
            Some(status) => Err(failed(&status.to_string())),
        }
    }

    /// What it took of processors so far.
    fn processor_ticks(&self) -> Result<u64, BenchError> {
        let path = format!("/proc/{}/stat", self.child.id());
        let text = fs::read_to_string(&path);
        let text = text.map_err(BenchError::system(format!("read {path}")))?;
        processor_ticks(&text)
            .ok_or_else(|| BenchError::Report("/proc/PID/stat", format!("{text:?}")))
    }

    /// Ends it as Ctrl-C does; what it said.
    fn end(mut self) -> Result<serde_json::Value, BenchError> {
        kill_process(self.pid, Signal::INT).map_err(|error| {
            BenchError::system("end foreread watch")(std::io::Error::from(error))
        })?;
        let stdout = self.child.stdout.take().map(std::io::read_to_string);
        let status = self.child.wait();
        let status = status.map_err(BenchError::system("wait for foreread watch"))?;
        if !matches!(status.code(), Some(0 | EXIT_PARTLY)) {
            return Err(failed(&status.to_string()));
        }
        let said = stdout.and_then(Result::ok).unwrap_or_default();
        Ok(serde_json::from_str(&said).unwrap_or_default())
    }
}

impl Drop for All {
    fn drop(&mut self) {
        // It has ended, or ends now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failed(status: &str) -> BenchError {
    BenchError::Failed {
        command: "foreread watch --all".to_owned(),
        status: status.to_owned(),
    }
}

/// `utime` and `stime` of `/proc/PID/stat`. The name before them may hold anything.
fn processor_ticks(stat: &str) -> Option<u64> {
    let fields = stat.rsplit_once(')')?.1;
    let mut numbers = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let user = numbers.next()?.ok()?;
    user.checked_add(numbers.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "12 (a ) b) S 1 12 12 0 -1 4194304 120 0 0 0 31 11 7 8 20 0 1 0 99";
        assert_eq!(processor_ticks(stat), Some(42));
        assert_eq!(processor_ticks("12 (a) S 1 2"), None);
        assert_eq!(processor_ticks(""), None);
        let own = fs::read_to_string("/proc/self/stat").unwrap();
        assert!(processor_ticks(&own).is_some());
    }
}
