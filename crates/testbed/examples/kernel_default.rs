// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times a cold `grep -rq` over 8,000 small files on modelled disks, with the kernel's default
//! readahead. Prints the limit and the numbers measured before the design beside it.
//!
//! Arguments: names of disks; by default all four that the design has numbers for.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use foreread_model::DiskParameters;
use foreread_testbed::needed::{Needed, needed};
use foreread_testbed::{FileSystem, Testbed, TestbedConfig, workload};

/// Disk, seconds with the kernel's default, seconds of the limit, as in the design.
const DESIGN: [(&str, f64, f64); 4] = [
    ("hdd", 42.8, 1.3),
    ("cloud", 10.0, 1.2),
    ("nvme", 2.8, 0.15),
    ("usb", 19.4, 5.7),
];

fn main() -> Result<(), Box<dyn Error>> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let instant = DiskParameters::preset("instant").ok_or("no such disk")?;
    let testbed = Testbed::start(TestbedConfig::new(instant, 1 << 30))?;
    let tree = fill(&testbed)?;
    let found = needed(&testbed, &mut grep(&testbed, &tree))?;
    println!(
        "needed: {:.1} MB in {} extents; warm: {:.3} s",
        found.bytes as f64 / 1e6,
        found.extents.len(),
        seconds(&mut grep(&testbed, &tree))?
    );
    println!("disk     seconds (design)    limit (design)  requests   MB read  depth  late us");
    for (name, design_s, design_limit_s) in DESIGN {
        if wanted.is_empty() || wanted.iter().any(|other| other == name) {
            let parameters = DiskParameters::preset(name).ok_or("no such disk")?;
            print_row(
                &testbed,
                &tree,
                &found,
                parameters,
                (name, design_s, design_limit_s),
            )?;
        }
    }
    Ok(())
}

fn fill(testbed: &Testbed) -> Result<std::path::PathBuf, Box<dyn Error>> {
    testbed.make_file_system(FileSystem::Ext4, &[])?;
    let tree = testbed.mount(FileSystem::Ext4, "noatime")?.join("tree");
    workload::small_files(&tree, workload::SMALL_FILES, workload::SMALL_FILES_BYTES, 1)?;
    testbed.remount(FileSystem::Ext4, "noatime")?;
    Ok(tree)
}

fn grep(testbed: &Testbed, tree: &Path) -> Command {
    let mut command = testbed.command("grep");
    command
        .args(["-rq", workload::ABSENT_PATTERN])
        .arg(tree)
        .stdout(Stdio::null());
    command
}

fn seconds(command: &mut Command) -> Result<f64, Box<dyn Error>> {
    let started = Instant::now();
    command.status()?;
    Ok(started.elapsed().as_secs_f64())
}

fn print_row(
    testbed: &Testbed,
    tree: &Path,
    found: &Needed,
    parameters: DiskParameters,
    (name, design_s, design_limit_s): (&str, f64, f64),
) -> Result<(), Box<dyn Error>> {
    testbed.set_parameters(parameters)?;
    testbed.drop_caches()?;
    testbed.reset_counters();
    let seconds = seconds(&mut grep(testbed, tree))?;
    let counters = testbed.counters();
    let server = testbed.server_counters();
    let limit_s = found.limit_ns(&testbed.parameters(), testbed) as f64 / 1e9;
    println!(
        "{name:6} {seconds:9.2} {:>8} {limit_s:9.2} {:>8} {:9} {:9.1} {:6} {:8.1}",
        format!("({design_s})"),
        format!("({design_limit_s})"),
        counters.requests,
        counters.bytes as f64 / 1e6,
        counters.queue_depth_max,
        server.late_ns as f64 / 1e3 / server.timed_replies.max(1) as f64
    );
    Ok(())
}
