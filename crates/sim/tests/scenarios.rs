// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of invalid scenarios: the error names file, line and field, and what would be right.
#![forbid(unsafe_code)]

use foreread_sim::Scenario;
use foreread_sim::scenario::Overrides;
use proptest::prelude::*;

const GOOD: &str = "[machine]\nmemory = \"1M\"\n[device]\npreset = \"usb\"\n[readahead]\n\
                    size = \"128K\"\n[[file]]\nname = \"a\"\nsize = \"1M\"\n[[program]]\n\
                    file = \"a\"\nrequest = \"4K\"\n";

fn error(text: &str) -> String {
    match Scenario::parse("x.toml", text) {
        Ok(_) => panic!("it was taken: {text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn errors_name_the_line_the_field_and_the_remedy() {
    assert!(Scenario::parse("x.toml", GOOD).is_ok());
    for (right, wrong, message) in [
        (
            "memory = \"1M\"",
            "memory = \"0B\"",
            "x.toml:2: machine.memory: memory of less",
        ),
        (
            "memory = \"1M\"",
            "memory = 256",
            "x.toml:2: machine.memory: 256: 256 what? 256K",
        ),
        (
            "memory = \"1M\"",
            "memroy = \"1M\"",
            "x.toml:2: machine.memroy: no such field; there are",
        ),
        (
            "\"usb\"",
            "\"floppy\"",
            "x.toml:4: device.preset: no device is called `floppy`; there",
        ),
        (
            "preset = \"usb\"",
            "latency = 5",
            "x.toml:4: device.latency: no disk parameter",
        ),
        (
            "size = \"128K\"",
            "policy = \"fast\"",
            "x.toml:6: readahead.policy: no policy is called",
        ),
        (
            "size = \"128K\"",
            "kernel = \"5.4\"",
            "x.toml:6: readahead.kernel: no kernel `5.4` is modelled; there are: 6.1, 6.12",
        ),
        (
            "size = \"1M\"",
            "size = \"0K\"",
            "x.toml:9: file.size: a file of no size",
        ),
        (
            "file = \"a\"",
            "file = \"b\"",
            "x.toml:11: program.file: no file is called `b`; there are: a",
        ),
        (
            "request = \"4K\"",
            "request = \"0K\"",
            "x.toml:12: program.request: a request of no size",
        ),
        (
            "request = \"4K\"",
            "length = \"2M\"",
            "x.toml:12: program.length: reads to byte 2097152",
        ),
        (
            "request = \"4K\"",
            "offset = \"1M\"",
            "x.toml:12: program.offset: reads to byte",
        ),
        (
            "request = \"4K\"",
            "think = 5",
            "x.toml:12: program.think: expected a time",
        ),
        (
            "request = \"4K\"",
            "count = \"sweep\"",
            "x.toml:1: sweep: a program has count",
        ),
        (
            "request = \"4K\"",
            "count = 2\nown_files = true",
            "x.toml:12: program.count: 1 files are",
        ),
        (
            "request = \"4K\"",
            "pattern = \"strided\"",
            "program.stride: is missing",
        ),
        (
            "request = \"4K\"",
            "pattern = \"circular\"",
            "`circular` is none of: sequential",
        ),
        (
            "request = \"4K\"",
            "mapping = \"exec\"",
            "program.mapping: needs through = \"mmap\"",
        ),
        (
            "preset = \"usb\"",
            "capacity_bytes = 65536",
            "file: 1048576 bytes don't fit",
        ),
        (
            "size = \"1M\"",
            "size = \"4096T\"",
            "x.toml:9: file.size: larger than",
        ),
        (
            "size = \"1M\"",
            "size = \"1M\"\noffset = \"9999999T\"",
            "x.toml:10: file.offset: no disk",
        ),
        ("[[file]]\nname = \"a\"", "[[file", "x.toml:7: "),
        (
            "request = \"4K\"",
            "reorder = 1",
            "x.toml:12: program.reorder: expected 2 to",
        ),
        (
            "request = \"4K\"",
            "holes_percent = 100",
            "x.toml:12: program.holes_percent: expected 0 to 99",
        ),
        (
            "request = \"4K\"",
            "noise_percent = -1",
            "x.toml:12: program.noise_percent: expected a whole number",
        ),
        (
            "request = \"4K\"",
            "run = \"64K\"",
            "x.toml:12: program.run: needs pattern",
        ),
        (
            "request = \"4K\"",
            "pattern = \"strided\"\nstride = \"4K\"\nrun = \"8K\"",
            "x.toml:14: program.run: is longer",
        ),
        (
            "request = \"4K\"",
            "pattern = \"mixed\"",
            "program.sequential_percent: is missing",
        ),
        (
            "request = \"4K\"",
            "pattern = \"mixed\"\nsequential_percent = 101",
            "x.toml:13: program.sequential_percent: expected 0 to 100",
        ),
        (
            "request = \"4K\"",
            "threads = 0",
            "x.toml:12: program.threads: expected 1 to 4096",
        ),
        (
            "request = \"4K\"",
            "count = 1000000\nthreads = 2",
            "x.toml:13: program.threads: 1000000 programs",
        ),
        (
            "request = \"4K\"",
            "pieces = \"64K\"",
            "x.toml:12: program.pieces: needs threads",
        ),
        (
            "request = \"4K\"",
            "threads = 2\npieces = \"6K\"",
            "x.toml:13: program.pieces: expected a multiple",
        ),
        (
            "request = \"4K\"",
            "request = \"4K\"\n[[program.phase]]\nlength = \"8K\"",
            "x.toml:12: program.request: belongs in each",
        ),
        (
            "request = \"4K\"",
            "[[program.phase]]\nlength = \"2M\"",
            "x.toml:13: program.phase.length: reads to byte",
        ),
        (
            "request = \"4K\"",
            "[[program.phase]]\nthink = \"1ms\"",
            "x.toml:13: program.phase.think: no such field",
        ),
        (
            "request = \"4K\"",
            "phase = 5",
            "x.toml:12: program.phase: expected a table",
        ),
        (
            "request = \"4K\"",
            "victim = 1",
            "x.toml:12: program.victim: expected true or false",
        ),
        (
            "size = \"1M\"",
            "size = \"1M\"\ncached = \"half\"",
            "x.toml:10: file.cached: `half` is none of: none, all",
        ),
        (
            "size = \"1M\"",
            "size = \"1M\"\nmissing_one_in = 4",
            "x.toml:10: file.missing_one_in: needs cached",
        ),
        (
            "size = \"1M\"",
            "size = \"1M\"\ncached = \"all\"\nmissing_one_in = 1",
            "x.toml:11: file.missing_one_in: expected 2",
        ),
        (
            "size = \"1M\"",
            "size = \"1M\"\ncached = \"all\"\nmissing_block = \"6K\"",
            "x.toml:11: file.missing_block: expected whole",
        ),
        (
            "size = \"1M\"",
            "size = \"1T\"\ncached = \"all\"",
            "x.toml:10: file.cached: at most 64 GiB",
        ),
    ] {
        let text = GOOD.replace(right, wrong);
        assert_ne!(text, GOOD, "{right}");
        let error = error(&text);
        assert!(
            error.contains(message),
            "{wrong}\n  got      {error}\n  expected {message}"
        );
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn a_window_larger_than_the_device_is_told_before_anything_runs() {
    let text = GOOD
        .replace("preset = \"usb\"", "capacity_bytes = \"2M\"")
        .replace("\"128K\"", "\"4M\"");
    assert!(error(&text).contains("a window of 4096 KiB is larger than the device"));
    let text = text.replace("\"4M\"", "\"128K\"");
    let mut scenario = Scenario::parse("x.toml", &text).expect("a scenario");
    let overrides = Overrides {
        read_ahead_pages: vec![1024],
        ..Overrides::default()
    };
    let error = scenario.set(&overrides).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a window of 4096 KiB is larger than the device, which has 2048 KiB"
    );
}

#[test]
fn values_of_the_command_line_replace_those_of_the_scenario() {
    let mut scenario = Scenario::parse("x.toml", GOOD).expect("a scenario");
    let overrides = Overrides {
        devices: vec!["hdd".into(), "nvme".into()],
        read_ahead_pages: vec![8, 16, 32],
        ..Overrides::default()
    };
    scenario.set(&overrides).expect("values");
    assert_eq!(scenario.combinations().len(), 6);
    let unknown = Overrides {
        devices: vec!["tape".into()],
        ..Overrides::default()
    };
    let error = scenario.set(&unknown).unwrap_err().to_string();
    assert!(error.contains("tape") && error.contains("nvme"), "{error}");
}

proptest! {
    #[test]
    fn any_text_is_a_scenario_or_one_line_of_error(text in "\\PC*") {
        if let Err(error) = Scenario::parse("x.toml", &text) {
            prop_assert_eq!(error.to_string().lines().count(), 1);
        }
    }

    #[test]
    fn a_scenario_with_a_changed_byte_is_no_panic(at in 0usize..GOOD.len(), byte in 32u8..127) {
        let mut bytes = GOOD.as_bytes().to_vec();
        bytes[at] = byte;
        let text = String::from_utf8(bytes).expect("ASCII");
        if let Ok(scenario) = Scenario::parse("x.toml", &text) {
            for run in scenario.combinations().iter().take(4) {
                let _ = scenario.setup(run);
            }
        }
    }
}
