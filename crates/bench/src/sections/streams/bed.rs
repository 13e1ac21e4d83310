// SPDX-License-Identifier: MIT OR Apache-2.0
//! A modelled disk with large files, the programs that read them, and the result of one run.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;

use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::host::{HostFiles, executable};
use foreread_measure::{MeasureError, process};
use foreread_testbed::needed::needed;
use serde_json::{Value, json};

use super::Streams;
use crate::sections::costs::write_file;

/// `foreread watch` ends so when records were lost on the way.
pub const EXIT_PARTLY: i32 = 64;

/// A program that reads.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: &'static str,
    pub words: Vec<OsString>,
    /// Bytes that it reads, where it can't tell itself.
    pub bytes: u64,
    /// Its exit status when all is well.
    pub good_end: i32,
}

/// A modelled disk with large files.
pub struct Bed {
    pub disk: ModelledDisk,
    foreread: PathBuf,
    host: HostFiles,
    /// The words before everything that is run, such as those that put it into a cgroup.
    within: Vec<OsString>,
    /// The file into which programs write their bytes and times.
    out: PathBuf,
}

impl Bed {
    /// A disk with files of these names and sizes in bytes.
    pub fn make(
        streams: &Streams<'_>,
        device: &str,
        files: &[(String, u64)],
    ) -> Result<Self, MeasureError> {
        let mut disk = ModelledDisk::start(preset(device)?, Layout::Ext4)?;
        disk.fill(|root| {
            let write = |(name, bytes): &(String, u64)| write_file(&root.join(name), *bytes);
            files.iter().try_for_each(write)
        })?;
        let foreread = streams.foreread.executable().to_owned();
        let mut executables = vec![foreread.clone(), streams.context.own_path().to_owned()];
        executables.extend(
            ["dd", "fio", "grep", "sh"]
                .into_iter()
                .filter_map(executable),
        );
        Ok(Self {
            disk,
            host: HostFiles::of(&executables),
            out: streams.foreread.state().join("read.json"),
            foreread,
            within: Vec::new(),
        })
    }

    /// Runs programs with these words before them, and before `foreread watch`.
    pub fn within(mut self, words: Vec<OsString>) -> Self {
        self.within = words;
        self
    }

    /// Makes it another disk, with the same files.
    pub fn become_disk(&self, device: &str) -> Result<(), MeasureError> {
        self.disk.set_parameters(preset(device)?)
    }

    /// The path of a file, as an argument.
    pub fn file(&self, name: &str) -> OsString {
        self.disk.root().join(name).into()
    }

    /// One of the bench's own programs.
    pub fn reader(
        &self,
        streams: &Streams<'_>,
        name: &'static str,
        options: &[String],
        files: &[OsString],
    ) -> Program {
        let mut words = streams.context.reader(&self.out);
        words.extend(options.iter().map(OsString::from));
        words.extend(files.iter().cloned());
        Program {
            name,
            words,
            bytes: 0,
            good_end: 0,
        }
    }

    /// `dd bs=4k` of the first `bytes` of a file.
    pub fn dd(&self, streams: &Streams<'_>, name: &'static str, file: &str, bytes: u64) -> Program {
        let mut input = OsString::from("if=");
        input.push(self.file(file));
        let count = format!("count={}", bytes / 4096);
        let options = ["of=/dev/null", "bs=4k", "status=none", &count];
        let mut command: Vec<OsString> = vec!["dd".into(), input];
        command.extend(options.map(OsString::from));
        Program {
            bytes,
            ..self.timed(streams, name, &command)
        }
    }

    /// Any command, which need not report its reads.
    pub fn timed(
        &self,
        streams: &Streams<'_>,
        name: &'static str,
        command: &[OsString],
    ) -> Program {
        let mut words = streams.context.inside(&self.out, &["--"]);
        words.extend(command.iter().cloned());
        Program {
            name,
            words,
            bytes: 0,
            good_end: 0,
        }
    }

    /// Reads a file into memory, without the disk's time.
    pub fn bring_in(&self, name: &str) -> Result<(), MeasureError> {
        let read = || {
            let mut file = File::open(self.file(name))?;
            std::io::copy(&mut file, &mut std::io::sink())
        };
        let read = self.disk.testbed().instantly(read);
        let what = format!("read {name} into memory");
        read.map(drop).map_err(MeasureError::system(what))
    }

    /// Drops everything from memory except the files that the measured programs need from the
    /// machine's own disk.
    pub fn make_cold(&self) -> Result<(), MeasureError> {
        self.disk.testbed().drop_caches()?;
        self.host.read();
        Ok(())
    }

    /// Runs a program once, from the caches as they are.
    pub fn run(&self, program: &Program, before: &[OsString]) -> Result<Run, MeasureError> {
        let before = self.within.iter().chain(before);
        let words: Vec<&OsString> = before.chain(&program.words).collect();
        let testbed = self.disk.testbed();
        let mut command = testbed.command(words[0]);
        command.args(&words[1..]).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // The output of an earlier program must not be taken for this one's.
        let _ = std::fs::remove_file(&self.out);
        testbed.reset_counters();
        let drops = cache_drops();
        let ended = process::run_to(&mut command, &[program.good_end, EXIT_PARTLY]);
        testbed.wait_until_idle()?;
        let counters = testbed.counters();
        let is_disturbed = cache_drops() != drops;
        let ended = ended?;
        let read = self.read()?;
        let last = ended.stderr.lines().next_back().unwrap_or_default();
        Ok(Run {
            inside_ns: read.as_u64().or(read["elapsed_ns"].as_u64()).unwrap_or(0),
            wall_ns: ended.elapsed_ns(),
            bytes: read["bytes"].as_u64().unwrap_or(program.bytes),
            requests: counters.requests - counters.write_requests,
            device_bytes: counters.bytes - counters.write_bytes,
            write_requests: counters.write_requests,
            is_partial: ended.status.code() == Some(EXIT_PARTLY),
            is_disturbed,
            said: serde_json::from_str(last).unwrap_or_default(),
        })
    }

    fn read(&self) -> Result<Value, MeasureError> {
        let text =
            std::fs::read_to_string(&self.out).map_err(MeasureError::system("read a time"))?;
        let read = serde_json::from_str(&text);
        read.map_err(|_| MeasureError::Report("a program that reads", format!("{text:?}")))
    }

    /// The words before a program that has `foreread watch` ahead of it, or none.
    pub fn watch(&self, is_watched: bool) -> Vec<OsString> {
        match is_watched {
            true => {
                let words = ["watch", "--json", "--"].map(OsString::from);
                std::iter::once(self.foreread.clone().into())
                    .chain(words)
                    .collect()
            }
            false => Vec::new(),
        }
    }

    /// The least time in which the disk can serve the reads of a program.
    pub fn limit_ns(&self, program: &Program) -> Result<u64, MeasureError> {
        let testbed = self.disk.testbed();
        let mut command = testbed.command(&program.words[0]);
        command.args(&program.words[1..]).stdin(Stdio::null());
        let needed = needed(testbed, command.stdout(Stdio::null()))?;
        match needed.status.success() {
            true => Ok(needed.limit_ns(&testbed.parameters(), testbed)),
            false => Err(MeasureError::Failed {
                command: format!("{command:?}"),
                status: needed.status.to_string(),
            }),
        }
    }
}

/// The result of one run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The time of the program itself.
    pub inside_ns: u64,
    /// With `foreread`'s start and end.
    pub wall_ns: u64,
    /// Bytes that the program read.
    pub bytes: u64,
    /// Read requests that the disk served.
    pub requests: u64,
    /// Bytes that the disk read.
    pub device_bytes: u64,
    /// Writes that the file system made meanwhile, of its own accord.
    pub write_requests: u64,
    /// Records were lost.
    pub is_partial: bool,
    /// Another process dropped the caches of this machine meanwhile.
    pub is_disturbed: bool,
    /// The report of `foreread watch`.
    pub said: Value,
}

impl Run {
    pub fn document(&self) -> Value {
        json!({
            "inside_ns": self.inside_ns,
            "wall_ns": self.wall_ns,
            "read_bytes": self.bytes,
            "requests": self.requests,
            "device_bytes": self.device_bytes,
            "write_requests": self.write_requests,
            "disturbed": self.is_disturbed,
            "watch": self.said,
        })
    }
}

/// Number of times that this machine's caches were dropped since boot; 0 if the kernel doesn't
/// count them.
fn cache_drops() -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    drops_in(&text)
}

fn drops_in(vmstat: &str) -> u64 {
    let count = |line: &str| line.strip_prefix("drop_pagecache ")?.trim().parse().ok();
    vmstat.lines().find_map(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_counted_by_the_kernel() {
        let vmstat = "nr_free_pages 7\ndrop_pagecache 12\ndrop_slab 13\n";
        assert_eq!(drops_in(vmstat), 12);
        assert_eq!(drops_in("nr_free_pages 7\n"), 0);
    }
}
