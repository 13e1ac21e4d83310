// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the C core compiles unchanged for the host, for BPF and with the flags of a kernel,
//! and that no input makes it leave its limits. The inputs are an exhausted small domain, the edges
//! of the large one, and a short run of the fuzzer, all with sanitizers.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const WARNINGS: [&str; 6] = [
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wundef",
    "-Werror",
];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a compiler at the top of the tree; `None` where it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    let run = Command::new(program)
        .args(arguments)
        .current_dir(top())
        .output();
    run.ok()
}

/// Compiles the core with these flags and looks for symbols that it would need from elsewhere.
fn compiles(compiler: &str, flags: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let object = folder.path().join("core.o");
    let object = object.to_str().expect("UTF-8");
    let mut arguments = WARNINGS.to_vec();
    arguments.extend(flags);
    arguments.extend(["-nostdinc", "-c", "core/core.c", "-o", object]);
    let Some(output) = run(compiler, &arguments) else {
        println!("skipped: {compiler} is not installed");
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{compiler} {flags:?}:\n{errors}");
    match run("nm", &["-u", object]) {
        Some(symbols) => assert_eq!(String::from_utf8_lossy(&symbols.stdout), ""),
        None => println!("skipped: nm is not installed"),
    }
}

#[test]
fn it_compiles_freestanding_for_the_host() {
    // Without optimization a freestanding compiler may call memset, as it is free to.
    for level in ["-O1", "-O2", "-O3", "-Os"] {
        let flags = [level, "-std=c11", "-ffreestanding", "-Wpedantic"];
        compiles("gcc", &flags);
        compiles("clang", &flags);
    }
}

#[test]
fn it_compiles_for_bpf() {
    for cpu in ["-mcpu=v2", "-mcpu=v3"] {
        compiles("clang", &["-target", "bpf", cpu, "-O2", "-std=gnu11"]);
    }
}

#[test]
fn it_compiles_with_the_flags_of_a_kernel() {
    let mut flags = vec![
        "-O2",
        "-std=gnu11",
        "-ffreestanding",
        "-fno-pic",
        "-fno-strict-aliasing",
        "-fno-common",
        "-fno-delete-null-pointer-checks",
        "-Wdeclaration-after-statement",
        "-Wmissing-prototypes",
        "-Wstrict-prototypes",
        "-Wframe-larger-than=512",
    ];
    flags.extend(match std::env::consts::ARCH {
        "x86_64" => &[
            "-mcmodel=kernel",
            "-mno-red-zone",
            "-mno-sse",
            "-mno-mmx",
            "-mno-80387",
        ][..],
        "aarch64" => &["-mgeneral-regs-only"][..],
        _ => &[],
    });
    compiles("gcc", &flags);
}

/// Compiles a program of `fuzz/core/` and runs it; `None` where this machine can't build it.
fn built_and_run(
    compiler: &str,
    flags: &[&str],
    source: &str,
    run_with: &[&str],
) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    let path = program.to_str().expect("UTF-8");
    let mut arguments = vec!["-g", "-O1", "-fno-sanitize-recover=all", "-I", "core"];
    arguments.extend(flags);
    arguments.extend([source, "-o", path]);
    let output = run(compiler, &arguments)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    // The sanitizers' runtime is a package of its own.
    if !output.status.success() && errors.contains("cannot find") {
        return None;
    }
    assert!(output.status.success(), "{compiler} {source}:\n{errors}");
    let output = Command::new(&program)
        .args(run_with)
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success(),
        "{source} failed, {}:\n{errors}",
        output.status
    );
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &errors)
}

#[test]
fn no_input_of_the_small_domain_or_the_edges_breaks_a_limit() {
    let gcc = ["-fsanitize=undefined"];
    // The generator of the edges shifts bits out on purpose.
    let clang = [
        "-fsanitize=address,undefined,integer",
        "-fno-sanitize=unsigned-shift-base",
    ];
    for (compiler, flags) in [("gcc", &gcc[..]), ("clang", &clang[..])] {
        match built_and_run(compiler, flags, "fuzz/core/domains.c", &[]) {
            Some(said) => assert!(said.contains("12579840 decisions"), "{said}"),
            None => println!("skipped: {compiler} has no sanitizers here"),
        }
    }
}

#[test]
fn the_fuzzer_finds_nothing() {
    let flags = ["-fsanitize=fuzzer,address,undefined,integer"];
    let runs = ["-runs=200000", "-seed=1", "-max_len=512", "-len_control=0"];
    match built_and_run("clang", &flags, "fuzz/core/decide.c", &runs) {
        Some(said) => assert!(said.contains("Done 200000 runs"), "{said}"),
        None => println!("skipped: clang has no fuzzer here; Debian has it in libclang-rt-dev"),
    }
}
