// SPDX-License-Identifier: MIT OR Apache-2.0
//! From where it is known what `watch` did: a log, or the one that watches the machine now.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::watch::{log_lines, service};

/// One that watches looks every second whether somebody asks.
const PATIENCE: Duration = Duration::from_secs(10);

/// Hands each line of the log to `take`; without one, each that a running `watch` tells.
///
/// # Errors
/// What can't be read or isn't a log; nobody who can be asked.
pub fn each_line(log: Option<&Path>, mut take: impl FnMut(&Value) -> Result<()>) -> Result<()> {
    if let Some(path) = log {
        return log_lines::each_line(path, |line| take(line).map(|()| true));
    }
    let path = service::socket_path();
    let name = path.display().to_string();
    let stream = match UnixStream::connect(&path) {
        Ok(stream) => stream,
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => bail!(
                "no `foreread watch` of the whole machine runs; start one (systemctl start \
                 foreread-watch), or name the log of another one: --log LOG"
            ),
            ErrorKind::PermissionDenied => {
                bail!("only root may ask a running `foreread watch`: use sudo, or --log LOG")
            }
            _ => return Err(error).with_context(|| format!("cannot ask at {name}")),
        },
    };
    let waiting = stream.set_read_timeout(Some(PATIENCE));
    waiting.with_context(|| format!("cannot ask at {name}"))?;
    let mut lines = 0u64;
    log_lines::each_line_of(&stream, &name, |line, _| {
        lines += 1;
        take(line).map(|()| true)
    })?;
    if lines == 0 {
        bail!("the running `foreread watch` doesn't answer: only root may ask; use sudo");
    }
    Ok(())
}
