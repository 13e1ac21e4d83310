// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Linux releases whose readahead is modelled, each by a policy of its own.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::Policy;
use crate::ffi;

/// Rules that are not the same in all kernels: `FR_RULE_*` of `core/foreread/linux_rules.h`, as far
/// as they concern steps before and after a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules(u32);

impl Rules {
    /// Fault-around takes back one miss for the fault that it serves, and none when that is taken
    /// again; text and sequential mappings count neither way. Without, each page that it walks
    /// over takes one back.
    pub const FAIR_MISSES: u32 = 0x0040;
    /// Fault-around and faults map whole folios.
    pub const MAPS_FOLIOS: u32 = 0x0100;
    /// Fault-around always has a page table.
    pub const TABLE_FIRST: u32 = 0x0200;
    /// Pages that came back soon after their eviction are hits for `mmap_miss`, too.
    pub const COUNTS_REFAULTS: u32 = 0x0400;
    /// Each piece of a read(2) that was copied moves `prev_pos`.
    pub const PREV_BY_PIECE: u32 = 0x0800;
    /// read(2) takes 15 folios at a time, not 31.
    pub const SMALL_BATCH: u32 = 0x1000;
    /// A fault that is taken again knows it, even if it had found its page.
    pub const ALWAYS_TRIED: u32 = 0x2000;

    /// Those of a policy; one that is none of Linux runs on Linux 6.18.
    #[must_use]
    pub fn of(policy: Policy) -> Self {
        Self(ffi::linux_rules(policy as u32))
    }

    /// Whether one of them holds.
    #[must_use]
    pub const fn has(self, rule: u32) -> bool {
        self.0 & rule != 0
    }
}

/// A Linux release whose readahead is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its name, as people type it.
    pub name: &'static str,
    /// The policy that decides as it does.
    pub policy: Policy,
    /// Its number.
    release: (u32, u32),
    /// The first release that is taken to follow its rules.
    since: (u32, u32),
}

/// A name that is no modelled kernel's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("no kernel `{name}` is modelled; there are: {}", Kernel::ALL.map(|k| k.name).join(", "))]
pub struct NoSuchKernel {
    /// The requested name.
    pub name: String,
}

/// How the release of a machine stands to the modelled ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It is one of them.
    Modelled,
    /// It is older than all of them, or between two.
    Between,
    /// It is newer than all of them.
    Newer,
    /// It can't be read as a release.
    Unknown,
}

impl Kernel {
    /// All of them, oldest first. A release between two follows the rules of one of them, as far as
    /// is known from the history of the kernel. `ondemand_readahead()` was split in 6.11. Folio
    /// orders went into `struct file_ra_state` in 6.16. The changes of 7.3 came after 6.19.
    pub const ALL: [Self; 4] = [
        Self {
            name: "6.1",
            policy: Policy::Linux61,
            release: (6, 1),
            since: (0, 0),
        },
        Self {
            name: "6.12",
            policy: Policy::Linux612,
            release: (6, 12),
            since: (6, 11),
        },
        Self {
            name: "6.18",
            policy: Policy::Linux,
            release: (6, 18),
            since: (6, 16),
        },
        Self {
            name: "7.3",
            policy: Policy::Linux73,
            release: (7, 3),
            since: (7, 0),
        },
    ];

    /// The kernel whose rules a machine's kernel follows, by the output of `uname -r`; the newest
    /// where that can't be read.
    #[must_use]
    pub fn of_release(release: &str) -> (Self, Fit) {
        let [.., newest] = Self::ALL;
        let Some(number) = number(release) else {
            return (newest, Fit::Unknown);
        };
        if number > newest.release {
            return (newest, Fit::Newer);
        }
        let mut kernels = Self::ALL.into_iter().rev();
        let kernel = kernels.find(|kernel| kernel.since <= number);
        let kernel = kernel.unwrap_or(newest);
        let fit = match kernel.release == number {
            true => Fit::Modelled,
            false => Fit::Between,
        };
        (kernel, fit)
    }
}

/// `6.12` of `6.12.95+deb13-cloud-amd64`.
fn number(release: &str) -> Option<(u32, u32)> {
    let (major, rest) = release.split_once('.')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit());
    let minor = &rest[..digits.unwrap_or(rest.len())];
    Some((major.parse().ok()?, minor.parse().ok()?))
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl FromStr for Kernel {
    type Err = NoSuchKernel;

    fn from_str(name: &str) -> Result<Self, NoSuchKernel> {
        let found = Self::ALL.into_iter().find(|kernel| kernel.name == name);
        found.ok_or_else(|| NoSuchKernel {
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Limits;

    #[test]
    fn a_release_follows_the_rules_of_a_kernel() {
        for (release, name, fit) in [
            ("6.1.0-50-cloud-amd64", "6.1", Fit::Modelled),
            ("5.15.0", "6.1", Fit::Between),
            ("6.10.3", "6.1", Fit::Between),
            ("6.11.0", "6.12", Fit::Between),
            ("6.12.95+deb12-amd64", "6.12", Fit::Modelled),
            ("6.17-rc1", "6.18", Fit::Between),
            ("6.18.44-fc", "6.18", Fit::Modelled),
            ("6.19", "6.18", Fit::Between),
            ("7.0.1", "7.3", Fit::Between),
            ("7.3.4+deb13-amd64", "7.3", Fit::Modelled),
            ("7.30", "7.3", Fit::Newer),
            ("8.0", "7.3", Fit::Newer),
            ("", "7.3", Fit::Unknown),
            ("linux", "7.3", Fit::Unknown),
        ] {
            let (kernel, found) = Kernel::of_release(release);
            assert_eq!((kernel.name, found), (name, fit), "{release}");
        }
    }

    #[test]
    fn an_unknown_kernel_names_the_known_ones() {
        for kernel in Kernel::ALL {
            assert_eq!(kernel.name.parse(), Ok(kernel));
        }
        let error = "6.6".parse::<Kernel>().unwrap_err().to_string();
        assert_eq!(
            error,
            "no kernel `6.6` is modelled; there are: 6.1, 6.12, 6.18, 7.3"
        );
    }

    #[test]
    fn newer_kernels_have_fewer_quirks() {
        let quirks = Kernel::ALL.map(|kernel| kernel.policy.quirks());
        for pair in quirks.windows(2) {
            assert_eq!(pair[0] & pair[1], pair[1]);
            assert_ne!(pair[0], pair[1]);
        }
        let all = Limits::QUIRKS.iter().fold(0, |all, (_, quirk)| all | quirk);
        assert_eq!(quirks[0], all);
        assert_eq!(Policy::Linux.quirks(), Limits::QUIRKS_6_18);
        assert_eq!(Policy::Safe2010.quirks(), 0);
    }

    #[test]
    fn rules_belong_to_kernels() {
        let having = |rule| Policy::ALL.map(|policy| Rules::of(policy).has(rule));
        let only = |one: Policy| Policy::ALL.map(|policy| policy == one);
        assert_eq!(having(Rules::FAIR_MISSES), only(Policy::Linux73));
        for rule in [
            Rules::TABLE_FIRST,
            Rules::COUNTS_REFAULTS,
            Rules::PREV_BY_PIECE,
            Rules::SMALL_BATCH,
            Rules::ALWAYS_TRIED,
        ] {
            assert_eq!(having(rule), only(Policy::Linux61));
        }
        let old = [Policy::Linux61, Policy::Linux612];
        let maps = Policy::ALL.map(|policy| !old.contains(&policy));
        assert_eq!(having(Rules::MAPS_FOLIOS), maps);
    }
}
