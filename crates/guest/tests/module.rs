// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel module under the oldest kernel of the list: a few programs, three policies.
//! The case `module` of `make guests` does the same at length, under each kernel.
//!
//! Needs QEMU, Debian's packages and a compiler of kernel modules; says `skipped:` where they can't
//! be had.
#![forbid(unsafe_code)]

use std::path::Path;

use foreread_guest::{Disk, Guest, GuestError, Lab};
use foreread_sim::module_records::replay;

const SCRIPT: &str = "set -u
. ./module.sh
kinds=ext4 policies='linux adaptive-2006 foreread'
module_prepare
module_same 3 1
module_record 2 1
module_accounts 2 1
module_refusals
module_loads 1
module_log
";

fn lab() -> Option<Lab> {
    match Lab::build_module() {
        Ok(lab) => Some(lab),
        Err(GuestError::Lacking(reason)) => {
            println!("skipped: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_module_asks_for_what_stock_does_decides_as_the_core_and_can_be_unloaded() {
    let Some(lab) = lab() else {
        return;
    };
    let kernel = lab.kernels().first().expect("a kernel");
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guest");
    let outcome = Guest::new(&lab, &kernel.name)
        .expect("a kernel")
        .file(kernel.module().expect("a module"), "foreread.ko")
        .file(scripts.join("module.sh"), "module.sh")
        .file(scripts.join("readers.py"), "readers.py")
        .file(scripts.join("accounts.py"), "accounts.py")
        .disk(Disk::blank("ext4", 320))
        .disk(Disk::blank("spare", 64))
        .script(SCRIPT)
        .run()
        .expect("a guest that ends");
    let results = outcome.file("results").expect("results");
    let log = outcome.file("dmesg").expect("a log");
    for expected in [
        "same-ext4 3 0 3",
        "accounts 12 12",
        "refused 7 1",
        "loads 1 1",
        "unmounted 1 1",
        "complaints 0",
        "left 0",
    ] {
        let has_it = results.lines().any(|line| line == expected);
        assert!(has_it, "no `{expected}` in:\n{results}\n{log}");
    }
    for policy in ["linux", "adaptive-2006", "foreread"] {
        let text = outcome
            .file(&format!("decisions-{policy}"))
            .expect("records");
        let replayed = replay(&text).expect("records of this version");
        assert!(replayed.is_equal(), "{policy}: {replayed:?}");
        assert_eq!(replayed.gaps, 0, "{policy}");
    }
}
