// SPDX-License-Identifier: MIT OR Apache-2.0
//! File systems, the directory of profiles, and the testbed.

use foreread_core::Bytes;
use foreread_linux_doctor as doctor;
use foreread_linux_doctor::{FileSystem, MetadataRoute};
use foreread_testbed::{Lacking, Testbed};

use super::Check;
use crate::store::Store;
use crate::text::{escaped, escaped_path};

/// Room for some large profiles and the temporary file of one that is being saved.
const FREE_BYTES_MIN: u64 = 16 << 20;

/// How a replay will read the metadata of each.
pub fn file_systems() -> Vec<Check> {
    match doctor::file_systems() {
        Ok(found) => found.iter().map(file_system).collect(),
        Err(error) => {
            let found = format!("/proc/self/mountinfo: {error}");
            vec![Check::lacking("file systems", found, "mount /proc")]
        }
    }
}

fn file_system(found: &FileSystem) -> Check {
    let mount = &found.mount;
    let fs_type = escaped(&mount.fs_type);
    let name = escaped(&mount.mount_point);
    let device = format!("device {}:{}", mount.major, mount.minor);
    match &found.route {
        MetadataRoute::Device => Check::ok(
            name,
            format!("{fs_type}: metadata in disk order, through {device}"),
        ),
        MetadataRoute::Looking => Check::ok(
            name,
            format!("{fs_type}: metadata inode by inode, in order of their numbers"),
        ),
        MetadataRoute::LookingForLackOfDevice(reason) => Check::lacking(
            name,
            format!("{fs_type}: metadata inode by inode, for {device} can't be read: {reason}"),
            if rustix::process::geteuid().is_root() {
                "pass the device into the container, or allow it in the device cgroup; \
                 without, cold starts take longer"
            } else {
                "run as root, or as one who may read the device (group disk)"
            },
        ),
    }
}

/// Whether `run` can keep profiles.
pub fn state_directory() -> Check {
    let name = "profiles";
    let store = match Store::find() {
        Ok(store) => store,
        Err(error) => {
            return Check::lacking(
                name,
                format!("{error:#}"),
                "export FOREREAD_STATE_DIR=DIRECTORY",
            );
        }
    };
    let directory = store.directory();
    let shown = escaped_path(directory);
    let place = match doctor::place(directory) {
        Ok(place) => place,
        Err(error) => {
            let remedy = "set FOREREAD_STATE_DIR to a directory that you may write to";
            return Check::lacking(name, format!("{shown}: {error}"), remedy);
        }
    };
    if place.existing == directory && place.mode & 0o022 != 0 {
        let remedy = format!("chmod go-w {shown}");
        return Check::lacking(name, format!("{shown}: others may write there"), remedy);
    }
    let free = Bytes::new(place.free_bytes).human();
    if place.free_bytes < FREE_BYTES_MIN {
        let remedy = "make room, or set FOREREAD_STATE_DIR to a directory on another disk";
        return Check::lacking(name, format!("{shown}: only {free} free"), remedy);
    }
    let not_yet = if place.existing == directory {
        ""
    } else {
        " (made by the first run)"
    };
    Check::ok(name, format!("{shown}{not_yet}, {free} free"))
}

/// Modelled disks, for the demo and the tests.
pub fn testbed() -> Check {
    let name = "testbed";
    match Testbed::available() {
        Ok(()) => Check::ok(name, "`foreread demo` can make modelled disks"),
        Err(Lacking::Root) => {
            Check::lacking(name, "a modelled disk needs root", "run with sudo").unneeded_if(true)
        }
        Err(lacking) => {
            let text = lacking.to_string();
            let (found, remedy) = text
                .split_once(": ")
                .unwrap_or((&text, "see docs/doctor.md"));
            Check::lacking(name, found, remedy).unneeded_if(true)
        }
    }
}
