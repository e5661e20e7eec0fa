//! The flush mark of events: up to where blocks of the journal are in cells. Written in the batch
//! that has the cells, so that it says whether a flush was applied.
//!
//! ```text
//! version u8 = 1 | generation uv | sequence uv | version of the registry uv
//! ```

use bytes::Bytes;
use icecore_model::event::FlushMark;
use icecore_model::varint::push_varint;

use crate::DecodeError;
use crate::reader::Reader;

const RECORD: &str = "FlushMark";
const VERSION: u8 = 1;

pub fn encode(mark: FlushMark) -> Bytes {
    let mut value = vec![VERSION];
    for number in [mark.generation, mark.seq, mark.registry_version] {
        push_varint(&mut value, number);
    }
    value.into()
}

pub fn decode(value: &[u8]) -> Result<FlushMark, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    reader.version(VERSION)?;
    let mark = FlushMark {
        generation: reader.varint()?,
        seq: reader.varint()?,
        registry_version: reader.varint()?,
    };
    reader.finish()?;
    Ok(mark)
}
