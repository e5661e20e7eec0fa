//! SeriesDictionary: the ids of the label sets that share one fingerprint. Nearly always one; the
//! forward index distinguishes several.

use bytes::Bytes;

use crate::container;
use crate::reader::Reader;
use crate::{DecodeError, SeriesId};

pub(crate) const RECORD: &str = "SeriesDictionary";
const ELEMENT_LEN: usize = 4;

/// Writes ids in the order in which they were given out, none twice.
pub fn encode(ids: &[SeriesId]) -> Bytes {
    assert!(!has_repetition(ids), "series id twice");
    let mut value = Vec::with_capacity(ELEMENT_LEN * ids.len());
    for id in ids {
        value.extend_from_slice(&id.0.to_le_bytes());
    }
    value.into()
}

/// Reads the ids in the order in which they were given out. An id that comes twice is an error: no
/// writer does that, and it keeps unmerged containers apart from valid values.
pub fn decode(value: &[u8]) -> Result<Vec<SeriesId>, DecodeError> {
    container::refuse(RECORD, value)?;
    let mut reader = Reader::new(RECORD, value);
    let mut ids = Vec::with_capacity(value.len() / ELEMENT_LEN);
    while !reader.is_empty() {
        ids.push(SeriesId(reader.u32()?));
    }
    if has_repetition(&ids) {
        return Err(reader.error("series id twice"));
    }
    Ok(ids)
}

fn has_repetition(ids: &[SeriesId]) -> bool {
    // Nearly always there is one.
    if ids.len() < 2 {
        return false;
    }
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

/// The union, in the order of first appearance.
pub(crate) fn merge(parts: &[&[u8]]) -> Result<Vec<u8>, DecodeError> {
    let mut seen = std::collections::HashSet::new();
    let mut all = Vec::new();
    for part in parts {
        all.extend(decode(part)?.into_iter().filter(|id| seen.insert(*id)));
    }
    Ok(encode(&all).into())
}
