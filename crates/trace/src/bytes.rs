// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and texts as bytes: LEB128 varints, zigzag differences, texts after their length.

/// Appends `value`, seven bits a byte, the lowest first.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `value - base`, wrapping, such that small differences of either sign are short.
#[inline]
pub(crate) fn put_difference(out: &mut Vec<u8>, value: u64, base: u64) {
    let difference = value.wrapping_sub(base) as i64;
    put_varint(out, ((difference << 1) ^ (difference >> 63)) as u64);
}

/// Appends the length of `text` and `text`.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Why a [`Cursor`] couldn't go on, as the rest of a sentence.
pub(crate) type Fault = &'static str;

const CUT_SHORT: Fault = "ends too early";
pub(crate) const TOO_BIG: Fault = "holds a number that is out of its range";

/// Takes values from the front of a slice; never past its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(CUT_SHORT)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, Fault> {
        let (byte, rest) = self.rest.split_first().ok_or(CUT_SHORT)?;
        self.rest = rest;
        Ok(*byte)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Fault> {
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
        let mut value = 0_u64;
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

    #[inline]
    pub(crate) fn number<T: TryFrom<u64>>(&mut self) -> Result<T, Fault> {
        T::try_from(self.varint()?).map_err(|_| TOO_BIG)
    }

    #[inline]
    pub(crate) fn difference(&mut self, base: u64) -> Result<u64, Fault> {
        let folded = self.varint()?;
        let difference = (folded >> 1) ^ (folded & 1).wrapping_neg();
        Ok(base.wrapping_add(difference))
    }

    /// A text of at most `bytes_max`.
    pub(crate) fn text(&mut self, bytes_max: usize) -> Result<&'a [u8], Fault> {
        let length: usize = self.number()?;
        if length > bytes_max {
            return Err(TOO_BIG);
        }
        self.take(length)
    }

    pub(crate) fn end(&self) -> Result<(), Fault> {
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

    #[test]
    fn numbers_come_back() {
        let values = [
            0,
            1,
            127,
            128,
            16_383,
            16_384,
            1 << 32,
            u64::MAX - 1,
            u64::MAX,
        ];
        let mut out = Vec::new();
        for value in values {
            put_varint(&mut out, value);
            put_difference(&mut out, value, 1 << 40);
        }
        let mut cursor = Cursor::new(&out);
        for value in values {
            assert_eq!(cursor.varint(), Ok(value));
            assert_eq!(cursor.difference(1 << 40), Ok(value));
        }
        assert_eq!(cursor.end(), Ok(()));
    }

    #[test]
    fn bad_numbers_are_faults() {
        assert_eq!(Cursor::new(&[]).varint(), Err(CUT_SHORT));
        assert_eq!(Cursor::new(&[0x80; 9]).varint(), Err(CUT_SHORT));
        assert_eq!(Cursor::new(&[0xff; 20]).varint(), Err(TOO_BIG));
        assert_eq!(Cursor::new(&[0x80, 2]).number::<u8>(), Err(TOO_BIG));
        assert_eq!(Cursor::new(&[5, 1, 2]).text(9), Err(CUT_SHORT));
        assert_eq!(Cursor::new(&[5, 1, 2]).text(4), Err(TOO_BIG));
    }
}
