// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the policy core, as freestanding as everywhere else.
#![forbid(unsafe_code)]

fn main() {
    let core = "../../core";
    cc::Build::new()
        .file(format!("{core}/core.c"))
        .std("c11")
        .opt_level(2)
        .flag("-ffreestanding")
        .flag("-nostdinc")
        .warnings(true)
        .extra_warnings(true)
        .compile("foreread_core");
    println!("cargo:rerun-if-changed={core}");
}
