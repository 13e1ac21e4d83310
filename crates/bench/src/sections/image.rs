// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cold start from an image whose files are in the order of need, by `foreread layout order`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use foreread_measure::MeasureError;
use foreread_measure::disk::preset;
use foreread_measure::foreread::Foreread;
use foreread_measure::host::executable;
use foreread_model::Counters;
use foreread_testbed::workload::{files_below, small_files};
use foreread_testbed::{Lacking, Testbed, TestbedConfig};
use serde_json::json;

use crate::context::Context;
use crate::report::{Row, Section, Target};

/// Files of the image, and how many of them are read.
const FILES: usize = 3000;
const FILES_BYTES: u64 = 120_000_000;
const READ: usize = 300;
/// From one file that is read to the next. A prime number, so that none comes twice.
const STEP: usize = 7919;
const DISK_BYTES: u64 = 256 << 20;
const SEED: u64 = 3;

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let mut section = Section {
        name: "image",
        about: format!(
            "Cold starts from a squashfs of {FILES} files, of which `cat` reads {READ} in an order of \
             its own, without a replay.\nThe images were made by mksquashfs, one as it makes them, \
             one with the sort file of `foreread layout order`.\nThe time is that in which the \
             modelled disk was busy."
        ),
        header: vec![
            "disk",
            "as made s",
            "in order s",
            "MB read",
            "MB in order",
            "in order / as made",
        ],
        rows: Vec::new(),
        notes: Vec::new(),
    };
    if executable("mksquashfs").is_none() {
        let lacking = Lacking::Program("mksquashfs".to_owned(), "squashfs-tools");
        section.notes.push(format!("left out: {lacking}."));
        return Ok(section);
    }
    context.say("image: building two images");
    let foreread = Foreread::new(&context.foreread)?;
    let at = |name: &str| foreread.state().join(name);
    let (tree, sort) = (at("tree"), at("sort"));
    small_files(&tree, FILES, FILES_BYTES, SEED)?;
    let all = files_below(&tree)?;
    let read: Vec<PathBuf> = (0..READ).map(|n| all[n * STEP % FILES].clone()).collect();
    let profile = at("image.frp");
    let mut record = Command::new(foreread.executable());
    record.args(["record", "--output"]).arg(&profile);
    run(record.args(["--", "cat"]).args(&read))?;
    let mut order = Command::new(foreread.executable());
    order.args(["layout", "order", "--for", "squashfs", "--output"]);
    order
        .arg(&sort)
        .arg("--tree")
        .arg(&tree)
        .arg("--top")
        .arg(&tree);
    run(order.arg(&profile))?;
    let images = [at("as-made"), at("in-order")];
    run(&mut mksquashfs(&tree, &images[0]))?;
    run(mksquashfs(&tree, &images[1]).arg("-sort").arg(&sort))?;
    let below = |path: &PathBuf| path.strip_prefix(&tree).map(Path::to_owned);
    let read: Vec<PathBuf> = read.iter().flat_map(below).collect();
    for device in context.devices_of(&["hdd", "usb"]) {
        context.say(&format!("image: on {device}"));
        let [as_made, in_order] = [&images[0], &images[1]].map(|image| cold(device, image, &read));
        section.rows.push(row(device, &as_made?, &in_order?));
    }
    Ok(section)
}

fn mksquashfs(tree: &Path, image: &Path) -> Command {
    let mut command = Command::new("mksquashfs");
    command.arg(tree).arg(image);
    command.args(["-quiet", "-no-progress"]);
    command
}

fn run(command: &mut Command) -> Result<(), MeasureError> {
    let name = command.get_program().to_owned();
    let output = command.output();
    let what = || format!("start {}", Path::new(&name).display());
    let output = output.map_err(MeasureError::system(what()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(MeasureError::Failed {
            command: OsStr::new(&name).to_string_lossy().into_owned(),
            status: output.status.to_string(),
        }),
    }
}

/// What a disk does when these files of the image are read, with nothing in memory.
fn cold(device: &str, image: &Path, read: &[PathBuf]) -> Result<Counters, MeasureError> {
    let testbed = Testbed::start(TestbedConfig::new(preset(device)?, DISK_BYTES))?;
    testbed.load_image(image)?;
    let root = testbed.mount_image("squashfs")?;
    testbed.drop_caches()?;
    testbed.reset_counters();
    let mut command = testbed.command("cat");
    run(command.args(read).current_dir(root))?;
    Ok(testbed.counters())
}

fn row(device: &str, as_made: &Counters, in_order: &Counters) -> Row {
    let seconds = |counters: &Counters| format!("{:.3}", counters.busy_ns as f64 / 1e9);
    let mb = |counters: &Counters| format!("{:.1}", counters.bytes as f64 / 1e6);
    let details = |counters: &Counters| {
        json!({
            "busy_ns": counters.busy_ns,
            "bytes": counters.bytes,
            "requests": counters.requests,
            "seeks": counters.seeks,
        })
    };
    Row {
        cells: vec![
            device.to_owned(),
            seconds(as_made),
            seconds(in_order),
            mb(as_made),
            mb(in_order),
        ],
        value: in_order.busy_ns as f64 / as_made.busy_ns.max(1) as f64,
        digits: 2,
        target: Target::AtMost(1.0),
        details: json!({ "as_made": details(as_made), "in_order": details(in_order) }),
    }
}
