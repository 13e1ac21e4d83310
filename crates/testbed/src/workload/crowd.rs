// SPDX-License-Identifier: MIT OR Apache-2.0
//! Very many processes at once, each of which has read some files.

use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::error::TestbedError;
use crate::testbed::Testbed;

/// Begins a process for each line of a list, which reads the files of that line, says so, and ends
/// when standard input does. They are copies of this shell, for hardly anything takes less memory.
/// A shell that can't begin more ends.
const SCRIPT: &str = "\
exec 3<&0
trap 'echo over' EXIT
while read -r files; do
    (
        for file in $files; do read -r text <\"$file\"; done
        echo here
        read -r text <&3
    ) &
done <\"$1\"
wait
";

/// Processes that exist until this is dropped.
#[derive(Debug)]
pub struct Crowd {
    shell: Child,
    processes: usize,
}

impl Crowd {
    /// Begins as many processes as there are files for, and waits until each has read the first
    /// line of `of_each` files of its own. Paths must not hold white space. The list of processes
    /// and their files is written to `list`.
    ///
    /// # Errors
    /// There is no shell, or the list can't be written.
    pub fn begin(
        testbed: &Testbed,
        files: &[PathBuf],
        of_each: usize,
        list: &Path,
    ) -> Result<Self, TestbedError> {
        let mut text = String::new();
        for some in files.chunks(of_each.max(1)) {
            for file in some {
                // Text always takes more of it.
                let _ = write!(text, "{} ", file.display());
            }
            text.push('\n');
        }
        let what = || format!("write {}", list.display());
        fs::write(list, &text).map_err(TestbedError::system(what()))?;
        let mut command = testbed.command("sh");
        command.args(["-c", SCRIPT, "sh"]).arg(list);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let shell = command.spawn();
        let mut crowd = Self {
            shell: shell.map_err(TestbedError::system("start a shell"))?,
            processes: 0,
        };
        let stdout = crowd.shell.stdout.take().map(BufReader::new);
        let said = stdout.into_iter().flat_map(BufRead::lines).flatten();
        let here = said.take_while(|line| line == "here");
        crowd.processes = here.take(text.lines().count()).count();
        Ok(crowd)
    }

    /// Number of processes: fewer than requested if the machine has no room for more.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.processes
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // It ends after all of them, or has ended.
        let _ = self.shell.wait();
    }
}
