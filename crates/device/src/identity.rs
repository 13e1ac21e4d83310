// SPDX-License-Identifier: MIT OR Apache-2.0
//! Identity of a device. Names are given out again: `sdb` after a reboot, or after a stick was
//! replaced, may be another device, and measurements or changes of the old one don't apply to it.

/// The number of a backing device (bdi), which is what has a readahead setting: block devices have
/// their own number, mounts without one that of their superblock, with major 0.
pub use foreread_core::Device as DeviceNumber;
use serde::{Deserialize, Serialize};

/// Properties that tell a device from others of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Identity {
    /// The kernel's name, such as `sda` or `dm-3`; of a mount without a block device its source,
    /// such as `server:/export`.
    pub name: String,
    /// World-wide name, UUID of a mapping, or serial number with vendor and model: the same on
    /// every machine and after every boot.
    pub serial: Option<String>,
    /// Vendor and model, as the device tells them.
    pub model: Option<String>,
    /// Size in bytes; `None` where it isn't known, as of a mount, or of a multipath device that
    /// says 0.
    pub capacity_bytes: Option<u64>,
    /// The kernel's count of disks that appeared since the boot (`diskseq`, Linux 5.15): the one
    /// thing that tells a stick from its successor of the same model without a serial number.
    pub disk_sequence: Option<u64>,
    /// The boot in which `disk_sequence` counts.
    pub boot: Option<String>,
}

impl Identity {
    /// Whether both are one attachment of a device: the same boot, the same appearance in it, and
    /// nothing known of both differs. Settings live and die with an attachment.
    #[must_use]
    pub fn is_same_attachment(&self, other: &Self) -> bool {
        self.looks_like(other)
            && agree(self.boot.as_ref(), other.boot.as_ref())
            && agree(self.disk_sequence, other.disk_sequence)
    }

    /// Whether a measurement of one holds for the other: the same device, perhaps under another
    /// name or after a boot.
    #[must_use]
    pub fn is_same_device(&self, other: &Self) -> bool {
        match (&self.serial, &other.serial) {
            (Some(one), Some(another)) => {
                one == another
                    && self.model == other.model
                    && self.capacity_bytes == other.capacity_bytes
            }
            // The sequence counts within one boot.
            (None, None) => {
                let same_boot = self.boot.is_some() && self.boot == other.boot;
                self.looks_like(other)
                    && (!same_boot || agree(self.disk_sequence, other.disk_sequence))
            }
            _ => false,
        }
    }

    fn looks_like(&self, other: &Self) -> bool {
        self.name == other.name
            && agree(self.serial.as_ref(), other.serial.as_ref())
            && agree(self.model.as_ref(), other.model.as_ref())
            && agree(self.capacity_bytes, other.capacity_bytes)
    }
}

/// Nothing that is known of both differs.
fn agree<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stick() -> Identity {
        Identity {
            name: "sdb".to_owned(),
            serial: None,
            model: Some("Generic Flash".to_owned()),
            capacity_bytes: Some(2 << 30),
            disk_sequence: Some(7),
            boot: Some("a".to_owned()),
        }
    }

    #[test]
    fn a_successor_of_the_same_model_is_another() {
        let mut next = stick();
        next.disk_sequence = Some(8);
        assert!(!stick().is_same_attachment(&next));
        assert!(!stick().is_same_device(&next));
    }

    #[test]
    fn after_a_boot_it_is_the_same_device_attached_anew() {
        let mut later = stick();
        later.boot = Some("b".to_owned());
        later.disk_sequence = Some(3);
        assert!(stick().is_same_device(&later));
        assert!(!stick().is_same_attachment(&later));
        later.capacity_bytes = Some(4 << 30);
        assert!(!stick().is_same_device(&later));
    }

    #[test]
    fn a_serial_number_goes_with_the_device() {
        let disk = Identity {
            serial: Some("naa.5000".to_owned()),
            ..stick()
        };
        let moved = Identity {
            name: "sdq".to_owned(),
            disk_sequence: Some(31),
            ..disk.clone()
        };
        assert!(disk.is_same_device(&moved));
        assert!(!disk.is_same_attachment(&moved));
        let other = Identity {
            serial: Some("naa.5001".to_owned()),
            ..disk.clone()
        };
        assert!(!disk.is_same_device(&other) && !disk.is_same_attachment(&other));
        assert!(!disk.is_same_device(&stick()));
    }
}
