// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model of disks in virtual time, in C (`tests/guest/disk/model.h`), held against
//! `foreread_model`: the same requests are done at the same times.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use foreread_model::{Disk, DiskModel, DiskParameters, PRESET_NAMES, Request};
use proptest::prelude::*;
use tempfile::TempDir;

/// As many as the driver has tags.
const REQUESTS_MAX: usize = 128;

fn compiled() -> Option<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guest/disk/host.c");
    let program = folder.path().join("model");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-Werror", "-o"]);
    match compiler.arg(&program).arg(source).output() {
        Err(_) => {
            println!("skipped: no C compiler here");
            None
        }
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{said}");
            Some((folder, program))
        }
    }
}

fn by_c(program: &Path, parameters: &DiskParameters, requests: &[(u64, u64, u64)]) -> String {
    let mut input = foreread_guest::driver_numbers(parameters).replace(',', " ");
    for (now_ns, offset_bytes, length_bytes) in requests {
        write!(input, "\n{now_ns} {offset_bytes} {length_bytes}").expect("memory");
    }
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    let done = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn by_rust(parameters: &DiskParameters, requests: &[(u64, u64, u64)]) -> String {
    let mut disk = Disk::new(parameters.clone());
    let mut done = Vec::new();
    for (id, (now_ns, offset_bytes, length_bytes)) in requests.iter().enumerate() {
        let request = Request {
            id: id as u64,
            offset_bytes: *offset_bytes,
            length_bytes: *length_bytes,
            write: false,
        };
        disk.submit(*now_ns, request);
        disk.advance(*now_ns, &mut done);
    }
    while let Some(next_ns) = disk.next_event_ns() {
        disk.advance(next_ns, &mut done);
    }
    let mut said = String::new();
    for completion in done {
        writeln!(said, "{} {}", completion.id, completion.done_ns).expect("memory");
    }
    let counters = disk.counters();
    writeln!(
        said,
        "counters {} {} {} {} {} {}",
        counters.requests,
        counters.bytes,
        counters.busy_ns,
        counters.seeks,
        counters.gaps,
        counters.first_touches
    )
    .expect("memory");
    said
}

fn some_parameters() -> impl Strategy<Value = DiskParameters> {
    let preset = (0..PRESET_NAMES.len()).prop_map(|at| {
        let mut parameters = DiskParameters::preset(PRESET_NAMES[at]).expect("a preset");
        parameters.capacity_bytes = 2 << 30;
        parameters
    });
    let model = prop_oneof![
        Just(DiskModel::Head),
        Just(DiskModel::Parallel),
        Just(DiskModel::Instant)
    ];
    let numbers = (any::<[u64; 4]>(), 1_u64..200, 0_u32..64);
    // Blocks of no, less than one, and many pages.
    let touches = (
        0_u64..2_000_000,
        0_u64..20_000_000,
        1_u64..=128,
        0_u64..1000,
    );
    let touches = prop_oneof![Just((0, 0, 1, 0)), touches];
    let drawn = (model, numbers, touches).prop_map(
        |(model, ([capacity, bandwidth, span, gap], parallel, shift), touches)| DiskParameters {
            model,
            capacity_bytes: capacity >> shift,
            bandwidth_bytes_per_s: (bandwidth >> shift).max(1),
            seek_span_ns: span >> shift,
            gap_limit_bytes: gap >> shift,
            parallel_requests: parallel,
            first_touch_bytes: touches.0,
            first_touch_ns: touches.1,
            first_touch_parallel_requests: touches.2,
            first_touch_rate_requests_per_s: touches.3,
            ..DiskParameters::preset("cloud").expect("a preset")
        },
    );
    prop_oneof![3 => preset, 1 => drawn]
}

fn some_requests() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    let request = (0_u64..20_000_000, 0_u64..(1 << 19), 1_u64..256);
    prop::collection::vec(request, 0..REQUESTS_MAX).prop_map(|drawn| {
        let mut now_ns = 0;
        let mut requests = Vec::new();
        for (pause_ns, block, blocks) in drawn {
            // Half of them come at once with the one before.
            now_ns += if pause_ns % 2 == 0 { pause_ns } else { 0 };
            requests.push((now_ns, block << 12, blocks << 12));
        }
        requests
    })
}

#[test]
fn requests_are_done_when_the_model_says() {
    let Some((_folder, program)) = compiled() else {
        return;
    };
    let cases = ProptestConfig::with_cases(300);
    proptest!(cases, |(parameters in some_parameters(), requests in some_requests())| {
        prop_assert_eq!(
            by_c(&program, &parameters, &requests),
            by_rust(&parameters, &requests)
        );
    });
}
