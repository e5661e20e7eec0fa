//! Qualifiers of points: where in its row a point lies, and what its value is.
//!
//! ```text
//! seconds       offset (12 bits) | flags (4 bits)
//! milliseconds  1111 | offset (22 bits) | 00 | flags (4 bits)
//! ```

use super::LayoutError;
use super::value::Flags;

/// The first half byte of a qualifier in milliseconds; an hour has fewer seconds.
const MILLISECONDS: u8 = 0xf;

const MILLISECONDS_PREFIX: u32 = 0xf000_0000;
const SECONDS_MAX: u32 = 3599;
const MILLISECONDS_MAX: u32 = 3_599_999;

/// The time of a cell behind the start of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Offset {
    Seconds(u32),
    Milliseconds(u32),
}

impl Offset {
    pub(crate) fn milliseconds(self) -> u32 {
        match self {
            Self::Seconds(offset) => offset * 1000,
            Self::Milliseconds(offset) => offset,
        }
    }

    pub(super) fn is_in_row(self) -> bool {
        self.milliseconds() <= MILLISECONDS_MAX
    }
}

/// A point's place and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Qualifier {
    pub(crate) offset: Offset,
    pub(crate) flags: Flags,
}

impl Qualifier {
    pub(crate) fn push(self, bytes: &mut Vec<u8>) {
        let flags = self.flags.0;
        match self.offset {
            Offset::Seconds(offset) => {
                let qualifier = (offset.min(SECONDS_MAX) as u16) << 4 | u16::from(flags);
                bytes.extend_from_slice(&qualifier.to_be_bytes());
            }
            Offset::Milliseconds(offset) => {
                let offset = offset.min(MILLISECONDS_MAX) << 6;
                let qualifier = MILLISECONDS_PREFIX | offset | u32::from(flags);
                bytes.extend_from_slice(&qualifier.to_be_bytes());
            }
        }
    }

    /// Steps over the first qualifier of several.
    pub(crate) fn take(rest: &mut &[u8]) -> Result<Self, LayoutError> {
        let wrong = LayoutError::new("no qualifier of a point", rest);
        let parsed = match **rest {
            [a, b, c, d, ..] if a >> 4 == MILLISECONDS => {
                *rest = &rest[4..];
                let offset = u32::from_be_bytes([a, b, c, d]) << 4 >> 10;
                (Offset::Milliseconds(offset), d)
            }
            [a, b, ..] if a >> 4 != MILLISECONDS => {
                *rest = &rest[2..];
                let offset = u32::from(u16::from_be_bytes([a, b]) >> 4);
                (Offset::Seconds(offset), b)
            }
            _ => return Err(wrong),
        };
        let (offset, last) = parsed;
        if !offset.is_in_row() {
            return Err(wrong);
        }
        let flags = Flags::of_qualifier(last);
        Ok(Self { offset, flags })
    }
}

#[cfg(test)]
mod tests {
    use icecore_wire::opentsdb::number::Number;
    use proptest::prelude::*;

    use super::super::value::{decode, encode};
    use super::*;

    #[test]
    fn the_worked_examples_are_written_and_read() {
        use Number::{Float, Integer};
        use Offset::{Milliseconds, Seconds};
        for (offset, number, qualifier, value) in [
            (Seconds(30), Integer(42), "01E0", "2A"),
            (Seconds(45), Integer(300), "02D1", "012C"),
            (Seconds(60), Integer(-70_000), "03C3", "FFFEEE90"),
            (Seconds(123), Integer(1 << 32), "07B7", "0000000100000000"),
            (Seconds(3599), Float(1.5), "E0FB", "3FC00000"),
            (Seconds(10), Float(0.1), "00AF", "3FB999999999999A"),
            (Milliseconds(500), Integer(1), "F0007D00", "01"),
            (Milliseconds(3_599_999), Float(2.5), "FDBB9FCB", "40200000"),
        ] {
            let encoded = encode(number);
            let mut bytes = Vec::new();
            let flags = encoded.flags;
            Qualifier { offset, flags }.push(&mut bytes);
            assert_eq!(hex::encode_upper(&bytes), qualifier);
            assert_eq!(hex::encode_upper(&encoded.bytes), value);
            let mut rest = bytes.as_slice();
            let read = Qualifier::take(&mut rest).unwrap();
            assert_eq!(read, Qualifier { offset, flags });
            assert!(rest.is_empty());
            assert_eq!(decode(&encoded.bytes, read.flags), Some(number));
        }
    }

    proptest! {
        #[test]
        fn qualifiers_survive(seconds in 0u32..3600, ms in 0u32..3_600_000, flags in 0u8..16) {
            for offset in [Offset::Seconds(seconds), Offset::Milliseconds(ms)] {
                let qualifier = Qualifier { offset, flags: Flags(flags) };
                let mut bytes = Vec::new();
                qualifier.push(&mut bytes);
                prop_assert_eq!(Qualifier::take(&mut bytes.as_slice()), Ok(qualifier));
            }
        }
    }
}
