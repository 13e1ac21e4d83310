// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and follows arbitrary text as that of `blkparse`.
#![no_main]

use foreread_blocktrace::{Analysis, Options, Reader, parse_line, story};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let options = Options {
        kept: usize::MAX,
        ..Options::default()
    };
    let mut analysis = Analysis::new(options);
    for event in Reader::new(input) {
        match event {
            Ok(event) => {
                // An event that is written can be read, and is then written the same.
                let line = event.to_string();
                let again = parse_line(&line).expect("a line of ours is read");
                assert_eq!(again.map(|event| event.to_string()), Some(line));
                analysis.event(event);
            }
            Err(error) => assert!(!error.to_string().contains('\n')),
        }
    }
    let report = analysis.finish();
    assert_eq!(
        report.kept.len() as u64,
        report.reads.requests + report.others.requests
    );
    for request in &report.kept {
        assert!(!story(request, 0).contains('\n'));
    }
});
