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
use foreread_testbed::{Testbed, TestbedConfig};
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

/// Who makes an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Builder {
    Squashfs,
    Erofs,
    Ext4,
}

impl Builder {
    const ALL: [Self; 3] = [Self::Squashfs, Self::Erofs, Self::Ext4];

    fn program(self) -> &'static str {
        match self {
            Self::Squashfs => "mksquashfs",
            Self::Erofs => "mkfs.erofs",
            Self::Ext4 => "mke2fs",
        }
    }

    /// As `mount -t` takes it.
    fn fs_type(self) -> &'static str {
        match self {
            Self::Squashfs => "squashfs",
            Self::Erofs => "erofs",
            Self::Ext4 => "ext4",
        }
    }

    /// What `layout order --builder` takes.
    fn order(self) -> &'static str {
        match self {
            Self::Squashfs => "squashfs",
            Self::Erofs | Self::Ext4 => "tar",
        }
    }

    /// Makes an image of a tree as it comes, or of an archive or with a sort file.
    fn command(self, tools: &Tools, image: &Path, tree: &Path, order: Option<&Path>) -> Command {
        let mut command = tools.command(self.program());
        match (self, order) {
            (Self::Squashfs, order) => {
                command
                    .arg(tree)
                    .arg(image)
                    .args(["-quiet", "-no-progress"]);
                if let Some(sort) = order {
                    command.arg("-sort").arg(sort);
                }
            }
            (Self::Erofs, None) => {
                command.arg("--quiet").arg(image).arg(tree);
            }
            (Self::Erofs, Some(archive)) => {
                // With tails of files in their inodes, it puts the files in an order of its own.
                command.args(["--quiet", "--tar=f", "--sort=none", "-E^inline_data"]);
                command.arg(image).arg(archive);
            }
            (Self::Ext4, order) => {
                command.args(["-q", "-F", "-t", "ext4", "-b", "4096", "-d"]);
                command.arg(order.unwrap_or(tree)).arg(image);
                command.arg(format!("{}M", DISK_BYTES >> 20));
            }
        }
        command
    }
}

/// The programs that make images: of this machine, or unpacked into a directory.
struct Tools(Option<PathBuf>);

impl Tools {
    fn has(&self, program: &str) -> bool {
        match &self.0 {
            None => executable(program).is_some(),
            Some(_) => self.path(program).is_some(),
        }
    }

    fn path(&self, program: &str) -> Option<PathBuf> {
        let root = self.0.as_ref()?;
        let places = ["usr/bin", "usr/sbin"].map(|place| root.join(place).join(program));
        places.into_iter().find(|path| path.is_file())
    }

    fn command(&self, program: &str) -> Command {
        let (Some(root), Some(path)) = (&self.0, self.path(program)) else {
            return Command::new(program);
        };
        // With the C library that it was built for.
        let library = root.join("usr/lib/x86_64-linux-gnu");
        let mut command = Command::new(library.join("ld-linux-x86-64.so.2"));
        command.arg("--library-path").arg(library).arg(path);
        command
    }
}

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let mut section = Section {
        name: "image",
        about: format!(
            "Cold starts from images of {FILES} files, of which `cat` reads {READ} in an order of its \
             own, without a replay.\nEach image was made by its builder as it comes, and in the order \
             of `foreread layout order`.\nThe time is that in which the modelled disk was busy."
        ),
        header: vec![
            "image",
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
    let tools = Tools(context.image_tools.clone());
    let foreread = Foreread::new(&context.foreread)?;
    let tree = foreread.state().join("tree");
    small_files(&tree, FILES, FILES_BYTES, SEED)?;
    let all = files_below(&tree)?;
    let read: Vec<PathBuf> = (0..READ).map(|n| all[n * STEP % FILES].clone()).collect();
    let profile = foreread.state().join("image.frp");
    let mut record = Command::new(foreread.executable());
    record.args(["record", "--output"]).arg(&profile);
    run(record.args(["--", "cat"]).args(&read))?;
    let below = |path: &PathBuf| path.strip_prefix(&tree).map(Path::to_owned);
    let read: Vec<PathBuf> = read.iter().flat_map(below).collect();
    for builder in Builder::ALL {
        let name = builder.fs_type();
        if !tools.has(builder.program()) {
            let why = format!("{name} is left out: there is no {}.", builder.program());
            section.notes.push(why);
            continue;
        }
        context.say(&format!("image: {name}"));
        match images(&foreread, &tools, builder, &tree, &profile) {
            Ok(images) => {
                for device in context.devices_of(&["hdd", "usb"]) {
                    let [as_made, in_order] =
                        [&images[0], &images[1]].map(|image| cold(device, image, name, &read));
                    section.rows.push(row(name, device, &as_made?, &in_order?));
                }
            }
            Err(error) => section.notes.push(format!("{name} is left out: {error}.")),
        }
    }
    Ok(section)
}

/// Two images of a tree: as its builder makes it, and in the order of need.
fn images(
    foreread: &Foreread,
    tools: &Tools,
    builder: Builder,
    tree: &Path,
    profile: &Path,
) -> Result<[PathBuf; 2], MeasureError> {
    let at = |name: &str| {
        foreread
            .state()
            .join(format!("{}.{name}", builder.fs_type()))
    };
    let order = at("order");
    let mut command = Command::new(foreread.executable());
    command.args(["layout", "order", "--builder", builder.order(), "--output"]);
    command.arg(&order).arg("--tree").arg(tree);
    run(command.arg("--mounted-at").arg(tree).arg(profile))?;
    let archive = at("tar");
    let order = match builder.order() {
        "tar" => {
            let mut tar = Command::new("tar");
            tar.args(["--create", "--null", "--no-recursion", "--directory"]);
            tar.arg(tree).arg("--files-from").arg(&order);
            run(tar.arg("--file").arg(&archive))?;
            &archive
        }
        _ => &order,
    };
    let images = [at("as-made"), at("in-order")];
    run(&mut builder.command(tools, &images[0], tree, None))?;
    run(&mut builder.command(tools, &images[1], tree, Some(order)))?;
    Ok(images)
}

fn run(command: &mut Command) -> Result<(), MeasureError> {
    let name = command.get_program().to_owned();
    let output = command.output();
    let what = || format!("start {}", Path::new(&name).display());
    let output = output.map_err(MeasureError::system(what()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(MeasureError::Failed {
            command: OsStr::new(&format!("{command:?}"))
                .to_string_lossy()
                .into_owned(),
            status: output.status.to_string(),
        }),
    }
}

/// What a disk does when these files of the image are read, with nothing in memory.
fn cold(
    device: &str,
    image: &Path,
    fs_type: &str,
    read: &[PathBuf],
) -> Result<Counters, MeasureError> {
    let testbed = Testbed::start(TestbedConfig::new(preset(device)?, DISK_BYTES))?;
    testbed.load_image(image)?;
    let root = testbed.mount_image(fs_type)?;
    testbed.drop_caches()?;
    testbed.reset_counters();
    let mut command = testbed.command("cat");
    run(command.args(read).current_dir(root))?;
    Ok(testbed.counters())
}

fn row(name: &str, device: &str, as_made: &Counters, in_order: &Counters) -> Row {
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
            name.to_owned(),
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
