//! BucketList: which buckets exist. Elements of five bytes, size exponent and start, sorted.

use std::collections::BTreeSet;

use bytes::Bytes;
use icecore_model::{BucketSize, BucketStart};

use crate::container;
use crate::reader::Reader;
use crate::{Bucket, DecodeError};

pub(crate) const RECORD: &str = "BucketList";
const ELEMENT_LEN: usize = 5;

pub fn encode(buckets: &BTreeSet<Bucket>) -> Bytes {
    let mut value = Vec::with_capacity(ELEMENT_LEN * buckets.len());
    for bucket in buckets {
        value.push(bucket.size.exponent());
        value.extend_from_slice(&bucket.start.minutes().to_le_bytes());
    }
    value.into()
}

/// Reads the buckets; their order in the value does not matter.
pub fn decode(value: &[u8]) -> Result<BTreeSet<Bucket>, DecodeError> {
    container::refuse(RECORD, value)?;
    let mut reader = Reader::new(RECORD, value);
    let mut buckets = BTreeSet::new();
    while !reader.is_empty() {
        let size = BucketSize::from_exponent(reader.u8()?);
        let size = size.ok_or_else(|| reader.error("bucket size is not between 1 and 15"))?;
        let start = BucketStart(reader.u32()?);
        buckets.insert(Bucket { size, start });
    }
    Ok(buckets)
}

/// The union.
pub(crate) fn merge(parts: &[&[u8]]) -> Result<Vec<u8>, DecodeError> {
    let mut all = BTreeSet::new();
    for part in parts {
        all.append(&mut decode(part)?);
    }
    Ok(encode(&all).into())
}
