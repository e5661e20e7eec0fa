//! InvertedIndex: the series that carry one label pair, as a portable Roaring bitmap that CRoaring
//! and every other implementation can read.

use bytes::Bytes;
use roaring::RoaringBitmap;

use crate::DecodeError;
use crate::container;

pub(crate) const RECORD: &str = "InvertedIndex";

/// Writes the bitmap with runs where they are shorter.
///
/// Runs are dissolved first: `optimize` leaves a container as it is when two forms are equally
/// long, so without this the bytes would depend on how the bitmap came about.
pub fn encode(ids: &mut RoaringBitmap) -> Bytes {
    ids.remove_run_compression();
    ids.optimize();
    let mut value = Vec::with_capacity(ids.serialized_size());
    ids.serialize_into(&mut value)
        .expect("writing to a Vec cannot fail");
    value.into()
}

pub fn decode(value: &[u8]) -> Result<RoaringBitmap, DecodeError> {
    container::refuse(RECORD, value)?;
    let mut rest = value;
    let bitmap = RoaringBitmap::deserialize_from(&mut rest);
    let offset = value.len() - rest.len();
    let bitmap = bitmap.map_err(|error| DecodeError::new(RECORD, offset, error.to_string()))?;
    if !rest.is_empty() {
        return Err(DecodeError::new(RECORD, offset, "bytes after the end"));
    }
    Ok(bitmap)
}

/// The union.
pub(crate) fn merge(parts: &[&[u8]]) -> Result<Vec<u8>, DecodeError> {
    let mut all = RoaringBitmap::new();
    for part in parts {
        all |= decode(part)?;
    }
    Ok(encode(&mut all).into())
}
