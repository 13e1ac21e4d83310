// SPDX-License-Identifier: MIT OR Apache-2.0
//! Giving up rights that aren't needed any more.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::doctor::Capability;

/// Of this thread's capabilities, gives up all but these, for good; threads that it starts from now
/// on have no others either.
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
