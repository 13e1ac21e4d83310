// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread watch` that runs beside other measurements: its memory, descriptors and threads.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use foreread_measure::MeasureError;
use foreread_measure::disk::ModelledDisk;
use foreread_measure::foreread::Foreread;
use foreread_measure::process::{Stderr, processor_time};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A service manager waits longer.
const START_MAX: Duration = Duration::from_secs(30);
/// For threads to end after the last program.
const SETTLE_MAX: Duration = Duration::from_secs(10);
/// Interval at which its resources are sampled for their maximum.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Resources that it holds at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Memory that is there, in KiB.
    pub resident_kib: u64,
    /// Open descriptors.
    pub descriptors: usize,
    /// Threads.
    pub threads: usize,
}

impl Held {
    /// The larger value of each.
    #[must_use]
    pub fn or_more(self, other: Self) -> Self {
        Self {
            resident_kib: self.resident_kib.max(other.resident_kib),
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
        }
    }
}

/// `foreread watch` ahead of this process and all that it starts; killed where it isn't ended.
#[derive(Debug)]
pub struct Service {
    child: Child,
    stderr: Option<Stderr>,
    at: PathBuf,
}

/// The report at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The document, schema `foreread.watch`.
    pub document: Value,
    /// Lines on standard error.
    pub lines: usize,
}

impl Said {
    /// A number of the document; 0 where there is none.
    pub fn count(&self, name: &str) -> u64 {
        self.document[name].as_u64().unwrap_or_default()
    }
}

impl Service {
    /// Starts it, and waits until it is ready.
    ///
    /// # Errors
    /// It can't be started, or doesn't get ready.
    pub fn start(disk: &ModelledDisk, foreread: &Foreread) -> Result<Self, MeasureError> {
        let socket = foreread.state().join("notify");
        // An earlier one may have left its own.
        let _ = fs::remove_file(&socket);
        let manager = UnixDatagram::bind(&socket).map_err(MeasureError::system("make a socket"))?;
        manager
            .set_read_timeout(Some(START_MAX))
            .map_err(MeasureError::system("wait at a socket"))?;
        let mut command = disk.testbed().command(foreread.executable());
        // The rest of the machine would come and go, too.
        let ours = std::process::id().to_string();
        command.args(["watch", "--json", "--pid", &ours]);
        foreread.set_environment(&mut command);
        command.env("NOTIFY_SOCKET", &socket).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn();
        let mut child = child.map_err(MeasureError::system("start foreread watch"))?;
        let service = Self {
            stderr: Some(Stderr::of(&mut child)),
            at: Path::new("/proc").join(child.id().to_string()),
            child,
        };
        let mut bytes = [0; 64];
        // A socket with a limit isn't read on after a stop of the process; signal(7).
        let length = loop {
            match manager.recv(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                length => break length,
            }
        };
        length.map_err(MeasureError::system("have foreread watch get ready"))?;
        Ok(service)
    }

    /// Resources that it holds now.
    ///
    /// # Errors
    /// It has ended.
    pub fn held(&self) -> Result<Held, MeasureError> {
        let status = self.read("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
        let count = |name: &str| -> Result<usize, MeasureError> {
            let entries = fs::read_dir(self.at.join(name));
            Ok(entries
                .map_err(MeasureError::system("look at foreread watch"))?
                .count())
        };
        Ok(Held {
            // A process that has ended has no memory.
            resident_kib: number.ok_or_else(|| MeasureError::Failed {
                command: "foreread watch".to_owned(),
                status: "an exit before it was told to".to_owned(),
            })?,
            descriptors: count("fd")?,
            threads: count("task")?,
        })
    }

    /// The most that it holds while something is done.
    ///
    /// # Errors
    /// Those of `work`; or it has ended.
    pub fn most_during<T>(
        &self,
        work: impl FnOnce() -> Result<T, MeasureError>,
    ) -> Result<(T, Held), MeasureError> {
        let is_done = AtomicBool::new(false);
        let look = || -> Result<Held, MeasureError> {
            let mut most = self.held()?;
            while !is_done.load(Ordering::Relaxed) {
                thread::sleep(LOOK_EVERY);
                most = most.or_more(self.held()?);
            }
            Ok(most)
        };
        thread::scope(|scope| {
            let looking = scope.spawn(look);
            let done = work();
            is_done.store(true, Ordering::Relaxed);
            let most = looking.join();
            let nobody = |_| MeasureError::Report("foreread watch", "nobody looked".to_owned());
            Ok((done?, most.map_err(nobody)??))
        })
    }

    /// Processor time so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn processor_time(&self) -> Result<Duration, MeasureError> {
        processor_time(self.child.id())
    }

    /// Waits until the last walks have ended, as long as that may take, and until no more is open
    /// than before, where that is known.
    pub fn settle(&self, before: Option<Held>) {
        let is_settled = |held: Held| {
            let is_closed = |before: Held| held.descriptors <= before.descriptors;
            self.walks() == 0 && before.is_none_or(is_closed)
        };
        let began = Instant::now();
        while began.elapsed() < SETTLE_MAX && !self.held().is_ok_and(is_settled) {
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends it.
    ///
    /// # Errors
    /// It says nothing that can be read.
    pub fn end(mut self) -> Result<Said, MeasureError> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            kill_process(pid, Signal::TERM).map_err(MeasureError::system("end foreread watch"))?;
        }
        let mut text = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            Read::read_to_string(&mut stdout, &mut text)
                .map_err(MeasureError::system("read what foreread watch says"))?;
        }
        self.child
            .wait()
            .map_err(MeasureError::system("wait for foreread watch"))?;
        let stderr = self.stderr.take().map(Stderr::wait).unwrap_or_default();
        let document = serde_json::from_str(&text);
        Ok(Said {
            document: document.map_err(|_| MeasureError::Report("foreread watch did", text))?,
            lines: stderr.lines().count(),
        })
    }

    fn read(&self, name: &str) -> Result<String, MeasureError> {
        fs::read_to_string(self.at.join(name))
            .map_err(MeasureError::system("look at foreread watch"))
    }

    /// Threads that walk.
    fn walks(&self) -> usize {
        let threads = fs::read_dir(self.at.join("task")).into_iter().flatten();
        let names = threads.flatten().map(|thread| thread.path().join("comm"));
        let is_walk = |name: &PathBuf| fs::read(name).is_ok_and(|name| name == b"walk\n");
        names.filter(is_walk).count()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It has ended already where all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
