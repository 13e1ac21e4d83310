// SPDX-License-Identifier: MIT OR Apache-2.0
//! A command that runs as it would without us: where nothing can be done for it, or something has
//! failed meanwhile.

use std::ffi::OsString;
use std::process::{ExitCode, ExitStatus};

use foreread_sys::child::{self, Running, SpawnError};

use crate::{EXIT_FAILURE, EXIT_PARTLY, output};

/// The exit code, if a command has succeeded and Foreread has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// Nothing: the command was all that mattered.
    Nothing,
    /// Done in part.
    Partly,
    /// A failure, and a command that wasn't started is not started: without us it makes no sense.
    Wholly,
}

/// Runs a command to its end. Returns its exit status, or the exit code that says why it could not
/// be started, which was told by then.
pub fn run_alone(command: &[OsString]) -> Result<ExitStatus, ExitCode> {
    match child::spawn(command) {
        Ok(mut running) => Ok(running.wait_to_end()),
        Err(error) => Err(not_started(&error, command)),
    }
}

/// Says why a command could not be started. Returns the exit code that a shell gives then. Where
/// only a process for it was lacking, the command takes our place.
pub fn not_started(error: &SpawnError, command: &[OsString]) -> ExitCode {
    if matches!(error, SpawnError::NoProcess(..)) {
        output::note(&format!("{error}; it takes the place of foreread"));
        return not_started(&child::exec(command), command);
    }
    output::note(&error.to_string());
    if let Some(signal) = error.signal() {
        child::end_by(signal);
    }
    ExitCode::from(error.exit_code())
}

/// Tells an error of what was done for a command, which runs on. Waits for its end.
pub fn run_on(running: &mut Running, error: &anyhow::Error) -> ExitStatus {
    output::note(&format!("{error:#}; the command runs on"));
    running.wait_to_end()
}

/// Ends after a failure that was told. A command that has run keeps its exit status; one that was
/// not started runs now.
pub fn end_failed(command: &[OsString], failed: Failed) -> ExitCode {
    let status = match child::status_of_guarded() {
        Some(status) => status,
        None if failed == Failed::Wholly => return ExitCode::from(EXIT_FAILURE),
        None => {
            output::note("the command runs without it");
            match run_alone(command) {
                Ok(status) => status,
                Err(code) => return code,
            }
        }
    };
    match failed {
        Failed::Partly if status.success() => ExitCode::from(EXIT_PARTLY),
        Failed::Wholly if status.success() => ExitCode::from(EXIT_FAILURE),
        _ => child::end_as(status),
    }
}
