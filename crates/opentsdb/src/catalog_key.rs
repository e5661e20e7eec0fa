//! Keys of OpenTSDB's records in the catalog.
//!
//! ```text
//! uid          0x10 + kind | id u64 BE                     → name
//! ```

use std::ops::Range;

use icecore_model::{CatalogChange, StoreError};

use crate::uid::{Uid, UidKind};

/// The first byte of a UID's key, plus its kind.
const UID: u8 = 0x10;

/// The keys of all UIDs of a kind.
pub(crate) fn uids(kind: UidKind) -> Range<Vec<u8>> {
    let first = UID + kind as u8;
    vec![first]..vec![first + 1]
}

pub(crate) fn uid_change(kind: UidKind, uid: Uid, name: &str) -> CatalogChange {
    let mut key = vec![UID + kind as u8];
    key.extend_from_slice(&uid.0.to_be_bytes());
    CatalogChange {
        key,
        value: Some(name.as_bytes().to_vec()),
    }
}

pub(crate) fn parse_uid(key: &[u8], value: &[u8]) -> Result<(Uid, String), StoreError> {
    let uid = parse_uid_key(key);
    let name = String::from_utf8(value.to_vec()).ok();
    uid.zip(name).ok_or_else(|| {
        StoreError(format!(
            "a UID in the catalog cannot be read: key {key:02x?}"
        ))
    })
}

pub(crate) fn parse_uid_key(key: &[u8]) -> Option<Uid> {
    let (_, id) = key.split_first()?;
    Some(Uid(u64::from_be_bytes(id.try_into().ok()?)))
}
