//! The watermark: sequence and epoch numbers below it have been used and are never used again, even
//! when neither the journal nor a cursor remembers them.

use bytes::Bytes;

use crate::DecodeError;
use crate::reader::Reader;

const RECORD: &str = "JournalWatermark";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    pub next_seq: u64,
    pub next_epoch: u32,
}

pub fn encode(mark: Watermark) -> Bytes {
    let mut value = mark.next_seq.to_le_bytes().to_vec();
    value.extend_from_slice(&mark.next_epoch.to_le_bytes());
    value.into()
}

pub fn decode(value: &[u8]) -> Result<Watermark, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    let mark = Watermark {
        next_seq: reader.u64()?,
        next_epoch: reader.u32()?,
    };
    reader.finish()?;
    Ok(mark)
}
