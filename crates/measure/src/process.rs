// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a measured program to its end, and to the end of the processes that it leaves behind;
//! processor time of a process.

use std::fs;
use std::io::Read;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::MeasureError;

/// How a program ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// From before it was started until it had ended.
    pub elapsed: Duration,
    /// Processor time of it and of all that it has waited for, in whole ticks of the clock.
    pub processor: Duration,
    /// Its standard error.
    pub stderr: String,
}

/// Runs a command. Its time ends with it, but this returns only when no process holds its standard
/// error any more. `foreread run` saves a profile after its end, and that must neither disturb the
/// next measurement nor find its directory gone.
///
/// # Errors
/// It can't be started.
pub fn run(command: &mut Command) -> Result<Ended, MeasureError> {
    command.stderr(Stdio::piped());
    let what = format!("start {command:?}");
    let processor_before = children_processor_time()?;
    let began = Instant::now();
    let mut child = command.spawn().map_err(MeasureError::system(what))?;
    let stderr = Stderr::of(&mut child);
    let status = child
        .wait()
        .map_err(MeasureError::system("wait for a program"))?;
    let elapsed = began.elapsed();
    Ok(Ended {
        status,
        elapsed,
        processor: children_processor_time()?.saturating_sub(processor_before),
        stderr: stderr.wait(),
    })
}

/// [Runs](run) a command that is to end with one of these exit codes.
///
/// # Errors
/// It can't be started, or ends otherwise.
pub fn run_to(command: &mut Command, good_ends: &[i32]) -> Result<Ended, MeasureError> {
    let ended = run(command)?;
    match ended.status.code() {
        Some(code) if good_ends.contains(&code) => Ok(ended),
        _ => Err(failure(command, ended.status, &ended.stderr)),
    }
}

/// Standard output of a command that must succeed.
///
/// # Errors
/// It can't be started, or fails.
pub fn output_of(command: &mut Command) -> Result<Vec<u8>, MeasureError> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(MeasureError::system(format!("start {command:?}")))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(failure(command, output.status, &stderr)),
    }
}

/// The error of a program that should not have ended like this, with its last words.
fn failure(command: &Command, status: ExitStatus, stderr: &str) -> MeasureError {
    let said = stderr.lines().next_back().map(str::trim);
    let said = said.filter(|line| !line.is_empty());
    MeasureError::Failed {
        command: format!("{command:?}"),
        status: match said {
            Some(line) => format!("{status} ({line})"),
            None => status.to_string(),
        },
    }
}

/// Processor time that a process took so far, in whole ticks of the clock.
///
/// # Errors
/// It has ended.
pub fn processor_time(process: u32) -> Result<Duration, MeasureError> {
    ticks_in(&format!("/proc/{process}/stat"), UTIME)
}

/// The same of all children of this process that have ended and were waited for.
fn children_processor_time() -> Result<Duration, MeasureError> {
    ticks_in("/proc/self/stat", CUTIME)
}

/// The sum of two fields of `/proc/PID/stat`, the first at this place behind the name.
fn ticks_in(path: &str, first: usize) -> Result<Duration, MeasureError> {
    let text = fs::read_to_string(path);
    let text = text.map_err(MeasureError::system(format!("read {path}")))?;
    let ticks = processor_ticks(&text, first)
        .ok_or_else(|| MeasureError::Report("/proc/PID/stat", format!("{text:?}")))?;
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Ok(Duration::from_nanos(
        ticks.saturating_mul(1_000_000_000) / per_second,
    ))
}

/// The places of `utime` and of `cutime`, each before the time in the kernel.
const UTIME: usize = 11;
const CUTIME: usize = 13;

/// Two fields of `/proc/PID/stat`. The name before them may hold anything.
fn processor_ticks(stat: &str, first: usize) -> Option<u64> {
    let fields = stat.rsplit_once(')')?.1;
    let mut numbers = fields.split_whitespace().skip(first).map(str::parse::<u64>);
    let user = numbers.next()?.ok()?;
    user.checked_add(numbers.next()?.ok()?)
}

/// Reads a child's standard error, so that it never waits to write to it.
#[derive(Debug)]
pub struct Stderr(Option<JoinHandle<String>>);

impl Stderr {
    /// Takes the standard error of a child that was started with a pipe for it.
    pub fn of(child: &mut Child) -> Self {
        let read = |mut stderr: ChildStderr| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                // Bytes that can't be read are lost to the message only.
                let _ = stderr.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        };
        Self(child.stderr.take().map(read))
    }

    /// The written text, once there is no writer left.
    pub fn wait(self) -> String {
        let text = self.0.and_then(|reader| reader.join().ok());
        text.unwrap_or_default()
    }
}

impl Ended {
    /// The time in nanoseconds.
    pub fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The processor time in nanoseconds.
    pub fn processor_ns(&self) -> u64 {
        u64::try_from(self.processor.as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_a_program_leaves_behind_is_waited_for_but_not_timed() {
        let scratch = tempfile::tempdir().unwrap();
        let mark = scratch.path().join("mark");
        let script = format!("(sleep 0.4; touch {}) & exit 0", mark.display());
        let ended = run(&mut shell(&script)).unwrap();
        assert!(mark.exists());
        assert!(ended.status.success());
    }

    #[test]
    fn a_failure_quotes_the_last_words() {
        let mut command = shell("echo first >&2; echo last words >&2; exit 7");
        let text = run_to(&mut command, &[0, 6]).unwrap_err().to_string();
        assert!(text.contains("exit status: 7 (last words)"), "{text}");
        assert!(run_to(&mut command, &[0, 7]).is_ok());
        assert!(run_to(&mut shell("kill -9 $$"), &[0]).is_err());
        assert!(run(&mut Command::new("/no/such/program")).is_err());
    }

    #[test]
    fn what_a_program_prints_counts_when_it_succeeds() {
        let printed = output_of(&mut shell("echo here; echo there >&2")).unwrap();
        assert_eq!(printed, b"here\n");
        let failed = output_of(&mut shell("echo here; echo why >&2; exit 3"));
        let text = failed.unwrap_err().to_string();
        assert!(text.contains("exit status: 3 (why)"), "{text}");
    }

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "12 (a ) b) S 1 12 12 0 -1 4194304 120 0 0 0 31 11 7 8 20 0 1 0 99";
        assert_eq!(processor_ticks(stat, UTIME), Some(42));
        assert_eq!(processor_ticks("12 (a) S 1 2", UTIME), None);
        assert_eq!(processor_ticks("", UTIME), None);
        assert_eq!(processor_ticks(stat, CUTIME), Some(15));
        assert!(processor_time(std::process::id()).is_ok());
        assert!(children_processor_time().is_ok());
    }

    #[test]
    fn much_is_read_as_it_is_written() {
        let ended = run(&mut shell("head -c 300000 /dev/zero >&2")).unwrap();
        assert_eq!(ended.stderr.len(), 300_000);
    }
}
