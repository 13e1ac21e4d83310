// SPDX-License-Identifier: MIT OR Apache-2.0
//! Foreread under the oldest kernel of the list, and the errors of a guest that goes wrong.
//!
//! Needs QEMU and Debian's packages; says `skipped:` where they can't be had.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use foreread_guest::{Disk, Guest, GuestError, Lab, tree_image};
use foreread_model::DiskParameters;
use foreread_testbed::workload::ABSENT_PATTERN;

const FILES: usize = 700;
/// Minimum factor by which the second run makes fewer requests. It makes about a tenth of them if
/// nothing else keeps the processors busy.
const FEWER: u64 = 2;

fn lab() -> Option<Lab> {
    match Lab::build(&[]) {
        Ok(lab) => Some(lab),
        Err(GuestError::Lacking(reason)) => {
            println!("skipped: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The foreread that cargo built beside this test, without debug information, in `folder`.
fn foreread(folder: &Path) -> Option<PathBuf> {
    let test = std::env::current_exe().expect("a path");
    let built = test.parent()?.parent()?.join("foreread");
    if !built.is_file() {
        println!("skipped: the foreread binary is not built here; run cargo test --workspace");
        return None;
    }
    let stripped = folder.join("foreread");
    let done = Command::new("strip")
        .arg("-o")
        .arg(&stripped)
        .arg(&built)
        .status();
    assert!(done.expect("strip runs").success());
    Some(stripped)
}

fn oldest(lab: &Lab) -> &str {
    &lab.kernels().first().expect("a kernel").name
}

#[test]
fn foreread_runs_under_the_oldest_kernel() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (Some(foreread), Some(lab)) = (foreread(scratch.path()), lab()) else {
        return;
    };
    let script = format!(
        "mkdir -p /mnt/data; mount $(disk data) /mnt/data
         ./foreread doctor --json >/run/out/doctor.json
         drop_caches; point alone; grep -rq {ABSENT_PATTERN} /mnt/data/tree; point alone-end
         drop_caches; ./foreread run -- grep -rq {ABSENT_PATTERN} /mnt/data/tree
         drop_caches; point run; ./foreread run -- grep -rq {ABSENT_PATTERN} /mnt/data/tree
         echo status $?; point run-end"
    );
    let image = tree_image(&lab, FILES).expect("an image");
    // The disk is slower than the emulated processor, however busy this machine is. On any other
    // disk the program may be done before the replay has begun.
    let hdd = DiskParameters::preset("hdd").expect("a model");
    let outcome = Guest::new(&lab, oldest(&lab))
        .expect("a kernel")
        .file(&foreread, "foreread")
        .disk(Disk::modelled("data", &image, hdd))
        .script(script)
        .run()
        .expect("a guest that ends");
    println!("{}", outcome.output);

    let report = outcome.file("doctor.json").expect("a document");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["schema"], "foreread.doctor/1");
    assert_eq!(report["recorder"], "bpf", "{report}");
    for verb in report["programs"].as_array().expect("a list") {
        assert!(verb["refused"].is_null(), "{verb}");
        assert_eq!(verb["missing"].as_array().map(Vec::len), Some(0), "{verb}");
    }

    // grep finds nothing and ends with 1, and run passes that on.
    assert!(outcome.output.contains("status 1"), "{}", outcome.output);
    let reads = |from: &str, to: &str| {
        outcome
            .between(from, to)
            .expect("points")
            .disk("data")
            .reads
    };
    let (alone, second) = (reads("alone", "alone-end"), reads("run", "run-end"));
    assert!(
        alone >= FILES as u64 / 2,
        "{alone} requests alone: not cold"
    );
    assert!(
        second * FEWER <= alone,
        "{second} requests in the second run, {alone} alone"
    );
}

#[test]
fn a_guest_that_panics_is_an_error_with_its_console() {
    let Some(lab) = lab() else { return };
    let guest = Guest::new(&lab, oldest(&lab)).expect("a kernel");
    let script = "echo before the crash; sleep 0.2; echo c >/proc/sysrq-trigger; sleep 60";
    let error = guest.script(script).run().expect_err("it panics");
    assert!(matches!(error, GuestError::Died { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("sysrq"), "{text}");
    assert!(text.contains("before the crash"), "{text}");
}

#[test]
fn a_guest_at_its_time_limit_is_an_error_and_its_qemu_is_gone() {
    let Some(lab) = lab() else { return };
    let guest = Guest::new(&lab, oldest(&lab)).expect("a kernel");
    let error = guest
        .command_line("foreread.limit")
        .time_limit(Duration::from_secs(2))
        .script("sleep 1000")
        .run()
        .expect_err("it has two seconds");
    assert!(matches!(error, GuestError::TimeLimit { .. }), "{error}");
    for process in std::fs::read_dir("/proc").expect("proc").flatten() {
        let command_line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command_line = String::from_utf8_lossy(&command_line).into_owned();
        let own = command_line.contains("qemu") && command_line.contains("foreread.limit");
        assert!(!own, "still there: {command_line}");
    }
}

#[test]
fn the_image_is_the_same_bytes_when_it_is_built_again() {
    let Some(lab) = lab() else { return };
    let root = Command::new("id").arg("-u").output().expect("id runs");
    if root.stdout != b"0\n" {
        println!("skipped: not root: the image has files of root");
        return;
    }
    let again = lab
        .folder()
        .join(format!("again-{}.ext4", std::process::id()));
    let built = lab.rebuild_image(&again);
    let same = Command::new("cmp").arg(lab.image()).arg(&again).output();
    std::fs::remove_file(&again).expect("an image");
    built.expect("an image");
    let same = same.expect("cmp runs");
    assert!(
        same.status.success(),
        "{}",
        String::from_utf8_lossy(&same.stdout)
    );
}
