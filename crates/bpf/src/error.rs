// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why BPF programs can't be loaded or attached here, in words.

use foreread_sys::kernel::{BTF, btf_bytes, kernel_release, lockdown};
use foreread_sys::rights::{Capabilities, Capability};
use thiserror::Error;

/// Why BPF can't be used here.
#[derive(Debug, Error)]
pub enum BpfError {
    /// Rights are missing.
    #[error("loading BPF programs needs root, or the capabilities CAP_BPF and CAP_PERFMON")]
    NoRights,
    /// The kernel's lockdown doesn't let programs read its memory.
    #[error(
        "this kernel is locked down ({0}), so BPF programs can't read what they need of it; it is \
         set by lockdown= on the kernel's command line, or by Secure Boot"
    )]
    LockedDown(String),
    /// A filter of system calls holds bpf(2) back.
    #[error(
        "a seccomp filter refuses bpf(2) to this process, as those of containers and of systemd's \
         SystemCallFilter= do; run it outside, or allow that call"
    )]
    Filtered,
    /// The programs can't fit themselves to the kernel.
    #[error(
        "this kernel ({0}) does not describe its types ({BTF}); build it with \
         CONFIG_DEBUG_INFO_BTF"
    )]
    NoTypes(String),
    /// The kernel has nothing to attach a program to that can't be done without.
    #[error("this kernel ({release}) has no place for the program {program}: {reason}")]
    NoHook {
        /// Its release.
        release: String,
        /// The program, as in `bpf/`.
        program: String,
        /// The place that was looked for.
        reason: String,
    },
    /// The kernel's verifier refuses a program that can't be done without.
    #[error(
        "this kernel ({release}) refused the program {program}: {reason}; `foreread doctor \
         --bpf` tells what each program meets here, to be sent to the developers"
    )]
    Rejected {
        /// Its release.
        release: String,
        /// The program, and the place that it was to be attached to.
        program: String,
        /// The verifier's message, with the source line.
        reason: String,
    },
    /// The kernel or its policy refuses something else.
    #[error("the kernel refused BPF ({step}): {reason}")]
    Refused {
        /// The step that was attempted.
        step: &'static str,
        /// The kernel's error.
        reason: String,
    },
}

/// Converts an error of libbpf into the refusal of a step.
pub fn refused(step: &'static str) -> impl FnOnce(libbpf_rs::Error) -> BpfError {
    move |error| {
        lacking_here().unwrap_or_else(|| BpfError::Refused {
            step,
            reason: format!("{error:#}"),
        })
    }
}

/// Something that this process or its kernel lacks for any program to be loaded. It is looked for
/// when the kernel has refused a program with a less specific error.
pub(super) fn lacking_here() -> Option<BpfError> {
    let is_filtered = super::bpf_is_filtered();
    lacking(
        Capabilities::of_self(),
        btf_bytes().is_ok(),
        lockdown().as_deref(),
        is_filtered,
    )
}

fn lacking(
    capabilities: Capabilities,
    has_types: bool,
    lockdown: Option<&str>,
    is_filtered: bool,
) -> Option<BpfError> {
    let may_load = capabilities.has(Capability::SysAdmin)
        || capabilities.has(Capability::Bpf) && capabilities.has(Capability::Perfmon);
    if !may_load {
        return Some(BpfError::NoRights);
    }
    if is_filtered {
        return Some(BpfError::Filtered);
    }
    // Integrity lets programs read; confidentiality doesn't.
    if let Some(mode) = lockdown.filter(|mode| *mode == "confidentiality") {
        return Some(BpfError::LockedDown(mode.to_owned()));
    }
    (!has_types).then(|| BpfError::NoTypes(kernel_release()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_come_first_and_each_lack_is_one_line() {
        let none = Capabilities::of_bits(0);
        let all = Capabilities::of_bits(u64::MAX);
        let both = Capabilities::of_bits(1 << 38 | 1 << 39);
        let said = |error: Option<BpfError>| error.map(|error| error.to_string());
        let rights = said(lacking(none, false, None, true));
        assert!(rights.as_ref().is_some_and(|text| text.contains("root")));
        let filter = said(lacking(all, true, None, true));
        assert!(filter.as_ref().is_some_and(|text| text.contains("seccomp")));
        let locked = said(lacking(all, true, Some("confidentiality"), false));
        assert!(locked.as_ref().is_some_and(|text| text.contains("locked")));
        let types = said(lacking(both, false, Some("integrity"), false));
        assert!(types.as_ref().is_some_and(|text| text.contains("BTF")));
        for text in [rights, filter, locked, types].into_iter().flatten() {
            assert!(!text.contains('\n'), "{text}");
        }
        assert!(lacking(both, true, Some("integrity"), false).is_none());
    }
}
