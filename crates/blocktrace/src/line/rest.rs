// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words and numbers of a line, taken from its front.

use foreread_core::decimal;

/// The rest of a line; it never begins with a blank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest<'a>(pub &'a [u8]);

/// The sectors of most actions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sectors {
    pub sector: u64,
    pub sectors: u32,
    pub elapsed_ns: Option<u64>,
}

impl<'a> Rest<'a> {
    /// `173880 + 1024 ( 469126)`. A command that is passed through to the device has no sectors but
    /// a number of bytes and its own bytes in parentheses. An error names the part that is wrong.
    #[inline]
    pub fn sectors(mut self) -> Result<Sectors, &'static str> {
        let mut read = Sectors::default();
        if !self.0.is_empty() && !self.0.starts_with(b"(") {
            let sector = self.number().ok_or("the sector")?;
            if self.symbol(b'+') {
                read.sector = sector;
                read.sectors = self.number().ok_or("the number of sectors")?;
            }
        }
        read.elapsed_ns = self.elapsed_ns();
        let end = read.sector.checked_add(u64::from(read.sectors));
        end.map(|_| read).ok_or("the sector")
    }

    #[inline]
    pub fn word(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(u8::is_ascii_whitespace);
        let (word, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest.trim_ascii_start();
        word
    }

    #[inline]
    pub fn number<T: TryFrom<u64>>(&mut self) -> Option<T> {
        digits(self.word())
    }

    /// Seconds with nine digits of fraction.
    #[inline]
    pub fn time_ns(&mut self) -> Option<u64> {
        let (seconds, fraction) = self.word().split_last_chunk::<9>()?;
        let fraction_ns: u64 = digits(fraction)?;
        digits::<u64>(seconds.strip_suffix(b".")?)?
            .checked_mul(1_000_000_000)?
            .checked_add(fraction_ns)
    }

    pub fn symbol(&mut self, symbol: u8) -> bool {
        let stripped = self.0.strip_prefix(&[symbol]);
        self.0 = stripped.unwrap_or(self.0).trim_ascii_start();
        stripped.is_some()
    }

    /// `( 469126)`; other things in parentheses are none.
    fn elapsed_ns(&self) -> Option<u64> {
        let inside = self.0.strip_prefix(b"(")?;
        let close = inside.iter().position(|byte| *byte == b')')?;
        digits(inside[..close].trim_ascii())
    }

    /// Takes the last brackets off. Returns the text in them, and the text behind them. A thread
    /// may be called anything, so they reach from the first that opens to the last that closes.
    pub fn bracketed(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let open = self.0.iter().position(|byte| *byte == b'[')?;
        let close = self.0.iter().rposition(|byte| *byte == b']');
        let close = close.filter(|close| *close > open)?;
        let found = (&self.0[open + 1..close], self.0[close + 1..].trim_ascii());
        self.0 = self.0[..open].trim_ascii_end();
        Some(found)
    }

    /// The text before `<-`, and the text behind it.
    pub fn split_at_arrow(self) -> Option<(Self, Self)> {
        let at = self.0.windows(2).position(|two| two == b"<-")?;
        let (before, behind) = (&self.0[..at], &self.0[at + 2..]);
        Some((
            Self(before.trim_ascii_end()),
            Self(behind.trim_ascii_start()),
        ))
    }
}

/// A number of plain digits.
#[inline]
pub(crate) fn digits<T: TryFrom<u64>>(text: &[u8]) -> Option<T> {
    T::try_from(decimal(text)?).ok()
}

/// A number of plain digits that may have a sign.
pub(super) fn signed(text: &[u8]) -> Option<i32> {
    let number: i64 = match text.strip_prefix(b"-") {
        Some(text) => -digits::<i64>(text)?,
        None => digits(text)?,
    };
    i32::try_from(number).ok()
}
