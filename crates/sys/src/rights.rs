// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capabilities of this process: which it has, and giving up those that aren't needed any more.

use std::{fs, io};

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// A capability, by its number in `<linux/capability.h>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// Read any file.
    DacReadSearch = 2,
    /// Leave the access times of others' files alone (`O_NOATIME`), among other things.
    Fowner = 3,
    /// Look into other processes.
    SysPtrace = 19,
    /// Operations without a capability of their own.
    SysAdmin = 21,
    /// Look into the kernel by tracing.
    Perfmon = 38,
    /// Load BPF programs.
    Bpf = 39,
}

/// The effective capabilities of this process, as a set of bits; none when `/proc` isn't there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// Those of this process.
    #[must_use]
    pub fn of_self() -> Self {
        Self::parse(&fs::read_to_string("/proc/self/status").unwrap_or_default())
    }

    fn parse(status: &str) -> Self {
        let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        Self(
            bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
                .unwrap_or(0),
        )
    }

    /// Those of a set of bits.
    pub const fn of_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Whether this one is among them.
    #[must_use]
    pub const fn has(self, capability: Capability) -> bool {
        self.0 >> (capability as u8) & 1 == 1
    }
}

/// Drops all capabilities of this thread but these, for good. Threads that it starts from now on
/// have no others either.
///
/// # Errors
/// As the kernel says; then nothing is given up.
pub fn keep_only(kept: &[Capability]) -> io::Result<()> {
    let kept = kept.iter().fold(0, |bits, one| bits | 1 << *one as u8);
    let kept = CapabilitySet::from_bits_retain(kept);
    let own = capabilities(None)?;
    let left = CapabilitySets {
        effective: own.effective & kept,
        permitted: own.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, left)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn capabilities_are_read() {
        let all = Capabilities::parse("Name:\tx\nCapEff:\t000001ffffffffff\n");
        let none = Capabilities::parse("CapEff:\t0000000000000000\n");
        assert!(all.has(Capability::Bpf) && all.has(Capability::DacReadSearch));
        assert!(!none.has(Capability::SysAdmin));
        assert!(!Capabilities::parse("CapEff:\t0000004000000000").has(Capability::Bpf));
        assert!(Capabilities::parse("CapEff:\t0000004000000000").has(Capability::Perfmon));
    }

    #[test]
    fn what_is_given_up_does_not_come_back() {
        let has = |one: Capability| {
            let own = capabilities(None).unwrap().effective.bits();
            own >> one as u8 & 1 == 1
        };
        // In a thread of its own: other tests need theirs.
        let left = thread::spawn(move || {
            let had = has(Capability::DacReadSearch);
            keep_only(&[Capability::DacReadSearch, Capability::Bpf]).unwrap();
            keep_only(&[Capability::DacReadSearch]).unwrap();
            let inner = thread::spawn(move || has(Capability::Bpf));
            (had, has(Capability::DacReadSearch), inner.join().unwrap())
        });
        let (had, kept, came_back) = left.join().unwrap();
        assert_eq!(had, kept);
        assert!(!came_back);
    }
}
