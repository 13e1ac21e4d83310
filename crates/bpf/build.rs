// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the BPF programs and generates their skeletons.

use std::path::PathBuf;
use std::{env, process};

use libbpf_cargo::SkeletonBuilder;

const PROGRAMS: [&str; 7] = [
    "record",
    "core_test",
    "check",
    "block",
    "stat",
    "watch",
    "streams",
];

fn main() {
    let bpf =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    // `clang -target bpf` leaves out Debian's per-architecture include path, where <asm/types.h>
    // is.
    let headers = format!("-I/usr/include/{arch}-linux-gnu");
    let arguments = [
        headers,
        format!("-I{}", bpf.display()),
        "-mcpu=v3".into(),
        "-Wall".into(),
        "-Werror".into(),
    ];
    for program in PROGRAMS {
        let source = bpf.join(format!("{program}.bpf.c"));
        let built = SkeletonBuilder::new()
            .source(&source)
            .clang_args(&arguments)
            .build_and_generate(out.join(format!("{program}.skel.rs")));
        if let Err(error) = built {
            eprintln!("cannot build {}: {error:#}", source.display());
            eprintln!("clang is needed to build the BPF programs: run scripts/setup.sh build");
            process::exit(1);
        }
    }
    println!("cargo:rerun-if-changed={}", bpf.display());
    println!("cargo:rerun-if-changed={}", bpf.join("../core").display());
}
