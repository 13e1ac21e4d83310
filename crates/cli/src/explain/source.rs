// SPDX-License-Identifier: MIT OR Apache-2.0
//! From where it is known what `watch` did: a log, or the one that watches the machine now.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::watch::line::NO_ANSWER;
use crate::watch::{log_lines, service};

/// Time limit for the answer. A running `watch` looks for queries every second.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether a `watch` of the machine runs.
pub fn runs() -> bool {
    let asked = UnixStream::connect(service::socket_path());
    let is_none = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::ConnectionRefused);
    !asked.is_err_and(|error| is_none(error.kind()))
}

/// Hands each line of the log to `take`; without one, each that a running `watch` tells.
///
/// # Errors
/// Fails if the log cannot be read or is no log, or if no `watch` answers.
pub fn each_line(log: Option<&Path>, mut take: impl FnMut(&Value) -> Result<()>) -> Result<()> {
    if let Some(path) = log {
        return log_lines::each_line(path, |line| take(line).map(|()| true));
    }
    let path = service::socket_path();
    let name = path.display().to_string();
    let stream = match UnixStream::connect(&path) {
        Ok(stream) => stream,
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                bail!("{}", none_runs(Path::new("/")))
            }
            ErrorKind::PermissionDenied => {
                bail!(
                    "this user may not ask the running `foreread watch` at {name}: use sudo, or \
                     --log LOG"
                )
            }
            _ => return Err(error).with_context(|| format!("cannot ask at {name}")),
        },
    };
    let waiting = stream.set_read_timeout(Some(PATIENCE));
    waiting.with_context(|| format!("cannot ask at {name}"))?;
    let (mut lines, mut refused) = (0u64, None);
    log_lines::each_line_of(&stream, &name, |line, _| {
        lines += 1;
        if line["what"] == NO_ANSWER {
            let why = line["why"].as_str().unwrap_or_default();
            refused = Some(why.to_owned());
            return Ok(false);
        }
        take(line).map(|()| true)
    })?;
    if let Some(why) = refused {
        bail!("the running `foreread watch` doesn't answer: {why}");
    }
    if lines == 0 {
        bail!("the running `foreread watch` says nothing; try again, or use --log LOG");
    }
    Ok(())
}

/// Advice if no `watch` runs: only what can work on this machine is advised.
fn none_runs(root: &Path) -> String {
    let none = "no `foreread watch` of the whole machine runs";
    match start(root) {
        Some(start) => {
            format!("{none}; start one ({start}), or name the log of another one: --log LOG")
        }
        None => format!(
            "{none}, and this kernel lets none start (foreread doctor says more); name the log of \
             another one: --log LOG"
        ),
    }
}

/// The command that starts a `watch` of the machine; `None` where none can run.
pub fn start(root: &Path) -> Option<&'static str> {
    const UNIT_DIRECTORIES: [&str; 4] = [
        "etc/systemd/system",
        "usr/local/lib/systemd/system",
        "usr/lib/systemd/system",
        "lib/systemd/system",
    ];
    // Without the kernel's own types no BPF program can be loaded that watches.
    if !root.join("sys/kernel/btf/vmlinux").exists() {
        return None;
    }
    let has_unit = UNIT_DIRECTORIES
        .iter()
        .any(|directory| root.join(directory).join("foreread-watch.service").exists());
    Some(match has_unit && root.join("run/systemd/system").exists() {
        true => "systemctl start foreread-watch",
        false => "sudo foreread watch",
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_what_can_be_started_is_advised() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let make = |directory: &str, file: &str| {
            fs::create_dir_all(root.join(directory)).unwrap();
            fs::write(root.join(directory).join(file), "").unwrap();
        };
        assert!(none_runs(root).contains("lets none start"));
        make("sys/kernel/btf", "vmlinux");
        make("lib/systemd/system", "foreread-watch.service");
        assert!(none_runs(root).contains("(sudo foreread watch)"));
        make("run/systemd/system", "x");
        assert!(none_runs(root).contains("(systemctl start foreread-watch)"));
    }
}
