// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads arbitrary lines as a log of `watch`, and makes its calls again. A note is read as a note
//! of the streams that are followed, too.
#![no_main]

use foreread_watch::log::followed::Told;
use foreread_watch::log::parsed;
use foreread_watch::log::replay::{Made, Replay};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    let mut replay = Replay::default();
    let mut calls = 0;
    for line in input.split(|byte| *byte == b'\n') {
        let Ok(line) = serde_json::from_slice::<Value>(line) else {
            continue;
        };
        let _ = parsed::<Told>(&line);
        match replay.take(&line) {
            Ok(Made::Same) => calls += 1,
            Ok(_) => break,
            Err(error) => {
                let _ = error.to_string();
                break;
            }
        }
    }
    let replayed = replay.replayed();
    assert!(replayed.iter().map(|of| of.calls).sum::<u64>() <= calls + 1);
});
