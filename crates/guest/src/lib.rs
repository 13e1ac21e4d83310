// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual machines with other kernels than this machine's, for tests and measurements.
//!
//! Input: a [`Lab`], the name of a kernel, a shell script, files and disks. The lab has QEMU,
//! kernels and a root file system, built from Debian's packages by `tests/guest/lab.sh`. Output: an
//! [`Outcome`] with the output of the script, its exit status, the request counters of every disk
//! at each named [`Point`], and the files that the script left in `/run/out`.
//!
//! ```no_run
//! use foreread_guest::{Disk, Guest, Lab};
//!
//! # fn main() -> Result<(), foreread_guest::GuestError> {
//! let lab = Lab::build(&[])?;
//! let outcome = Guest::new(&lab, "6.1")?
//!     .file("target/release/foreread", "foreread")
//!     .disk(Disk::blank("data", 64))
//!     .script("point before; dd if=$(disk data) of=/dev/null bs=1M; point after")
//!     .run()?;
//! assert!(outcome.between("before", "after")?.disk("data").reads > 0);
//! # Ok(())
//! # }
//! ```
//!
//! Guarantees:
//!
//! * The image of the root file system is the same bytes whenever it is built from the same package
//!   versions, and no guest changes it.
//! * Every guest has a time limit. A guest that panics, hangs or loses its root file system is an
//!   error with the last lines of its console.
//! * No QEMU outlives the process that started it.
//! * At most two guests run at once on this machine, in all processes together.
//!
//! Guests run under software emulation, so the machine needs no KVM. Assert on requests and
//! sectors, which vary by 1 to 2 percent between runs, and never on wall time. The guest of a
//! [`Machine`] runs in virtual time, which repeats within 1 percent.
#![forbid(unsafe_code)]

mod counters;
mod cpio;
mod disk;
mod error;
mod guest;
mod lab;
mod machine;
mod modelled;
mod slots;

pub use counters::{Counters, DiskCounters, Point};
pub use disk::{Bus, Disk, large_image, tree_image};
pub use error::GuestError;
pub use guest::{Guest, Outcome};
pub use lab::{Kernel, Lab};
pub use machine::{Machine, disk_bytes, driver_numbers};
