// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command of `run` and `record`: its words as a profile keeps them, and what is said when it
//! can't be started, or not be recorded.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use foreread_profile::Program;

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

/// Advice where nothing can be recorded though there are the rights for it.
pub fn remedy() -> &'static str {
    "foreread doctor says what this machine lacks"
}
