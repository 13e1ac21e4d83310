// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames: a message after its length and the version of the protocol.

use super::Malformed;

/// Changes with each change of a message. Both sides are one executable, so a difference is an
/// error.
pub const VERSION: u8 = 1;

/// Most bytes of a message: the largest plan has 2^19 nodes and 2^20 ranges.
pub const MESSAGE_BYTES_MAX: usize = 96 << 20;

/// Bytes before a message.
pub const HEAD_BYTES: usize = 5;

/// The bytes of a message with its head; `None` if it is too large.
#[must_use]
pub fn framed(message: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(message.len()).ok()?;
    (message.len() <= MESSAGE_BYTES_MAX).then(|| {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + message.len());
        bytes.extend(length.to_le_bytes());
        bytes.push(VERSION);
        bytes.extend_from_slice(message);
        bytes
    })
}

/// The length of the message that the bytes begin with, and the message once all of it is there.
///
/// # Errors
/// [`Malformed`] for another version, or a length that no message has.
pub fn message(bytes: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
        return Ok(None);
    };
    let [a, b, c, d, version] = *head;
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).map_err(|_| Malformed)?;
    if version != VERSION || length > MESSAGE_BYTES_MAX {
        return Err(Malformed);
    }
    Ok(rest.get(..length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_there_when_all_of_it_is() {
        let framed = framed(b"message").unwrap();
        for length in 0..framed.len() {
            assert_eq!(message(&framed[..length]), Ok(None), "{length}");
        }
        let more = [&framed[..], b"next"].concat();
        assert_eq!(message(&more), Ok(Some(&b"message"[..])));
        let mut other = framed;
        other[4] = VERSION + 1;
        assert_eq!(message(&other), Err(Malformed));
        assert_eq!(message(&[0xff; 9]), Err(Malformed));
    }
}
