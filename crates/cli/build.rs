// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the program is linked.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|libc| libc == "gnu") {
        // Relative relocations as a bitmap instead of 24 bytes each: 140 KiB that every start would
        // read. glibc can apply them from 2.36 on, which all supported systems have.
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        link_unwinder_statically();
    }
}

/// Has the linker take GCC's unwinder from `libgcc_eh.a`, which comes with every gcc. A start from
/// a cold disk would read all of `libgcc_s.so.1` otherwise, 124 KiB, to unwind at a panic only.
fn link_unwinder_statically() {
    let folder = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let script = folder.join("libgcc_s.so");
    // A linker script in place of the library; Rust's standard library asks for it by this name.
    match fs::write(&script, "INPUT ( -lgcc_eh -lgcc )\n") {
        Ok(()) => println!("cargo:rustc-link-search=native={}", folder.display()),
        Err(error) => println!("cargo:warning=cannot write {}: {error}", script.display()),
    }
}
