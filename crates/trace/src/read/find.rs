// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a part stands in a text. Its length is known when compiling, which makes a comparison one
//! or two instructions.

/// Where it first stands.
#[inline]
pub(super) fn position<const N: usize>(text: &[u8], part: &[u8; N]) -> Option<usize> {
    text.windows(N).position(|window| window == part)
}

/// Where it last stands.
#[inline]
pub(super) fn rposition<const N: usize>(text: &[u8], part: &[u8; N]) -> Option<usize> {
    text.windows(N).rposition(|window| window == part)
}

/// Whether it stands anywhere.
#[inline]
pub(super) fn contains<const N: usize>(text: &[u8], part: &[u8; N]) -> bool {
    position(text, part).is_some()
}
