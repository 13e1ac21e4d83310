// SPDX-License-Identifier: MIT OR Apache-2.0
//! The number by which the kernel knows a device: files, accounts and streams are told apart by it.

use std::fmt;
use std::str::FromStr;

use crate::decimal;

/// Number of a block device, or of a file system without one; `MAJOR:MINOR` as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device {
    /// 12 bits.
    pub major: u32,
    /// 20 bits.
    pub minor: u32,
}

impl Device {
    /// Converts the kernel's number: the major in the upper 12 bits, the minor in 20 bits.
    #[must_use]
    pub const fn from_kernel(number: u32) -> Self {
        Self {
            major: number >> 20,
            minor: number & 0xf_ffff,
        }
    }

    /// The number as the kernel keeps it. Bits that it has no room for are lost.
    #[must_use]
    pub const fn to_kernel(self) -> u32 {
        self.major << 20 | self.minor & 0xf_ffff
    }

    /// The number that `stat` gives to programs, in `st_dev` and `st_rdev`.
    #[must_use]
    pub const fn to_stat(self) -> u64 {
        let (major, minor) = (self.major as u64, self.minor as u64);
        (major & 0xffff_f000) << 32
            | (major & 0xfff) << 8
            | (minor & 0xffff_ff00) << 12
            | minor & 0xff
    }
}

impl fmt::Display for Device {
    /// `8:1`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The text is not of the form `MAJOR:MINOR`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no device number; one is MAJOR:MINOR, such as 8:16")]
pub struct ParseDeviceError(pub String);

impl FromStr for Device {
    type Err = ParseDeviceError;

    /// Takes decimal digits only: no signs, no blanks.
    fn from_str(text: &str) -> Result<Self, ParseDeviceError> {
        let number = |digits: &str| u32::try_from(decimal(digits.as_bytes())?).ok();
        let device = text.split_once(':').and_then(|(major, minor)| {
            Some(Self {
                major: number(major)?,
                minor: number(minor)?,
            })
        });
        device.ok_or_else(|| ParseDeviceError(text.to_owned()))
    }
}

/// As text.
#[cfg(feature = "serde")]
mod as_text {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};

    use super::Device;

    impl Serialize for Device {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            to.collect_str(self)
        }
    }

    impl<'de> Deserialize<'de> for Device {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            String::deserialize(from)?.parse().map_err(Error::custom)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_shown() {
        let device: Device = "8:16".parse().unwrap();
        assert_eq!((device.major, device.minor), (8, 16));
        assert_eq!(device.to_string(), "8:16");
        for text in [
            "",
            "8",
            "8:",
            ":1",
            "-1:2",
            "+8:1",
            "8:1:2",
            "99999999999:1",
            "a:b",
            " 8:1",
            "8:1\n",
        ] {
            let error = ParseDeviceError(text.to_owned());
            assert_eq!(text.parse::<Device>(), Err(error));
        }
    }

    #[test]
    fn numbers_of_the_kernel_and_of_stat_are_laid_out_differently() {
        let device = Device {
            major: 259,
            minor: 0x1_2345,
        };
        assert_eq!(Device::from_kernel(device.to_kernel()), device);
        assert_eq!(device.to_kernel(), 0x1031_2345);
        assert_eq!(device.to_stat(), 0x1231_0345);
    }
}
