// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes numbers, names and lists from the bytes of an input. An input that is used up gives zeros.

/// The bytes that are left.
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    /// Whether all bytes are used up.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *byte
    }

    /// A number: mostly small, sometimes of any size.
    pub fn number(&mut self) -> u64 {
        let byte = self.byte();
        let number = u64::from(byte & 0x1f);
        match byte >> 5 {
            0..=2 => number,
            3 => number * 4096,
            4 => number * 1_000_000,
            5 => number << 20,
            6 => u64::from(self.byte()) << number.min(56),
            _ => u64::MAX - number,
        }
    }

    /// The low 32 bits of a number.
    pub fn number_32(&mut self) -> u32 {
        self.number() as u32
    }

    /// A number, or none.
    pub fn maybe(&mut self) -> Option<u64> {
        (self.byte() % 2 == 1).then(|| self.number())
    }

    /// One of these values.
    pub fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::from(self.byte()) % values.len()]
    }

    /// Up to 15 bytes of the input.
    pub fn text(&mut self) -> Vec<u8> {
        let length = usize::from(self.byte() % 16).min(self.0.len());
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        text.to_vec()
    }

    /// A component of a path: mostly one of a few names, so that the same path comes again.
    pub fn name(&mut self) -> Vec<u8> {
        const NAMES: [&[u8]; 7] = [b"a", b"b", b"lib", b"x.so", b".", b"..", b""];
        match usize::from(self.byte() % 16) {
            known @ 0..7 => NAMES[known].to_vec(),
            7..14 => vec![b'a' + self.byte() % 26],
            _ => self.text(),
        }
    }

    /// A path of up to three components, absolute or relative.
    pub fn path(&mut self) -> Vec<u8> {
        let kind = self.byte();
        let mut path = match kind % 2 {
            0 => b"/".to_vec(),
            _ => Vec::new(),
        };
        for number in 0..kind / 2 % 4 {
            if number > 0 {
                path.push(b'/');
            }
            path.extend(self.name());
        }
        path
    }
}
