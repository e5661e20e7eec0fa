//! The list of files: a record of the catalog for each.
//!
//! A file belongs to what is stored from the batch with its record on, until a batch removes the
//! record. Everything else on the object store is what a crash or a merge has left behind.

use std::ops::Range;

use icecore_model::event::{EventSnapshot, Week};
use icecore_model::varint::{push_varint, push_zigzag, take_varint, unzigzag};
use icecore_model::{CatalogChange, CatalogRecord, StoreError};

use crate::catalog_key::{self, FileKey};

/// A file with events of one service, type and week.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFile {
    pub service: u32,
    pub week: Week,
    pub event_type: u32,
    /// The blocks that the events came in, the last one included.
    pub first_seq: u64,
    pub last_seq: u64,
    pub path: String,
    pub events: u64,
    pub bytes: u64,
    /// When the first and the last of them began.
    pub min_started_ns: i64,
    pub max_started_ns: i64,
}

/// Records that are read at once.
const PAGE: usize = 4096;

const VERSION: u8 = 1;

impl EventFile {
    pub(crate) fn key(&self) -> Vec<u8> {
        let key = FileKey {
            service: self.service,
            week: self.week,
            event_type: self.event_type,
            first_seq: self.first_seq,
            last_seq: self.last_seq,
        };
        key.encode()
    }

    pub(crate) fn listed(&self) -> CatalogChange {
        let mut value = vec![VERSION];
        push_varint(&mut value, self.events);
        push_varint(&mut value, self.bytes);
        push_zigzag(&mut value, self.min_started_ns);
        push_zigzag(&mut value, self.max_started_ns);
        value.extend_from_slice(self.path.as_bytes());
        CatalogChange {
            key: self.key(),
            value: Some(value),
        }
    }

    pub(crate) fn retired(&self) -> CatalogChange {
        CatalogChange {
            key: self.key(),
            value: None,
        }
    }

    fn decode((key, value): &CatalogRecord) -> Option<Self> {
        let key = FileKey::decode(key)?;
        let (version, mut rest) = value.split_first()?;
        if *version != VERSION {
            return None;
        }
        let events = take_varint(&mut rest).ok()?;
        let bytes = take_varint(&mut rest).ok()?;
        let min_started_ns = unzigzag(take_varint(&mut rest).ok()?);
        let max_started_ns = unzigzag(take_varint(&mut rest).ok()?);
        Some(Self {
            service: key.service,
            week: key.week,
            event_type: key.event_type,
            first_seq: key.first_seq,
            last_seq: key.last_seq,
            path: String::from_utf8(rest.to_vec()).ok()?,
            events,
            bytes,
            min_started_ns,
            max_started_ns,
        })
    }
}

/// The files of a service in some weeks, in the order of their keys.
pub(crate) async fn files_of(
    snapshot: &dyn EventSnapshot,
    service: u32,
    weeks: Range<Week>,
) -> Result<Vec<EventFile>, StoreError> {
    read(snapshot, catalog_key::files(service, weeks)).await
}

/// Every file that is listed.
pub(crate) async fn all_files(snapshot: &dyn EventSnapshot) -> Result<Vec<EventFile>, StoreError> {
    read(snapshot, catalog_key::every_file()).await
}

async fn read(
    snapshot: &dyn EventSnapshot,
    keys: Range<Vec<u8>>,
) -> Result<Vec<EventFile>, StoreError> {
    let records = all_records(snapshot, keys).await?;
    let files = records.iter().map(|record| {
        EventFile::decode(record)
            .ok_or_else(|| StoreError(format!("the record of a file has key {:02x?}", record.0)))
    });
    files.collect()
}

/// All records of a range, read page by page.
pub(crate) async fn all_records(
    snapshot: &dyn EventSnapshot,
    mut keys: Range<Vec<u8>>,
) -> Result<Vec<CatalogRecord>, StoreError> {
    let mut all = Vec::new();
    loop {
        let page = snapshot.records(keys.clone(), PAGE).await?;
        let is_last = page.len() < PAGE;
        all.extend(page);
        match all.last() {
            Some((last, _)) if !is_last => keys.start = catalog_key::only(last.clone()).end,
            _ => return Ok(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_what_its_file_has() {
        let file = EventFile {
            service: 3,
            week: Week::of(1_794_218_401),
            event_type: 5,
            first_seq: 17,
            last_seq: 42,
            path: "events/service=shop/week=2026w46/type=order.placed/17-42.parquet".into(),
            events: 9,
            bytes: 1234,
            min_started_ns: -1,
            max_started_ns: i64::MAX,
        };
        let listed = file.listed();
        let record = (listed.key, listed.value.unwrap());
        assert_eq!(EventFile::decode(&record), Some(file.clone()));
        let truncated = (record.0.clone(), record.1[..3].to_vec());
        assert_eq!(EventFile::decode(&truncated), None);
        assert_eq!(file.retired().key, record.0);
    }
}
