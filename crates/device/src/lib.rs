// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far the kernel should read ahead on a device: what is known of it, what was measured, what
//! follows from that, and what was changed. No I/O: facts come in as values, and what to write comes
//! out as values.
#![forbid(unsafe_code)]

mod change;
mod facts;
mod identity;
mod journal;
mod measured;
mod transport;

pub use change::{
    Access, Applied, KeepError, Keeper, Knob, KnobError, Knobs, RolledBack, Wish, apply, look,
    recover, roll_back,
};
pub use facts::{Block, Device, DeviceKind, Machine, MapperMaker, Mount, Partition, Stack};
pub use identity::{DeviceNumber, Identity, NoDeviceNumber};
pub use journal::{Ending, Entry, Journal, JournalError, Origin, Standing, Step};
pub use measured::{Measured, MeasuredBook, MeasuredBookError, SweepPoint};
pub use transport::Transport;
