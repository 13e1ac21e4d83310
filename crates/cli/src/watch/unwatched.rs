// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where nothing can be watched: why, and what works all the same.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use foreread_linux::child;
use foreread_linux::watch::WatchError;

use super::args::WatchArguments;
use super::{EXIT_PARTLY, report};
use crate::output;

/// A command runs all the same, as it would without us.
pub fn unwatched(arguments: &WatchArguments, error: WatchError) -> Result<ExitCode> {
    let error = explained(error);
    if arguments.command.is_empty() {
        return Err(error);
    }
    output::note(&format!("{error}; the command runs unwatched"));
    let mut running = match child::spawn(&arguments.command) {
        Ok(running) => running,
        Err(error) => {
            output::note(&error.to_string());
            return Ok(ExitCode::from(error.exit_code()));
        }
    };
    let status = loop {
        let ended = running.wait(None).context("cannot wait for the command")?;
        if let Some(status) = ended {
            break status;
        }
    };
    if arguments.json {
        let document = report::document_of_nothing(arguments.dry_run);
        // What a command prints is its own.
        let _ = writeln!(std::io::stderr().lock(), "{document}");
    }
    if !status.success() {
        child::end_as(status);
    }
    Ok(ExitCode::from(EXIT_PARTLY))
}

fn explained(error: WatchError) -> anyhow::Error {
    match error {
        WatchError::Container => error.into(),
        error => anyhow::anyhow!(
            "{error}; what still works: foreread run -- COMMAND, which learns what it reads the \
             first time"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lacks_is_said_with_what_works_in_a_line() {
        let lacking = WatchError::NoTracepoint {
            release: "6.1.0".into(),
            tracepoint: "page_cache_sync_ra",
        };
        let said = explained(lacking).to_string();
        for part in [
            "6.1.0",
            "page_cache_sync_ra",
            "6.18",
            "foreread run -- COMMAND",
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert!(!said.contains('\n'));
        let said = explained(WatchError::Container).to_string();
        assert!(
            said.contains("--cgroup") && !said.contains("still works"),
            "{said}"
        );
    }
}
