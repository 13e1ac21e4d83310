// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the program is linked.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What libbpf needs: the name that the linker looks for, and the archive.
const LIBRARIES_OF_LIBBPF: [(&str, &str); 2] = [("libelf.so", "libelf.a"), ("libz.so", "libz.a")];
/// With this in the environment, whatever its value, these libraries are linked as shared ones.
const LINK_SHARED: &str = "FOREREAD_LINK_SHARED";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={LINK_SHARED}");
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|libc| libc == "gnu") {
        // Relative relocations as a bitmap instead of 24 bytes each: 140 KiB that every start would
        // read. glibc can apply them from 2.36 on, which all supported systems have.
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        let folder = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
        link_unwinder_statically(&folder);
        link_libraries_of_libbpf(&folder);
        println!("cargo:rustc-link-search=native={}", folder.display());
    }
}

/// Has the linker take GCC's unwinder from `libgcc_eh.a`, which comes with every gcc. A start from
/// a cold disk would read all of `libgcc_s.so.1` otherwise, 124 KiB, to unwind at a panic only.
fn link_unwinder_statically(folder: &Path) {
    instead_of(folder, "libgcc_s.so", "-lgcc_eh -lgcc");
}

/// Has the linker take libelf and libz from their archives. A program waits for each shared library
/// before its first instruction: at a boot these two were 6 of 12 reads in a row. Where an archive
/// isn't found the shared library is linked.
fn link_libraries_of_libbpf(folder: &Path) {
    // `cc` knows the libraries of this machine only.
    let is_native = env::var_os("HOST") == env::var_os("TARGET");
    let is_static = is_native && env::var_os(LINK_SHARED).is_none();
    for (library, archive) in LIBRARIES_OF_LIBBPF {
        match found_by_compiler(archive).filter(|_| is_static) {
            Some(archive) => instead_of(folder, library, &archive),
            None => {
                // There is one if an earlier build linked the archive.
                let _ = fs::remove_file(folder.join(library));
            }
        }
    }
}

/// The path of a library, where the compiler looks for them.
fn found_by_compiler(library: &str) -> Option<String> {
    let asked = format!("-print-file-name={library}");
    let output = Command::new("cc").arg(asked).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    // A compiler that doesn't find it repeats the name.
    Path::new(&path).is_absolute().then_some(path)
}

/// A linker script in place of a library. This folder is searched before those of the system.
fn instead_of(folder: &Path, library: &str, input: &str) {
    let script = folder.join(library);
    if let Err(error) = fs::write(&script, format!("INPUT ( {input} )\n")) {
        println!("cargo:warning=cannot write {}: {error}", script.display());
    }
}
