//! Values of cells: integers in as few bytes as hold them, floats in four or eight.

use icecore_wire::opentsdb::number::Number;

/// The value is a float.
const FLAG_FLOAT: u8 = 0x8;

/// The number of bytes, less one.
const LENGTH_MASK: u8 = 0x7;

/// The low half byte of a qualifier: kind and number of bytes of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flags(pub(crate) u8);

impl Flags {
    pub(crate) fn of_qualifier(byte: u8) -> Self {
        Self(byte & (FLAG_FLOAT | LENGTH_MASK))
    }

    pub(crate) fn is_float(self) -> bool {
        self.0 & FLAG_FLOAT != 0
    }

    /// Bytes of the value.
    pub(crate) fn length(self) -> usize {
        usize::from(self.0 & LENGTH_MASK) + 1
    }
}

/// The bytes of a value and what its qualifier says about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) flags: Flags,
}

/// As short as possible.
pub(crate) fn encode(number: Number) -> Encoded {
    match number {
        Number::Integer(integer) => encode_integer(integer),
        Number::Float(value) if f64::from(value as f32) == value => Encoded {
            bytes: (value as f32).to_be_bytes().to_vec(),
            flags: Flags(FLAG_FLOAT | 3),
        },
        Number::Float(value) => encode_double(value),
    }
}

/// A float in eight bytes, whatever its value is.
pub(crate) fn encode_double(value: f64) -> Encoded {
    Encoded {
        bytes: value.to_be_bytes().to_vec(),
        flags: Flags(FLAG_FLOAT | 7),
    }
}

fn encode_integer(integer: i64) -> Encoded {
    let width = match integer {
        -0x80..=0x7f => 1,
        -0x8000..=0x7fff => 2,
        -0x8000_0000..=0x7fff_ffff => 4,
        _ => 8,
    };
    let bytes = integer.to_be_bytes();
    Encoded {
        bytes: bytes[bytes.len() - width..].to_vec(),
        flags: Flags(width as u8 - 1),
    }
}

/// The number that bytes are; `None` where their length does not fit.
pub(crate) fn decode(bytes: &[u8], flags: Flags) -> Option<Number> {
    if flags.is_float() {
        return match (flags.length(), bytes) {
            (4, [a, b, c, d]) => Some(float32([*a, *b, *c, *d])),
            // An old version wrote floats of four bytes behind four empty ones.
            (4, [0, 0, 0, 0, a, b, c, d]) => Some(float32([*a, *b, *c, *d])),
            (8, bytes) => Some(Number::Float(f64::from_be_bytes(bytes.try_into().ok()?))),
            _ => None,
        };
    }
    if bytes.len() != flags.length() {
        return None;
    }
    let integer = match bytes.len() {
        1 => i8::from_be_bytes(bytes.try_into().ok()?).into(),
        2 => i16::from_be_bytes(bytes.try_into().ok()?).into(),
        4 => i32::from_be_bytes(bytes.try_into().ok()?).into(),
        8 => i64::from_be_bytes(bytes.try_into().ok()?),
        _ => return None,
    };
    Some(Number::Integer(integer))
}

fn float32(bytes: [u8; 4]) -> Number {
    Number::Float(f32::from_be_bytes(bytes).into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn old_floats_are_repaired() {
        let old = [0, 0, 0, 0, 0x3f, 0xc0, 0, 0];
        assert_eq!(decode(&old, Flags(0xb)), Some(Number::Float(1.5)));
        assert_eq!(decode(&[1, 0, 0, 0, 0x3f, 0xc0, 0, 0], Flags(0xb)), None);
    }

    proptest! {
        #[test]
        fn numbers_survive(integer in any::<i64>(), bits in 0u32..64, float in any::<f64>()) {
            for number in [Number::Integer(integer >> bits), Number::Float(float)] {
                let encoded = encode(number);
                prop_assert_eq!(encoded.bytes.len(), encoded.flags.length());
                let decoded = decode(&encoded.bytes, encoded.flags);
                if float.is_nan() && matches!(number, Number::Float(_)) {
                    continue;
                }
                prop_assert_eq!(decoded, Some(number));
            }
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..10), flags in 0u8..16) {
            let _ = decode(&bytes, Flags(flags));
        }
    }
}
