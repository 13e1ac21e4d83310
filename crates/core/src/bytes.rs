// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and texts as bytes, as the own file formats have them: LEB128 varints, zigzag
//! differences, texts after their length.

/// Appends `value`, seven bits a byte, the lowest first.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `value - base` such that small differences of either sign are short. It wraps, so that
/// any two values have a difference.
#[inline]
pub fn put_difference(out: &mut Vec<u8>, value: u64, base: u64) {
    let difference = value.wrapping_sub(base) as i64;
    put_varint(out, ((difference << 1) ^ (difference >> 63)) as u64);
}

/// Appends the length of `text` and `text`.
pub fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Why a [`Cursor`] couldn't go on, as the rest of a sentence.
pub type Fault = &'static str;

const CUT_SHORT: Fault = "ends too early";
/// A number is larger than it may be.
pub const TOO_BIG: Fault = "holds a number that is out of its range";
const TOO_MANY: Fault = "counts more entries than it has room for";

/// Takes values from the front of a slice; never past its end.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// A cursor at the front.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Number of bytes that are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes `length` bytes.
    ///
    /// # Errors
    /// When there are fewer.
    #[inline]
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(CUT_SHORT)?;
        self.rest = rest;
        Ok(taken)
    }

    /// One byte.
    ///
    /// # Errors
    /// When there is none.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Fault> {
        let (byte, rest) = self.rest.split_first().ok_or(CUT_SHORT)?;
        self.rest = rest;
        Ok(*byte)
    }

    /// A number as [`put_varint`] writes it.
    ///
    /// # Errors
    /// When it is cut short or has more than 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Fault> {
        // Most numbers are below 128, and decoding is mostly this.
        if let Some((&byte, rest)) = self.rest.split_first()
            && byte < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0u64;
        for (at, &byte) in self.rest.iter().take(10).enumerate() {
            let bits = u64::from(byte & 0x7f);
            // The tenth byte holds bit 63 and nothing else.
            if at == 9 && bits > 1 {
                return Err(TOO_BIG);
            }
            value |= bits << (7 * at);
            if byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 {
            CUT_SHORT
        } else {
            TOO_BIG
        })
    }

    /// The same in a smaller type.
    ///
    /// # Errors
    /// As [`Cursor::varint`], and [`TOO_BIG`] when it doesn't fit.
    #[inline]
    pub fn number<T: TryFrom<u64>>(&mut self) -> Result<T, Fault> {
        T::try_from(self.varint()?).map_err(|_| TOO_BIG)
    }

    /// A number as [`put_difference`] writes it.
    ///
    /// # Errors
    /// As [`Cursor::varint`].
    #[inline]
    pub fn difference(&mut self, base: u64) -> Result<u64, Fault> {
        let folded = self.varint()?;
        let difference = (folded >> 1) ^ (folded & 1).wrapping_neg();
        Ok(base.wrapping_add(difference))
    }

    /// A text of at most `bytes_max`, as [`put_text`] writes it.
    ///
    /// # Errors
    /// When it is longer, or cut short.
    pub fn text(&mut self, bytes_max: usize) -> Result<&'a [u8], Fault> {
        let length: usize = self.number()?;
        if length > bytes_max {
            return Err(TOO_BIG);
        }
        self.take(length)
    }

    /// A count of entries that take at least `bytes_min` each, so that nothing is allocated for
    /// entries that can't be there.
    ///
    /// # Errors
    /// When there is less room, or as [`Cursor::varint`].
    pub fn count(&mut self, bytes_min: usize) -> Result<usize, Fault> {
        let count: usize = self.number()?;
        match count.checked_mul(bytes_min) {
            Some(needed) if needed <= self.rest.len() => Ok(count),
            _ => Err(TOO_MANY),
        }
    }

    /// That nothing is left.
    ///
    /// # Errors
    /// When something is.
    pub fn end(&self) -> Result<(), Fault> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err("goes on after its end")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [u64; 9] = [
        0,
        1,
        127,
        128,
        16_383,
        16_384,
        u32::MAX as u64,
        u64::MAX - 1,
        u64::MAX,
    ];

    #[test]
    fn numbers_come_back() {
        let mut out = Vec::new();
        for value in VALUES {
            put_varint(&mut out, value);
            put_difference(&mut out, value, 1 << 40);
        }
        let mut cursor = Cursor::new(&out);
        for value in VALUES {
            assert_eq!(cursor.varint(), Ok(value));
            assert_eq!(cursor.difference(1 << 40), Ok(value));
        }
        assert_eq!(cursor.end(), Ok(()));
    }

    #[test]
    fn small_differences_of_either_sign_take_a_byte() {
        for value in [1000 - 64, 1000, 1000 + 63] {
            let mut out = Vec::new();
            put_difference(&mut out, value, 1000);
            assert_eq!(out.len(), 1, "{value}");
        }
    }

    #[test]
    fn bad_numbers_are_faults() {
        assert_eq!(Cursor::new(&[]).varint(), Err(CUT_SHORT));
        assert_eq!(Cursor::new(&[0x80; 9]).varint(), Err(CUT_SHORT));
        assert_eq!(Cursor::new(&[0xff; 20]).varint(), Err(TOO_BIG));
        assert_eq!(
            Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).varint(),
            Err(TOO_BIG)
        );
        assert_eq!(Cursor::new(&[0x80, 2]).number::<u8>(), Err(TOO_BIG));
        assert_eq!(Cursor::new(&[5, 1, 2]).text(9), Err(CUT_SHORT));
        assert_eq!(Cursor::new(&[5, 1, 2]).text(4), Err(TOO_BIG));
        assert_eq!(Cursor::new(&[3, 0, 0, 0, 0]).count(2), Err(TOO_MANY));
    }
}
