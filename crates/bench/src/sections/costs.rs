// SPDX-License-Identifier: MIT OR Apache-2.0
//! Code shared by the sections on costs: a disk with programs whose files are in memory, and times
//! with and without `foreread run`, measured in turn.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use foreread_measure::MeasureError;
use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::foreread::Foreread;
use foreread_measure::host::executable;
use foreread_measure::programs::{Program, made_up_repository, made_up_tree};
use foreread_measure::sample::{Pairs, Rounds, Sample, in_turn};
use foreread_testbed::workload;
use rustix::fs::{Advice, fadvise};
use serde_json::{Value, json};

use crate::context::{Context, Repeated};
use crate::report::{Row, Target};

/// The file that is read while everything of it is in memory.
const HOT_BYTES: u64 = 256 << 20;
/// Number of files that are not in memory, so that replay has work. They are more than a twentieth
/// of the names and of the pages of any profile here. From that share on a run counts as cold.
const COLD_FILES: usize = 1_000;
const COLD_FILE_BYTES: u64 = 24 << 10;
/// Limit of a warm run's reads from the disk: a block or two that were not kept.
pub const WARM_READ_BYTES_MAX: u64 = 256 << 10;
/// The same with the cold files, which readahead and metadata may make a little more.
const COLD_READ_BYTES_MAX: u64 = COLD_FILES as u64 * COLD_FILE_BYTES * 5 / 4 + WARM_READ_BYTES_MAX;

/// Files of C to compile.
const C_FILES: usize = 12;

/// A disk with programs on it.
pub struct Bed {
    pub disk: ModelledDisk,
    pub hot: PathBuf,
    pub cold: PathBuf,
    /// Name and command of each real program this machine has.
    pub programs: Vec<(&'static str, Repeated)>,
    /// Those it lacks, a sentence each.
    pub notes: Vec<String>,
}

impl Bed {
    /// Makes one. Where a program reads from it at all, replay is worth its while.
    pub fn make(context: &Context) -> Result<Self, MeasureError> {
        context.say("putting programs on a modelled disk");
        let mut disk = ModelledDisk::start(preset("cloud")?, Layout::Ext4)?;
        let mut notes = Vec::new();
        let mut found = Vec::new();
        disk.fill(|root| {
            write_file(&root.join("hot"), HOT_BYTES)?;
            write_cold_files(&root.join("cold"))?;
            made_up_tree(&root.join("tree"), workload::SMALL_FILES)?;
            if executable("git").is_some() {
                made_up_repository(&root.join("repository"), workload::GIT_FILES)?;
                found.push(Program::git("repository", workload::GIT_FILES as u64)?);
            }
            match Program::python(root, "python") {
                Ok(program) => found.push(program),
                Err(error) => notes.push(format!("python is left out: {error}.")),
            }
            write_c_files(&root.join("c"))
        })?;
        let mut programs: Vec<(&'static str, Repeated)> = found
            .iter()
            .map(|program| (program.name(), Repeated::from(&program.command(&disk, &[]))))
            .collect();
        for (name, directory, script) in [
            ("tar", "tree", "tar -cf - . | cat > /dev/null"),
            (
                "cc",
                "c",
                "for file in *.c; do cc -O1 -c $file -o $file.o || exit; done",
            ),
        ] {
            programs.push((name, shell(script, &disk.root().join(directory))));
        }
        programs.retain(|(name, _)| {
            let is_there = *name == "python" || executable(name).is_some();
            if !is_there {
                notes.push(format!("{name} is left out: it is not installed."));
            }
            is_there
        });
        let (hot, cold) = (disk.root().join("hot"), disk.root().join("cold"));
        Ok(Self {
            disk,
            hot,
            cold,
            programs,
            notes,
        })
    }

    /// `dd bs=4k` of the hot file.
    pub fn dd(&self) -> Repeated {
        let input = format!("if={}", self.hot.display());
        let words = ["dd", &input, "of=/dev/null", "bs=4k", "status=none"];
        Repeated {
            words: words.map(OsString::from).to_vec(),
            directory: self.disk.root().to_owned(),
            environment: Vec::new(),
        }
    }

    /// The hot file, a number of times, 4 KiB a call, from inside.
    pub fn preads(&self, passes: u64) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["--preads".into(), self.hot.clone().into()];
        words.extend(["--passes".into(), passes.to_string().into()]);
        words
    }

    /// Reads in one pass over the hot file.
    pub fn reads_a_pass() -> f64 {
        (HOT_BYTES / 4096) as f64
    }

    /// Takes the cold files out of memory.
    pub fn make_cold(&self) -> Result<(), MeasureError> {
        let made = fs::read_dir(&self.cold).and_then(|entries| {
            for entry in entries {
                let file = File::open(entry?.path())?;
                fadvise(&file, 0, None, Advice::DontNeed)?;
            }
            Ok(())
        });
        made.map_err(MeasureError::system("take files out of memory"))
    }
}

fn shell(script: &str, directory: &Path) -> Repeated {
    Repeated {
        words: ["sh", "-c", script].map(OsString::from).to_vec(),
        directory: directory.to_owned(),
        environment: Vec::new(),
    }
}

/// A file without holes.
pub fn write_file(path: &Path, bytes: u64) -> Result<(), MeasureError> {
    let block = vec![0x5a; usize::try_from(bytes.min(1 << 20)).unwrap_or(0)];
    let written = File::create(path).and_then(|mut file| {
        let mut left_bytes = bytes;
        while left_bytes > 0 {
            let part = &block[..usize::try_from(left_bytes)
                .unwrap_or(usize::MAX)
                .min(block.len())];
            file.write_all(part)?;
            left_bytes -= part.len() as u64;
        }
        Ok(())
    });
    written.map_err(MeasureError::system(format!("write {}", path.display())))
}

fn write_cold_files(directory: &Path) -> Result<(), MeasureError> {
    let what = format!("make {}", directory.display());
    fs::create_dir(directory).map_err(MeasureError::system(what))?;
    (0..COLD_FILES)
        .try_for_each(|file| write_file(&directory.join(file.to_string()), COLD_FILE_BYTES))
}

fn write_c_files(directory: &Path) -> Result<(), MeasureError> {
    let headers = [
        "stdio", "stdlib", "string", "math", "time", "unistd", "pthread", "sys/stat",
    ];
    let headers: String = headers
        .map(|name| format!("#include <{name}.h>\n"))
        .concat();
    let written = fs::create_dir(directory).and_then(|()| {
        for file in 0..C_FILES {
            let functions: String = (0..60)
                .map(|number| {
                    format!(
                        "double f{number}(double x) {{ char text[64]; \
                         snprintf(text, sizeof text, \"%g %d\", sin(x), {number}); \
                         return strlen(text) + atof(text) * {file}; }}\n"
                    )
                })
                .collect();
            fs::write(
                directory.join(format!("{file}.c")),
                format!("{headers}{functions}"),
            )?;
        }
        Ok(())
    });
    written.map_err(MeasureError::system(format!(
        "write {}",
        directory.display()
    )))
}

/// A program to run under `foreread run`, with the options.
pub struct Costs<'a> {
    pub context: &'a Context,
    pub bed: &'a Bed,
    /// Options of `foreread run`.
    pub options: &'a [&'a str],
    /// Runs under `foreread run` before anything is timed.
    pub runs_before: usize,
    /// Whether each run begins with files that aren't in memory.
    pub with_cold: bool,
    /// The mode that a run reports if it did the measured work.
    pub mode: &'a str,
}

/// Measurements of one program.
pub struct Cost {
    /// Times from inside.
    pub inner: Pairs,
    /// Times from outside, `foreread`'s start and end included.
    pub outer: Pairs,
    /// Modes that the runs under `foreread run` reported, with the number of runs.
    pub modes: BTreeMap<String, usize>,
}

impl Costs<'_> {
    /// Times a program, or reads from inside, with and without `foreread run`.
    pub fn measure(
        &self,
        inside: &[OsString],
        program: Option<&Repeated>,
        rounds: Rounds,
    ) -> Result<Cost, MeasureError> {
        let foreread = Foreread::new(&self.context.foreread)?;
        let out = foreread.state().join("inside-ns");
        let repeated = self.repeated(&out, inside, program, &foreread);
        // The files of the program come into memory, and it is known to foreread.
        self.run(&repeated, &[])?;
        for _ in 0..self.runs_before {
            self.run(&repeated, &foreread.before(self.options))?;
        }
        let outer = RefCell::new((Vec::new(), Vec::new()));
        let modes = RefCell::new(BTreeMap::new());
        let inner = in_turn(
            rounds,
            || {
                outer.borrow_mut().0.push(self.run(&repeated, &[])?);
                read_ns(&out)
            },
            || {
                let wall = self.run(&repeated, &foreread.before_reporting(self.options))?;
                outer.borrow_mut().1.push(wall);
                *modes
                    .borrow_mut()
                    .entry(foreread.report()?.mode().to_owned())
                    .or_default() += 1;
                read_ns(&out)
            },
        )?;
        let (without, with) = outer.into_inner();
        Ok(Cost {
            inner,
            outer: Pairs {
                pairs_ns: without.into_iter().zip(with).collect(),
            },
            modes: modes.into_inner(),
        })
    }

    fn repeated(
        &self,
        out: &Path,
        inside: &[OsString],
        program: Option<&Repeated>,
        foreread: &Foreread,
    ) -> Repeated {
        let mut words = self.context.inside(out, &[]);
        if self.with_cold {
            words.extend(["--first-read".into(), self.bed.cold.clone().into()]);
        }
        words.extend(inside.iter().cloned());
        let mut repeated = program.cloned().unwrap_or_else(|| Repeated {
            words: Vec::new(),
            directory: self.bed.disk.root().to_owned(),
            environment: Vec::new(),
        });
        if program.is_some() {
            words.push("--".into());
            words.append(&mut repeated.words);
        }
        repeated.words = words;
        repeated.share_state(foreread);
        repeated
    }

    fn run(&self, repeated: &Repeated, before: &[OsString]) -> Result<f64, MeasureError> {
        let read_bytes_max = match self.with_cold {
            true => COLD_READ_BYTES_MAX,
            false => WARM_READ_BYTES_MAX,
        };
        self.bed.disk.undisturbed(read_bytes_max, || {
            if self.with_cold {
                self.bed.make_cold()?;
            }
            repeated.run(&self.bed.disk, before)
        })
    }
}

/// The time that a program took from inside, in nanoseconds.
pub fn read_ns(path: &Path) -> Result<f64, MeasureError> {
    let text = fs::read_to_string(path).map_err(MeasureError::system("read a time"))?;
    text.parse()
        .map_err(|_| MeasureError::Report("the inner timer", format!("{text:?} is no time")))
}

impl Cost {
    /// A row for how much slower a program became, in per cent.
    pub fn slowdown_row(&self, name: &str, target_percent: f64) -> Row {
        let percent = 100.0 * self.inner.slowdown();
        Row {
            cells: vec![
                name.to_owned(),
                milliseconds(self.inner.without().median()),
                milliseconds(self.inner.with().median()),
                self.inner.pairs_ns.len().to_string(),
                spread(&self.inner.slowdowns(), 100.0),
                milliseconds(self.outer.added_ns() - self.inner.added_ns()),
            ],
            value: percent,
            digits: 2,
            target: Target::AtMost(target_percent),
            details: self.details(),
        }
    }

    /// A row for the slowdown of a read, in microseconds.
    pub fn read_row(&self, name: &str, reads: f64, target_us: f64) -> Row {
        let us = |ns: f64| format!("{:.3} us", ns / reads / 1e3);
        let added = self
            .inner
            .pairs_ns
            .iter()
            .map(|(without, with)| with - without);
        Row {
            cells: vec![
                name.to_owned(),
                us(self.inner.without().median()),
                us(self.inner.with().median()),
                self.inner.pairs_ns.len().to_string(),
                spread(&Sample::new(added), 1.0 / reads / 1e3),
                milliseconds(self.outer.added_ns() - self.inner.added_ns()),
            ],
            value: self.inner.added_ns() / reads / 1e3,
            digits: 3,
            target: Target::AtMost(target_us),
            details: self.details(),
        }
    }

    /// A note when runs didn't do the work to be measured.
    pub fn note(&self, name: &str, mode: &str) -> Option<String> {
        let runs: usize = self.modes.values().sum();
        let others = runs - self.modes.get(mode).copied().unwrap_or(0);
        let did: Vec<String> = self
            .modes
            .iter()
            .map(|(mode, runs)| format!("{runs} {mode}"))
            .collect();
        (others * 10 > runs).then(|| {
            let did = did.join(", ");
            format!("{name}: not all runs were {mode}, so the row says less ({did}).")
        })
    }

    fn details(&self) -> Value {
        json!({
            "inner_ns": pairs_json(&self.inner),
            "outer_ns": pairs_json(&self.outer),
            "modes": self.modes,
        })
    }
}

/// Both sides of all pairs.
pub fn pairs_json(pairs: &Pairs) -> Value {
    json!({
        "without": pairs.pairs_ns.iter().map(|pair| pair.0).collect::<Vec<_>>(),
        "with": pairs.pairs_ns.iter().map(|pair| pair.1).collect::<Vec<_>>(),
    })
}

/// The quarter points of a sample, times a factor: half of it lies between them.
pub fn spread(sample: &Sample, factor: f64) -> String {
    let (low, high) = sample.quartiles();
    format!("{:+.2} to {:+.2}", low * factor, high * factor)
}

pub fn milliseconds(ns: f64) -> String {
    format!("{:.1} ms", ns / 1e6)
}

/// The columns of [`Cost::slowdown_row`] and [`Cost::read_row`].
pub const HEADER: [&str; 6] = [
    "program",
    "without",
    "with",
    "pairs",
    "half of them",
    "start and end",
];

/// Time for which each program is measured.
pub fn program_time() -> Duration {
    Duration::from_secs(18)
}

/// Times `work` once.
pub fn elapsed_ns<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let began = Instant::now();
    let result = work();
    (result, began.elapsed().as_nanos() as f64)
}

/// The same in time of the processor, which is less on a machine that has other work.
pub fn processor_ns<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let now_ns = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
    };
    let start_ns = now_ns();
    let done = work();
    (done, now_ns() - start_ns)
}
