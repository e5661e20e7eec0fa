//! Names that have no UID, because others than OpenTSDB's clients have written them.
//!
//! ```text
//! LabelIndex ─► names of a kind, sorted, kept for a while ─► suggest
//! ```
//!
//! The index gives names without looking at series, but all of them at once; somebody who types a
//! name asks several times a second.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::lock::Mutex;
use http::StatusCode;
use icecore_model::{BoxFuture, METRIC_NAME, StoreError};

use crate::error::Error;
use crate::name::RESERVED_PREFIX;
use crate::rollup::ROLLUP_LABEL;
use crate::uid::UidKind;

/// How long names are kept after they were read, in milliseconds.
const KEPT_MS: i64 = 10_000;

/// Most names of a kind, those that come first.
const NAMES_MAX: usize = 1 << 18;

/// The labels of all series, whoever has written them.
pub trait LabelIndex: Send + Sync {
    /// The names of labels, sorted; at most so many.
    fn names(&self, limit: usize) -> BoxFuture<'_, Result<Vec<String>, StoreError>>;

    /// The values of a label, sorted; at most so many.
    fn values<'a>(
        &'a self,
        label: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>>;
}

/// Names as the index had them a moment ago.
#[derive(Default)]
pub(crate) struct LabelNames {
    kinds: [Mutex<Option<Kept>>; 3],
}

struct Kept {
    read_ms: i64,
    names: Arc<[String]>,
}

impl LabelNames {
    /// All names of a kind, sorted. `elapsed_ms` is a time that nobody sets.
    pub(crate) async fn get(
        &self,
        index: &dyn LabelIndex,
        kind: UidKind,
        elapsed_ms: i64,
    ) -> Result<Arc<[String]>, Error> {
        // Others wait here for the one that reads.
        let mut kept = self.kinds[kind as usize].lock().await;
        if let Some(kept) = &*kept
            && elapsed_ms - kept.read_ms < KEPT_MS
        {
            return Ok(Arc::clone(&kept.names));
        }
        let names = read(index, kind).await.map_err(|error| {
            let message = format!("Storage exception: {error}");
            Error::new(StatusCode::INTERNAL_SERVER_ERROR, message)
        })?;
        let names: Arc<[String]> = names.into();
        *kept = Some(Kept {
            read_ms: elapsed_ms,
            names: Arc::clone(&names),
        });
        Ok(names)
    }

    /// The next one who asks gets what the index has then.
    pub(crate) async fn forget(&self) {
        for kind in &self.kinds {
            *kind.lock().await = None;
        }
    }
}

async fn read(index: &dyn LabelIndex, kind: UidKind) -> Result<Vec<String>, StoreError> {
    let is_tag = |name: &String| !name.starts_with(RESERVED_PREFIX);
    match kind {
        UidKind::Metric => {
            let mut metrics = index.values(METRIC_NAME, NAMES_MAX).await?;
            // What clients roll up has metrics of its own, which they do not know.
            let rollups = index.values(ROLLUP_LABEL, NAMES_MAX).await?;
            let is_rollup = |metric: &String| {
                let ends = |kind: &String| {
                    let base = metric.strip_suffix(kind.as_str());
                    base.is_some_and(|base| base.ends_with(':'))
                };
                rollups.iter().any(ends)
            };
            metrics.retain(|metric| !is_rollup(metric));
            Ok(metrics)
        }
        UidKind::Tagk => {
            let mut names = index.names(NAMES_MAX).await?;
            names.retain(is_tag);
            Ok(names)
        }
        UidKind::Tagv => {
            let mut values = BTreeSet::new();
            for label in index.names(NAMES_MAX).await?.iter().filter(|l| is_tag(l)) {
                values.extend(index.values(label, NAMES_MAX).await?);
                while values.len() > NAMES_MAX {
                    values.pop_last();
                }
            }
            Ok(values.into_iter().collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use futures::executor::block_on;

    use super::*;

    #[derive(Default)]
    struct Index(AtomicUsize);

    impl LabelIndex for Index {
        fn names(&self, _: usize) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
            self.0.fetch_add(1, Relaxed);
            let names = ["__name__", "__rollup__", "dc", "host"];
            Box::pin(async move { Ok(names.map(String::from).to_vec()) })
        }

        fn values<'a>(
            &'a self,
            label: &'a str,
            _: usize,
        ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
            let values: &[&str] = match label {
                "__name__" => &["job:up:rate", "m:1h-sum", "up"],
                "__rollup__" => &["1h-sum"],
                "dc" => &["b", "lga"],
                _ => &["a", "b"],
            };
            let values = values.iter().map(|value| (*value).to_owned());
            let values = Ok(values.collect());
            Box::pin(async move { values })
        }
    }

    #[test]
    fn names_of_each_kind() {
        let (names, index) = (LabelNames::default(), Index::default());
        let get = |kind| block_on(names.get(&index, kind, 0)).unwrap();
        assert_eq!(&*get(UidKind::Metric), ["job:up:rate", "up"]);
        assert_eq!(&*get(UidKind::Tagk), ["dc", "host"]);
        assert_eq!(&*get(UidKind::Tagv), ["a", "b", "lga"]);
    }

    #[test]
    fn the_index_is_not_asked_for_each_letter() {
        let (names, index) = (LabelNames::default(), Index::default());
        let get = |ms| drop(block_on(names.get(&index, UidKind::Tagk, ms)).unwrap());
        let asked = || index.0.load(Relaxed);
        get(0);
        get(KEPT_MS - 1);
        assert_eq!(asked(), 1);
        get(KEPT_MS);
        assert_eq!(asked(), 2);
        block_on(names.forget());
        get(KEPT_MS);
        assert_eq!(asked(), 3);
    }
}
