// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that `foreread run` takes for a profile of 50,000 files.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use foreread_measure::MeasureError;
use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::foreread::Foreread;
use foreread_measure::process::Stderr;
use foreread_measure::programs::Program;
use foreread_testbed::workload;
use serde_json::json;

use crate::context::Context;
use crate::report::{Row, Section, Target};

/// Files in the profile.
pub const FILES: usize = 50_000;
/// Small files: only their number matters.
const FILES_BYTES: u64 = 200_000_000;

/// Target for the peak memory of the process itself, in MB.
const TARGET_MB: Target = Target::AtMost(64.0);

/// A peak only grows, so with this interval only a growth after the last look is missed.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The most that was seen of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peak {
    /// `VmHWM`.
    pub resident_bytes: u64,
    /// `memlock` of the process's BPF maps, which is the kernel's memory.
    pub maps_bytes: u64,
}

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    context.say("memory: filling a modelled disk with 50,000 files");
    let mut disk = ModelledDisk::start(preset("nvme")?, Layout::Ext4)?;
    disk.fill(|root| {
        Ok(workload::small_files(
            &root.join("tree"),
            FILES,
            FILES_BYTES,
            1,
        )?)
    })?;
    let program = Program::grep("tree", FILES as u64)?;
    let foreread = Foreread::new(&context.foreread)?;
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for name in [
        "first run, recorded",
        "second run, replayed",
        "third run, replayed",
    ] {
        context.say(&format!("memory: {name}"));
        disk.testbed().drop_caches()?;
        let mut command = program.under(&foreread, &disk);
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .map_err(MeasureError::system("start foreread"))?;
        let stderr = Stderr::of(&mut child);
        let peak = watch(child)?;
        // The profile is saved after the end, and the next run needs it.
        stderr.wait();
        let report = foreread.report()?;
        notes.extend(report.trouble().into_iter().map(str::to_owned));
        rows.push(row(
            name,
            peak,
            report.mode(),
            report.number("/profile/files"),
        ));
    }
    Ok(Section {
        name: "memory",
        about:
            "The most memory that the process `foreread run` had, in MB, around a cold grep over \
                50,000 files on nvme.\nBeside it the kernel's memory of its BPF maps."
                .to_owned(),
        header: vec!["run", "mode", "BPF maps MB", "resident MB"],
        rows,
        notes,
    })
}

fn row(name: &str, peak: Peak, mode: &str, files: u64) -> Row {
    Row {
        cells: vec![
            name.to_owned(),
            mode.to_owned(),
            Target::AtMost(0.0).rounded(peak.maps_bytes as f64 / 1e6, 1),
        ],
        value: peak.resident_bytes as f64 / 1e6,
        digits: 1,
        target: TARGET_MB,
        details: json!({
            "resident_bytes": peak.resident_bytes,
            "maps_bytes": peak.maps_bytes,
            "profile_files": files,
        }),
    }
}

/// Looks at a process until it has ended.
pub fn watch(mut child: Child) -> Result<Peak, MeasureError> {
    let proc = PathBuf::from(format!("/proc/{}", child.id()));
    let mut peak = Peak::default();
    let mut looks = 0_u32;
    while child
        .try_wait()
        .map_err(MeasureError::system("wait for foreread"))?
        .is_none()
    {
        let status = fs::read_to_string(proc.join("status")).unwrap_or_default();
        let resident_bytes = field_kib(&status, "VmHWM:") * 1024;
        peak.resident_bytes = peak.resident_bytes.max(resident_bytes);
        // Maps are made once; there is no need to look at every descriptor each time.
        if looks.is_multiple_of(64) {
            peak.maps_bytes = peak.maps_bytes.max(maps_bytes(&proc.join("fdinfo")));
        }
        looks += 1;
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(peak)
}

fn maps_bytes(fdinfo: &std::path::Path) -> u64 {
    let entries = fs::read_dir(fdinfo).into_iter().flatten().flatten();
    let mut seen = std::collections::BTreeMap::new();
    for entry in entries {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        if text.contains("map_type:") {
            // Two descriptors may be of one map.
            seen.insert(field(&text, "map_id:"), field(&text, "memlock:"));
        }
    }
    seen.values().sum()
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|rest| rest.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn field_kib(text: &str, name: &str) -> u64 {
    field(text, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc_are_read() {
        let text = "Name:\tx\nVmPeak:\t  900 kB\nVmHWM:\t  123 kB\nmemlock:\t4096\n";
        assert_eq!(field_kib(text, "VmHWM:"), 123);
        assert_eq!(field(text, "memlock:"), 4096);
        assert_eq!(field(text, "VmSwap:"), 0);
    }

    #[test]
    fn a_process_has_a_peak() {
        let child = std::process::Command::new("sleep")
            .arg("0.1")
            .spawn()
            .unwrap();
        let peak = watch(child).unwrap();
        assert!(peak.resident_bytes > 4096, "{peak:?}");
        assert_eq!(peak.maps_bytes, 0);
    }
}
