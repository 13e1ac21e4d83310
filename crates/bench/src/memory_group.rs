// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cgroup that limits the memory of programs, of either version.

use foreread_measure::MeasureError;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Where systems mount the hierarchy of version 2, and beside it the old memory controller.
const ROOT: &str = "/sys/fs/cgroup";

/// The cgroup version, which decides the names of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    fn limit_file(self) -> &'static str {
        match self {
            Self::One => "memory.limit_in_bytes",
            Self::Two => "memory.max",
        }
    }

    /// Has a line `oom_kill` with how many were killed.
    fn events_file(self) -> &'static str {
        match self {
            Self::One => "memory.oom_control",
            Self::Two => "memory.events",
        }
    }
}

/// A cgroup of one's own, removed with this.
#[derive(Debug)]
pub struct MemoryGroup {
    directory: PathBuf,
    version: Version,
    limit_bytes: u64,
}

impl MemoryGroup {
    /// Makes one in which all processes together have `limit_bytes` for themselves and for the
    /// pages that they bring in.
    ///
    /// # Errors
    /// The machine has no memory controller mounted, or doesn't let us use it.
    pub fn make(limit_bytes: u64) -> Result<Self, MeasureError> {
        let (parent, version) = hierarchy(Path::new(ROOT))?;
        if version == Version::Two {
            let control = parent.join("cgroup.subtree_control");
            let what = format!("have memory in {}", control.display());
            fs::write(control, "+memory").map_err(MeasureError::system(what))?;
        }
        let directory = parent.join(format!("foreread-bench-{}", std::process::id()));
        let what = format!("make the cgroup {}", directory.display());
        fs::create_dir(&directory).map_err(MeasureError::system(what))?;
        let group = Self {
            directory,
            version,
            limit_bytes,
        };
        let limit = group.directory.join(version.limit_file());
        let what = format!("write {}", limit.display());
        fs::write(limit, limit_bytes.to_string()).map_err(MeasureError::system(what))?;
        Ok(group)
    }

    /// The memory limit of the group.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// The words before a command that run it inside.
    pub fn words_before(&self) -> Vec<OsString> {
        let script = "echo $$ > \"$0\" && exec \"$@\"";
        let processes = self.directory.join("cgroup.procs");
        vec!["sh".into(), "-c".into(), script.into(), processes.into()]
    }

    /// Number of processes in it that the kernel has killed for lack of memory.
    ///
    /// # Errors
    /// The kernel doesn't say.
    pub fn killed(&self) -> Result<u64, MeasureError> {
        let path = self.directory.join(self.version.events_file());
        let text = fs::read_to_string(&path);
        let text = text.map_err(MeasureError::system(format!("read {}", path.display())))?;
        killed(&text).ok_or(MeasureError::Report("the memory controller", text))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The kernel may need a moment to see that its last process has ended.
        for _ in 0..50 {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Where cgroups with a limit on memory can be made.
fn hierarchy(root: &Path) -> Result<(PathBuf, Version), MeasureError> {
    let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    if controllers.split_whitespace().any(|name| name == "memory") {
        return Ok((root.to_owned(), Version::Two));
    }
    let one = root.join("memory");
    if one.join(Version::One.limit_file()).exists() {
        return Ok((one, Version::One));
    }
    let what = format!("there is no memory controller below {}", root.display());
    Err(MeasureError::Report("the cgroups of this machine", what))
}

fn killed(events: &str) -> Option<u64> {
    let count = |line: &str| line.strip_prefix("oom_kill ")?.trim().parse().ok();
    events.lines().find_map(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn either_version_is_found_by_its_files() {
        let root = tempfile::tempdir().unwrap();
        let error = hierarchy(root.path()).unwrap_err().to_string();
        assert!(error.contains("no memory controller"), "{error}");
        let one = root.path().join("memory");
        fs::create_dir(&one).unwrap();
        fs::write(one.join("memory.limit_in_bytes"), "").unwrap();
        assert_eq!(hierarchy(root.path()).unwrap(), (one, Version::One));
        fs::write(root.path().join("cgroup.controllers"), "cpu memory\n").unwrap();
        let two = (root.path().to_owned(), Version::Two);
        assert_eq!(hierarchy(root.path()).unwrap(), two);
    }

    #[test]
    fn kills_are_counted_in_both_forms() {
        let one = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        let two = "low 0\noom 7\noom_kill 2\noom_group_kill 0\n";
        assert_eq!((killed(one), killed(two)), (Some(3), Some(2)));
        assert_eq!(killed("oom_kill_disable 0\n"), None);
    }

    #[test]
    fn a_command_runs_inside_and_the_group_goes() {
        let group = match MemoryGroup::make(64 << 20) {
            Ok(group) => group,
            Err(error) => {
                println!("skipped: {error}");
                return;
            }
        };
        let words = group.words_before();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["cat", "/proc/self/cgroup"]);
        let output = command.output().unwrap();
        let name = format!("/foreread-bench-{}", std::process::id());
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains(&name), "{said}");
        assert_eq!(group.killed().unwrap(), 0);
        let directory = group.directory.clone();
        drop(group);
        assert!(!directory.exists());
    }
}
