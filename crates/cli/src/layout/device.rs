// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model of a device: as the user says, as `probe` has measured it, or an assumption.

use std::path::Path;

use anyhow::Result;
use foreread_device::Measured;
use foreread_layout::Device;
use foreread_linux_layout::OnFileSystem;
use foreread_linux_sizing::devices::device;
use foreread_model::{DiskModel, DiskParameters};

use crate::device_state::DeviceState;

/// Where a model comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Given,
    Measured,
    Assumed,
}

impl Origin {
    pub fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Measured => "measured",
            Self::Assumed => "assumed",
        }
    }
}

/// A disk from its name, with other parameters behind commas.
pub fn disk(text: &str) -> Result<DiskParameters, String> {
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    let known = DiskParameters::preset(name);
    let mut disk =
        known.ok_or_else(|| format!("no disk is called `{name}`; use hdd, usb, cloud or nvme"))?;
    for part in parts {
        disk.set_assignment(part)
            .map_err(|error| error.to_string())?;
    }
    Ok(disk)
}

/// The model of the device of a file system.
pub fn model(found: &OnFileSystem, given: Option<&DiskParameters>) -> (Device, Origin) {
    let request_bytes_max = match found.request_bytes_max {
        0 => 512 << 10,
        bytes => bytes,
    };
    if let Some(disk) = given {
        let mut disk = disk.clone();
        if disk.capacity_bytes == 0 {
            disk.capacity_bytes = found.disk_bytes;
        }
        return (
            Device {
                disk,
                request_bytes_max,
            },
            Origin::Given,
        );
    }
    let measured = measured(found).and_then(|measured| {
        let read_ns = measured.latency_ns? as u64;
        let bandwidth = measured.bandwidth_bytes_per_s as u64;
        Some(match found.has_head {
            true => Device::with_head(read_ns, bandwidth, found.disk_bytes, request_bytes_max),
            false => {
                let at_once = measured.speed_up.unwrap_or(1.0).round() as u64;
                Device::without_head(read_ns, at_once, bandwidth, request_bytes_max)
            }
        })
    });
    match measured {
        Some(device) => (device, Origin::Measured),
        None => (assumed(found, request_bytes_max), Origin::Assumed),
    }
}

/// A 7,200 rpm disk, or a solid one that is neither fast nor slow.
fn assumed(found: &OnFileSystem, request_bytes_max: u64) -> Device {
    let name = if found.has_head { "hdd" } else { "nvme" };
    let mut disk = DiskParameters::preset(name).unwrap_or_else(DiskParameters::instant);
    disk.capacity_bytes = found.disk_bytes;
    Device {
        disk,
        request_bytes_max,
    }
}

/// What `probe` has found of the device.
fn measured(found: &OnFileSystem) -> Option<Measured> {
    let root = Path::new("/");
    let identity = device(root, found.disk)?.identity;
    let book = DeviceState::of(root).measured().ok()?;
    book.of(&identity).cloned()
}

/// The model in words.
pub fn said(device: &Device, origin: Origin) -> String {
    let rate = device.disk.bandwidth_bytes_per_s / 1_000_000;
    let time = match device.seek_ns() {
        ns @ 0..1_000_000 => format!("{} us", ns / 1000),
        ns => format!("{:.1} ms", ns as f64 / 1e6),
    };
    let kind = match device.disk.model {
        DiskModel::Head => format!("a head, {time} a seek, {rate} MB/s"),
        DiskModel::Parallel => format!("no head, {time} a request, {rate} MB/s"),
        DiskModel::Instant => "takes no time".to_owned(),
    };
    match origin {
        Origin::Given => format!("{kind}: as --disk says"),
        Origin::Measured => format!("{kind}: as probe has measured"),
        Origin::Assumed => format!("{kind}: assumed; `foreread probe` measures it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_a_name_with_parameters() {
        let hdd = disk("hdd,seek_min_ns=2ms,bandwidth_bytes_per_s=90MB").expect("a disk");
        assert_eq!(hdd.seek_min_ns, 2_000_000);
        assert_eq!(hdd.bandwidth_bytes_per_s, 90_000_000);
        for bad in ["", "floppy", "hdd,", "hdd,seek_min_ns=long", "hdd,no=1"] {
            assert!(disk(bad).is_err(), "{bad}");
        }
    }
}
