//! A walk: forward through the keys of one state of the database.
//!
//! The order of keys is the order in which a bucket is best read (list, dictionary, forward index,
//! inverted index, samples, meta, histograms, exemplars, journal, cursors), so one iterator serves a
//! whole piece of work, and an iterator stays with the state in which it was opened.
//!
//! Holds always:
//! - Everything read through one walk was true at the same moment.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use slatedb::DbIterator;

use super::progress::Meter;
use crate::error::{Error, Result};
use crate::slate::read_view::{ScanKind, View};

/// A key and what lies under it.
pub(super) struct Record {
    pub(super) key: Bytes,
    pub(super) value: Bytes,
}

pub(super) struct Walk {
    iterator: DbIterator,
    /// Read and not yet taken.
    next: Option<Record>,
    ended: bool,
    meter: Arc<Meter>,
}

impl Walk {
    pub(super) async fn open(view: &View, meter: &Arc<Meter>) -> Result<Self> {
        let everything = (Bound::Unbounded, Bound::Unbounded);
        Ok(Self {
            iterator: view.scan(everything, ScanKind::Once).await?,
            next: None,
            ended: false,
            meter: Arc::clone(meter),
        })
    }

    /// The key of the record that is next.
    pub(super) async fn peek(&mut self) -> Result<Option<&Bytes>> {
        self.fill().await?;
        Ok(self.next.as_ref().map(|record| &record.key))
    }

    pub(super) async fn take(&mut self) -> Result<Option<Record>> {
        self.fill().await?;
        let record = self.next.take();
        if let Some(record) = &record {
            self.meter.read(record.key.len() + record.value.len());
        }
        Ok(record)
    }

    /// The next record under a prefix; `None` when what is next lies elsewhere.
    pub(super) async fn take_under(&mut self, prefix: &[u8]) -> Result<Option<Record>> {
        match self.peek().await? {
            Some(key) if key.starts_with(prefix) => self.take().await,
            _ => Ok(None),
        }
    }

    /// The value of a key that is not behind us; the walk goes on after it.
    pub(super) async fn take_exactly(&mut self, key: &[u8]) -> Result<Option<Bytes>> {
        self.seek(key).await?;
        match self.peek().await? {
            Some(found) if found == key => Ok(self.take().await?.map(|record| record.value)),
            _ => Ok(None),
        }
    }

    /// Goes on at the first key that is not less than `key`. Never goes back.
    pub(super) async fn seek(&mut self, key: &[u8]) -> Result<()> {
        let there = self.next.as_ref().is_some_and(|record| record.key >= key);
        if there || self.ended {
            return Ok(());
        }
        self.next = None;
        let sought = self.iterator.seek(key).await;
        sought.map_err(Error::store("looking for records"))
    }

    /// Goes on behind everything that begins with `prefix`.
    pub(super) async fn seek_past(&mut self, prefix: &[u8]) -> Result<()> {
        match after_prefix(prefix) {
            Some(after) => self.seek(&after).await,
            None => {
                self.next = None;
                self.ended = true;
                Ok(())
            }
        }
    }

    async fn fill(&mut self) -> Result<()> {
        if self.next.is_some() || self.ended {
            return Ok(());
        }
        let found = self.iterator.next().await;
        let found = found.map_err(Error::store("reading records"))?;
        self.ended = found.is_none();
        self.next = found.map(|record| Record {
            key: record.key,
            value: record.value,
        });
        Ok(())
    }
}

/// The first key behind all that begin with `prefix`; `None` when there is none.
pub(super) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut after = prefix[..=kept].to_vec();
    after[kept] += 1;
    Some(after)
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn what_follows_a_prefix() {
        assert_eq!(after_prefix(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(after_prefix(&[1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(after_prefix(&[0xff]), None);
        assert_eq!(after_prefix(&[]), None);
    }
}
