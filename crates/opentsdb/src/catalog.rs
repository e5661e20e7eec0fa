//! Records of the catalog: meta data, annotations, trees.
//!
//! Holds always:
//! - A record that was read to be changed is changed under the lock, so that no change is lost.
//!   The lock ends with the append: others need not wait until a change is durable.
//! - A change is durable before the request that made it is answered.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures::lock::{Mutex, MutexGuard};
use http::StatusCode;
use icecore_model::{
    AppendError, Catalog, CatalogChange, CatalogRecord, SampleSink, SampleStore, StoreError,
};

use crate::allowance::Allowance;
use crate::catalog_key;
use crate::error::Error;

/// How records are written: this byte, and behind it JSON.
const VERSION: u8 = 1;

/// Most bytes of one record: what users say about something is text for people. Below the limit of
/// the store, which refuses larger ones without a word to the client.
const RECORD_BYTES_MAX: usize = 2 << 20;

/// Most bytes of the texts that one request gives for a record.
pub(crate) const TEXT_BYTES_MAX: usize = 64 << 10;

/// Records that are read first where it is not known how large they are.
const FIRST_PAGE: usize = 16;

/// Most records that are read at a time, and the bytes to which a page may come.
const PAGE_RECORDS_MAX: usize = 4096;
const PAGE_BYTES: usize = 1 << 20;

/// Bytes of a record in memory besides its key and value.
const RECORD_OVERHEAD: usize = 200;

/// Copies of a record while a request is answered: what it says, and the text of the answer.
const COPIES: usize = 2;

/// Reads and writes records.
pub(crate) struct Records {
    points: Arc<dyn SampleStore>,
    catalog: Arc<dyn Catalog>,
    lock: Mutex<()>,
}

impl Records {
    pub(crate) fn new(points: Arc<dyn SampleStore>, catalog: Arc<dyn Catalog>) -> Self {
        Self {
            points,
            catalog,
            lock: Mutex::new(()),
        }
    }

    /// To be taken before a record is read that will be changed.
    pub(crate) async fn lock(&self) -> RecordsEdit<'_> {
        RecordsEdit {
            records: self,
            guard: self.lock.lock().await,
        }
    }

    pub(crate) async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let records = self.range(catalog_key::exactly(key), 1).await?;
        Ok(records.into_iter().next().map(|(_, value)| value))
    }

    /// All records with these keys, in key order. What they take counts towards the memory of the
    /// request until it is answered.
    pub(crate) async fn all(
        &self,
        keys: Range<Vec<u8>>,
        allowance: &Allowance,
    ) -> Result<Vec<CatalogRecord>, Error> {
        let mut all = Vec::new();
        self.each(keys, allowance, |record| {
            let bytes = record.0.len() + record.1.len() + RECORD_OVERHEAD;
            all.push(record);
            bytes * COPIES
        })
        .await?;
        Ok(all)
    }

    /// The keys of all records with these keys, counted like records.
    pub(crate) async fn keys(
        &self,
        keys: Range<Vec<u8>>,
        allowance: &Allowance,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let mut all = Vec::new();
        self.each(keys, allowance, |(key, _)| {
            let bytes = key.len() + RECORD_OVERHEAD;
            all.push(key);
            bytes * COPIES
        })
        .await?;
        Ok(all)
    }

    /// Reads records page by page. `take` says how many bytes it keeps of each.
    async fn each(
        &self,
        mut keys: Range<Vec<u8>>,
        allowance: &Allowance,
        mut take: impl FnMut(CatalogRecord) -> usize,
    ) -> Result<(), Error> {
        let mut page = FIRST_PAGE;
        loop {
            allowance.check()?;
            let records = self.range(keys.clone(), page).await?;
            let is_last = records.len() < page;
            if let Some((last, _)) = records.last() {
                keys.start = catalog_key::exactly(last).end;
            }
            let (mut read, mut kept) = (0, 0);
            for record in records {
                read += record.0.len() + record.1.len();
                kept += take(record);
            }
            allowance.hold(kept)?;
            if is_last {
                return Ok(());
            }
            page = next_page(page, read);
        }
    }

    /// Records in key order, at most `limit`.
    pub(crate) async fn range(
        &self,
        keys: Range<Vec<u8>>,
        limit: usize,
    ) -> Result<Vec<CatalogRecord>, Error> {
        if keys.start >= keys.end {
            return Ok(Vec::new());
        }
        let records = self.catalog.range(keys, limit).await;
        records.map_err(unavailable)
    }
}

/// The right to change records.
pub(crate) struct RecordsEdit<'a> {
    records: &'a Records,
    guard: MutexGuard<'a, ()>,
}

impl RecordsEdit<'_> {
    /// Waits until every request that is being written is appended or refused: what is written
    /// afterwards comes behind it.
    pub(crate) async fn barrier(&self) -> Result<(), Error> {
        self.records.points.barrier().await.map_err(unavailable)
    }

    /// Stores changes; they are durable afterwards.
    pub(crate) async fn write(self, changes: Vec<CatalogChange>) -> Result<(), Error> {
        self.write_and(changes, || ()).await
    }

    /// The same for who remembers what is stored: `appended` runs under the lock, and only if the
    /// changes were taken.
    pub(crate) async fn write_and(
        self,
        changes: Vec<CatalogChange>,
        appended: impl FnOnce(),
    ) -> Result<(), Error> {
        if changes.is_empty() {
            appended();
            return Ok(());
        }
        for change in &changes {
            check_size(change)?;
        }
        let fill = |sink: &mut dyn SampleSink| {
            changes.into_iter().for_each(|change| sink.catalog(change));
            Ok::<(), StoreError>(())
        };
        let pending = self.records.points.append(Duration::ZERO, fill).await;
        let pending = pending.map_err(|error| match error {
            AppendError::Fill(error) | AppendError::Store(error) => unavailable(error),
            AppendError::Refused(error) => Error::bad_request(error.0),
        })?;
        appended();
        drop(self.guard);
        pending.commit.await.map_err(unavailable)
    }
}

/// Fails if the texts that a request gives for a record are too long.
pub(crate) fn check_texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<(), Error> {
    let bytes: usize = texts.into_iter().map(str::len).sum();
    if bytes <= TEXT_BYTES_MAX {
        return Ok(());
    }
    Err(Error::bad_request(format!(
        "The texts have {bytes} bytes, more than {TEXT_BYTES_MAX}: shorten description, notes or \
         custom fields"
    )))
}

/// Fails if a record is too large to be stored.
pub(crate) fn check_size(change: &CatalogChange) -> Result<(), Error> {
    let bytes = change.value.as_ref().map_or(0, Vec::len);
    if bytes <= RECORD_BYTES_MAX {
        return Ok(());
    }
    Err(Error::bad_request(format!(
        "A record of {bytes} bytes is more than {RECORD_BYTES_MAX}: shorten its texts"
    )))
}

/// As many records as come to [`PAGE_BYTES`] if they are like the last ones.
fn next_page(page: usize, read_bytes: usize) -> usize {
    let record_bytes = (read_bytes / page).max(1);
    (PAGE_BYTES / record_bytes)
        .clamp(1, PAGE_RECORDS_MAX)
        .min(4 * page)
}

/// What is said when the store is busy or does not answer: the same request may succeed later.
fn unavailable(error: StoreError) -> Error {
    let message = format!("Storage exception: {error}");
    Error::new(StatusCode::SERVICE_UNAVAILABLE, message)
}

/// What is said when a record cannot be read.
pub(crate) fn failed(error: StoreError) -> Error {
    Error::new(StatusCode::INTERNAL_SERVER_ERROR, error.0)
}

/// A change that stores a record.
pub(crate) fn stored(key: Vec<u8>, json: &str) -> CatalogChange {
    let mut value = vec![VERSION];
    value.extend_from_slice(json.as_bytes());
    CatalogChange {
        key,
        value: Some(value),
    }
}

/// A change that removes a record.
pub(crate) fn removed(key: Vec<u8>) -> CatalogChange {
    CatalogChange { key, value: None }
}

/// The JSON of a record.
pub(crate) fn json_of(value: &[u8]) -> Option<&str> {
    let (version, json) = value.split_first()?;
    std::str::from_utf8(json)
        .ok()
        .filter(|_| *version == VERSION)
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use icecore_model::MemoryBudget;

    use super::*;
    use crate::testing::MemoryStore;

    fn records() -> Records {
        let stores = MemoryStore::stores();
        Records::new(stores.points, stores.catalog)
    }

    fn write(records: &Records, changes: Vec<CatalogChange>) -> Result<(), Error> {
        block_on(async { records.lock().await.write(changes).await })
    }

    #[test]
    fn what_a_request_reads_counts_towards_its_memory() {
        let records = records();
        let notes = "n".repeat(10_000);
        for page in 0..30 {
            let changes = (0..10).map(|i| {
                let key = catalog_key::global_annotation(10 * page + i);
                stored(key, &notes)
            });
            write(&records, changes.collect()).unwrap();
        }
        let keys = catalog_key::global_annotations(0, u64::MAX - 1);
        let with = |bytes| Allowance::with_memory(MemoryBudget::new(bytes));
        let enough = with(7 << 20);
        let all = block_on(records.all(keys.clone(), &enough)).unwrap();
        assert_eq!(all.len(), 300);
        assert!(all.is_sorted());
        assert!(enough.memory.used() > 2 * 300 * 10_000);
        let memory = Arc::clone(&enough.memory);
        drop(enough);
        assert_eq!(memory.used(), 0);

        let little = with(1 << 20);
        let refused = block_on(records.all(keys.clone(), &little)).unwrap_err();
        assert!(refused.message.contains("query.max_memory"), "{refused}");
        assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
        // Reading ended with the page that was too much.
        assert!(little.memory.peak() < 4 << 20);
        // Who needs the keys alone does not pay for the rest.
        assert_eq!(
            block_on(records.keys(keys, &with(1 << 20))).unwrap().len(),
            300
        );
    }

    #[test]
    fn pages_are_as_long_as_records_are_short() {
        assert_eq!(next_page(16, 16 * 100), 64);
        assert_eq!(next_page(4096, 4096 * 100), 4096);
        assert_eq!(next_page(4096, 4096 * 1000), 1048);
        assert_eq!(next_page(16, 16 << 20), 1);
        assert_eq!(next_page(1, 0), 4);
    }

    #[test]
    fn records_and_their_texts_are_bounded() {
        let records = records();
        let key = catalog_key::global_annotation(1);
        let fits = "x".repeat(RECORD_BYTES_MAX - 1);
        write(&records, vec![stored(key.clone(), &fits)]).unwrap();
        let refused = write(&records, vec![stored(key, &format!("{fits}x"))]).unwrap_err();
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert!(refused.message.contains("more than 2097152"), "{refused}");
        let text = "x".repeat(TEXT_BYTES_MAX);
        assert!(check_texts([text.as_str(), ""]).is_ok());
        let refused = check_texts([text.as_str(), "x"]).unwrap_err();
        assert!(
            refused.message.contains("65537 bytes, more than 65536"),
            "{refused}"
        );
    }
}
