// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that each case of the matrix needs: the lab, the program under test, sizes, and rows.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foreread_guest::{Disk, Guest, GuestError, Lab, tree_image};
use foreread_model::DiskParameters;
use serde_json::Value;

use crate::begin::Begin;
use crate::beside_this_program;
use crate::verifier::Baseline;

/// The environment of a case.
pub struct Context<'lab> {
    /// QEMU, kernels and the root image.
    pub lab: &'lab Lab,
    /// The foreread to test, without debug information: it travels in the guest's initial archive.
    pub foreread: PathBuf,
    /// Random programs for check-kernel, on each file system.
    pub programs: u32,
    /// The seed of these programs.
    pub seed: u64,
    /// How check-kernel looks at the page cache: some of `check_kernel::WAYS`.
    pub ways: Vec<String>,
    /// Programs that are recorded under every policy of the kernel module.
    pub recorded: u32,
    /// Loads of the kernel module under I/O.
    pub loads: u32,
    /// The scenarios of the kernel module's benchmarks to play; none means all.
    pub scenarios: Vec<String>,
    /// Boots of each kind in the cases of whole boots.
    pub boots: u32,
    /// Where boots of the case `boot` begin.
    pub begins: Vec<Begin>,
    /// The disks of the case `first-boot`.
    pub disks: Vec<String>,
    /// The bad boots to run, by their numbers.
    pub bad_boots: std::ops::Range<u32>,
    /// The Debian package and its file name, if it is built.
    pub package: Option<(PathBuf, String)>,
    /// The tests of `stat`, if they are built.
    pub stat_tests: Option<PathBuf>,
    /// The verifier's counts for each BPF program when the baseline was written.
    pub verifier: Baseline,
    /// The verifier's counts now, for the kernels that were asked.
    pub verifier_now: Mutex<Baseline>,
    /// Reports of `foreread doctor` under the kernels that were asked.
    pub doctor_reports: Mutex<HashMap<String, Value>>,
}

impl Context<'_> {
    /// A stripped copy of the bench's program, which reads: as it was built with this one.
    ///
    /// # Errors
    /// When it was not built.
    pub fn reader(&self) -> Result<PathBuf, GuestError> {
        let beside = beside_this_program("foreread-bench")?;
        if !beside.exists() {
            return Err(GuestError::Unexpected(format!(
                "{} is missing: build it with `cargo build --release -p foreread-bench`",
                beside.display()
            )));
        }
        let to = self.foreread.with_file_name("reader");
        strip(&beside, &to)?;
        Ok(to)
    }

    /// A guest with foreread beside its script.
    pub fn guest(&self, kernel: &str) -> Result<Guest<'_>, GuestError> {
        Ok(Guest::new(self.lab, kernel)?.file(&self.foreread, "foreread"))
    }

    /// Notes the counts of a kernel's verifier, for a new baseline.
    pub fn note_verifier(&self, found: Baseline) {
        let mut now = self
            .verifier_now
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        now.replace(found);
    }

    /// The report of `foreread doctor` under a kernel, if that was noted.
    pub fn doctor_report(&self, kernel: &str) -> Option<Value> {
        self.doctor_reports().get(kernel).cloned()
    }

    /// Notes the report of `foreread doctor` under a kernel.
    pub fn note_doctor_report(&self, kernel: &str, report: &Value) {
        self.doctor_reports()
            .insert(kernel.to_owned(), report.clone());
    }

    fn doctor_reports(&self) -> MutexGuard<'_, HashMap<String, Value>> {
        self.doctor_reports
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A guest with foreread and a script of `tests/guest` beside its own script.
    pub fn guest_with(&self, kernel: &str, script: &str) -> Result<Guest<'_>, GuestError> {
        let path = Path::new(GUEST_SCRIPTS).join(script);
        Ok(self.guest(kernel)?.file(path, script))
    }

    /// A tree of small files on a modelled hard disk named `data`.
    pub fn hdd(&self, files: usize) -> Result<Disk, GuestError> {
        let hdd = DiskParameters::preset("hdd")
            .ok_or_else(|| GuestError::Unexpected("the model has no hdd".to_owned()))?;
        Ok(Disk::modelled("data", &self.tree(files)?, hdd))
    }

    /// The image of a tree of small files, made at its first use.
    pub fn tree(&self, files: usize) -> Result<PathBuf, GuestError> {
        tree_image(self.lab, files)
    }
}

/// Whether a row reached its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is asserted: the number is for information.
    Told,
    /// It reached its target.
    Reached,
    /// It missed its target, or could not be found out.
    Missed,
}

/// One cell of the table: the result of one case under one kernel.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name, the same under each kernel.
    pub name: String,
    /// The target; empty when nothing is asserted.
    pub target: String,
    /// The result, in a few words.
    pub value: String,
    /// Whether that is enough.
    pub verdict: Verdict,
    /// More about a miss, for the list below the table; may be empty.
    pub detail: String,
}

impl Row {
    /// A number for information.
    pub fn told(name: impl Into<String>, value: impl ToString) -> Self {
        Self {
            name: name.into(),
            target: String::new(),
            value: value.to_string(),
            verdict: Verdict::Told,
            detail: String::new(),
        }
    }

    /// A value with a target.
    pub fn asserted(
        name: impl Into<String>,
        target: impl Into<String>,
        value: impl ToString,
        reached: bool,
    ) -> Self {
        Self {
            target: target.into(),
            verdict: if reached {
                Verdict::Reached
            } else {
                Verdict::Missed
            },
            ..Self::told(name, value)
        }
    }

    /// The same with more to say where it missed.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }
}

/// A JSON document that the script left in `/run/out`.
pub fn document(outcome: &foreread_guest::Outcome, name: &str) -> Result<Value, GuestError> {
    let text = outcome.file(name)?;
    // stat and watch write one document a line; the last one is of the end.
    let whole = serde_json::from_str(&text);
    whole
        .or_else(|_| serde_json::from_str(text.lines().last().unwrap_or("")))
        .map_err(|error| {
            let said = outcome.output.lines().last().unwrap_or("nothing");
            GuestError::Unexpected(format!(
                "{name} is no JSON ({error}); the script ended with: {said}"
            ))
        })
}

/// `foreread` in `folder`, as it is installed. It has no debug information, which is most of a
/// release build, and the pages that a start reads are marked.
pub fn installed(foreread: &Path, folder: &Path) -> Result<PathBuf, GuestError> {
    if !foreread.exists() {
        return Err(GuestError::Unexpected(format!(
            "{} is not there; make build makes it",
            foreread.display()
        )));
    }
    let to = folder.join("foreread");
    strip(foreread, &to)?;
    // Without root it says so, and leaves the program as it is.
    finished(Command::new(START_PAGES).arg(&to))?;
    Ok(to)
}

/// Copies a program without its debug information.
pub fn strip(program: &Path, to: &Path) -> Result<(), GuestError> {
    finished(Command::new("strip").arg("-o").arg(to).arg(program))
}

/// The folder of the scripts that run in guests.
pub const GUEST_SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/guest");
const START_PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/start-pages.sh");

/// Runs a command of the shell in the root directory of the file system in an image, while no guest
/// has it. Returns what it printed.
pub fn on_image(image: &Path, command: &str, arguments: &[&OsStr]) -> Result<String, GuestError> {
    let mut on_image = Command::new(Path::new(GUEST_SCRIPTS).join("on-image.sh"));
    printed(on_image.arg(image).arg(command).args(arguments))
}

/// Runs a program to its end.
pub fn finished(command: &mut Command) -> Result<(), GuestError> {
    printed(command).map(drop)
}

/// Runs a program to its end. Returns what it printed.
pub fn printed(command: &mut Command) -> Result<String, GuestError> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Ok(done) if done.status.success() => Ok(String::from_utf8_lossy(&done.stdout).into()),
        Ok(done) => Err(GuestError::Unexpected(format!(
            "{name} failed: {}",
            String::from_utf8_lossy(&done.stderr).trim()
        ))),
        Err(error) => Err(GuestError::Unexpected(format!(
            "{name} does not run: {error}"
        ))),
    }
}
