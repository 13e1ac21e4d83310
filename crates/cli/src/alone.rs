// SPDX-License-Identifier: MIT OR Apache-2.0
//! A command that runs as it would without us, where we can't do anything for it.

use std::ffi::OsString;
use std::process::{ExitCode, ExitStatus};

use anyhow::{Context, Result};
use foreread_sys::child;

use crate::output;

/// Runs a command to its end. In the inner result: how it ended, or the exit code that says why it
/// could not be started, which was told by then.
///
/// # Errors
/// When it can't be waited for.
pub fn run_alone(command: &[OsString]) -> Result<Result<ExitStatus, ExitCode>> {
    let mut running = match child::spawn(command) {
        Ok(running) => running,
        Err(error) => {
            output::note(&error.to_string());
            return Ok(Err(ExitCode::from(error.exit_code())));
        }
    };
    loop {
        let ended = running.wait(None).context("cannot wait for the command")?;
        if let Some(status) = ended {
            return Ok(Ok(status));
        }
    }
}
