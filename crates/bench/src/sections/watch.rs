// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that walk through a tree, from a cold disk and without a profile. Compared in turn: the
//! kernel alone, `foreread watch -- COMMAND`, and a `watch` that runs already.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use foreread_bench::service::Service;
use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::foreread::Foreread;
use foreread_measure::host::{HostFiles, executable};
use foreread_measure::programs::{Program, made_up_tree};
use foreread_measure::sample::Sample;
use foreread_measure::{MeasureError, process};
use foreread_testbed::Lacking;
use foreread_testbed::workload::{ABSENT_PATTERN, SMALL_FILES};
use serde_json::{Value, json};

use super::cold::seconds;
use crate::context::Context;
use crate::report::{Row, Section, Target};

const PROGRAMS: [&str; 6] = ["grep", "tar", "cp", "find", "git", "python"];

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let mut section = Section {
        name: "watch",
        about: "Programs that go through 8,000 small files (139 MB with metadata) on ext4, from a \
                cold disk, without a profile, in seconds; medians. tar and cp write to memory, find \
                looks at the size of each file. git status looks at 10,000 files, Python imports 60 \
                modules. Beside `watch -- COMMAND`, whose own start and end count, and beside a \
                `watch` that runs already, as a service does, by which it is judged."
            .to_owned(),
        header: vec![
            "program",
            "disk",
            "kernel alone",
            "watch --",
            "its times",
            "its processor time",
            "service",
            "requests",
            "with it",
            "missed files",
            "wasted",
            "times faster",
        ],
        rows: Vec::new(),
        notes: Vec::new(),
    };
    let foreread = Foreread::new(&context.foreread)?;
    for device in context.devices.clone() {
        let mut disk = ModelledDisk::start(preset(&device)?, Layout::Ext4)?;
        disk.fill(|root| made_up_tree(&root.join("tree"), SMALL_FILES))?;
        for program in context.programs_of(&PROGRAMS) {
            context.say(&format!("watch: {program} on {device}"));
            let (installed, host) = match installed(&program, &mut disk, &foreread) {
                Ok(installed) => installed,
                Err(error) if error.lacking().is_some() => {
                    section
                        .notes
                        .push(format!("{program} is left out: {error}."));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let cold = Cold {
                disk: &disk,
                program: &program,
                installed,
                host,
                foreread: &foreread,
            };
            section.rows.push(row(context, &cold, &device)?);
        }
    }
    Ok(section)
}

/// A program with files of its own, and the files that it needs from the machine's disk.
fn installed(
    program: &str,
    disk: &mut ModelledDisk,
    foreread: &Foreread,
) -> Result<(Option<Program>, HostFiles), MeasureError> {
    if matches!(program, "git" | "python") {
        let installed = Program::install(program, disk)?;
        let host = installed.host_files(foreread, disk);
        return Ok((Some(installed), host));
    }
    let package = match program {
        "find" => "findutils",
        "cp" => "coreutils",
        "tar" => "tar",
        _ => "grep",
    };
    let path = executable(program);
    let path = path.ok_or_else(|| Lacking::Program(program.to_owned(), package))?;
    let host = HostFiles::of(&[path, foreread.executable().to_owned()]);
    Ok((None, host))
}

/// Target of the speedup.
fn target(program: &str, device: &str) -> Target {
    match (program, device) {
        ("grep", "hdd") => Target::AtLeast(7.0),
        ("grep", "cloud") => Target::AtLeast(5.0),
        ("grep", "nvme" | "usb") => Target::AtLeast(2.5),
        ("tar" | "cp" | "find" | "git", "hdd" | "cloud") => Target::AtLeast(4.0),
        ("python", "hdd" | "cloud") => Target::AtLeast(2.0),
        _ => Target::None,
    }
}

fn row(context: &Context, cold: &Cold<'_>, device: &str) -> Result<Row, MeasureError> {
    let rounds = context.rounds(1, Duration::from_secs(15));
    let (mut alone, mut command, mut service) = (Vec::new(), Vec::new(), Vec::new());
    let began = Instant::now();
    while rounds.wants_more(alone.len(), began) {
        alone.push(cold.start(Watch::Not)?);
        command.push(cold.start(Watch::Command)?);
        service.push(cold.start(Watch::Service)?);
    }
    let median = |of: &dyn Fn(&Start) -> u64, starts: &[Start]| {
        Sample::of_ns(starts.iter().map(of)).median_ns()
    };
    let wall = |start: &Start| start.wall_ns;
    let requests = |start: &Start| start.requests;
    let said =
        |name: &'static str| move |start: &Start| start.said[name].as_u64().unwrap_or_default();
    let target = target(cold.program, device);
    let alone_ns = median(&wall, &alone);
    let (command_ns, service_ns) = (median(&wall, &command), median(&wall, &service));
    let times = |watched_ns: u64| alone_ns as f64 / watched_ns.max(1) as f64;
    let documents = |starts: &[Start]| starts.iter().map(Start::document).collect::<Value>();
    Ok(Row {
        cells: vec![
            cold.program.to_owned(),
            device.to_owned(),
            seconds(alone_ns),
            seconds(command_ns),
            target.rounded(times(command_ns), 1),
            seconds(median(&|start: &Start| start.processor_ns, &command)),
            seconds(service_ns),
            median(&requests, &alone).to_string(),
            median(&requests, &service).to_string(),
            median(&said("missed_files"), &service).to_string(),
            median(&said("wasted_files"), &service).to_string(),
        ],
        value: times(service_ns),
        digits: 1,
        target,
        details: json!({
            "program": cold.program,
            "disk": device,
            "kernel_alone": documents(&alone),
            "watch_command": documents(&command),
            "watch_service": documents(&service),
        }),
    })
}

/// One program on a disk.
struct Cold<'a> {
    disk: &'a ModelledDisk,
    program: &'a str,
    /// Where it has files of its own.
    installed: Option<Program>,
    host: HostFiles,
    foreread: &'a Foreread,
}

/// How `foreread watch` is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    Not,
    /// It starts the program.
    Command,
    /// It runs already.
    Service,
}

struct Start {
    wall_ns: u64,
    processor_ns: u64,
    requests: u64,
    bytes: u64,
    /// The report of `foreread watch`.
    said: Value,
}

impl Start {
    fn document(&self) -> Value {
        json!({
            "wall_ns": self.wall_ns,
            "processor_ns": self.processor_ns,
            "requests": self.requests,
            "bytes": self.bytes,
            "watch": self.said,
        })
    }
}

impl Cold<'_> {
    fn start(&self, watch: Watch) -> Result<Start, MeasureError> {
        let output = Output::new();
        let mut words: Vec<OsString> = Vec::new();
        if watch == Watch::Command {
            words.push(self.foreread.executable().into());
            words.extend(["watch", "--json", "--"].map(OsString::from));
        }
        let testbed = self.disk.testbed();
        let mut command = match &self.installed {
            Some(program) => program.command(self.disk, &words),
            None => {
                words.extend(self.words(&output.0));
                let mut command = testbed.command(&words[0]);
                command.args(&words[1..]);
                command.current_dir(self.disk.root().join("tree"));
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null());
        testbed.drop_caches()?;
        self.host.read();
        // The service must not see the reads before this.
        let service = match watch {
            Watch::Service => Some(Service::start(self.disk, self.foreread)?),
            Watch::Not | Watch::Command => None,
        };
        testbed.reset_counters();
        // grep tells with 1 that it found nothing.
        let good_end = i32::from(self.program == "grep");
        let ended = process::run_to(&mut command, &[good_end])?;
        let counters = testbed.counters();
        let said = match service {
            Some(service) => service.end()?.document,
            None if watch == Watch::Command => {
                let last = ended.stderr.lines().next_back().unwrap_or_default();
                let document = serde_json::from_str(last);
                document.map_err(|_| MeasureError::Report("say what it did", last.to_owned()))?
            }
            None => Value::Null,
        };
        Ok(Start {
            wall_ns: ended.elapsed_ns(),
            processor_ns: ended.processor_ns(),
            requests: counters.requests,
            bytes: counters.bytes,
            said,
        })
    }

    /// In the tree. To /dev/null tar would write nothing, and so read nothing.
    fn words(&self, output: &Path) -> Vec<OsString> {
        let output = output.as_os_str();
        let words: [&std::ffi::OsStr; 4] = match self.program {
            "grep" => [
                "grep".as_ref(),
                "-rq".as_ref(),
                ABSENT_PATTERN.as_ref(),
                ".".as_ref(),
            ],
            "find" => [
                "find".as_ref(),
                ".".as_ref(),
                "-size".as_ref(),
                "+1G".as_ref(),
            ],
            "tar" => ["tar".as_ref(), "cf".as_ref(), output, ".".as_ref()],
            _ => ["cp".as_ref(), "-r".as_ref(), ".".as_ref(), output],
        };
        words.map(OsString::from).to_vec()
    }
}

/// Where a program writes, in memory where there is a place for that; removed at the end.
struct Output(PathBuf);

impl Output {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let directory = match memory.is_dir() {
            true => memory.to_owned(),
            false => std::env::temp_dir(),
        };
        Self(directory.join(format!("foreread-bench-{}", std::process::id())))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // It is one or the other, or was never made.
        let _ = fs::remove_file(&self.0);
        let _ = fs::remove_dir_all(&self.0);
    }
}
