//! Cells of the rollup tables.
//!
//! ```text
//! function id (1 byte) | interval within the row (12 bits) | flags (4 bits)
//! ```
//!
//! Old data has the name of the function and a colon in place of the id.

use icecore_wire::opentsdb::number::Number;

use super::LayoutError;
use super::value::{Flags, decode, encode};

/// Ids have seven bits; the eighth marks compacted cells, which no version writes.
const ID_MASK: u8 = 0x7f;

const INTERVALS_MAX: u16 = 0xfff;

/// Which function a cell has the result of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RollupFunction {
    Id(u8),
    /// In lower case.
    Name(String),
}

/// What a cell holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RollupCell {
    pub(crate) function: RollupFunction,
    /// Counted from the start of the row.
    pub(crate) interval: u16,
    pub(crate) number: Number,
}

impl RollupCell {
    pub(crate) fn decode(qualifier: &[u8], value: &[u8]) -> Result<Self, LayoutError> {
        let wrong = || LayoutError::new("no qualifier of a rollup", qualifier);
        let (function, place) = match qualifier {
            [id, a, b] => (RollupFunction::Id(id & ID_MASK), [*a, *b]),
            [name @ .., b':', a, b] => {
                let name = std::str::from_utf8(name).map_err(|_| wrong())?;
                if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric()) {
                    return Err(wrong());
                }
                (RollupFunction::Name(name.to_ascii_lowercase()), [*a, *b])
            }
            _ => return Err(wrong()),
        };
        let flags = Flags::of_qualifier(place[1]);
        let number = decode(value, flags);
        Ok(Self {
            function,
            interval: u16::from_be_bytes(place) >> 4,
            number: number.ok_or_else(|| LayoutError::new("no value of its qualifier", value))?,
        })
    }

    /// The qualifier and the value.
    pub(crate) fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        let encoded = encode(self.number);
        let mut qualifier = match &self.function {
            RollupFunction::Id(id) => vec![id & ID_MASK],
            RollupFunction::Name(name) => format!("{name}:").into_bytes(),
        };
        let interval = self.interval.min(INTERVALS_MAX);
        let place = interval << 4 | u16::from(encoded.flags.0);
        qualifier.extend_from_slice(&place.to_be_bytes());
        (qualifier, encoded.bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_worked_examples_are_written_and_read() {
        for (function, interval, number, qualifier) in [
            (RollupFunction::Id(0), 5, Number::Integer(7), "000050"),
            (RollupFunction::Id(1), 23, Number::Float(4.0), "01017B"),
            (
                RollupFunction::Name("sum".into()),
                5,
                Number::Integer(7),
                "73756D3A0050",
            ),
        ] {
            let cell = RollupCell {
                function,
                interval,
                number,
            };
            let (q, v) = cell.encode();
            assert_eq!(hex::encode_upper(&q), qualifier);
            assert_eq!(RollupCell::decode(&q, &v), Ok(cell));
        }
    }

    proptest! {
        #[test]
        fn cells_survive(id in 0u8..128, interval in 0u16..4096, integer in any::<i64>()) {
            let cell = RollupCell {
                function: RollupFunction::Id(id),
                interval,
                number: Number::Integer(integer),
            };
            let (qualifier, value) = cell.encode();
            prop_assert_eq!(RollupCell::decode(&qualifier, &value), Ok(cell));
        }

        #[test]
        fn no_bytes_panic(
            qualifier in prop::collection::vec(any::<u8>(), 0..12),
            value in prop::collection::vec(any::<u8>(), 0..10),
        ) {
            let _ = RollupCell::decode(&qualifier, &value);
        }
    }
}
