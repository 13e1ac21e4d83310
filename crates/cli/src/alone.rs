// SPDX-License-Identifier: MIT OR Apache-2.0
//! A command that runs as it would without us: where nothing can be done for it, or something has
//! failed meanwhile.

use std::ffi::OsString;
use std::process::{ExitCode, ExitStatus};

use foreread_sys::child::{self, Running};

use crate::output;

/// Runs a command to its end. Returns its exit status, or the exit code that says why it could not
/// be started, which was told by then.
pub fn run_alone(command: &[OsString]) -> Result<ExitStatus, ExitCode> {
    match child::spawn(command) {
        Ok(mut running) => Ok(running.wait_to_end()),
        Err(error) => {
            output::note(&error.to_string());
            Err(ExitCode::from(error.exit_code()))
        }
    }
}

/// Tells an error of what was done for a command, which runs on. Waits for its end.
pub fn run_on(running: &mut Running, error: &anyhow::Error) -> ExitStatus {
    output::note(&format!("{error:#}; the command runs on"));
    running.wait_to_end()
}
