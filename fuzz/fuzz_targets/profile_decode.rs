// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes arbitrary bytes, as a profile and as the payload of one.
#![no_main]

use foreread_profile::merge::{Observation, merge};
use foreread_profile::need::{PhaseLimits, phases};
use foreread_profile::{Profile, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    check(input);
    // No fuzzer finds checksums, so the payload gets the ones it needs.
    check(&sealed(input));
});

fn check(bytes: &[u8]) {
    match decode(bytes) {
        Ok(profile) => use_it(&profile),
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}

/// A decoded profile is valid, is encoded to the same profile, and can be used for its purposes.
fn use_it(profile: &Profile) {
    assert_eq!(profile.validate(), Ok(()));
    assert_eq!(decode(&encode(profile)).as_ref(), Ok(profile));
    for (id, _) in profile.iter() {
        assert_eq!(profile.find(&profile.path(id)), Some(id));
    }
    let merged = merge(profile, profile, Observation::Full);
    assert_eq!(merged.validate(), Ok(()));
    assert_eq!(merged.total_pages(), profile.total_pages());
    if profile.total_pages() < 1 << 20 {
        let pages: u64 = phases(profile, &PhaseLimits::default())
            .iter()
            .map(|p| p.pages)
            .sum();
        assert_eq!(pages, profile.total_pages());
    }
}

fn sealed(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len())
        .unwrap_or(u32::MAX)
        .to_le_bytes();
    let mut out = b"FRPROFIL\x01\0\0\0".to_vec();
    out.extend(length);
    out.extend(length);
    out.extend(crc32fast::hash(payload).to_le_bytes());
    out.extend([0; 4]);
    out.extend(crc32fast::hash(&out).to_le_bytes());
    out.extend(payload);
    out
}
