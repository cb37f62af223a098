//! The message that carries parts of blocks to their owner.
//!
//! ```text
//!  | offset in the file: 8 bytes | length: 4 | bytes | offset | length | bytes | ...
//! ```
//!
//! Numbers are little-endian. An empty message has no parts.

/// The bytes before each part.
pub(super) const HEAD: usize = 12;

/// Appends a part to a message.
pub(super) fn push(message: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    message.extend_from_slice(&offset.to_le_bytes());
    message.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    message.extend_from_slice(bytes);
}

/// Takes the first part off a message; `None` if the message does not begin with one.
pub(super) fn pop<'a>(message: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let (offset, rest) = message.split_first_chunk::<8>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *message = rest;
    Some((u64::from_le_bytes(*offset), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_out_as_they_went_in() {
        let mut message = Vec::new();
        push(&mut message, 7, b"seven");
        push(&mut message, u64::MAX, b"");
        assert_eq!(message.len(), 2 * HEAD + 5);
        let mut rest = &message[..];
        assert_eq!(pop(&mut rest), Some((7, &b"seven"[..])));
        assert_eq!(pop(&mut rest), Some((u64::MAX, &b""[..])));
        assert_eq!((pop(&mut rest), rest.len()), (None, 0));
        for cut in 1..HEAD + 5 {
            assert_eq!(pop(&mut &message[..cut]), None);
        }
    }
}
