// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random programs of reads, run on a kernel and on the model, step by step, and compared.
//!
//! A [`Program`] is drawn from a seed. A [`Machine`] carries it out: [`Modelled`] with the policy
//! of a kernel over this crate's page cache, a real kernel elsewhere. After each step both report
//! what they have [`Seen`]. These are the folios that entered the page cache, one by one, and those
//! that left it; the mapped pages; and the readahead state of each descriptor (`struct
//! file_ra_state`). A machine that can't see these reports which pages are cached and mapped
//! ([`Sight::Residency`]). The first difference ends the comparison, and [`shrink`] finds a short
//! program that still shows it.

mod compare;
mod generate;
mod machine;
mod modelled;
mod program;
mod residency;
mod seen;
mod shrink;

pub use compare::{Checked, Difference, What, check, in_runs};
pub use foreread_core::policy::Advice as FileWideAdvice;
pub use generate::generate;
pub use machine::Machine;
pub use modelled::{Model, Modelled};
pub use program::{DESCRIPTORS, FILE_BYTES, MapAdvice, Program, Step};
pub use seen::{Event, Facts, Placed, Remembered, Run, Seen, Sight, pages_of, runs};
pub use shrink::shrink;
