// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stored form: a profile that was written is read back, and nothing else is accepted.

#![allow(clippy::unwrap_used)]

mod common;

use foreread_profile::{DecodeError, decode, encode};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_profile_comes_back(profile in common::profile()) {
        prop_assert_eq!(profile.validate(), Ok(()));
        let bytes = encode(&profile);
        prop_assert_eq!(decode(&bytes), Ok(profile));
    }

    #[test]
    fn every_cut_is_an_error(profile in common::profile(), cut in any::<prop::sample::Index>()) {
        let bytes = encode(&profile);
        let have = cut.index(bytes.len());
        match decode(&bytes[..have]) {
            Err(DecodeError::CutShort { have: told, expected }) => {
                prop_assert_eq!(told, have);
                prop_assert!(expected > have);
            }
            Err(DecodeError::NotAProfile) => prop_assert_eq!(have, 0),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn every_flipped_bit_is_an_error(
        profile in common::profile(),
        at in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        let mut bytes = encode(&profile);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let error = decode(&bytes).unwrap_err().to_string();
        prop_assert!(!error.contains('\n') && !error.is_empty());
    }
}
