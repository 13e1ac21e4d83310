// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real block devices with modelled speed, for tests and the demo.
//!
//! A FUSE file answers each read after the time that a [`foreread_model::Disk`] needs. A loop
//! device over it, with direct I/O, is a real block device: real page cache, real readahead, real
//! block layer, real file system. It needs root, `/dev/fuse` and a loop device.
//!
//! ```no_run
//! use foreread_model::DiskParameters;
//! use foreread_testbed::{FileSystem, Testbed, TestbedConfig};
//!
//! let hdd = DiskParameters::preset("hdd").ok_or("no such preset")?;
//! let testbed = Testbed::start(TestbedConfig::new(hdd, 1 << 30))?;
//! testbed.make_file_system(FileSystem::Ext4, &[])?;
//! let directory = testbed.mount(FileSystem::Ext4, "noatime")?;
//! testbed.instantly(|| std::fs::write(directory.join("file"), "text"))?;
//! testbed.drop_caches()?;
//! testbed.reset_counters();
//! std::fs::read(directory.join("file"))?;
//! println!("{} requests", testbed.counters().requests);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

mod available;
mod error;
pub mod fake_sysfs;
mod file_system;
pub mod hanging_server;
mod image;
mod loop_device;
pub mod mapped;
mod memory_file;
mod namespace;
pub mod needed;
mod race;
mod readers;
mod runtime;
mod server;
mod set_at_end;
mod sys;
mod testbed;
pub mod workload;
mod write_log;

pub use error::{Lacking, TestbedError};
pub use file_system::FileSystem;
pub use race::race;
pub use readers::{ReadSince, Readers};
pub use server::{ServerCounters, TraceEntry};
pub use set_at_end::SetAtEnd;
pub use testbed::{READ_AHEAD_KIB_DEFAULT, Testbed, TestbedConfig};
pub use write_log::WriteLog;
