// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and bytes of messages: little-endian, bytes after their length.

use foreread_profile::limits::PATH_BYTES_MAX;

use super::Malformed;

/// Takes a message apart.
pub(super) struct Taker<'a> {
    rest: &'a [u8],
}

impl<'a> Taker<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*first)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn i64(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// Bytes after their length.
    pub fn bytes(&mut self, bytes_max: usize) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.u32()?).map_err(|_| Malformed)?;
        if length > bytes_max {
            return Err(Malformed);
        }
        let (first, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(first)
    }

    /// A list after its length. `bytes_min` is the least that an element takes, so that a length
    /// that can't be true reserves no memory.
    pub fn list<T>(
        &mut self,
        bytes_min: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let length = usize::try_from(self.u32()?).map_err(|_| Malformed)?;
        if length > self.rest.len() / bytes_min.max(1) {
            return Err(Malformed);
        }
        (0..length).map(|_| element(self)).collect()
    }

    /// Nothing may be left.
    pub fn end(self) -> Result<(), Malformed> {
        self.rest.is_empty().then_some(()).ok_or(Malformed)
    }
}

/// Puts a message together.
#[derive(Default)]
pub(super) struct Putter {
    pub bytes: Vec<u8>,
}

impl Putter {
    pub fn u8(&mut self, number: u8) {
        self.bytes.push(number);
    }

    pub fn flag(&mut self, flag: bool) {
        self.u8(flag.into());
    }

    pub fn u32(&mut self, number: u32) {
        self.bytes.extend(number.to_le_bytes());
    }

    pub fn u64(&mut self, number: u64) {
        self.bytes.extend(number.to_le_bytes());
    }

    pub fn i64(&mut self, number: i64) {
        self.bytes.extend(number.to_le_bytes());
    }

    /// A length. What is longer than it can say is refused as a frame that is too large.
    pub fn length(&mut self, length: usize) {
        self.u32(u32::try_from(length).unwrap_or(u32::MAX));
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    pub fn list<T>(&mut self, elements: &[T], mut element: impl FnMut(&mut Self, &T)) {
        self.length(elements.len());
        for one in elements {
            element(self, one);
        }
    }
}

/// An absolute path.
pub(super) fn path(from: &mut Taker<'_>) -> Result<Vec<u8>, Malformed> {
    let path = from.bytes(PATH_BYTES_MAX)?;
    let is_path = path.first() == Some(&b'/') && !path.contains(&0);
    is_path.then(|| path.to_vec()).ok_or(Malformed)
}
