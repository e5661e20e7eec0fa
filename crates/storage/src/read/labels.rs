//! Label names, label values and series, without samples.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::{Labels, Matcher, SelectHints};
use icecore_records::tombstones::Tombstones;
use icecore_records::{Bucket, ParsedKey, RecordType, inverted_index, key};
use slatedb::KeyValue;

use super::postings::{corrupt, successor};
use super::resolve::resolve_series;
use super::{Leased, buckets_in, join_bounded};
use crate::error::{Error, Result};
use crate::inner::Inner;
use crate::slate::read_view::{ScanKind, View};

/// What was deleted from a bucket, if anything.
type Erased = Option<Arc<Tombstones>>;

const CONCURRENT_BUCKETS: usize = 8;

/// Values of a label that a scan for names passes before it is opened anew behind them: reading past a
/// record costs about 2 µs, opening a scan about 100.
const VALUES_PASSED_MAX: usize = 64;

/// What to look for: series that match any of the selectors (all series when there are none) and
/// have something between `start_ms` and `end_ms`.
#[derive(Clone, Debug)]
pub struct LabelQuery {
    pub selectors: Vec<Vec<Matcher>>,
    pub start_ms: i64,
    pub end_ms: i64,
    /// At most this many results, in order.
    pub limit: Option<usize>,
}

/// The series themselves, in label order.
pub(crate) async fn series(inner: &Arc<Inner>, query: &LabelQuery) -> Result<Vec<Labels>> {
    let everything = vec![Vec::new()];
    let selectors = if query.selectors.is_empty() {
        &everything
    } else {
        &query.selectors
    };
    let hints = SelectHints {
        labels_only: true,
        series_limit: query.limit,
        ..SelectHints::default()
    };
    let mut found: Vec<Labels> = Vec::new();
    for matchers in selectors {
        let resolved =
            resolve_series(inner, matchers, (query.start_ms, query.end_ms), &hints).await?;
        found.extend(resolved.series.into_iter().map(|series| series.labels));
    }
    if selectors.len() > 1 {
        found.sort_unstable();
        found.dedup();
    }
    found.truncate(query.limit.unwrap_or(usize::MAX));
    Ok(found)
}

/// Label names in use, sorted.
pub(crate) async fn label_names(inner: &Arc<Inner>, query: &LabelQuery) -> Result<Vec<String>> {
    let mut names = BTreeSet::new();
    if query.selectors.is_empty() {
        collect_head(inner, query, &mut names, |name, _| Some(name)).await?;
        collect_buckets(inner, query, &mut names, scan_names).await?;
    } else {
        for labels in series(inner, &unlimited(query)).await? {
            names.extend(labels.iter().map(|(name, _)| name.to_string()));
        }
    }
    Ok(names
        .into_iter()
        .take(query.limit.unwrap_or(usize::MAX))
        .collect())
}

/// Values of a label, sorted.
pub(crate) async fn label_values(
    inner: &Arc<Inner>,
    name: &str,
    query: &LabelQuery,
) -> Result<Vec<String>> {
    let mut values = BTreeSet::new();
    if query.selectors.is_empty() {
        let wanted = name.to_string();
        collect_head(inner, query, &mut values, move |n, value| {
            (n == wanted).then_some(value)
        })
        .await?;
        let scan = |view, bucket, erased| scan_values(view, bucket, erased, name.to_string());
        collect_buckets(inner, query, &mut values, scan).await?;
    } else {
        for labels in series(inner, &unlimited(query)).await? {
            values.extend(labels.get(name).map(String::from));
        }
    }
    Ok(values
        .into_iter()
        .take(query.limit.unwrap_or(usize::MAX))
        .collect())
}

/// A limit on names or values is not one on series.
fn unlimited(query: &LabelQuery) -> LabelQuery {
    LabelQuery {
        limit: None,
        ..query.clone()
    }
}

async fn collect_head(
    inner: &Arc<Inner>,
    query: &LabelQuery,
    found: &mut BTreeSet<String>,
    pick: impl for<'p> Fn(&'p str, &'p str) -> Option<&'p str> + Send + 'static,
) -> Result<()> {
    let head = Arc::clone(&inner.head);
    let (start_ms, end_ms) = (query.start_ms, query.end_ms);
    let in_head = inner.pool.run(move || {
        let mut found = BTreeSet::new();
        head.each_pair_in(start_ms, end_ms, |name, value| {
            if let Some(picked) = pick(name, value)
                && !found.contains(picked)
            {
                found.insert(picked.to_string());
            }
        });
        found
    });
    found.extend(in_head.await?);
    Ok(())
}

async fn collect_buckets<F>(
    inner: &Arc<Inner>,
    query: &LabelQuery,
    found: &mut BTreeSet<String>,
    scan: impl Fn(View, Bucket, Erased) -> F,
) -> Result<()>
where
    F: Future<Output = Result<BTreeSet<String>>>,
{
    let Leased { buckets, lease } = buckets_in(inner, query.start_ms, query.end_ms);
    // Before the snapshot: it shows records that were cleaned if the tombstones are gone.
    let erased: Vec<Erased> = buckets.iter().map(|b| inner.tombstones.of(*b)).collect();
    let view = inner.engine.snapshot()?;
    let buckets = buckets.into_iter().zip(erased);
    let scans = buckets
        .map(|(bucket, erased)| scan(view.clone(), bucket, erased))
        .collect();
    found.extend(
        join_bounded(scans, CONCURRENT_BUCKETS)
            .await?
            .into_iter()
            .flatten(),
    );
    drop(lease);
    Ok(())
}

/// Walks from label name to label name: over a few values record by record, over many with a new
/// scan behind them. Not with `DbIterator::seek`: in SlateDB 0.18 it loses the record that follows a
/// merged one.
async fn scan_names(view: View, bucket: Bucket, erased: Erased) -> Result<BTreeSet<String>> {
    let all = key::record_prefix(RecordType::InvertedIndex, bucket);
    let end = successor(&all).map_or(Bound::Unbounded, Bound::Excluded);
    let mut names = BTreeSet::new();
    let mut next = Some(all);
    while let Some(start) = next.take() {
        let range = (Bound::Included(start), end.clone());
        let mut records = view.scan(range, ScanKind::Cached).await?;
        let mut of_last_name = Bytes::new();
        let mut passed = 0;
        while let Some(record) = records
            .next()
            .await
            .map_err(Error::store("reading label names"))?
        {
            if !of_last_name.is_empty() && record.key.starts_with(&of_last_name) {
                passed += 1;
                if passed == VALUES_PASSED_MAX {
                    next = successor(&of_last_name);
                    break;
                }
            } else if let Some((name, _)) = pair_of(&record, &erased)? {
                of_last_name = key::inverted_label_prefix(bucket, &name);
                passed = 0;
                names.insert(name);
            }
        }
    }
    Ok(names)
}

async fn scan_values(
    view: View,
    bucket: Bucket,
    erased: Erased,
    name: String,
) -> Result<BTreeSet<String>> {
    let prefix = key::inverted_label_prefix(bucket, &name);
    let mut records = view.scan_prefix(&prefix, ScanKind::Cached).await?;
    let mut values = BTreeSet::new();
    while let Some(record) = records
        .next()
        .await
        .map_err(Error::store("reading label values"))?
    {
        values.extend(pair_of(&record, &erased)?.map(|(_, value)| value));
    }
    Ok(values)
}

/// The label pair of a record, unless all of its series were deleted.
fn pair_of(record: &KeyValue, erased: &Erased) -> Result<Option<(String, String)>> {
    let Ok(ParsedKey::InvertedIndex { name, value, .. }) = ParsedKey::parse(&record.key) else {
        return Ok(None);
    };
    if let Some(tombstones) = erased
        && !tombstones.erased.is_empty()
    {
        let ids = inverted_index::decode(&record.value);
        let ids = ids.map_err(|cause| corrupt(&record.key, cause))?;
        if ids.is_subset(&tombstones.erased) {
            return Ok(None);
        }
    }
    Ok(Some((name, value)))
}
