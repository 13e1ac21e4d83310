// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the cases under the kernels, two guests at a time, and prints and writes the table.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use foreread_guest::{GuestError, Lab};

use crate::begin::Begin;
use crate::beside_this_program;
use crate::cases::check_kernel::WAYS;
use crate::cases::first_boot::DISKS as FIRST_BOOT_DISKS;
use crate::cases::module_live::SCENARIO_NAMES;
use crate::cases::{Beside, CASES, Case};
use crate::context::{Context, installed, strip};
use crate::report::{Cells, Known, Report};
use crate::verifier::Baseline;

/// As many as run at once in one lab.
const WORKERS: usize = 2;
const KNOWN: &str = include_str!("../../../tests/guest/known.list");
const VERIFIER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/guest/verifier.list"
);
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kernels.md");

/// Arguments of `matrix`.
#[derive(Debug, clap::Args)]
pub struct MatrixArguments {
    /// Only these kernels; by default all of tests/guest/kernels.list that every lab has.
    #[arg(long = "kernel", value_name = "KERNEL", value_delimiter = ',')]
    kernels: Vec<String>,
    /// Only these cases.
    #[arg(long = "case", value_name = "CASE", value_delimiter = ',')]
    cases: Vec<String>,
    /// Random programs for check-kernel and module, on each file system; for accounting, on all
    /// together.
    #[arg(long, value_name = "N", default_value_t = 30)]
    programs: u32,
    /// The seed that these programs, and bad boots, are drawn from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How check-kernel looks at the page cache.
    #[arg(long = "by", value_name = "WAY", value_delimiter = ',', value_parser = WAYS,
          default_values = WAYS)]
    ways: Vec<String>,
    /// Random programs that `module` records under every policy, on each file system.
    #[arg(long, value_name = "N", default_value_t = 10)]
    recorded: u32,
    /// Loads and unloads of the kernel module under I/O, in `module-loads`.
    #[arg(long, value_name = "N", default_value_t = 20)]
    loads: u32,
    /// Only these scenarios in `module-live`.
    #[arg(long = "scenario", value_name = "NAME", value_delimiter = ',', value_parser = SCENARIO_NAMES)]
    scenarios: Vec<String>,
    /// Boots of each kind in `boot`, `boot-beside`, `boot-file-systems`, `first-boot` and
    /// `small-memory`; their medians count.
    #[arg(long, value_name = "N", default_value_t = 5)]
    boots: u32,
    /// Only boots that begin there, in `boot`.
    #[arg(
        long = "begin",
        value_name = "WHERE",
        value_enum,
        value_delimiter = ',',
        default_values_t = [Begin::Unit, Begin::Initramfs]
    )]
    begins: Vec<Begin>,

    /// Only boots from these disks, in `first-boot`.
    #[arg(
        long = "disk",
        value_name = "MODEL",
        value_delimiter = ',',
        value_parser = FIRST_BOOT_DISKS,
        default_values = FIRST_BOOT_DISKS
    )]
    disks: Vec<String>,
    /// Bad boots that `bad-boots` draws. After each comes the machine's next boot.
    #[arg(long, value_name = "N", default_value_t = 14)]
    bad_boots: u32,
    /// The first of them that is run, from 0 on: to go on where a run was interrupted.
    #[arg(long, value_name = "N", default_value_t = 0)]
    bad_boots_from: u32,
    /// The foreread to test; by default the one beside this program.
    #[arg(long, value_name = "FILE")]
    foreread: Option<PathBuf>,
    /// Write every row to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the table into docs/kernels.md, when all cases ran under all kernels.
    #[arg(long)]
    write: bool,
    /// Write what the verifier counted in `programs` into tests/guest/verifier.list.
    #[arg(long)]
    bless: bool,
}

/// Runs the matrix.
pub fn matrix(arguments: &MatrixArguments) -> Result<ExitCode, GuestError> {
    let cases = chosen_cases(&arguments.cases)?;
    let known = Known::parse(KNOWN)?;
    let started = Instant::now();
    let lab = Lab::build_virtual(&arguments.kernels)?;
    let kernels = chosen_kernels(&lab, &arguments.kernels)?;
    let scratch = tempfile::tempdir()
        .map_err(|error| GuestError::Unexpected(format!("no temporary folder: {error}")))?;
    let foreread = match &arguments.foreread {
        Some(path) => path.clone(),
        None => beside_this_program("foreread")?,
    };
    let context = Context {
        lab: &lab,
        foreread: installed(&foreread, scratch.path())?,
        programs: arguments.programs,
        seed: arguments.seed,
        ways: arguments.ways.clone(),
        recorded: arguments.recorded,
        loads: arguments.loads,
        scenarios: arguments.scenarios.clone(),
        boots: arguments.boots.max(1),
        begins: arguments.begins.clone(),
        disks: arguments.disks.clone(),
        bad_boots: arguments.bad_boots_from..arguments.bad_boots,
        package: package()?,
        stat_tests: stat_tests(scratch.path())?,
        verifier: Baseline::parse(&read(Path::new(VERIFIER))?)?,
        verifier_now: Mutex::default(),
        doctor_reports: Mutex::default(),
    };
    println!(
        "lab: {} ({} s)",
        lab.folder().display(),
        started.elapsed().as_secs()
    );

    let cells = run_all(&context, &kernels, &cases);
    let report = Report::new(&lab, &kernels, &cases, &cells, &known);
    println!("\n{}", report.markdown());
    println!("matrix: {} s in all", started.elapsed().as_secs());
    if let Some(path) = &arguments.json {
        write(path, &format!("{:#}\n", report.json()))?;
    }
    let is_whole = arguments.kernels.is_empty() && arguments.cases.is_empty();
    if arguments.write && is_whole {
        let page = Path::new(PAGE);
        write(page, &report.page_with_table(&read(page)?)?)?;
        println!("matrix: wrote docs/kernels.md");
    } else if arguments.write {
        println!("matrix: docs/kernels.md is written by a run of all cases and kernels only");
    }
    if arguments.bless {
        let mut baseline = context.verifier.clone();
        let now = context.verifier_now.into_inner();
        baseline.replace(now.unwrap_or_else(PoisonError::into_inner));
        let path = Path::new(VERIFIER);
        write(path, &baseline.text_below(&read(path)?))?;
        println!("matrix: wrote tests/guest/verifier.list");
    }
    let wrong = report.wrong();
    for line in &wrong {
        println!("matrix: {line}");
    }
    Ok(if wrong.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs every case under every kernel. The cases that may run beside another guest come first, two
/// at once. The cases that must run alone follow, one after the other. Beside them run the cases
/// that need only idle time.
fn run_all(context: &Context<'_>, kernels: &[String], cases: &[&'static Case]) -> Cells {
    let cells = Mutex::new(Cells::default());
    let run = |beside: Beside, workers: usize| {
        let cases = cases.iter().copied().filter(|case| case.beside == beside);
        let cases: Vec<&Case> = cases.collect();
        run_some(context, kernels, &cases, workers, &cells);
    };
    run(Beside::Another, WORKERS);
    std::thread::scope(|scope| {
        scope.spawn(|| run(Beside::Anything, 1));
        run(Beside::Nothing, 1);
    });
    cells.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs these cases under every kernel. A worker takes the next pair when its guest is done. The
/// cases that take longest are last in the list, so pairs are taken from its end.
fn run_some(
    context: &Context<'_>,
    kernels: &[String],
    cases: &[&'static Case],
    workers: usize,
    cells: &Mutex<Cells>,
) {
    let pairs = cases.iter().flat_map(|case| {
        let kernels = kernels.iter();
        kernels.map(move |kernel| (*case, kernel))
    });
    let pairs: Mutex<VecDeque<(&Case, &String)>> = Mutex::new(pairs.rev().collect());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let pair = locked(&pairs).pop_front();
                    let Some((case, kernel)) = pair else { break };
                    let started = Instant::now();
                    let result = (case.run)(context, kernel).map_err(|error| error.to_string());
                    let seconds = started.elapsed().as_secs();
                    match &result {
                        Ok(_) => println!("{kernel} {}: {seconds} s", case.name),
                        Err(error) => println!("{kernel} {}: {seconds} s: {error}", case.name),
                    }
                    locked(cells).insert((case.name.to_owned(), kernel.clone()), result);
                }
            });
        }
    });
}

/// A worker that panicked leaves the list as it was between two calls.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn chosen_cases(names: &[String]) -> Result<Vec<&'static Case>, GuestError> {
    if names.is_empty() {
        return Ok(CASES.to_vec());
    }
    let known = CASES.map(|case| case.name).join(", ");
    let case_of = |name: &String| {
        let found = CASES.iter().find(|case| case.name == name).copied();
        found.ok_or_else(|| GuestError::Unexpected(format!("no case {name}; there are {known}")))
    };
    names.iter().map(case_of).collect()
}

fn chosen_kernels(lab: &Lab, names: &[String]) -> Result<Vec<String>, GuestError> {
    if names.is_empty() {
        return Ok(lab
            .kernels()
            .iter()
            .filter(|kernel| kernel.is_always)
            .map(|kernel| kernel.name.clone())
            .collect());
    }
    let name_of = |name: &String| lab.kernel(name).map(|kernel| kernel.name.clone());
    names.iter().map(name_of).collect()
}

/// The package of `make deb` in the target directory of this program; `None` if there is none.
fn package() -> Result<Option<(PathBuf, String)>, GuestError> {
    let folder = beside_this_program("../deb")?;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let is_it = name.starts_with("foreread_") && name.ends_with(".deb");
        is_it.then(|| (entry.path(), name))
    });
    Ok(found.max_by(|a, b| a.1.cmp(&b.1)))
}

/// The tests of `stat` as cargo built them last beside this program, without debug information;
/// `None` where it has not.
fn stat_tests(scratch: &Path) -> Result<Option<PathBuf>, GuestError> {
    let folder = beside_this_program("deps")?;
    let Ok(entries) = std::fs::read_dir(&folder) else {
        return Ok(None);
    };
    let built = entries.flatten().filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let hash = name.strip_prefix("stat-");
        hash.is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
    });
    let newest = built.max_by_key(|entry| entry.metadata().and_then(|m| m.modified()).ok());
    let stripped = scratch.join("stat-tests");
    newest
        .map(|entry| strip(&entry.path(), &stripped).map(|()| stripped))
        .transpose()
}

fn read(path: &Path) -> Result<String, GuestError> {
    std::fs::read_to_string(path)
        .map_err(|error| GuestError::Unexpected(format!("cannot read {}: {error}", path.display())))
}

fn write(path: &Path, text: &str) -> Result<(), GuestError> {
    std::fs::write(path, text).map_err(|error| {
        GuestError::Unexpected(format!("cannot write {}: {error}", path.display()))
    })
}
