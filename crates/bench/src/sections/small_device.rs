// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads that a label probe causes on a small slow device, before and after it has its size.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use foreread_measure::disk::preset;
use foreread_measure::foreread::Foreread;
use foreread_measure::{MeasureError, process};
use foreread_model::DiskParameters;
use foreread_testbed::{Testbed, TestbedConfig};
use rustix::fs::{Advice, fadvise};
use serde_json::json;

use crate::context::Context;
use crate::report::{Row, Section, Target};

/// The device of "limit readahead size for small devices", Message-ID
/// <20100301052651.857984880@intel.com>: 505 kB, 15 kB/s.
const CAPACITY_BYTES: u64 = 505_000;
const BANDWIDTH: &str = "15KB";
/// Offset and length in bytes of the reads by which a label is found.
const PROBE: [(u64, usize); 2] = [(0, 1024), (1536, 16_384)];
const TARGET_KIB: Target = Target::AtMost(24.0);

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    context.say("small-device: a label probe of 505 kB at 15 kB/s");
    let testbed = Testbed::start(TestbedConfig::new(device()?, CAPACITY_BYTES))?;
    let foreread = Foreread::new(&context.foreread)?;
    let mut rows = Vec::new();
    for applied in [false, true] {
        if applied {
            apply(&testbed, &foreread)?;
        }
        let target = if applied { TARGET_KIB } else { Target::None };
        let size_kib = read_ahead_kib(&testbed)?;
        let setting = format!("{size_kib} KiB");
        let label = measured(&testbed, || read_label(&testbed))?;
        rows.push(row("label probe", &setting, label, target));
        let blkid = measured(&testbed, || run_blkid(&testbed))?;
        rows.push(row("blkid -p", &setting, blkid, Target::None));
    }
    Ok(Section {
        name: "small-device",
        about: "What the modelled device of 505 kB and 15 kB/s reads when it is looked at for a \
                label, with the kernel's default and after the command of the udev rule \
                (`foreread apply --udev`). The label probe reads 1,024 bytes at 0 and 16,384 at \
                1,536."
            .to_owned(),
        header: vec!["what", "read-ahead", "requests", "seconds", "KiB read"],
        rows,
        notes: Vec::new(),
    })
}

fn device() -> Result<DiskParameters, MeasureError> {
    let mut device = preset("usb")?;
    device
        .set("bandwidth_bytes_per_s", BANDWIDTH)
        .map_err(|error| MeasureError::Report("set the bandwidth", error.to_string()))?;
    Ok(device)
}

/// Reads of the device, and their time.
struct Read {
    requests: u64,
    bytes: u64,
    seconds: f64,
}

fn row(what: &str, setting: &str, read: Read, target: Target) -> Row {
    Row {
        cells: vec![
            what.to_owned(),
            setting.to_owned(),
            read.requests.to_string(),
            format!("{:.2}", read.seconds),
        ],
        value: read.bytes as f64 / 1024.0,
        digits: 0,
        target,
        details: json!({
            "what": what,
            "read_ahead": setting,
            "requests": read.requests,
            "read_bytes": read.bytes,
            "seconds": read.seconds,
        }),
    }
}

fn measured(
    testbed: &Testbed,
    look: impl FnOnce() -> Result<(), MeasureError>,
) -> Result<Read, MeasureError> {
    // The device's own pages, and no others of the machine.
    fadvise(open(testbed)?, 0, None, Advice::DontNeed).map_err(|error| {
        MeasureError::system("drop the pages of the device")(std::io::Error::from(error))
    })?;
    testbed.reset_counters();
    let started = Instant::now();
    look()?;
    let seconds = started.elapsed().as_secs_f64();
    testbed.wait_until_idle()?;
    let counters = testbed.counters();
    Ok(Read {
        requests: counters.requests,
        bytes: counters.bytes,
        seconds,
    })
}

fn open(testbed: &Testbed) -> Result<File, MeasureError> {
    let opened = OpenOptions::new().read(true).open(testbed.device());
    opened.map_err(MeasureError::system("open the modelled device"))
}

fn read_label(testbed: &Testbed) -> Result<(), MeasureError> {
    let device = open(testbed)?;
    for (offset_bytes, length) in PROBE {
        device
            .read_exact_at(&mut vec![0; length], offset_bytes)
            .map_err(MeasureError::system("read the modelled device"))?;
    }
    Ok(())
}

/// It finds nothing on an empty device, and says so with 2.
fn run_blkid(testbed: &Testbed) -> Result<(), MeasureError> {
    let mut command = testbed.command("blkid");
    command.arg("-p").arg(testbed.device());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    process::run_to(&mut command, &[0, 2]).map(drop)
}

fn apply(testbed: &Testbed, foreread: &Foreread) -> Result<(), MeasureError> {
    let mut command = Command::new(foreread.executable());
    command.args(["apply", "--udev"]).arg(name(testbed));
    foreread.set_environment(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    process::run_to(&mut command, &[0]).map(drop)
}

fn name(testbed: &Testbed) -> std::ffi::OsString {
    testbed.device().file_name().unwrap_or_default().to_owned()
}

fn read_ahead_kib(testbed: &Testbed) -> Result<u64, MeasureError> {
    let queue = std::path::Path::new("/sys/block").join(name(testbed));
    let text = std::fs::read_to_string(queue.join("queue/read_ahead_kb")).map_err(
        MeasureError::system("read the setting of the modelled device"),
    )?;
    let number = text.trim().parse();
    number.map_err(|_| MeasureError::Report("read the setting", text.trim().to_owned()))
}
