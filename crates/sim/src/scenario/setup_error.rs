// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a scenario can't be set up.

use foreread_model::PRESET_NAMES;
use thiserror::Error;

/// Why a scenario can't be simulated with these values, or of this trace.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SetupError {
    /// No preset has this name.
    #[error("no device is called `{name}`; there are: {}", PRESET_NAMES.join(", "))]
    NoSuchDevice {
        /// The name that was asked for.
        name: String,
    },
    /// Memory of 0 pages.
    #[error("memory of less than a page holds nothing")]
    NoMemory,
    /// The maximum window is larger than the device.
    #[error("a window of {window_kib} KiB is larger than the device, which has {capacity_kib} KiB")]
    WindowTooLarge {
        /// The maximum window, in KiB.
        window_kib: u64,
        /// The device, in KiB.
        capacity_kib: u64,
    },
    /// The trace has no access that reads through the page cache.
    #[error("nothing in this trace reads through the page cache")]
    NothingRead,
}
