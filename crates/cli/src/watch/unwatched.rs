// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where nothing can be watched: why, and what works all the same.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use foreread_bpf::BpfError;
use foreread_linux_watch::WatchError;
use foreread_sys::child;

use super::args::WatchArguments;
use super::report::WatchReport;
use crate::EXIT_PARTLY;
use crate::alone::run_alone;
use crate::{output, without_root};

/// A command runs all the same, as it would without us.
pub fn unwatched(arguments: &WatchArguments, error: WatchError) -> Result<ExitCode> {
    let error = explained(error);
    if arguments.command.is_empty() {
        return Err(error);
    }
    output::note(&format!("{error}; the command runs unwatched"));
    let status = match run_alone(&arguments.command) {
        Ok(status) => status,
        Err(code) => return Ok(code),
    };
    if arguments.json {
        let line = WatchReport::of_nothing(arguments.dry_run).line();
        // Standard output belongs to the command.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
    if !status.success() {
        child::end_as(status);
    }
    Ok(ExitCode::from(EXIT_PARTLY))
}

fn explained(error: WatchError) -> anyhow::Error {
    match error {
        WatchError::Container => error.into(),
        WatchError::Bpf(BpfError::NoRights) if without_root::lacks_rights() => {
            anyhow::anyhow!("watching needs root: sudo foreread watch")
        }
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
        let lacking = WatchError::Bpf(BpfError::NoHook {
            release: "5.10.0".into(),
            program: "missed".into(),
            reason: "it has no tracepoint page_cache_sync_ra".into(),
        });
        let said = explained(lacking).to_string();
        for part in ["5.10.0", "page_cache_sync_ra", "foreread run -- COMMAND"] {
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
