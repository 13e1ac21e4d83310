// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rights and features of the kernel.

use std::io;

use foreread_core::Bytes;
use foreread_linux_doctor as doctor;
use foreread_prefetch::budget::budget_bytes;
use foreread_sys::kernel::BTF;
use foreread_sys::memory;
use foreread_sys::rights::{Capabilities, Capability};

use super::Check;

/// The kernels that whole machines were tested with: from the first, to the last.
const TESTED: [(u32, u32); 2] = [(6, 1), (7, 3)];

pub fn privileges() -> Check {
    let name = "privileges";
    if rustix::process::geteuid().is_root() {
        let may = Capabilities::of_self();
        let needed = [
            (Capability::Bpf, "CAP_BPF"),
            (Capability::Perfmon, "CAP_PERFMON"),
            (Capability::SysAdmin, "CAP_SYS_ADMIN"),
            (Capability::DacReadSearch, "CAP_DAC_READ_SEARCH"),
        ];
        let missing = needed
            .iter()
            .filter(|(capability, _)| !may.has(*capability));
        let missing: Vec<&str> = missing.map(|(_, name)| *name).collect();
        if missing.is_empty() {
            return Check::ok(name, "root");
        }
        let remedy = "start the container with these capabilities, or run it outside";
        return Check::lacking(name, format!("root without {}", missing.join(", ")), remedy);
    }
    let may = Capabilities::of_self();
    if may.has(Capability::Bpf) && may.has(Capability::Perfmon) {
        return Check::ok(
            name,
            "CAP_BPF and CAP_PERFMON: recording works, and replay reads what you may read",
        );
    }
    Check::lacking(
        name,
        "not root: nothing can be recorded, and replay reads only what you may read",
        "run with sudo, or give a copy of the program CAP_BPF and CAP_PERFMON (docs/install.md)",
    )
}

pub fn version() -> Check {
    let release = foreread_sys::kernel::kernel_release();
    let found = format!("Linux {release}");
    let [(major, minor), last] = TESTED;
    match foreread_sys::kernel::kernel_version(&release) {
        Some(version) if version > last => Check::ok(
            "kernel",
            format!("{found}, newer than any that was tested: what doesn't fit it is said below"),
        ),
        Some(version) if version >= TESTED[0] => Check::ok("kernel", found),
        _ => Check::lacking(
            "kernel",
            format!("{found}, older than any that was tested"),
            format!("use Linux {major}.{minor} or newer"),
        ),
    }
}

pub fn btf() -> Check {
    match foreread_sys::kernel::btf_bytes() {
        Ok(bytes) => Check::ok("BTF", format!("{}, {BTF}", Bytes::new(bytes).human())),
        Err(error) => Check::lacking(
            "BTF",
            format!("{BTF}: {error}"),
            "use a kernel with CONFIG_DEBUG_INFO_BTF, as all large distributions have it",
        ),
    }
}

pub fn io_uring() -> Check {
    let Err(error) = foreread_sys::uring::make_ring() else {
        return Check::ok("io_uring", "batched reads that merge");
    };
    let remedy = match doctor::io_uring_disabled() {
        Some(disabled @ 1..) => format!(
            "sysctl kernel.io_uring_disabled=0 (it is {disabled}), or leave it: \
             reads are then not batched"
        ),
        _ => "use Linux 5.6 or newer; in a container, a seccomp profile that allows io_uring"
            .to_owned(),
    };
    Check::lacking("io_uring", error.to_string(), remedy)
}

pub fn cachestat() -> Check {
    match doctor::cachestat() {
        Ok(()) => Check::ok("cachestat", "what is cached is seen without reading it"),
        Err(error) => Check::lacking(
            "cachestat",
            format!("{error}: what is cached is found page by page, or read again"),
            "use Linux 6.5 or newer; in a container, a seccomp profile that allows it",
        ),
    }
}

pub fn resolve_cached() -> Check {
    match doctor::resolve_cached() {
        Ok(()) => Check::ok("openat2", "warm starts are recognised (RESOLVE_CACHED)"),
        Err(error) => {
            let what = match error.kind() {
                io::ErrorKind::InvalidInput => "no RESOLVE_CACHED".to_owned(),
                _ => error.to_string(),
            };
            Check::lacking(
                "openat2",
                format!("{what}: every start is taken for a cold one"),
                "use Linux 5.12 or newer",
            )
        }
    }
}

pub fn pressure() -> Check {
    if memory::measures_pressure() {
        return Check::ok("PSI", "a replay stops when tasks wait for memory");
    }
    Check::lacking(
        "PSI",
        "the kernel doesn't measure pressure: a replay stops at its budget only",
        "boot with psi=1, on a kernel with CONFIG_PSI",
    )
}

/// A replay fills a part of what is left; next to nothing left means next to nothing replayed.
pub fn memory() -> Check {
    const BUDGET_BYTES_MIN: u64 = 64 << 20;
    let memory = memory::memory();
    let budget = budget_bytes(memory, None);
    let found = format!(
        "{} available; a replay fills {} at most",
        Bytes::new(memory.available_bytes).human(),
        Bytes::new(budget).human()
    );
    if budget >= BUDGET_BYTES_MIN {
        return Check::ok("memory", found);
    }
    let remedy = match memory.cgroup_left_bytes {
        Some(left) if left < memory.available_bytes => "raise the memory limit of this cgroup",
        _ => "end something that takes memory",
    };
    Check::lacking("memory", found, remedy)
}
