// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread layout` on modelled disks: how near its forecasts come, what a move is worth to a
//! start, and how fast it is.

pub mod forecast;
pub mod speed;
pub mod starts;

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use foreread_measure::MeasureError;
use foreread_measure::disk::ModelledDisk;
use foreread_measure::foreread::Foreread;
use foreread_measure::programs::Program;
use rustix::fs::{statvfs, syncfs};
use serde_json::Value;

/// The size of the files that an aged disk was filled with. Every second one of them is gone.
const AGED_FILE_BYTES: usize = 128 << 10;
/// What stays free for the program's files when they were there.
const AGED_FREE_BYTES: u64 = 200 << 20;

/// Leaves free space in many pieces: those of a disk that was nearly full once, and lost every
/// second file. So programs' files go into the pieces.
fn age(disk: &mut ModelledDisk) -> Result<(), MeasureError> {
    disk.fill(|top| {
        let directory = top.join("aged");
        fs::create_dir(&directory).map_err(MeasureError::system("make a directory"))?;
        let path = |number: usize| directory.join(format!("{number}"));
        let space = statvfs(top).map_err(MeasureError::system("ask for free space"))?;
        let free_bytes = space.f_bavail * space.f_frsize;
        let files = free_bytes.saturating_sub(AGED_FREE_BYTES) as usize / AGED_FILE_BYTES;
        let content = vec![1; AGED_FILE_BYTES];
        for number in 0..files {
            let what = MeasureError::system("fill the disk");
            fs::write(path(number), &content).map_err(what)?;
        }
        let what = MeasureError::system("write out the disk");
        let root = File::open(top).and_then(|root| Ok(syncfs(root)?));
        root.map_err(what)?;
        for number in (0..files).step_by(2) {
            fs::remove_file(path(number)).map_err(MeasureError::system("remove a file"))?;
        }
        Ok(())
    })
}

/// The profile of a run that the disk took no time for.
fn recorded(
    foreread: &Foreread,
    program: &Program,
    disk: &ModelledDisk,
) -> Result<PathBuf, MeasureError> {
    disk.forget()?;
    let profile = foreread.state().join("layout.frp");
    let before: [OsString; 5] = [
        foreread.executable().into(),
        "record".into(),
        "--output".into(),
        profile.clone().into(),
        "--".into(),
    ];
    let mut command = program.command(disk, &before);
    foreread.set_environment(&mut command);
    let done = disk.testbed().instantly(|| command.output());
    done.map_err(MeasureError::system("start foreread"))?;
    match profile.exists() {
        true => Ok(profile),
        false => Err(MeasureError::Report(
            "foreread record",
            "it kept no profile".to_owned(),
        )),
    }
}

/// What `layout` says, of the file system on this disk.
fn said(
    foreread: &Foreread,
    disk: &ModelledDisk,
    words: &[&str],
    profile: &Path,
    list: &str,
) -> Result<Value, MeasureError> {
    let bad = |why: String| MeasureError::Report("foreread layout", why);
    let mut command = Command::new(foreread.executable());
    foreread.set_environment(&mut command);
    command.arg("layout").args(words).arg("--json").arg(profile);
    let output = command.output();
    let output = output.map_err(MeasureError::system("start foreread"))?;
    let document: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bad(format!("{error}: {said}"))
    })?;
    let at = disk.root().to_string_lossy().into_owned();
    let ours = |list: &str, name: &str| {
        let mut all = document[list].as_array().into_iter().flatten();
        all.find(|one| one[name] == at.as_str()).cloned()
    };
    ours(list, "mount_point").ok_or_else(|| {
        let refused = ours("refused", "file_system");
        bad(
            refused.map_or("nothing of this disk".to_owned(), |refused| {
                refused["why"].to_string()
            }),
        )
    })
}

/// Where the profile's files lie, and what a replay takes.
fn shown(
    foreread: &Foreread,
    disk: &ModelledDisk,
    profile: &Path,
    device: &str,
) -> Result<Value, MeasureError> {
    let words = ["show", "--disk", device];
    let show = || said(foreread, disk, &words, profile, "file_systems");
    disk.testbed().instantly(show)
}

/// Moves what the plan for a hard disk says.
fn applied(
    foreread: &Foreread,
    disk: &ModelledDisk,
    profile: &Path,
) -> Result<Value, MeasureError> {
    let words = ["apply", "--disk", "hdd"];
    said(foreread, disk, &words, profile, "passes")
}
