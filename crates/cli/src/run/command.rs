// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command of `run` and `record`: its words as a profile keeps them, and what is said when it
//! can't be started, or not be recorded.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use foreread_profile::Program;
use foreread_sys::child;

use crate::output;
use crate::script;
use crate::store::Key;

/// The words of a command.
pub fn words(command: &[OsString]) -> Vec<Vec<u8>> {
    command
        .iter()
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

/// The program that a command runs.
pub fn program_of(key: &Key, command: &[OsString]) -> Program {
    Program {
        executable: key.executable.clone(),
        arguments: words(command),
        directory: key.directory.clone(),
        key: key.bytes.clone(),
        scripts: script::of(Path::new(OsStr::from_bytes(&key.executable)), command),
    }
}

/// Advice where nothing can be recorded.
pub fn remedy() -> &'static str {
    match rustix::process::geteuid().is_root() {
        true => "foreread doctor says what this machine lacks",
        false => {
            "recording needs root, or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN: run it with sudo; \
             foreread doctor says more"
        }
    }
}

/// Says why the command couldn't be started; the exit code that a shell gives then.
pub fn spawn_failed(error: &child::SpawnError) -> ExitCode {
    output::note(&error.to_string());
    ExitCode::from(error.exit_code())
}

/// The kernel may find what we didn't; then the command runs by itself.
pub fn not_started(spawned: Result<child::Running, child::SpawnError>) -> ExitCode {
    match spawned {
        Err(error) => spawn_failed(&error),
        Ok(mut running) => child::end_as(running.wait_to_end()),
    }
}
