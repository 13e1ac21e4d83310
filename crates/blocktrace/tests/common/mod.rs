// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces in few words.
#![allow(dead_code)]

use foreread_blocktrace::{Analysis, Options, Reader, Report};

/// A trace on device 8,0 by a process `p`. Each line of the input is `TIME_US PID ACTION REST`;
/// `REST` is the text behind the operation, without the process.
pub fn trace(lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().unwrap_or("");
        let (time_us, pid, action, rest) = (word(), word(), word(), word());
        let time_us: u64 = time_us.parse().expect("a time");
        let (what, brackets) = match action {
            "P" | "U" | "UT" => (String::new(), format!("[p] {rest}")),
            "C" | "R" => (rest.to_owned(), "[0]".to_owned()),
            _ => (rest.to_owned(), "[p]".to_owned()),
        };
        let (seconds, ns) = (time_us / 1_000_000, time_us % 1_000_000 * 1000);
        text += &format!("8,0 0 1 {seconds}.{ns:09} {pid} {action} R {what} {brackets}\n");
    }
    text
}

/// The report on a text, with all requests kept.
pub fn report(text: &str) -> Report {
    let options = Options {
        kept: usize::MAX,
        ..Options::default()
    };
    report_with(text, options)
}

/// The same with other options.
pub fn report_with(text: &str, options: Options) -> Report {
    let mut analysis = Analysis::new(options);
    for event in Reader::new(text.as_bytes()) {
        analysis.event(event.expect("a good line"));
    }
    analysis.finish()
}
