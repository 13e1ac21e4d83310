// SPDX-License-Identifier: MIT OR Apache-2.0
//! fio, a load generator that others trust: the best throughput of the machine, and random reads
//! from memory.

use std::path::Path;

use foreread_measure::host::executable;
use foreread_measure::{MeasureError, process};
use serde_json::Value;

use super::bed::Bed;

/// The reason for which rows are left out.
pub const MISSING: &str = "fio is not installed: it comes with the package fio";

pub fn is_there() -> bool {
    executable("fio").is_some()
}

/// Throughput of many large reads at once through the page cache of a cold file, in bytes a second.
pub fn cold_bytes_per_s(bed: &Bed, file: &Path, bytes: u64) -> Result<f64, MeasureError> {
    bed.make_cold()?;
    let size = format!("--size={bytes}");
    let options = [
        "--rw=read",
        "--bs=256k",
        "--ioengine=io_uring",
        "--iodepth=64",
        "--direct=0",
        "--fadvise_hint=random",
        &size,
    ];
    number(&run(bed, file, &options)?, "/jobs/0/read/bw_bytes")
}

/// Time of one random read of 4 KiB, in nanoseconds, averaged over many. The file is in memory and
/// stays there.
pub fn cached_read_ns(bed: &Bed, file: &Path, seconds: u64) -> Result<f64, MeasureError> {
    let runtime = format!("--runtime={seconds}");
    let options = [
        "--rw=randread",
        "--bs=4k",
        "--ioengine=psync",
        "--direct=0",
        "--fadvise_hint=0",
        "--invalidate=0",
        "--norandommap",
        "--time_based",
        &runtime,
    ];
    let iops = number(&run(bed, file, &options)?, "/jobs/0/read/iops")?;
    Ok(1e9 / iops.max(f64::MIN_POSITIVE))
}

fn run(bed: &Bed, file: &Path, options: &[&str]) -> Result<Value, MeasureError> {
    let mut command = bed.disk.testbed().command("fio");
    command.args(["--name=read", "--readonly", "--output-format=json"]);
    command.arg("--filename").arg(file).args(options);
    parse(&String::from_utf8_lossy(&process::output_of(&mut command)?))
}

/// fio may put lines of its own before the document.
fn parse(text: &str) -> Result<Value, MeasureError> {
    let start = text.find('{').unwrap_or(text.len());
    let document = serde_json::from_str(&text[start..]);
    document.map_err(|error| MeasureError::Report("fio", error.to_string()))
}

fn number(document: &Value, pointer: &str) -> Result<f64, MeasureError> {
    let number = document.pointer(pointer).and_then(Value::as_f64);
    let number = number.filter(|number| *number > 0.0);
    number.ok_or_else(|| MeasureError::Report("fio", format!("there is no {pointer}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_behind_warnings() {
        let text = "fio: a warning\n{\"jobs\": [{\"read\": {\"bw_bytes\": 5, \"iops\": 2.5}}]}\n";
        let document = parse(text).unwrap();
        assert_eq!(number(&document, "/jobs/0/read/iops").unwrap(), 2.5);
        assert_eq!(number(&document, "/jobs/0/read/bw_bytes").unwrap(), 5.0);
        let error = number(&document, "/jobs/1/read/iops").unwrap_err();
        assert!(error.to_string().contains("/jobs/1"), "{error}");
        assert!(parse("no document").is_err());
        assert!(parse("").is_err());
    }
}
