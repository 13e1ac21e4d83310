// SPDX-License-Identifier: MIT OR Apache-2.0
//! State shared by all sections: what to measure, how often, and the cold starts measured so far.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use foreread_measure::MeasureError;
use foreread_measure::cold::{self, ColdPlan, ColdStarts};
use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::foreread::Foreread;
use foreread_measure::process;
use foreread_measure::programs::Program;
use foreread_measure::sample::Rounds;

/// Disks that most sections measure on by default.
const DEVICES: [&str; 4] = ["hdd", "usb", "cloud", "nvme"];
/// Default duration of `churn`.
pub const MINUTES: f64 = 2.0;
/// Number of files in `many-files` by default.
pub const FILES: usize = 1_000_000;
/// Number of processes in `many-processes` by default.
pub const PROCESSES: usize = 10_000;

/// State shared by all sections.
pub struct Context {
    pub foreread: PathBuf,
    /// This program, which times from inside.
    bench: PathBuf,
    pub quick: bool,
    /// Those that most sections measure on.
    pub devices: Vec<String>,
    /// Those that were asked for; none when all are.
    chosen_devices: Vec<String>,
    pub programs: Vec<String>,
    /// Where traces and lists of requests are kept, if they are.
    pub keep: Option<PathBuf>,
    /// Where programs that make images were unpacked; otherwise, those of this machine are used.
    pub image_tools: Option<PathBuf>,
    /// Duration of `churn`.
    pub churn_minutes: f64,
    /// Number of processes that exist at once in `many-processes`.
    pub processes: usize,
    /// Number of files that programs go through in `many-files`.
    pub files: usize,
    /// Cold starts by program and device.
    cold: BTreeMap<(String, String), (Program, ColdStarts)>,
}

impl Context {
    pub fn new(foreread: PathBuf, bench: PathBuf, quick: bool) -> Result<Self, MeasureError> {
        // Says at once if it isn't there.
        Foreread::new(&foreread)?;
        Ok(Self {
            foreread,
            bench,
            quick,
            devices: DEVICES.map(str::to_owned).to_vec(),
            chosen_devices: Vec::new(),
            programs: Vec::new(),
            keep: None,
            image_tools: None,
            churn_minutes: MINUTES,
            processes: PROCESSES,
            files: FILES,
            cold: BTreeMap::new(),
        })
    }

    /// Measures on these disks only; without any, on those of each section.
    pub fn choose_devices(&mut self, devices: &[String]) {
        if !devices.is_empty() {
            self.devices = devices.to_vec();
        }
        self.chosen_devices = devices.to_vec();
    }

    /// Those of the disks `names` that were asked for, or all when none was.
    pub fn devices_of<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        let chosen = &self.chosen_devices;
        let wanted = |name: &&str| chosen.is_empty() || chosen.iter().any(|device| device == name);
        names.iter().copied().filter(wanted).collect()
    }

    /// Those of `names` that were asked for, or all when none was.
    pub fn programs_of(&self, names: &[&str]) -> Vec<String> {
        let wanted = |name: &&&str| {
            self.programs.is_empty() || self.programs.iter().any(|program| program == **name)
        };
        let names = names.iter().filter(wanted);
        names.map(|name| (*name).to_owned()).collect()
    }

    /// Prints on stderr the current measurement.
    pub fn say(&self, what: &str) {
        eprintln!("foreread-bench: {what}");
    }

    /// As many rounds as fit into a time, but at least `least`.
    pub fn rounds(&self, least: usize, time: Duration) -> Rounds {
        if self.quick {
            let min = least.div_ceil(3);
            return Rounds {
                min,
                max: least.max(min),
                time: time / 4,
            };
        }
        Rounds {
            min: least,
            max: 101,
            time,
        }
    }

    /// Rounds of a measurement that takes seconds each time, and is much alike each time.
    pub fn few_rounds(&self) -> Rounds {
        Rounds::exactly(if self.quick { 3 } else { 7 })
    }

    /// How cold starts are measured: the long ones once or twice, the short ones more often.
    pub fn cold_plan(&self) -> ColdPlan {
        let time = Duration::from_secs(if self.quick { 0 } else { 30 });
        ColdPlan {
            pairs: Some(Rounds {
                min: 1,
                max: 7,
                time,
            }),
            second_runs: if self.quick { 3 } else { 5 },
            cached_runs: 5,
            trace: false,
        }
    }

    /// The cold starts of a program on each device, on ext4, measured once.
    pub fn cold(&mut self, program: &str, devices: &[String]) -> Result<(), MeasureError> {
        let known = |device: &String| {
            self.cold
                .contains_key(&(program.to_owned(), device.clone()))
        };
        let missing: Vec<String> = devices
            .iter()
            .filter(|device| !known(device))
            .cloned()
            .collect();
        let Some(first) = missing.first() else {
            return Ok(());
        };
        let mut disk = ModelledDisk::start(preset(first)?, Layout::Ext4)?;
        let installed = Program::install(program, &mut disk)?;
        for device in missing {
            self.say(&format!("cold: {} on {device}", installed.title()));
            disk.set_parameters(preset(&device)?)?;
            let plan = self.cold_plan();
            let starts = cold::measure(&disk, &installed, &self.foreread, &plan, &mut |_| {})?;
            self.cold
                .insert((program.to_owned(), device), (installed.clone(), starts));
        }
        Ok(())
    }

    /// Measurements of [`Context::cold`].
    pub fn measured(&self, program: &str, device: &str) -> Option<&(Program, ColdStarts)> {
        self.cold.get(&(program.to_owned(), device.to_owned()))
    }

    /// The words of a program that reads large files, before those for the files and the pattern.
    pub fn reader(&self, out: &Path) -> Vec<OsString> {
        let words: [OsString; 4] = [
            self.bench.clone().into(),
            "reader".into(),
            "--out".into(),
            out.into(),
        ];
        words.to_vec()
    }

    /// This program itself, which may be one of those measured.
    pub fn own_path(&self) -> &Path {
        &self.bench
    }

    /// The words that time the following ones from inside.
    pub fn inside(&self, out: &Path, options: &[&str]) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.bench.clone().into(), "inside".into()];
        words.extend(["--out".into(), out.into()]);
        words.extend(options.iter().map(OsString::from));
        words
    }
}

/// A command line to be run again and again.
#[derive(Clone, Debug)]
pub struct Repeated {
    pub words: Vec<OsString>,
    pub directory: PathBuf,
    pub environment: Vec<(OsString, Option<OsString>)>,
}

impl Repeated {
    /// Runs it; its time from outside, in nanoseconds.
    pub fn run(&self, disk: &ModelledDisk, before: &[OsString]) -> Result<f64, MeasureError> {
        let words: Vec<&OsString> = before.iter().chain(&self.words).collect();
        let mut command = disk.testbed().command(words[0]);
        command.args(&words[1..]);
        self.prepare(&mut command);
        // grep tells with 1 that it found nothing.
        let ended = process::run_to(&mut command, &[0, 1])?;
        Ok(ended.elapsed.as_nanos() as f64)
    }

    /// Has it keep and find profiles where this one does.
    pub fn share_state(&mut self, foreread: &Foreread) {
        let state = foreread.state().as_os_str().to_owned();
        self.environment
            .push(("FOREREAD_STATE_DIR".into(), Some(state)));
    }

    fn prepare(&self, command: &mut Command) {
        command.current_dir(&self.directory);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }
}

impl From<&Command> for Repeated {
    fn from(command: &Command) -> Self {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let owned = |text: &std::ffi::OsStr| text.to_owned();
        Self {
            words: words.map(owned).collect(),
            directory: command
                .get_current_dir()
                .unwrap_or(Path::new("/"))
                .to_owned(),
            environment: command
                .get_envs()
                .map(|(name, value)| (name.to_owned(), value.map(owned)))
                .collect(),
        }
    }
}
