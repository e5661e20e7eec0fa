//! One state of the database that stands still, read in key order.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use slatedb::DbIterator;

use super::progress::Meter;
use crate::error::{Error, Result};
use crate::slate::read_view::{ScanKind, View};
use crate::slate::reader::Reader;

/// A key and what lies under it.
pub(super) struct Record {
    pub(super) key: Bytes,
    pub(super) value: Bytes,
}

impl Record {
    /// Bytes of key and value.
    pub(super) fn len(&self) -> usize {
        self.key.len() + self.value.len()
    }
}

/// What a reader sees: the same, however often and in whichever order it is read.
pub(super) struct StillView {
    view: View,
    segments: Vec<Bytes>,
    meter: Arc<Meter>,
}

impl StillView {
    pub(super) fn new(reader: &Reader, meter: &Arc<Meter>) -> Self {
        Self {
            view: reader.view(),
            segments: reader.segments(),
            meter: Arc::clone(meter),
        }
    }

    /// Prefixes of the segments that hold anything, sorted: every key begins with one of them.
    pub(super) fn segments(&self) -> &[Bytes] {
        &self.segments
    }

    pub(super) async fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.view.get(key).await
    }

    /// For what is read in another order.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Counts what was read of it.
    pub(super) fn note_read(&self, bytes: usize) {
        self.meter.read(bytes);
    }

    pub(super) async fn under(&self, prefix: &[u8]) -> Result<Records> {
        let iterator = self.view.scan_prefix(prefix, ScanKind::Once).await?;
        Ok(self.records(iterator, prefix))
    }

    /// The records from `start` to before `end`; to the last where there is no end.
    pub(super) async fn between(&self, start: &[u8], end: Option<&[u8]>) -> Result<Records> {
        let start = Bound::Included(Bytes::copy_from_slice(start));
        let end = end.map_or(Bound::Unbounded, |end| {
            Bound::Excluded(Bytes::copy_from_slice(end))
        });
        let iterator = self.view.scan((start, end), ScanKind::Once).await?;
        Ok(self.records(iterator, &[]))
    }

    fn records(&self, iterator: DbIterator, prefix: &[u8]) -> Records {
        Records {
            iterator,
            prefix: Bytes::copy_from_slice(prefix),
            meter: Arc::clone(&self.meter),
        }
    }
}

/// Records in key order.
pub(super) struct Records {
    iterator: DbIterator,
    /// What all their keys begin with.
    prefix: Bytes,
    meter: Arc<Meter>,
}

impl Records {
    pub(super) async fn next(&mut self) -> Result<Option<Record>> {
        let found = self.iterator.next().await;
        let found = found.map_err(Error::store("reading records"))?;
        let record = found.map(|found| Record {
            key: found.key,
            value: found.value,
        });
        match &record {
            Some(record) => self.meter.read(record.len()),
            None => self.meter.finished(&self.prefix),
        }
        Ok(record)
    }
}
