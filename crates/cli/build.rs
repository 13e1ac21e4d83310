// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the program is linked.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Relative relocations as a bitmap instead of 24 bytes each: 140 KiB that every start would
    // read. glibc can apply them from 2.36 on, which all supported systems have.
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|libc| libc == "gnu") {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
