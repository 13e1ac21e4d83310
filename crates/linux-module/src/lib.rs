// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel module `foreread.ko` on this machine. In: its sources, and the kernels that are
//! installed. Out: a module built and installed for one of them, by [`dkms`] or by
//! [`make`](build), and loaded or unloaded; and the [`Settings`] of a loaded one, read and written.
//!
//! Everything below is done by the tools that a system has for it (make, dkms, depmod, modprobe).
//! Nothing is changed that the caller did not ask for. What is installed is returned, so that the
//! caller can write it down, and [removed](build::remove) only where nobody else has replaced it.
#![forbid(unsafe_code)]

pub mod build;
pub mod dkms;
mod error;
mod kernel;
mod load;
mod refusal;
mod settings;
mod sources;
mod tested;
mod tools;

pub use build::Built;
pub use error::ModuleError;
pub use kernel::{Kernel, Lack};
pub use load::{load, unload};
pub use refusal::Refusal;
pub use settings::{DeviceSettings, Of, Settings, loaded_version};
pub use sources::Sources;
pub use tested::{TESTED, tested_names};

/// The name of the module, of its package in DKMS, and of its directory in sysfs.
pub const NAME: &str = "foreread";
/// Its version is that of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
