// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ext4 reader against images made by e2fsprogs, and against bytes made to hurt it.
// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod damage;
mod image;
mod limits;
mod mounted;
mod shapes;
