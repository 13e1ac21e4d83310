// SPDX-License-Identifier: MIT OR Apache-2.0
//! What systemd tells of a boot.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use foreread_boot::first_session_ns;
use foreread_boot::trace::{OrderedUnit, TracedUnit, parse_ordered_units, parse_units, untold};

/// After so long without an answer there is none.
const PATIENCE: Duration = Duration::from_secs(2);
/// Of 4,096 units some 600 KB are told, and 2 MB with their order.
const OUTPUT_BYTES_MAX: u64 = 8 << 20;

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

/// When the session of the first login began, since the kernel started.
pub fn first_session() -> Option<Duration> {
    let sessions = units(&["session-*.scope"]);
    first_session_ns(&sessions).map(Duration::from_nanos)
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

/// The units that were started, with their times, of those whose names match a pattern. To tell of
/// all units keeps systemd busy for a while.
pub fn units(patterns: &[&str]) -> Vec<TracedUnit> {
    let text = show(
        "Id,InactiveExitTimestampMonotonic,ActiveEnterTimestampMonotonic",
        patterns,
    );
    text.map(|text| parse_units(&text)).unwrap_or_default()
}

/// All units that were started, with their times and their order. Those that have ended and others
/// are ordered after, and such names of devices, are asked for by name. Without an answer to that
/// they are missing.
pub fn ordered_units() -> Vec<OrderedUnit> {
    let tell = |names: &[&str]| {
        let text = show(
            "Id,After,InactiveExitTimestampMonotonic,ActiveEnterTimestampMonotonic,\
             InactiveEnterTimestampMonotonic",
            names,
        );
        text.map(|text| parse_ordered_units(&text))
            .unwrap_or_default()
    };
    let mut units = tell(&["*"]);
    let names = untold(&units);
    if !names.is_empty() {
        let more = tell(&names);
        units.extend(more);
    }
    units
}

/// The name of the default target, such as `graphical.target`.
pub fn default_target() -> Option<String> {
    let text = show("Id", &["default.target"])?;
    let (_, name) = text.trim().split_once('=')?;
    (!name.is_empty()).then(|| name.to_owned())
}

fn show(properties: &str, units: &[&str]) -> Option<String> {
    let properties = format!("--property={properties}");
    systemctl(&[&["show", &properties, "--"], units].concat())
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
    let output = child.stdout.take()?;
    let (tell, told) = channel();
    let read = move || {
        let mut text = String::new();
        let limited = output.take(OUTPUT_BYTES_MAX).read_to_string(&mut text);
        // Nobody may wait for it any more.
        let _ = tell.send(limited.ok().map(|_| text));
    };
    let reader = thread::Builder::new().spawn(read);
    let text = reader.ok().and_then(|_| told.recv_timeout(PATIENCE).ok());
    if text.is_none() {
        // It may have ended meanwhile.
        let _ = child.kill();
    }
    let _ = child.wait();
    text.flatten()
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
