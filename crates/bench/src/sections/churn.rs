// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `foreread watch` holds while programs, files and mounts come and go for some minutes.

use std::fs::{self, File};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use foreread_bench::disk::{Layout, ModelledDisk, preset};
use foreread_bench::foreread::Foreread;
use foreread_bench::process::Stderr;
use foreread_bench::programs::made_up_tree;
use foreread_bench::{BenchError, process};
use foreread_testbed::FileSystem;
use foreread_testbed::workload::SMALL_FILES;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::context::Context;
use crate::report::{Row, Section, Target};

/// How long it goes on where nothing else is said.
pub const MINUTES: f64 = 2.0;
/// A service manager waits longer.
const START_MAX: Duration = Duration::from_secs(30);
/// For threads to end after the last program.
const SETTLE_MAX: Duration = Duration::from_secs(10);
/// Short programs in a round, each of which reads some files.
const PROGRAMS: usize = 200;
const FILES_OF_EACH: usize = 6;
/// Files that vanish, shrink or are replaced in a round, a third each.
const CHANGED_FILES: usize = 300;
/// Growth of memory, in MiB, that no leak explains.
const GROWTH_MIB: Target = Target::AtMost(16.0);

pub fn measure(context: &mut Context) -> Result<Section, BenchError> {
    let time = Duration::from_secs_f64(context.churn_minutes * 60.0);
    let mut disk = ModelledDisk::start(preset("nvme")?, Layout::Ext4)?;
    disk.fill(|root| made_up_tree(&root.join("tree"), SMALL_FILES))?;
    let foreread = Foreread::new(&context.foreread)?;
    context.say(&format!("churn: for {} s", time.as_secs()));
    let watch = Watch::start(&disk, &foreread)?;
    let mut churn = Churn::of(&disk)?;
    churn.round(&disk)?;
    watch.settle(None);
    let first = watch.held()?;
    let (began, processor_began) = (Instant::now(), watch.processor_s()?);
    let mut most = first;
    while began.elapsed() < time {
        churn.round(&disk)?;
        most = most.or_more(watch.held()?);
    }
    watch.settle(Some(first));
    let last = watch.held()?;
    let processor_s = watch.processor_s()? - processor_began;
    let busy_percent = processor_s * 100.0 / began.elapsed().as_secs_f64();
    let (said, lines) = watch.end()?;
    let count = |name: &str| said[name].as_u64().unwrap_or_default();
    let row = |what: &str, of: &dyn Fn(&Held) -> f64, digits, target| {
        let cell = |held: &Held| format!("{:.digits$}", of(held));
        Row {
            cells: vec![what.to_owned(), cell(&first), cell(&most), cell(&last)],
            value: of(&last) - of(&first),
            digits,
            target,
            details: json!({ "first": of(&first), "most": of(&most), "last": of(&last) }),
        }
    };
    let alone = |what: &str, value: f64, digits, target| Row {
        cells: vec![what.to_owned(), String::new(), String::new(), String::new()],
        value,
        digits,
        target,
        details: Value::Null,
    };
    let no_more = Target::AtMost(0.0);
    Ok(Section {
        name: "churn",
        about: format!(
            "`foreread watch` for {:.1} minutes in which {} programs came and went and missed {} \
             files, {} files vanished, shrank or were replaced, and the disk was unmounted {} times \
             (ext4 on nvme).",
            began.elapsed().as_secs_f64() / 60.0,
            churn.programs,
            count("misses"),
            churn.changed_files,
            churn.rounds,
        ),
        header: vec!["what", "at first", "most", "at the end", "growth, or all"],
        rows: vec![
            row(
                "resident, MiB",
                &|held| held.resident_kib as f64 / 1024.0,
                1,
                GROWTH_MIB,
            ),
            row(
                "open descriptors",
                &|held| held.descriptors as f64,
                0,
                no_more,
            ),
            row("threads", &|held| held.threads as f64, 0, no_more),
            alone("processor time, % of one", busy_percent, 1, Target::None),
            alone("walks", count("walks") as f64, 0, Target::None),
            alone(
                "files fetched",
                count("fetched_files") as f64,
                0,
                Target::None,
            ),
            alone("records lost", count("lost") as f64, 0, Target::None),
            alone("lines on stderr", lines as f64, 0, Target::AtMost(5.0)),
        ],
        notes: Vec::new(),
    })
}

/// What it holds at a time.
#[derive(Clone, Copy)]
struct Held {
    resident_kib: u64,
    descriptors: usize,
    threads: usize,
}

impl Held {
    fn or_more(self, other: Self) -> Self {
        Self {
            resident_kib: self.resident_kib.max(other.resident_kib),
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
        }
    }
}

/// `foreread watch`, for all processes; killed where it isn't ended.
struct Watch {
    child: Child,
    stderr: Option<Stderr>,
    at: PathBuf,
}

impl Watch {
    fn start(disk: &ModelledDisk, foreread: &Foreread) -> Result<Self, BenchError> {
        let socket = foreread.state().join("notify");
        let manager = UnixDatagram::bind(&socket).map_err(BenchError::system("make a socket"))?;
        manager
            .set_read_timeout(Some(START_MAX))
            .map_err(BenchError::system("wait at a socket"))?;
        let mut command = disk.testbed().command(foreread.executable());
        // What else the machine does would come and go too.
        let ours = std::process::id().to_string();
        command.args(["watch", "--json", "--pid", &ours]);
        foreread.set_environment(&mut command);
        command.env("NOTIFY_SOCKET", &socket).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn();
        let mut child = child.map_err(BenchError::system("start foreread watch"))?;
        let watch = Self {
            stderr: Some(Stderr::of(&mut child)),
            at: Path::new("/proc").join(child.id().to_string()),
            child,
        };
        let mut bytes = [0; 64];
        let length = manager.recv(&mut bytes);
        length.map_err(BenchError::system("have foreread watch get ready"))?;
        Ok(watch)
    }

    fn held(&self) -> Result<Held, BenchError> {
        let status = self.read("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
        let count = |name: &str| -> Result<usize, BenchError> {
            let entries = fs::read_dir(self.at.join(name));
            Ok(entries
                .map_err(BenchError::system("look at foreread watch"))?
                .count())
        };
        Ok(Held {
            resident_kib: number
                .ok_or_else(|| BenchError::Report("it holds of memory", status.clone()))?,
            descriptors: count("fd")?,
            threads: count("task")?,
        })
    }

    fn read(&self, name: &str) -> Result<String, BenchError> {
        fs::read_to_string(self.at.join(name)).map_err(BenchError::system("look at foreread watch"))
    }

    /// Processor time so far, in seconds.
    fn processor_s(&self) -> Result<f64, BenchError> {
        let stat = self.read("stat")?;
        // Behind the name, which may hold anything.
        let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let ticks: u64 = rest
            .split(' ')
            .skip(11)
            .take(2)
            .filter_map(|number| number.parse::<u64>().ok())
            .sum();
        Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Waits until the last walks have ended, as long as that may take, and until no more is open
    /// than before, where that is known.
    fn settle(&self, before: Option<Held>) {
        let is_settled = |held: Held| {
            let is_closed = |before: Held| held.descriptors <= before.descriptors;
            self.walks() == 0 && before.is_none_or(is_closed)
        };
        let began = Instant::now();
        while began.elapsed() < SETTLE_MAX && !self.held().is_ok_and(is_settled) {
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Threads that walk.
    fn walks(&self) -> usize {
        let threads = fs::read_dir(self.at.join("task")).into_iter().flatten();
        let names = threads.flatten().map(|thread| thread.path().join("comm"));
        let is_walk = |name: &PathBuf| fs::read(name).is_ok_and(|name| name == b"walk\n");
        names.filter(is_walk).count()
    }

    /// Its document, and how many lines it said meanwhile.
    fn end(mut self) -> Result<(Value, usize), BenchError> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            kill_process(pid, Signal::TERM).map_err(BenchError::system("end foreread watch"))?;
        }
        let mut text = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            std::io::Read::read_to_string(&mut stdout, &mut text)
                .map_err(BenchError::system("read what foreread watch says"))?;
        }
        self.child
            .wait()
            .map_err(BenchError::system("wait for foreread watch"))?;
        let stderr = self.stderr.take().map(Stderr::wait).unwrap_or_default();
        let said = serde_json::from_str(&text);
        let said = said.map_err(|_| BenchError::Report("foreread watch did", text))?;
        Ok((said, stderr.lines().count()))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It has ended already where all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What comes and goes.
struct Churn {
    files: Vec<PathBuf>,
    rounds: usize,
    programs: usize,
    changed_files: usize,
}

impl Churn {
    fn of(disk: &ModelledDisk) -> Result<Self, BenchError> {
        let mut files = Vec::new();
        let mut directories = vec![disk.root().join("tree")];
        let cannot = || BenchError::system("list the files");
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).map_err(cannot())? {
                let entry = entry.map_err(cannot())?;
                match entry.file_type().map_err(cannot())?.is_dir() {
                    true => directories.push(entry.path()),
                    false => files.push(entry.path()),
                }
            }
        }
        files.sort_unstable();
        Ok(Self {
            files,
            rounds: 0,
            programs: 0,
            changed_files: 0,
        })
    }

    fn round(&mut self, disk: &ModelledDisk) -> Result<(), BenchError> {
        self.remount(disk)?;
        self.run(
            disk,
            "grep",
            &["-rq".as_ref(), "NOWHERE".as_ref(), "tree".as_ref()],
        )?;
        self.remount(disk)?;
        // Each round begins elsewhere.
        let first = self.rounds * PROGRAMS * FILES_OF_EACH % self.files.len().max(1);
        let files: Vec<PathBuf> = self.files.iter().skip(first).cloned().collect();
        for some in files.chunks(FILES_OF_EACH).take(PROGRAMS) {
            let some: Vec<&Path> = some.iter().map(PathBuf::as_path).collect();
            self.run(disk, "cat", &some)?;
        }
        self.change()?;
        self.rounds += 1;
        Ok(())
    }

    /// Fails where anything is held open.
    fn remount(&self, disk: &ModelledDisk) -> Result<(), BenchError> {
        let testbed = disk.testbed();
        testbed.instantly(|| testbed.remount(FileSystem::Ext4, "noatime"))?;
        Ok(())
    }

    fn run(
        &mut self,
        disk: &ModelledDisk,
        program: &str,
        arguments: &[&Path],
    ) -> Result<(), BenchError> {
        let mut command: Command = disk.testbed().command(program);
        command.args(arguments).current_dir(disk.root());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        process::run(&mut command)?;
        self.programs += 1;
        Ok(())
    }

    fn change(&mut self) -> Result<(), BenchError> {
        let cannot = || BenchError::system("change files");
        let step = (self.files.len() / CHANGED_FILES).max(1);
        for (index, file) in self.files.iter().step_by(step).enumerate() {
            let bytes = fs::read(file).map_err(cannot())?;
            match index % 3 {
                0 => fs::remove_file(file).map_err(cannot())?,
                1 => File::create(file).map(drop).map_err(cannot())?,
                _ => {
                    let beside = file.with_extension("beside");
                    fs::write(&beside, &bytes).map_err(cannot())?;
                    fs::rename(&beside, file).map_err(cannot())?;
                }
            }
            // So that the next round finds as much.
            fs::write(file, bytes).map_err(cannot())?;
            self.changed_files += 1;
        }
        Ok(())
    }
}
