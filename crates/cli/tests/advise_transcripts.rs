// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text output about devices, word for word: the transcripts under `tests/cmd/devices`, on machines
//! that this file makes up. A test program of its own, as it changes its working directory.

mod common;

use std::path::Path;

use common::machine::{everything, little_memory};

#[test]
fn transcripts_of_devices_hold() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    everything(&directory.path().join("machine")).expect("a machine");
    little_memory(&directory.path().join("small")).expect("a machine");
    std::fs::create_dir(directory.path().join("empty")).expect("a directory");
    std::env::set_current_dir(directory.path()).expect("its directory");
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    trycmd::TestCases::new()
        .case(top.join("tests/cmd/devices/*.md"))
        .env("FOREREAD_STATE_DIR", "/nonexistent");
}
