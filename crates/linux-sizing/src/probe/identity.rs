// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which device was probed.

use std::fs;
use std::path::Path;

use foreread_device::{Device, Identity};
use foreread_sys::read_ahead::ReadAheadSetting;

use crate::devices;

/// The identity of the device of a setting, which tells it from others of its name.
#[must_use]
pub fn identity(setting: &ReadAheadSetting) -> Identity {
    let root = Path::new("/");
    let machine = devices::read(root);
    // The same setting may be reached by several paths.
    let path = fs::canonicalize(setting.path()).ok();
    let is_this = |device: &&Device| {
        let other = fs::canonicalize(devices::setting(root, device));
        path.is_some() && other.ok() == path
    };
    let device = machine.devices.iter().find(is_this);
    device.map_or_else(
        || Identity {
            name: setting.name.clone(),
            ..Identity::default()
        },
        |device| device.identity.clone(),
    )
}
