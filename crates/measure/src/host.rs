// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that the measured programs need from the machine's own disk.
//!
//! Dropping caches drops those of the whole machine. A measured start would then also wait for the
//! machine's own disk to read executables and shared libraries. That is 6 ms for `grep` and 25 ms
//! for `foreread` on one virtual machine, and differs on every other. Only the modelled disk is to
//! be measured, so these files are read again before each start of any measured program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::getuid;

/// Files of the machine that a start finds in memory.
#[derive(Clone, Debug, Default)]
pub struct HostFiles {
    paths: BTreeSet<PathBuf>,
}

impl HostFiles {
    /// These executables with the shared libraries they name. What can't be found is left out: it
    /// then costs the time of the machine's own disk, and no more.
    pub fn of(executables: &[PathBuf]) -> Self {
        let mut paths = BTreeSet::new();
        for executable in executables {
            paths.extend(libraries(executable));
            paths.insert(executable.clone());
        }
        Self { paths }
    }

    /// Leaves out files under `directory`, such as the modelled disk itself.
    pub fn without(mut self, directory: &Path) -> Self {
        self.paths.retain(|path| !path.starts_with(directory));
        self
    }

    /// Reads them all into memory.
    pub fn read(&self) {
        for path in &self.paths {
            // A file that is gone can't be waited for either.
            let _ = fs::read(path);
        }
    }
}

/// Where a command of that name is.
pub fn executable(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}

/// The libraries that the dynamic linker would load. `ldd` may run the file that it is given, so it
/// gets no file that another user could have put there.
fn libraries(executable: &Path) -> Vec<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let trusted = fs::metadata(executable)
        .is_ok_and(|metadata| metadata.uid() == 0 || metadata.uid() == getuid().as_raw());
    if !trusted {
        return Vec::new();
    }
    let output = Command::new("ldd")
        .arg(executable)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let words = text.split_whitespace().filter(|word| word.starts_with('/'));
    words.map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_come_with_their_executable() {
        let Some(shell) = executable("sh") else {
            println!("skipped: no shell in the path");
            return;
        };
        let files = HostFiles::of(std::slice::from_ref(&shell));
        assert!(files.paths.contains(&shell));
        if executable("ldd").is_some() {
            let is_libc = |path: &PathBuf| path.to_string_lossy().contains("libc");
            assert!(files.paths.iter().any(is_libc), "{files:?}");
        }
        assert!(files.without(Path::new("/")).paths.is_empty());
    }

    #[test]
    fn what_is_not_there_is_passed_over() {
        assert_eq!(executable("no-such-program-xyzzy"), None);
        HostFiles::of(&["/no/such/file".into()]).read();
    }
}
