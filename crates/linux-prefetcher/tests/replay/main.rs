// SPDX-License-Identifier: MIT OR Apache-2.0
//! The replay on real file systems over modelled disks. It needs root, FUSE and loop devices; where
//! these are missing a test says `skipped:` and why. `docs/replay-engine.md` has the rules tested.

#![allow(clippy::unwrap_used)]

mod bed;
mod bounds;
mod damage;
mod order;
mod other_fs;
mod stale;
mod stopping;
mod tree;
mod whole;
