// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reads of a program: a pattern, its part of the file, and disturbances. These fields stand in
//! `[[program]]`, or in each `[[program.phase]]`.

use super::text::{Field, Section};
use super::{FileGroup, ScenarioError};
use crate::engine::{Pattern, Phase};
use crate::path::PAGE_BYTES;

type Result<T> = std::result::Result<T, ScenarioError>;

/// Requests that are put out of order together are kept in memory.
const REORDER_MAX: u64 = 65_536;

/// The fields of a phase.
pub(super) const PHASE_FIELDS: [&str; 13] = [
    "pattern",
    "offset",
    "length",
    "request",
    "stride",
    "run",
    "streams",
    "requests",
    "places",
    "sequential_percent",
    "reorder",
    "holes_percent",
    "noise_percent",
];

pub(super) fn phase(section: &Section<'_>, group: &FileGroup) -> Result<Phase> {
    let pattern = pattern(section, group)?;
    let is_strided = matches!(pattern, Pattern::Strided { .. });
    let holes_percent = percent(section, "holes_percent", 99)?.unwrap_or(0);
    let run = section.size("run")?;
    if run.is_some() && !is_strided && holes_percent == 0 {
        return Err(section.error("run", "needs pattern = \"strided\" or holes_percent"));
    }
    let reorder = section.count("reorder")?;
    if reorder.is_some_and(|requests| !(2..=REORDER_MAX).contains(&requests)) {
        return Err(section.error("reorder", "expected 2 to 65,536 requests"));
    }
    let phase = Phase {
        pattern,
        offset_bytes: section.size("offset")?.unwrap_or(0),
        length_bytes: section.size("length")?.unwrap_or(u64::MAX),
        request_bytes: request(section)?,
        requests_max: section.count("requests")?.unwrap_or(u64::MAX),
        reorder_requests: reorder.unwrap_or(0),
        holes_percent,
        hole_run_bytes: run.filter(|_| !is_strided).unwrap_or(0),
        noise_percent: percent(section, "noise_percent", 99)?.unwrap_or(0),
    };
    past_the_end(section, &phase, group)?;
    Ok(phase)
}

fn percent(section: &Section<'_>, name: &str, most: u8) -> Result<Option<u8>> {
    let Some(field) = section.get(name) else {
        return Ok(None);
    };
    let percent = u8::try_from(field.count()?).ok();
    let percent = percent.filter(|percent| *percent <= most);
    let what = || field.error(format!("expected 0 to {most} percent"));
    percent.ok_or_else(what).map(Some)
}

/// The size of a request; 0 stands for the size of the window.
fn request(section: &Section<'_>) -> Result<u64> {
    let Some(field) = section.get("request") else {
        return Ok(PAGE_BYTES);
    };
    if field.text() == Ok("read-ahead") {
        return Ok(0);
    }
    match field.size()? {
        0 => Err(field.error("a request of no size reads nothing")),
        bytes => Ok(bytes),
    }
}

/// A read past the end of the file is a slip of the pen.
fn past_the_end(section: &Section<'_>, phase: &Phase, file: &FileGroup) -> Result<()> {
    let end = |from: u64, length: u64| from.saturating_add(length);
    let what = |end: u64| format!("reads to byte {end} of a file of {}", file.bytes);
    if phase.offset_bytes >= file.bytes {
        return Err(section.error("offset", what(phase.offset_bytes)));
    }
    if phase.length_bytes != u64::MAX {
        let end = end(phase.offset_bytes, phase.length_bytes);
        if end > file.bytes {
            return Err(section.error("length", what(end)));
        }
    }
    if let Pattern::List(places) = &phase.pattern {
        let ends = places.iter().map(|(at, bytes)| end(*at, *bytes));
        let last = end(phase.offset_bytes, ends.max().unwrap_or(0));
        if last > file.bytes {
            return Err(section.error("places", what(last)));
        }
    }
    Ok(())
}

fn pattern(section: &Section<'_>, file: &FileGroup) -> Result<Pattern> {
    let words = [
        ("sequential", 0),
        ("backward", 1),
        ("strided", 2),
        ("zig-zag", 3),
        ("interleaved", 4),
        ("random", 5),
        ("zipf", 6),
        ("mixed", 7),
        ("list", 8),
    ];
    let number = section.word("pattern", &words)?.unwrap_or(0);
    let requests = || match section.count("requests")? {
        Some(requests) => Ok(requests),
        None => Ok(file.bytes / PAGE_BYTES),
    };
    Ok(match number {
        0 => Pattern::Sequential,
        1 => Pattern::Backward {
            stride_bytes: section.size("stride")?.unwrap_or(0),
        },
        2 => strided(section)?,
        3 => Pattern::ZigZag,
        4 => match section.count("streams")?.unwrap_or(2) {
            0 => return Err(section.error("streams", "expected at least 1")),
            streams => Pattern::Interleaved { streams },
        },
        5 => Pattern::Random {
            requests: requests()?,
        },
        6 => Pattern::Zipf {
            requests: requests()?,
        },
        7 => Pattern::Mixed {
            requests: requests()?,
            sequential_percent: match percent(section, "sequential_percent", 100)? {
                Some(percent) => percent,
                None => return Err(section.error("sequential_percent", "is missing")),
            },
        },
        _ => Pattern::List(
            section
                .required("places")?
                .items()
                .iter()
                .map(place)
                .collect::<Result<_>>()?,
        ),
    })
}

fn strided(section: &Section<'_>) -> Result<Pattern> {
    let stride_bytes = section.required("stride")?.size()?;
    if stride_bytes == 0 {
        return Err(section.error("stride", "a stride of 0 never comes to the end"));
    }
    let run_bytes = section.size("run")?.unwrap_or(0);
    if run_bytes > stride_bytes {
        return Err(section.error("run", "is longer than the stride"));
    }
    Ok(Pattern::Strided {
        stride_bytes,
        run_bytes,
    })
}

/// `["1536B", "16K"]`: offset and length.
fn place(field: &Field<'_>) -> Result<(u64, u64)> {
    match &field.items()[..] {
        [at, length] => Ok((at.size()?, length.size()?)),
        _ => Err(field.error("expected an offset and a length, such as [\"4K\", \"16K\"]")),
    }
}
