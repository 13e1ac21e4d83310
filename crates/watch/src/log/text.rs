// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text forms of values in a line of the log: names and paths of any bytes, device numbers,
//! structures of the core, and long values. Each module here is for `#[serde(with = "...")]`.

use foreread_core::Device;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::escape::{escaped, unescaped};
use super::long;
use crate::stream::FileKey;
use crate::walk::Above;

/// Names and paths of any bytes, [`escaped`].
pub mod bytes {
    use super::*;

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&escaped(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        bytes_of(&String::deserialize(from)?)
    }
}

/// The same for an optional value.
pub mod bytes_or_none {
    use super::*;

    pub fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        bytes.as_deref().map(escaped).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| bytes_of(&text)).transpose()
    }
}

/// The same for a list.
pub mod bytes_list {
    use super::*;

    pub fn serialize<S: Serializer>(all: &[Vec<u8>], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().map(|bytes| escaped(bytes)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Vec<u8>>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        texts.iter().map(|text| bytes_of(text)).collect()
    }
}

/// A directory, and two names in it.
pub mod above {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Line {
        #[serde(with = "bytes")]
        top: Vec<u8>,
        #[serde(with = "bytes_list")]
        names: Vec<Vec<u8>>,
    }

    pub fn serialize<S: Serializer>(above: &Above, to: S) -> Result<S::Ok, S::Error> {
        let (top, names) = above.clone();
        let names = names.into();
        Line { top, names }.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Above, D::Error> {
        let Line { top, names } = Line::deserialize(from)?;
        let names = names.try_into();
        Ok((
            top,
            names.map_err(|_| Error::custom("\"names\" are not two"))?,
        ))
    }
}

/// The same for an optional value.
pub mod above_or_none {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Line(#[serde(with = "above")] Above);

    pub fn serialize<S: Serializer>(above: &Option<Above>, to: S) -> Result<S::Ok, S::Error> {
        above.clone().map(Line).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Above>, D::Error> {
        Ok(Option::<Line>::deserialize(from)?.map(|Line(above)| above))
    }
}

/// The entries of directories, each list as [one text](long::list_text).
pub mod lists {
    use super::*;
    use crate::order::{Entry, Lists};
    use std::collections::BTreeMap;

    pub fn serialize<S: Serializer>(lists: &Lists, to: S) -> Result<S::Ok, S::Error> {
        let list =
            |(path, entries): (&Vec<u8>, &Vec<Entry>)| (escaped(path), long::list_text(entries));
        to.collect_map(lists.iter().map(list))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Lists, D::Error> {
        let wrong = || Error::custom("a list has what is no entry, or two entries of a name");
        let list = |(path, text): (String, String)| {
            let entries = long::list_of(&text).ok_or_else(wrong)?;
            Ok((bytes_of(&path)?, entries))
        };
        let lists = BTreeMap::<String, String>::deserialize(from)?;
        lists.into_iter().map(list).collect()
    }
}

/// Many numbers as [one text](long::numbers_text).
pub mod numbers {
    use super::*;

    pub fn serialize<S: Serializer>(numbers: &[u64], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&long::numbers_text(numbers))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = || Error::custom(format!("`{text}` is not numbers and ranges of them"));
        long::numbers_of(&text).ok_or_else(wrong)
    }
}

/// A count that is added up: below 2^32, so that no sum of them overflows.
pub mod small {
    use super::*;

    pub fn serialize<N, S>(number: &N, to: S) -> Result<S::Ok, S::Error>
    where
        N: Copy + TryInto<u64>,
        S: Serializer,
    {
        to.serialize_u64((*number).try_into().unwrap_or(u64::MAX))
    }

    pub fn deserialize<'de, N, D>(from: D) -> Result<N, D::Error>
    where
        N: TryFrom<u32>,
        D: Deserializer<'de>,
    {
        let number = u32::deserialize(from)?;
        let too_large = |_| Error::custom(format!("{number} is too large"));
        N::try_from(number).map_err(too_large)
    }
}

/// A device as `MAJOR:MINOR`.
pub mod device {
    use super::*;

    pub fn serialize<S: Serializer>(device: &Device, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(device)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Device, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = |_| Error::custom(format!("`{text}` is no MAJOR:MINOR"));
        text.parse().map_err(wrong)
    }
}

/// The same for a number with the major number in its upper half.
pub mod disk {
    use super::*;

    pub fn serialize<S: Serializer>(disk: &u64, to: S) -> Result<S::Ok, S::Error> {
        device::serialize(&device_of(*disk), to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let Device { major, minor } = device::deserialize(from)?;
        Ok(u64::from(major) << 32 | u64::from(minor))
    }
}

/// The device of a number with the major number in its upper half.
pub fn device_of(disk: u64) -> Device {
    let (major, minor) = ((disk >> 32) as u32, disk as u32);
    Device { major, minor }
}

/// A file as `MAJOR:MINOR:INODE:GENERATION`.
pub mod file {
    use super::*;

    pub fn serialize<S: Serializer>(file: &FileKey, to: S) -> Result<S::Ok, S::Error> {
        let FileKey {
            inode,
            device,
            generation,
        } = file;
        to.collect_str(&format_args!("{device}:{inode}:{generation}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<FileKey, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = || Error::custom(format!("`{text}` is no MAJOR:MINOR:INODE:GENERATION"));
        let [major, minor, inode, generation] = parts::<4>(&text).ok_or_else(wrong)?;
        match (major.try_into(), minor.try_into(), generation.try_into()) {
            (Ok(major), Ok(minor), Ok(generation)) => Ok(FileKey {
                inode,
                device: Device { major, minor },
                generation,
            }),
            _ => Err(wrong()),
        }
    }
}

/// A structure of the policy core, as the hexadecimal digits of its bytes.
pub mod hex {
    use super::*;
    use foreread_core::policy::{Access, Budget, Decision, Done, Limits};

    /// A structure that the kernel wrote, and its bytes.
    pub trait Structure: Sized {
        /// The bytes.
        fn bytes(&self) -> &[u8];
        /// The structure; `None` if these can't be the bytes of one.
        fn of(bytes: &[u8]) -> Option<Self>;
    }

    macro_rules! structures {
        ($($name:ident),*) => {
            $(impl Structure for $name {
                fn bytes(&self) -> &[u8] {
                    $name::bytes(self)
                }

                fn of(bytes: &[u8]) -> Option<Self> {
                    $name::from_bytes(bytes)
                }
            })*
        };
    }
    structures!(Access, Budget, Limits, Decision, Done);

    pub fn serialize<T: Structure, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digits = value.bytes().iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let text: String = digits
            .map(|digit| char::from(DIGITS[usize::from(digit)]))
            .collect();
        to.serialize_str(&text)
    }

    pub fn deserialize<'de, T: Structure, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        let text = String::deserialize(from)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let pairs = text.as_bytes().chunks(2);
        let bytes: Option<Vec<u8>> = pairs
            .map(|pair| match pair {
                [high, low] => u8::try_from(digit(*high)? << 4 | digit(*low)?).ok(),
                _ => None,
            })
            .collect();
        let value = bytes.and_then(|bytes| T::of(&bytes));
        value.ok_or_else(|| Error::custom(format!("`{text}` are not the bytes of one")))
    }
}

/// Parses exactly this many numbers, separated by colons.
fn parts<const COUNT: usize>(text: &str) -> Option<[u64; COUNT]> {
    let numbers: Option<Vec<u64>> = text.split(':').map(|part| part.parse().ok()).collect();
    numbers?.try_into().ok()
}

fn bytes_of<E: Error>(text: &str) -> Result<Vec<u8>, E> {
    unescaped(text).ok_or_else(|| Error::custom(format!("`{text}` is escaped wrongly")))
}
