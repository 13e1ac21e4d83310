// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text output on the terminal.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foreread_core::{Bytes, KiB, Pages, Sectors, Unit, grouped};
use foreread_profile::PAGE_BYTES;
use indicatif::{ProgressBar, ProgressDrawTarget};

use crate::text::printable;

/// Whether `--quiet` was given. It is set once, before the verb begins.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// From now on no reports and no progress are printed.
pub fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Whether reports and progress are left out.
pub fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// One line: what failed and why, innermost reason last.
pub fn error(error: &anyhow::Error) {
    note(&format!("{error:#}"));
}

/// One line that isn't an error. Where it can't be written, nobody can be told of that.
pub fn note(text: &str) {
    let line = format!("foreread: {}\n", printable(text));
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// One line that says what was done, unless `--quiet` was given.
pub fn report(text: &str) {
    if !is_quiet() {
        note(text);
    }
}

/// Progress of so many steps on standard error. It draws nothing where that is no terminal, or with
/// `--quiet`.
pub fn progress(steps: u64) -> ProgressBar {
    with_target(ProgressBar::new(steps))
}

/// The same for work without a known end.
pub fn spinner() -> ProgressBar {
    with_target(ProgressBar::new_spinner())
}

fn with_target(bar: ProgressBar) -> ProgressBar {
    if is_quiet() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}

/// A report on a command, whose standard output is its own, unless `--quiet` was given. Where it
/// can't be written, nobody can be told of that.
pub fn beside_command(report: &str) {
    if is_quiet() {
        return;
    }
    let _ = io::stderr().lock().write_all(report.as_bytes());
}

/// Reports the outcome of a command: prints the document if there is one, else the line.
pub fn outcome(document: Option<impl Display>, line: &str) {
    match document {
        Some(document) => beside_command(&format!("{document}\n")),
        None => report(line),
    }
}

/// Pages of 4 KiB as bytes: `133 MiB`.
pub fn pages(pages: u64) -> String {
    Bytes::new(pages.saturating_mul(PAGE_BYTES))
        .human()
        .to_string()
}

/// So many of something: `1 file`, `7,976 files`.
pub fn counted(number: u64, one: &str, several: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{} {several}", grouped(number)),
    }
}

/// A readahead size in the units of all tools of the field, each labelled: `4 KiB = 4,096 bytes = 8
/// sectors = 1 page`.
pub fn in_all_units(size: KiB) -> String {
    let other = |text: Option<String>| text.unwrap_or_else(|| "too many".to_owned());
    let bytes = other(size.to_bytes().ok().map(|bytes| bytes.to_string()));
    let sectors = size.to_floor::<Sectors>().ok();
    let sectors = other(sectors.map(|sectors| sectors.to_string()));
    let pages = other(size.to_floor::<Pages>().ok().map(|pages| pages.to_string()));
    format!("{size} = {bytes} = {sectors} = {pages}")
}

/// A time with its unit: `42.8 s`, `310 ms`.
pub fn time(ns: u64) -> String {
    let duration = Duration::from_nanos(ns);
    let seconds = duration.as_secs_f64();
    if seconds >= 100.0 {
        format!("{seconds:.0} s")
    } else if seconds >= 10.0 {
        format!("{seconds:.1} s")
    } else if seconds >= 1.0 {
        format!("{seconds:.2} s")
    } else {
        format!("{:.0} ms", seconds * 1000.0)
    }
}

/// A share in percent, never rounded up to all or down to none.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".into();
    }
    let percent = part as f64 * 100.0 / whole as f64;
    if part < whole && percent > 99.0 {
        format!("{:.1} %", (percent * 10.0).floor() / 10.0)
    } else {
        format!("{} %", percent.floor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(counted(1, "file", "files"), "1 file");
        assert_eq!(counted(7976, "file", "files"), "7,976 files");
        assert_eq!([pages(1), pages(34_012)], ["4 KiB", "132.9 MiB"]);
        assert_eq!(
            [time(5_000_000), time(1_660_000_000), time(42_800_000_000)],
            ["5 ms", "1.66 s", "42.8 s"]
        );
        assert_eq!(
            [
                percent(0, 0),
                percent(999, 1000),
                percent(1, 1),
                percent(1, 3)
            ],
            ["0 %", "99.9 %", "100 %", "33 %"]
        );
    }
}
