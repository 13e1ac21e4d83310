// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of the core's inputs and states, for C and BPF programs that share them.

use super::{Access, Budget, Decision, Device, Done, Limits, Near, State, Streams};
use crate::ffi;

macro_rules! to_bytes {
    ($($type:ty),+) => {$(
        impl $type {
            /// Its bytes, as C and BPF see them.
            #[must_use]
            pub fn bytes(&self) -> &[u8] {
                ffi::Plain::bytes(self)
            }
        }
    )+};
}

macro_rules! from_bytes {
    ($($type:ty),+) => {$(
        impl $type {
            /// From its bytes; `None` when there are not as many as it has. Any bits are valid.
            #[must_use]
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                ffi::AnyBits::from_bytes(bytes)
            }
        }
    )+};
}

to_bytes!(
    Access, Budget, Decision, Device, Done, Limits, Near, State, Streams
);
from_bytes!(Budget, Device, Done, Limits, Near, State, Streams);

impl Access {
    /// From its bytes; `None` when there are not as many as it has, or it is of no kind.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        ffi::access_from(bytes)
    }
}
