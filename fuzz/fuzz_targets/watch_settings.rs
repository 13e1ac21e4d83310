// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads arbitrary text as the settings of `watch`.
#![no_main]

use foreread_watch::settings::Settings;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    match Settings::parse(&text) {
        Ok(settings) => {
            // Exclusions accept names and paths of any bytes.
            let _ = settings.excluded.is_program(input);
            let _ = settings.excluded.is_path(input);
        }
        Err(error) => {
            assert!(!error.to_string().contains(['\n', '\r']));
            assert!(error.line <= text.lines().count() + 1);
        }
    }
});
