//! Progress of a restore: a database that has one is incomplete.
//!
//! ```text
//! version u8 = 1 | id of the snapshot: text | records uv | bytes uv | last copied key, to the end
//! ```

use bytes::Bytes;
use icecore_model::varint::push_varint;

use crate::DecodeError;
use crate::reader::{Reader, push_text};

const RECORD: &str = "RestoreMark";
const VERSION: u8 = 1;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreMark {
    /// Which snapshot is copied.
    pub snapshot: String,
    /// What has been copied.
    pub records: u64,
    pub bytes: u64,
    /// Empty: none yet.
    pub last_key: Bytes,
}

pub fn encode(mark: &RestoreMark) -> Bytes {
    let mut value = vec![VERSION];
    push_text(&mut value, &mark.snapshot);
    push_varint(&mut value, mark.records);
    push_varint(&mut value, mark.bytes);
    value.extend_from_slice(&mark.last_key);
    value.into()
}

pub fn decode(value: &[u8]) -> Result<RestoreMark, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    reader.version(VERSION)?;
    let snapshot = reader.text()?.to_owned();
    let records = reader.varint()?;
    let bytes = reader.varint()?;
    let last_key = Bytes::copy_from_slice(reader.rest());
    Ok(RestoreMark {
        snapshot,
        records,
        bytes,
        last_key,
    })
}
