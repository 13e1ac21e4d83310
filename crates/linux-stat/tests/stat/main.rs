// SPDX-License-Identifier: MIT OR Apache-2.0
//! The accounts of pages are exact: of files that are read in known ways, and of random programs.
//! Needs root, BPF and modelled disks; says `skipped:` where they lack.

mod bed;
mod programs;
mod sorts;
mod ways;
