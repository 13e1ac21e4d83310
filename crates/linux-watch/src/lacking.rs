// SPDX-License-Identifier: MIT OR Apache-2.0
//! Features that `watch` lacks on this machine, as text. `watch` continues without them.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use foreread_bpf::MissingHook;
use foreread_sys::memory::measures_pressure;
use foreread_sys::rights::{Capabilities, Capability};
use foreread_sys::uring::make_ring;

use super::listing::Top;

/// A missing feature. Its text names the consequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lacking {
    /// openat2(2), by which directories are listed.
    Listing,
    /// The right to read files of others (CAP_DAC_READ_SEARCH).
    OthersFiles,
    /// Process numbers of our `/proc`, not of a container.
    Numbers,
    /// io_uring, by which requests are submitted.
    Ring,
    /// A measure of memory pressure (/proc/pressure/memory).
    Pressure,
    /// A hook that this kernel lacks.
    Hook(MissingHook),
}

impl Display for Lacking {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Listing => {
                "openat2(2) is refused (systemd does so with RestrictSUIDSGID=): no directory can \
                 be listed, so nothing is fetched"
            }
            Self::OthersFiles => {
                "no right to read the files of others (CAP_DAC_READ_SEARCH): walks through those \
                 are not followed"
            }
            Self::Numbers => {
                "process numbers are a container's: how far up a walk began shows late, and no \
                 program can be excluded by name"
            }
            Self::Ring => "no io_uring: threads fetch, and requests merge less",
            Self::Pressure => {
                "no measure of pressure (/proc/pressure/memory): fetching stops at the budget only"
            }
            Self::Hook(missing) => return missing.fmt(f),
        })
    }
}

/// Everything that this machine lacks.
pub(super) fn lacking(numbers_are_ours: bool) -> Vec<Lacking> {
    let capabilities = Capabilities::of_self();
    let all = [
        (Lacking::Listing, Top::open(Path::new("/")).is_ok()),
        (
            Lacking::OthersFiles,
            capabilities.has(Capability::DacReadSearch),
        ),
        (Lacking::Numbers, numbers_are_ours),
        (Lacking::Ring, make_ring().is_ok()),
        (Lacking::Pressure, measures_pressure()),
    ];
    let lacking = all.into_iter().filter(|(_, is_there)| !is_there);
    lacking.map(|(what, _)| what).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_container_are_told() {
        assert!(lacking(false).contains(&Lacking::Numbers));
        assert!(!lacking(true).contains(&Lacking::Numbers));
        let text = Lacking::Numbers.to_string();
        assert!(text.contains(": ") && !text.contains('\n'), "{text}");
    }

    #[test]
    fn what_the_kernel_does_not_show_is_told() {
        let missing = MissingHook {
            hook: "looked",
            loss: "programs that only look at files",
            reason: "no tracepoint sys_exit".to_owned(),
        };
        let text = Lacking::Hook(missing).to_string();
        assert_eq!(
            text,
            "not seen: programs that only look at files, for no tracepoint sys_exit"
        );
    }
}
