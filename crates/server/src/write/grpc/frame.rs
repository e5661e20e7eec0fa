//! The framing of gRPC messages: `compressed u8 | length u32 BE | message`.
//!
//! Holds always: a call to us carries one message, and the body ends with it.

use bytes::{BufMut as _, Bytes, BytesMut};
use thiserror::Error;

/// Bytes in front of a message.
pub(super) const HEADER_BYTES: usize = 5;

/// A message as it travelled.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) is_compressed: bool,
    pub(super) bytes: Bytes,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum FrameError {
    #[error("the body ends inside the {HEADER_BYTES} bytes in front of a message")]
    NoHeader,
    #[error("the first byte of a message says whether it is compressed: 0 or 1, found {0}")]
    Flag(u8),
    #[error("the message was announced with {announced} bytes and has {found}")]
    Length { announced: u32, found: usize },
}

/// The one message that a body holds.
pub(super) fn only_message(mut body: Bytes) -> Result<Message, FrameError> {
    let Some((header, _)) = body.split_first_chunk::<HEADER_BYTES>() else {
        return Err(FrameError::NoHeader);
    };
    let [flag, length @ ..] = *header;
    let is_compressed = match flag {
        0 => false,
        1 => true,
        other => return Err(FrameError::Flag(other)),
    };
    let announced = u32::from_be_bytes(length);
    let bytes = body.split_off(HEADER_BYTES);
    if usize::try_from(announced) == Ok(bytes.len()) {
        Ok(Message {
            is_compressed,
            bytes,
        })
    } else {
        Err(FrameError::Length {
            announced,
            found: bytes.len(),
        })
    }
}

/// A message of ours, which are too small to be worth compressing.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEADER_BYTES + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_framed_is_found(message in proptest::collection::vec(any::<u8>(), 0..300)) {
            let found = only_message(framed(&message)).unwrap();
            prop_assert!(!found.is_compressed);
            prop_assert_eq!(found.bytes, message);
        }

        #[test]
        fn no_body_panics(body in proptest::collection::vec(any::<u8>(), 0..20)) {
            if let Ok(message) = only_message(Bytes::from(body.clone())) {
                prop_assert_eq!(&body[HEADER_BYTES..], &message.bytes[..]);
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |body: &'static [u8]| only_message(Bytes::from_static(body)).unwrap_err();
        assert_eq!(refused(&[]), FrameError::NoHeader);
        assert_eq!(refused(&[0, 0, 0, 0]), FrameError::NoHeader);
        assert_eq!(refused(&[2, 0, 0, 0, 0]), FrameError::Flag(2));
        let length = |announced, found| FrameError::Length { announced, found };
        assert_eq!(refused(&[0, 0, 0, 0, 2, 9]), length(2, 1));
        assert_eq!(refused(&[0, 0, 0, 0, 0, 9]), length(0, 1));
        assert_eq!(refused(&[1, 255, 255, 255, 255]), length(u32::MAX, 0));
    }
}
