// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads arbitrary text as a stored pass of `layout apply`. What is taken for one comes back the
//! same, has sums, and can be undone.
#![no_main]

use foreread_layout::{Pass, Run};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let pass = match Pass::from_json(text) {
        Ok(pass) => pass,
        Err(error) => {
            let _ = error.to_string();
            return;
        }
    };
    let again = pass.to_json().expect("it can be stored");
    assert_eq!(Pass::from_json(&again).expect("it can be read"), pass);
    let mut bytes = 0;
    for (step, back) in pass.steps.iter().zip(pass.back()) {
        assert_eq!(back.back(), *step);
        let run = Run {
            offset_bytes: step.offset_bytes,
            place_bytes: step.to_bytes,
            length_bytes: step.length_bytes,
        };
        assert_eq!(step.progress(&[run]).there_bytes, step.length_bytes);
        assert_eq!(step.progress(&[]).elsewhere_bytes, step.length_bytes);
        bytes += step.length_bytes;
    }
    assert_eq!(pass.bytes(), bytes);
});
