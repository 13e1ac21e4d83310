// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides how far the kernel should read ahead on a device: the properties of the device,
//! measurements, the advice that follows from them, and the changes made. No I/O: facts come in as
//! values, and settings to write come out as values.
#![forbid(unsafe_code)]

mod advice;
mod cap;
mod change;
mod class;
mod estimate;
mod facts;
mod fit;
mod identity;
mod journal;
mod measured;
mod memory;
mod others;
mod plateau;
mod source;
mod stack;
mod sweep;
mod transport;
mod udev_rule;
mod weighing;

pub use advice::{Advice, Conflict, Expected, Reason, Rule};
pub use cap::{FLOOR, capacity_cap};
pub use change::{
    Access, Applied, KeepError, Keeper, Knob, KnobError, Knobs, RolledBack, Wish, apply, look,
    recover, roll_back,
};
pub use class::{Class, DEFAULT_KIB, Reading};
pub use estimate::{Estimate, median};
pub use facts::{Block, Device, DeviceKind, Machine, MapperMaker, Mount, Partition, Stack};
pub use fit::Fit;
pub use identity::{DeviceNumber, Identity};
pub use journal::{Ending, Entry, Journal, JournalError, Origin, Standing, Step};
pub use measured::{Measured, MeasuredBook, MeasuredBookError, SweepPoint};
pub use memory::{STREAMS_DEFAULT, around_max, streams_max};
pub use others::{
    Meant, OtherSetting, OtherValue, ProfileText, Setter, fstab, nfs_conf, tuned, udev_rules,
};
pub use plateau::{PLATEAU_SHARE, Plateau};
pub use source::Source;
pub use sweep::{Pass, SIZES_KIB, Skipped, Sweep, SweepLimits};
pub use transport::Transport;
pub use udev_rule::{
    UDEV_RULE_PATH, UdevRuleState, UnfitPath, udev_property, udev_rule, udev_rule_state,
};
pub use weighing::advise;
