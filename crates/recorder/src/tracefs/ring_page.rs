// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of the kernel's ring buffer (`include/linux/ring_buffer.h`), as `trace_pipe_raw` gives
//! them.

/// Where things are on a page, from `events/header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Offset of the number of bytes that are in use, with flags.
    pub commit_at: usize,
    /// Size of that number.
    pub commit_bytes: usize,
    /// Offset of the first event.
    pub data_at: usize,
    /// Size of a page.
    pub page_bytes: usize,
}

/// The two highest of 32 bits say that events before this page were lost; `stats` says how many.
const COMMIT_MASK: u64 = (1 << 30) - 1;

const DELTA_BITS: u32 = 27;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// An absolute time has only 59 bits; these come from the time before.
const TIME_TOP_BITS: u64 = 0x1f << 59;

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

/// Type or length in words, and time since the event before: bit fields, laid out by byte order.
fn header(word: u32) -> (u32, u64) {
    if cfg!(target_endian = "little") {
        (word & 31, u64::from(word >> 5))
    } else {
        (
            word >> DELTA_BITS,
            u64::from(word & ((1 << DELTA_BITS) - 1)),
        )
    }
}

impl PageLayout {
    /// Hands on the events of a page, each with its time. A page that doesn't hold together is read
    /// up to where it breaks.
    pub fn events<'p>(&self, page: &'p [u8], mut take: impl FnMut(u64, &'p [u8])) {
        // A damaged page ends early; there is no more to say about it.
        let _ = self.walk(page, &mut take);
    }

    fn walk<'p>(&self, page: &'p [u8], take: &mut impl FnMut(u64, &'p [u8])) -> Option<()> {
        let mut time = u64_at(page, 0)?;
        let commit = match self.commit_bytes {
            8 => u64_at(page, self.commit_at)?,
            _ => u64::from(u32_at(page, self.commit_at)?),
        };
        let committed = usize::try_from(commit & COMMIT_MASK).ok()?;
        let end = self.data_at.checked_add(committed)?.min(page.len());
        let data = page.get(self.data_at..end)?;
        let mut at = 0;
        while at < data.len() {
            let (kind, delta) = header(u32_at(data, at)?);
            let body = at + 4;
            match kind {
                TIME_EXTEND => {
                    time =
                        time.wrapping_add(delta + (u64::from(u32_at(data, body)?) << DELTA_BITS));
                    at = body + 4;
                }
                TIME_STAMP => {
                    let low = delta + (u64::from(u32_at(data, body)?) << DELTA_BITS);
                    time = low | time & TIME_TOP_BITS;
                    at = body + 4;
                }
                // The rest of the page is empty.
                PADDING if delta == 0 => return Some(()),
                // An event that a filter threw away.
                PADDING => {
                    time = time.wrapping_add(delta);
                    at = body.checked_add(u32_at(data, body)? as usize)?;
                }
                // The length is in the first word, and counts it.
                0 => {
                    time = time.wrapping_add(delta);
                    let length = u32_at(data, body)? as usize;
                    take(time, data.get(body + 4..body.checked_add(length)?)?);
                    at = body + length;
                }
                words => {
                    time = time.wrapping_add(delta);
                    let next = body + 4 * words as usize;
                    take(time, data.get(body..next)?);
                    at = next;
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: PageLayout = PageLayout {
        commit_at: 8,
        commit_bytes: 8,
        data_at: 16,
        page_bytes: 4096,
    };

    fn word(kind: u32, delta: u32) -> [u8; 4] {
        if cfg!(target_endian = "little") {
            (kind | delta << 5).to_ne_bytes()
        } else {
            (kind << DELTA_BITS | delta).to_ne_bytes()
        }
    }

    fn page(time: u64, flags: u64, data: &[u8]) -> Vec<u8> {
        let mut bytes = time.to_ne_bytes().to_vec();
        bytes.extend((data.len() as u64 | flags).to_ne_bytes());
        bytes.extend(data);
        bytes.resize(LAYOUT.page_bytes, 0xee);
        bytes
    }

    fn read(page: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut events = Vec::new();
        LAYOUT.events(page, |time, event| events.push((time, event.to_vec())));
        events
    }

    #[test]
    fn times_add_up_over_all_kinds_of_entry() {
        let mut data = Vec::new();
        data.extend(word(1, 5));
        data.extend([1; 4]);
        data.extend(word(TIME_EXTEND, 7));
        data.extend(2u32.to_ne_bytes());
        data.extend(word(0, 1));
        data.extend(8u32.to_ne_bytes());
        data.extend([2; 4]);
        data.extend(word(PADDING, 3));
        data.extend(12u32.to_ne_bytes());
        data.extend([9; 8]);
        data.extend(word(2, 0));
        data.extend([3; 8]);
        data.extend(word(PADDING, 0));
        data.extend([7; 20]);
        let extended = 105 + 7 + (2 << 27) + 1;
        let expected = vec![
            (105, vec![1; 4]),
            (extended, vec![2; 4]),
            (extended + 3, vec![3; 8]),
        ];
        assert_eq!(read(&page(100, 0, &data)), expected);
        let lost = page(100, 3 << 30, &data);
        assert_eq!(
            read(&lost),
            expected,
            "flags of lost events aren't part of the length"
        );
    }

    #[test]
    fn an_absolute_time_keeps_the_top_bits() {
        let mut data = Vec::new();
        data.extend(word(TIME_STAMP, 4));
        data.extend(1u32.to_ne_bytes());
        data.extend(word(1, 1));
        data.extend([0; 4]);
        let before = 0x3 << 60;
        assert_eq!(read(&page(before, 0, &data))[0].0, before + (1 << 27) + 5);
    }

    #[test]
    fn a_damaged_page_ends_where_it_breaks() {
        let mut data = Vec::new();
        data.extend(word(1, 1));
        data.extend([1; 4]);
        data.extend(word(28, 1));
        data.extend([1; 4]);
        assert_eq!(read(&page(0, 0, &data)).len(), 1);
        for kind in 0..32 {
            for body in [0u32, 3, u32::MAX] {
                let mut data = word(kind, 9).to_vec();
                data.extend(body.to_ne_bytes());
                assert!(read(&page(0, 0, &data)).len() <= 1);
            }
        }
        assert!(read(&[]).is_empty());
        assert!(read(&page(0, u64::from(u32::MAX >> 2), &[])[..20]).is_empty());
    }
}
