//! A checked reader of protobuf messages that borrows everything.
//!
//! Holds always:
//! - No read goes past the message; a length that does is [`ProtobufError::Truncated`].
//! - A field this crate does not know is skipped, whatever its type; a field it knows with the
//!   wrong type is an error, because skipping it would silently lose data.
//! - Groups are refused: no message of ours ever had one, and they are the only way to nest without
//!   stating a length.

use icecore_model::varint::{VarintError, take_varint, unzigzag};
use thiserror::Error;

/// Why bytes are not a protobuf message.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ProtobufError {
    #[error("message ends inside a field")]
    Truncated,
    #[error("variable-length integer is longer than 64 bits")]
    VarintOverflow,
    #[error("field number is out of range")]
    FieldNumber,
    #[error("groups are not supported")]
    Group,
    #[error("wire type {0} does not exist")]
    UnknownWireType(u32),
    #[error("field {0} has the wrong wire type")]
    WrongWireType(u32),
    #[error("packed numbers do not fill their field")]
    PackedLength,
    #[error("message is longer than 4 GiB")]
    TooLong,
}

impl From<VarintError> for ProtobufError {
    fn from(error: VarintError) -> Self {
        match error {
            VarintError::Truncated => Self::Truncated,
            VarintError::Overflow => Self::VarintOverflow,
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, ProtobufError>;

/// The tag of a varint field.
pub(crate) const fn varint_tag(field: u32) -> u32 {
    field << 3
}

/// The tag of a field of eight fixed bytes.
pub(crate) const fn fixed64_tag(field: u32) -> u32 {
    field << 3 | 1
}

/// The tag of a field that states its length.
pub(crate) const fn bytes_tag(field: u32) -> u32 {
    field << 3 | 2
}

/// The fields a message defines, one bit each, for [`Reader::skip_unknown`].
pub(crate) const fn known(fields: &[u32]) -> u32 {
    let mut bits = 0;
    let mut i = 0;
    while i < fields.len() {
        bits |= 1 << fields[i];
        i += 1;
    }
    bits
}

/// What is left of a message.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes not yet read.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    /// The tag of the next field: its number, and its wire type in the low three bits.
    #[inline]
    pub(crate) fn tag(&mut self) -> Result<u32> {
        let tag = self.varint()?;
        match u32::try_from(tag) {
            Ok(tag) if tag >= 8 => Ok(tag),
            _ => Err(ProtobufError::FieldNumber),
        }
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64> {
        Ok(take_varint(&mut self.rest)?)
    }

    /// A signed number in zigzag form (`sint32`, `sint64`).
    #[inline]
    pub(crate) fn zigzag(&mut self) -> Result<i64> {
        self.varint().map(unzigzag)
    }

    #[inline]
    pub(crate) fn double(&mut self) -> Result<f64> {
        let (bytes, tail) = self
            .rest
            .split_first_chunk::<8>()
            .ok_or(ProtobufError::Truncated)?;
        self.rest = tail;
        Ok(f64::from_le_bytes(*bytes))
    }

    /// A `fixed64`, or the bits of an `sfixed64`.
    #[inline]
    pub(crate) fn fixed64(&mut self) -> Result<u64> {
        self.double().map(f64::to_bits)
    }

    /// The content of a field that states its length.
    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.varint()?;
        let length = usize::try_from(length).map_err(|_| ProtobufError::Truncated)?;
        let (bytes, tail) = self
            .rest
            .split_at_checked(length)
            .ok_or(ProtobufError::Truncated)?;
        self.rest = tail;
        Ok(bytes)
    }

    /// Steps over a field that this crate does not know.
    pub(crate) fn skip_unknown(&mut self, tag: u32, known_fields: u32) -> Result<()> {
        let field = tag >> 3;
        if field < 32 && known_fields & (1 << field) != 0 {
            return Err(ProtobufError::WrongWireType(field));
        }
        self.skip(tag)
    }

    /// Steps over the content of any field.
    #[inline]
    pub(crate) fn skip(&mut self, tag: u32) -> Result<()> {
        match tag & 7 {
            0 => self.varint().map(drop),
            1 => self.skip_fixed(8),
            2 => self.bytes().map(drop),
            5 => self.skip_fixed(4),
            3 | 4 => Err(ProtobufError::Group),
            other => Err(ProtobufError::UnknownWireType(other)),
        }
    }

    fn skip_fixed(&mut self, length: usize) -> Result<()> {
        self.rest = self.rest.get(length..).ok_or(ProtobufError::Truncated)?;
        Ok(())
    }
}

/// Appends the numbers of a packed `repeated sint64`.
pub(crate) fn packed_zigzag(bytes: &[u8], numbers: &mut Vec<i64>) -> Result<()> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        numbers.push(reader.zigzag()?);
    }
    Ok(())
}

/// Appends the numbers of a packed `repeated double`.
pub(crate) fn packed_doubles(bytes: &[u8], numbers: &mut Vec<f64>) -> Result<()> {
    let (chunks, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(ProtobufError::PackedLength);
    }
    numbers.extend(chunks.iter().map(|chunk| f64::from_le_bytes(*chunk)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(bytes: &[u8]) -> Result<u64> {
        Reader::new(bytes).varint()
    }

    #[test]
    fn varints_of_every_length() {
        assert_eq!(varint(&[0]), Ok(0));
        assert_eq!(varint(&[0x7f]), Ok(127));
        assert_eq!(varint(&[0x80, 0x01]), Ok(128));
        // Longer than needed, as the format allows.
        assert_eq!(varint(&[0x81, 0x80, 0x00]), Ok(1));
        let mut largest = [0xff; 10];
        largest[9] = 1;
        assert_eq!(varint(&largest), Ok(u64::MAX));
    }

    #[test]
    fn varints_that_are_none() {
        assert_eq!(varint(&[]), Err(ProtobufError::Truncated));
        assert_eq!(varint(&[0x80; 9]), Err(ProtobufError::Truncated));
        assert_eq!(varint(&[0x80; 10]), Err(ProtobufError::VarintOverflow));
        let mut too_large = [0xff; 10];
        too_large[9] = 2;
        assert_eq!(varint(&too_large), Err(ProtobufError::VarintOverflow));
    }

    #[test]
    fn tags_have_a_field_number() {
        assert_eq!(Reader::new(&[0x02]).tag(), Err(ProtobufError::FieldNumber));
        let too_large = [0x80, 0x80, 0x80, 0x80, 0x10];
        assert_eq!(
            Reader::new(&too_large).tag(),
            Err(ProtobufError::FieldNumber)
        );
        assert_eq!(Reader::new(&[0x0a]).tag(), Ok(bytes_tag(1)));
    }

    #[test]
    fn unknown_fields_are_skipped_by_wire_type() {
        let message = [
            &[0x80, 0x01][..],
            &[1, 2, 3, 4, 5, 6, 7, 8],
            &[3, b'a', b'b', b'c'],
            &[1, 2, 3, 4],
            &[0x2a],
        ]
        .concat();
        let mut reader = Reader::new(&message);
        for wire_type in [0, 1, 2, 5] {
            reader
                .skip_unknown(9 << 3 | wire_type, known(&[1, 2]))
                .unwrap();
        }
        assert_eq!(reader.varint(), Ok(0x2a));
        assert!(reader.is_empty());
    }

    #[test]
    fn groups_and_wrong_types_are_errors() {
        let skip = |tag| Reader::new(&[0; 8]).skip_unknown(tag, known(&[1]));
        assert_eq!(skip(9 << 3 | 3), Err(ProtobufError::Group));
        assert_eq!(skip(9 << 3 | 4), Err(ProtobufError::Group));
        assert_eq!(skip(9 << 3 | 7), Err(ProtobufError::UnknownWireType(7)));
        assert_eq!(skip(1 << 3 | 5), Err(ProtobufError::WrongWireType(1)));
    }

    #[test]
    fn a_length_beyond_the_message_is_an_error() {
        let mut reader = Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0]);
        assert_eq!(reader.bytes(), Err(ProtobufError::Truncated));
        assert_eq!(Reader::new(&[2, 0]).bytes(), Err(ProtobufError::Truncated));
    }
}
