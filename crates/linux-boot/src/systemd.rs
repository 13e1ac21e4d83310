// SPDX-License-Identifier: MIT OR Apache-2.0
//! What systemd tells of a boot.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// After so long without an answer there is none.
const PATIENCE: Duration = Duration::from_secs(2);

/// When the init of the root file system started, since the kernel did.
pub fn init_started() -> Option<Duration> {
    micros(&systemctl(&[
        "show",
        "--property=UserspaceTimestampMonotonic",
    ])?)
}

/// When a unit became active, since the kernel started.
pub fn active_since(unit: &str) -> Option<Duration> {
    micros(&systemctl(&[
        "show",
        "--property=ActiveEnterTimestampMonotonic",
        unit,
    ])?)
}

/// Whether the system is being shut down, and not in rescue or emergency mode.
pub fn is_stopping() -> bool {
    systemctl(&["is-system-running"]).is_some_and(|state| state.trim() == "stopping")
}

/// Of `NAME=MICROSECONDS`; 0 is unknown.
fn micros(text: &str) -> Option<Duration> {
    let (_, value) = text.trim().split_once('=')?;
    let micros = value.parse().ok().filter(|micros| *micros > 0)?;
    Some(Duration::from_micros(micros))
}

/// The output of `systemctl`, however it ends. A bus that doesn't answer must not hold us up.
fn systemctl(arguments: &[&str]) -> Option<String> {
    let mut child = Command::new("systemctl")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let asked = Instant::now();
    let has_ended = loop {
        if child.try_wait().ok()?.is_some() {
            break true;
        }
        if asked.elapsed() > PATIENCE {
            break false;
        }
        sleep(Duration::from_millis(5));
    };
    if !has_ended {
        // It may have ended meanwhile.
        let _ = child.kill();
        let _ = child.wait();
        return None;
    }
    // What it says is far less than a pipe holds.
    let mut text = String::new();
    child.stdout?.read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_unknown_ones_are_none() {
        let told = "UserspaceTimestampMonotonic=4321000\n";
        assert_eq!(micros(told), Some(Duration::from_millis(4321)));
        for none in ["", "Name=", "Name=0", "4321", "Name=soon"] {
            assert_eq!(micros(none), None, "{none}");
        }
    }
}
