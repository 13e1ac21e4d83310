// SPDX-License-Identifier: MIT OR Apache-2.0
//! The BPF recorder on workloads of which everything is known: files, pages, names, order. What it
//! must see, it must see exactly; what it can't see is in `docs/recorder.md` with the test that
//! shows it. These tests need root, BPF, a C compiler, and some of them loop devices, FUSE and
//! mkfs; where one is missing, a test says `skipped:` and why.

#![allow(clippy::unwrap_used)]

mod setting;

mod accounting;
mod file_systems;
mod losses;
mod machine;
mod mapped;
mod mounted;
mod names;
mod overlays;
mod pages;
mod processes;
mod programs;
mod traces;
mod warm;
