// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast traces are read, and that memory does not grow with them.

mod made;

use std::io::BufWriter;
use std::process::{Command, Stdio};
use std::thread;

use foreread_core::grouped;
use foreread_measure::MeasureError;
use foreread_measure::sample::Sample;
use foreread_trace::{Event, ReadOptions, Target, copy, create, open};
use made::{FIO_V3, FORMATS, Format};
use serde_json::json;

use super::costs::processor_ns;
use super::memory::watch;
use crate::context::Context;
use crate::report::{Row, Section, Target as Aim};

/// Millions of records a second.
const SPEED: Aim = Aim::AtLeast(1.0);
/// Number of reads of each trace; the best one shows the cost of the code, the median the state of
/// the machine.
const ROUNDS: usize = 9;
/// Target for the peak memory of a process that reads a trace of 10 GB, in MB.
const MEMORY_MB: Aim = Aim::AtMost(64.0);

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let records = if context.quick { 300_000 } else { 2_000_000 };
    let mut rows = Vec::new();
    for format in &FORMATS {
        context.say(&format!("trace: reading {}", format.name));
        let mut bytes = Vec::new();
        let written = format.write(&mut bytes, records);
        written.map_err(MeasureError::system("make up a trace"))?;
        rows.push(reading(format.name, &bytes, records)?);
        if format.name == FIO_V3.name {
            context.say("trace: writing and reading the own format");
            let (own, row) = writing(&bytes, records)?;
            rows.push(row);
            rows.push(reading("own format", &own, records)?);
        }
    }
    rows.push(memory(context)?);
    Ok(Section {
        name: "trace",
        about: "Records that are read in a second of one core's time (the median of nine, and the \
                best), from memory, with files and threads found; writing includes reading from fio. \
                Last, the most memory that `foreread trace convert` had for a stream of 10 GB \
                (1 GB with --quick)."
            .to_owned(),
        header: vec!["what", "of", "median M/s", "best M/s or MB"],
        rows,
        notes: Vec::new(),
    })
}

fn failed(error: impl std::fmt::Display) -> MeasureError {
    MeasureError::Report("read", error.to_string())
}

/// Reads everything; how many accesses there were.
fn accesses(bytes: &[u8]) -> Result<u64, MeasureError> {
    let mut events = open(bytes, ReadOptions::default()).map_err(failed)?;
    let mut accesses = 0;
    while let Some(event) = events.next_event().map_err(failed)? {
        accesses += u64::from(matches!(event, Event::Access(_)));
    }
    let findings = events.findings();
    if !findings.is_whole() || accesses == 0 {
        return Err(failed(format!("not what was made up: {findings:?}")));
    }
    Ok(accesses)
}

fn reading(name: &str, bytes: &[u8], records: u64) -> Result<Row, MeasureError> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let (read, ns) = processor_ns(|| accesses(bytes));
        read?;
        times.push(ns);
    }
    let bytes = bytes.len() as u64;
    let of = format!("{} records, {} bytes", grouped(records), grouped(bytes));
    Ok(speed(&format!("reading {name}"), of, records, times))
}

fn writing(fio: &[u8], records: u64) -> Result<(Vec<u8>, Row), MeasureError> {
    let mut times = Vec::new();
    let mut own = Vec::new();
    for _ in 0..ROUNDS {
        own.clear();
        let (written, ns) = processor_ns(|| -> Result<(), MeasureError> {
            let mut events = open(fio, ReadOptions::default()).map_err(failed)?;
            let mut sink = create(&mut own, Target::Frt, events.header()).map_err(failed)?;
            copy(&mut *events, &mut *sink, |_| true).map_err(failed)?;
            sink.finish().map_err(failed)?;
            Ok(())
        });
        written?;
        times.push(ns);
    }
    let of = format!("{} bytes of fio", grouped(fio.len() as u64));
    Ok((own, speed("writing own format", of, records, times)))
}

fn speed(what: &str, of: String, records: u64, times: Vec<f64>) -> Row {
    let sample = Sample::new(times.clone());
    let million_s = |ns: f64| records as f64 * 1e3 / ns.max(1.0);
    let median = million_s(sample.median());
    Row {
        cells: vec![what.to_owned(), of, SPEED.rounded(median, 1)],
        value: million_s(sample.quantile(0.0)),
        digits: 1,
        target: SPEED,
        details: json!({ "records": records, "times_ns": times }),
    }
}

/// Memory that a conversion takes, of a stream too large to be kept.
fn memory(context: &Context) -> Result<Row, MeasureError> {
    let gigabytes = if context.quick { 1 } else { 10 };
    let format: &'static Format = &FIO_V3;
    context.say(&format!(
        "trace: {gigabytes} GB of {} through a pipe",
        format.name
    ));
    let mut child = Command::new(&context.foreread)
        .args(["trace", "convert", "-", "/dev/null", "--to-format", "frt"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(MeasureError::system("start foreread"))?;
    let Some(stdin) = child.stdin.take() else {
        return Err(failed("foreread has no standard input"));
    };
    let writer = thread::spawn(move || {
        let mut out = BufWriter::with_capacity(1 << 16, stdin);
        format.write_bytes(&mut out, gigabytes * 1_000_000_000)
    });
    let peak = watch(child)?;
    let records = writer.join().map_err(|_| failed("the pipe broke"))?;
    let records = records.map_err(MeasureError::system("write to foreread"))?;
    Ok(Row {
        cells: vec![
            "memory for converting fio iolog v3".to_owned(),
            format!("{} records, {gigabytes} GB", grouped(records)),
            "-".to_owned(),
        ],
        value: peak.resident_bytes as f64 / 1e6,
        digits: 1,
        target: MEMORY_MB,
        details: json!({ "records": records, "resident_bytes": peak.resident_bytes }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_that_is_made_up_is_read_whole() {
        for format in &FORMATS {
            let mut bytes = Vec::new();
            format.write(&mut bytes, 3000).unwrap();
            let accesses = accesses(&bytes).unwrap();
            assert!((1000..=3000).contains(&accesses), "{}", format.name);
        }
    }
}
