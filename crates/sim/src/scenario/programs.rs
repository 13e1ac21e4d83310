// SPDX-License-Identifier: MIT OR Apache-2.0
//! `[[program]]`: the programs that read, their speed, and their number.

use foreread_core::policy::{Access, Advice};

use super::phases::{self, PHASE_FIELDS};
use super::text::Section;
use super::{FileGroup, ProgramGroup, Programs, ScenarioError};
use crate::engine::{Phase, Through};

type Result<T> = std::result::Result<T, ScenarioError>;

/// Programs beyond this are a slip of the pen.
const COUNT_MAX: u64 = 1_000_000;
/// As are files that all programs together read, beyond this.
const READ_FILES_MAX: u64 = 10_000_000;
/// Threads of one program.
const THREADS_MAX: u64 = 4096;

/// The fields of a program that don't belong to a phase.
const FIELDS: [&str; 20] = [
    "name",
    "count",
    "victim",
    "file",
    "own_files",
    "phase",
    "threads",
    "pieces",
    "through",
    "mapping",
    "advice",
    "repeat",
    "start",
    "start_step",
    "think",
    "cpu_per_page",
    "cpu_per_fetched_page",
    "cpu_per_call",
    "rate",
    "seed",
];

pub(super) fn programs(top: &Section<'_>, files: &[FileGroup]) -> Result<Vec<ProgramGroup>> {
    let sections = top.sections("program")?;
    if sections.is_empty() {
        return Err(top.error("program", "there is no [[program]], so nothing happens"));
    }
    sections
        .iter()
        .map(|section| program(section, files))
        .collect()
}

fn program(section: &Section<'_>, groups: &[FileGroup]) -> Result<ProgramGroup> {
    section.only(&[&FIELDS[..], &PHASE_FIELDS[..]].concat())?;
    let files = section.required("file")?.text()?.to_owned();
    let Some(group) = groups.iter().find(|group| group.name == files) else {
        let names: Vec<&str> = groups.iter().map(|group| &*group.name).collect();
        let what = format!(
            "no file is called `{files}`; there are: {}",
            names.join(", ")
        );
        return Err(section.error("file", what));
    };
    let phases = phases(section, group)?;
    let (threads, piece_bytes) = threads(section, &phases)?;
    let parsed = ProgramGroup {
        name: section.text("name")?.unwrap_or("program").to_owned(),
        is_victim: section.flag("victim")?,
        count: count(section)?,
        files,
        own_files: section.flag("own_files")?,
        phases,
        threads,
        piece_bytes,
        through: through(section)?,
        advice: section.word(
            "advice",
            &[
                ("normal", Advice::Normal),
                ("sequential", Advice::Sequential),
                ("random", Advice::Random),
            ],
        )?,
        repeat: section.count("repeat")?.unwrap_or(1),
        start_ns: section.time("start")?.unwrap_or(0),
        start_step_ns: section.time("start_step")?.unwrap_or(0),
        think_ns: section.time("think")?.unwrap_or(0),
        cpu_per_page_ns: section.time("cpu_per_page")?.unwrap_or(0),
        cpu_per_fetched_page_ns: section.time("cpu_per_fetched_page")?.unwrap_or(0),
        cpu_per_call_ns: section.time("cpu_per_call")?.unwrap_or(0),
        rate_bytes_per_s: section.size("rate")?.unwrap_or(0),
        seed: section.count("seed")?.unwrap_or(1),
    };
    check_counts(section, &parsed, group)?;
    Ok(parsed)
}

/// The phases of a program on each file: the fields of the program, or several `[[program.phase]]`.
fn phases(section: &Section<'_>, group: &FileGroup) -> Result<Vec<Phase>> {
    let sections = section.sections("phase")?;
    if sections.is_empty() {
        return Ok(vec![phases::phase(section, group)?]);
    }
    if let Some(name) = PHASE_FIELDS.iter().find(|name| section.get(name).is_some()) {
        return Err(section.error(name, "belongs in each [[program.phase]], as there are some"));
    }
    let phase = |section: &Section<'_>| {
        section.only(&PHASE_FIELDS)?;
        phases::phase(section, group)
    };
    sections.iter().map(phase).collect()
}

fn count(section: &Section<'_>) -> Result<Programs> {
    match section.get("count") {
        Some(field) if field.text().is_ok() => field.word(&[("sweep", Programs::Swept)]),
        Some(field) => match field.count()? {
            count @ 1..=COUNT_MAX => Ok(Programs::Fixed(count)),
            _ => Err(field.error("expected 1 to 1,000,000 programs, or \"sweep\"")),
        },
        None => Ok(Programs::Fixed(1)),
    }
}

/// Number of threads, and size of the pieces that they read in turn.
fn threads(section: &Section<'_>, phases: &[Phase]) -> Result<(u64, u64)> {
    let threads = section.count("threads")?.unwrap_or(1);
    if !(1..=THREADS_MAX).contains(&threads) {
        return Err(section.error("threads", "expected 1 to 4096"));
    }
    let Some(piece_bytes) = section.size("pieces")? else {
        return Ok((threads, 0));
    };
    if threads == 1 {
        return Err(section.error("pieces", "needs threads that share the file"));
    }
    for phase in phases {
        let fits = phase.request_bytes > 0 && piece_bytes.is_multiple_of(phase.request_bytes);
        if piece_bytes == 0 || !fits {
            let what = "expected a multiple of the request, which has to be a size";
            return Err(section.error("pieces", what));
        }
    }
    Ok((threads, piece_bytes))
}

/// Too many programs, or too few files for them.
fn check_counts(section: &Section<'_>, parsed: &ProgramGroup, group: &FileGroup) -> Result<()> {
    let too_many = |count| parsed.own_files && count > group.count;
    if matches!(parsed.count, Programs::Fixed(count) if too_many(count)) {
        let what = format!(
            "{} files are too few for each program to have its own",
            group.count
        );
        return Err(section.error("count", what));
    }
    let programs = match parsed.count {
        Programs::Fixed(count) => count,
        Programs::Swept => 1,
    };
    if programs.saturating_mul(parsed.threads) > COUNT_MAX {
        let what = format!("{programs} programs with as many threads are more than 1,000,000");
        return Err(section.error("threads", what));
    }
    if !parsed.own_files && programs.saturating_mul(group.count) > READ_FILES_MAX {
        let what = format!(
            "{programs} programs with {} files each are too many",
            group.count
        );
        return Err(section.error("count", what));
    }
    Ok(())
}

fn through(section: &Section<'_>) -> Result<Through> {
    let is_mapping = section.word("through", &[("read", false), ("mmap", true)])?;
    let flags = section.list("mapping", |field| {
        field.word(&[
            ("sequential", Access::VMA_SEQUENTIAL),
            ("random", Access::VMA_RANDOM),
            ("exec", Access::VMA_EXEC),
            ("huge", Access::VMA_HUGE),
        ])
    })?;
    match (is_mapping, flags) {
        (Some(true), flags) => Ok(Through::Mapping(
            flags.iter().flatten().fold(0, |a, f| a | f),
        )),
        (_, None) => Ok(Through::Read),
        (_, Some(_)) => Err(section.error("mapping", "needs through = \"mmap\"")),
    }
}
