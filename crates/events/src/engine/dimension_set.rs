//! The values that a cell belongs to, read back from the bytes that were hashed.

use icecore_model::event::DimensionHash;

/// The dimension values of cells, in the order of the metric's dimensions. One that is absent was
/// not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimensionSet {
    pub hash: DimensionHash,
    /// Path and text.
    pub values: Vec<(String, String)>,
}

/// What every dimension has in the cell of those that came too late to get one of their own.
pub const OVERFLOW: &str = "__overflow__";

const END_OF_PATH: u8 = 0x1f;
const END_OF_VALUE: u8 = 0x1e;
const ESCAPE: u8 = 0x1b;

impl DimensionSet {
    /// Reads `path 0x1F value 0x1E` for each value, where `0x1B` stands before a byte of a value
    /// that would mean something else.
    pub(crate) fn decode(hash: DimensionHash, mut bytes: &[u8]) -> Option<Self> {
        let mut values = Vec::new();
        while !bytes.is_empty() {
            let at = bytes.iter().position(|byte| *byte == END_OF_PATH)?;
            let path = String::from_utf8(bytes[..at].to_vec()).ok()?;
            let (value, rest) = take_value(&bytes[at + 1..])?;
            values.push((path, String::from_utf8(value).ok()?));
            bytes = rest;
        }
        Some(Self { hash, values })
    }

    /// Whether these are the values of the overflow cell.
    pub fn is_overflow(&self) -> bool {
        !self.values.is_empty() && self.values.iter().all(|(_, text)| text == OVERFLOW)
    }
}

fn take_value(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut value = Vec::new();
    let mut at = 0;
    loop {
        match *bytes.get(at)? {
            END_OF_VALUE => return Some((value, &bytes[at + 1..])),
            ESCAPE => {
                value.push(*bytes.get(at + 1)?);
                at += 2;
            }
            byte => {
                value.push(byte);
                at += 1;
            }
        }
    }
}
