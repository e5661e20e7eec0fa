//! Changes of the catalog that no flush has written.
//!
//! Holds always: of a record that was changed several times only the last change is here, and it is
//! newer than what the store has.

use std::collections::BTreeMap;
use std::ops::Range;

use icecore_model::CatalogChange;

/// What an entry takes beside its key and value.
const ENTRY_BYTES: usize = 96;

#[derive(Default)]
pub(crate) struct CatalogChanges {
    records: BTreeMap<Vec<u8>, PendingRecord>,
    /// Memory of all of them, about.
    bytes: usize,
    /// Metadata has changed as well; that is kept apart, as a whole.
    metadata: bool,
}

/// The last change of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingRecord {
    /// `None` where it was removed.
    pub(crate) value: Option<Vec<u8>>,
    /// Which request changed it.
    seq: u64,
}

impl CatalogChanges {
    /// Takes over the changes of a request.
    pub(super) fn append(&mut self, changes: &[CatalogChange], seq: u64) {
        for CatalogChange { key, value } in changes {
            self.bytes += entry_bytes(key, value.as_ref());
            let value = value.clone();
            let before = self
                .records
                .insert(key.clone(), PendingRecord { value, seq });
            if let Some(before) = before {
                self.bytes -= entry_bytes(key, before.value.as_ref());
            }
        }
    }

    pub(super) fn metadata_changed(&mut self) {
        self.metadata = true;
    }

    /// Bytes held, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All changes, to be written, and whether metadata has changed as well.
    pub(crate) fn all(&mut self) -> (Vec<(Vec<u8>, PendingRecord)>, bool) {
        let records = self.records.iter();
        let records = records.map(|(key, record)| (key.clone(), record.clone()));
        (records.collect(), std::mem::take(&mut self.metadata))
    }

    /// Changes of records with these keys.
    pub(crate) fn range(&self, keys: Range<Vec<u8>>) -> Vec<(Vec<u8>, PendingRecord)> {
        if keys.start >= keys.end {
            return Vec::new();
        }
        let found = self.records.range(keys);
        found
            .map(|(key, record)| (key.clone(), record.clone()))
            .collect()
    }

    /// The store has these changes. What was changed again since stays.
    pub(crate) fn written(&mut self, changes: &[(Vec<u8>, PendingRecord)]) {
        for (key, written) in changes {
            if self.records.get(key) == Some(written) {
                self.records.remove(key);
                self.bytes -= entry_bytes(key, written.value.as_ref());
            }
        }
    }

    /// Changes could not be written: they are tried again.
    pub(crate) fn not_written(&mut self, metadata: bool) {
        self.metadata |= metadata;
    }
}

fn entry_bytes(key: &[u8], value: Option<&Vec<u8>>) -> usize {
    ENTRY_BYTES + key.len() + value.map_or(0, Vec::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: u8, value: Option<u8>) -> CatalogChange {
        CatalogChange {
            key: vec![key],
            value: value.map(|value| vec![value]),
        }
    }

    #[test]
    fn what_was_changed_again_stays() {
        let mut changes = CatalogChanges::default();
        changes.append(&[change(0x20, Some(1)), change(0x21, Some(2))], 1);
        let (all, metadata) = changes.all();
        assert!(all.len() == 2 && !metadata);
        changes.append(&[change(0x21, None)], 2);
        changes.written(&all);
        let left = changes.range(vec![0x20]..vec![0x22]);
        let [(key, record)] = left.as_slice() else {
            panic!("one is left: {left:?}")
        };
        assert_eq!((key.as_slice(), &record.value), (&[0x21][..], &None));
        let (all, _) = changes.all();
        changes.written(&all);
        assert_eq!(changes.bytes(), 0);
    }
}
