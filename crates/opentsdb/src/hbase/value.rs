//! Values of cells: integers in as few bytes as hold them, floats in four or eight.

use icecore_wire::opentsdb::number::Number;

/// The value is a float.
const FLAG_FLOAT: u8 = 0x8;

/// The bytes of a value, and the low half byte of its qualifier, which tells their number and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) flags: u8,
}

/// As short as possible.
pub(crate) fn encode(number: Number) -> Encoded {
    match number {
        Number::Integer(integer) => encode_integer(integer),
        Number::Float(value) if f64::from(value as f32) == value => Encoded {
            bytes: (value as f32).to_be_bytes().to_vec(),
            flags: FLAG_FLOAT | 3,
        },
        Number::Float(value) => encode_double(value),
    }
}

/// A float in eight bytes, whatever its value is.
pub(crate) fn encode_double(value: f64) -> Encoded {
    Encoded {
        bytes: value.to_be_bytes().to_vec(),
        flags: FLAG_FLOAT | 7,
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
        flags: width as u8 - 1,
    }
}
