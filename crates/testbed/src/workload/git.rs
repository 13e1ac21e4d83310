// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real git repository.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::small_files::small_files;
use crate::error::{Lacking, TestbedError};
use crate::file_system::run;

/// The files of the repository that results are given for.
pub const GIT_FILES: usize = 10_000;

const BYTES_PER_FILE: u64 = 4_000;

/// 1 January 2020. The date is in the past, so that git need not read the files again: it does so
/// for files that may have changed in the second in which it first read them.
const MODIFIED: Duration = Duration::from_secs(1_577_836_800);

/// Makes a repository with `files` committed files under `directory`, which must not exist, its
/// objects in one pack. The same arguments give the same commit.
///
/// # Errors
/// git is missing or fails, or the file system is full.
pub fn git_repository(directory: &Path, files: usize, seed: u64) -> Result<(), TestbedError> {
    small_files(directory, files, files as u64 * BYTES_PER_FILE, seed)?;
    set_times(directory).map_err(TestbedError::system(format!(
        "set times in {}",
        directory.display()
    )))?;
    let steps: [&[&str]; 5] = [
        &["init", "--quiet", "--initial-branch=main"],
        &["add", "--all"],
        &["commit", "--quiet", "--message=Begin"],
        &["gc", "--quiet", "--prune=now"],
        &["update-index", "--refresh"],
    ];
    for arguments in steps {
        git(directory, arguments)?;
    }
    Ok(())
}

fn git(directory: &Path, arguments: &[&str]) -> Result<(), TestbedError> {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory);
    // A commit starts `gc` in the background, and the one below would find it running.
    command.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
    command.args(arguments);
    // Nothing of the user's settings, and always the same commit.
    for variable in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"] {
        command.env(variable, "/dev/null");
    }
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Testbed");
        command.env(format!("GIT_{role}_EMAIL"), "testbed@localhost");
        command.env(format!("GIT_{role}_DATE"), "2020-01-02T00:00:00Z");
    }
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    match run(&mut command) {
        Err(TestbedError::System { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            Err(Lacking::Program("git".to_owned(), "git").into())
        }
        result => result,
    }
}

fn set_times(directory: &Path) -> std::io::Result<()> {
    let time = SystemTime::UNIX_EPOCH + MODIFIED;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            set_times(&path)?;
        } else {
            File::open(&path)?.set_modified(time)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_clean_packed_and_the_same_each_time() {
        if Command::new("git").arg("--version").output().is_err() {
            println!("skipped: git is not installed");
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        let output = |name: &str, arguments: &[&str]| {
            let mut command = Command::new("git");
            command
                .arg("-C")
                .arg(scratch.path().join(name))
                .args(arguments);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        for name in ["a", "b"] {
            git_repository(&scratch.path().join(name), 50, 7).unwrap();
        }
        assert_eq!(output("a", &["status", "--porcelain"]), "");
        assert_eq!(output("a", &["ls-files"]).lines().count(), 50);
        assert!(output("a", &["count-objects", "-v"]).contains("packs: 1\n"));
        let commit = output("a", &["rev-parse", "HEAD"]);
        assert_eq!(commit.len(), 41);
        assert_eq!(commit, output("b", &["rev-parse", "HEAD"]));
    }
}
