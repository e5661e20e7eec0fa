//! What was said of metrics that are no longer there goes, too.
//!
//! ```text
//! last said before the longest retention ─► no series in the head ─► none in any listed bucket
//!    ─► under the flush lock: still so? ─► forgotten, deleted
//! ```
//!
//! Holds always:
//! - Without a policy, or where a level is kept forever, nothing goes.
//! - What is said again, or gets a series, while this looks around stays: both are looked at again
//!   under the flush lock, with the buckets that were flushed to meanwhile. What is said after that
//!   is new, and written after the deletion.
//! - In which bucket a metric was found is remembered. Indexes are read for metrics of which the
//!   bucket has gone since, and only the names in them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use icecore_model::METRIC_NAME;
use icecore_records::{Bucket, ParsedKey, key};
use tracing::info;

use super::super::pace::Watch;
use crate::error::{Error, Result};
use crate::ingest::flush::delete_metadata;
use crate::ingest::head::families_of;
use crate::maintenance::Maintenance;
use crate::slate::read_view::ScanKind;

/// Families that are looked at in one go.
const FAMILIES_MAX: usize = 10_000;

/// Names that are read between two yields.
const PAGE_NAMES: usize = 4096;

/// In which bucket the metrics of old families were found.
pub(crate) type FamilyHolders = BTreeMap<String, Bucket>;

/// Deletes metadata of metrics that nobody has any more. Returns of how many families.
pub(crate) async fn cull_metadata(maintenance: &Arc<Maintenance>, watch: &Watch) -> Result<usize> {
    let Some(seen_before_ms) = seen_before_ms(maintenance) else {
        return Ok(0);
    };
    let recent = maintenance.buckets.recent();
    let written = recent.begin_count();
    let mut left = without_series(maintenance, seen_before_ms);
    if left.is_empty() {
        return Ok(0);
    }
    let mut listed: Vec<Bucket> = maintenance.buckets.levels().all().collect();
    // The largest and newest first: they have the most metrics, and stay the longest.
    listed.sort_unstable_by_key(|bucket| std::cmp::Reverse((bucket.size, bucket.start)));
    let mut found = FamilyHolders::new();
    for bucket in listed {
        if left.is_empty() {
            break;
        }
        find_in(maintenance, Some(watch), bucket, &mut left, &mut found).await?;
    }
    maintenance.context.pauses.pass("cull_metadata.found").await;
    let frozen = maintenance.ingest.lock_flushes().await;
    for bucket in written.end() {
        find_in(maintenance, None, bucket, &mut left, &mut found).await?;
    }
    maintenance.family_holders.lock().extend(found);
    let head = maintenance.ingest.head();
    let forgotten = head.forget_metadata(left, seen_before_ms);
    if forgotten.is_empty() {
        return Ok(0);
    }
    let count = forgotten.len();
    let deleted = delete_metadata(&maintenance.ingest, &frozen, forgotten.keys()).await;
    if deleted.is_err() {
        head.remember_metadata(forgotten);
    }
    deleted?;
    info!(
        families = count,
        "metadata of metrics that are gone deleted"
    );
    Ok(count)
}

/// What was last said before this is old enough to go. `None`: nothing is.
fn seen_before_ms(maintenance: &Maintenance) -> Option<i64> {
    let policy = maintenance.retention.policy()?;
    let levels = policy.levels().iter();
    let retained = levels.map(|level| policy.longest(level.resolution));
    let longest_ms = retained.max()?.ms()?;
    Some(maintenance.retention.now_ms().saturating_sub(longest_ms))
}

/// Families that are old enough and have no series in the head, nor in a bucket that is known.
fn without_series(maintenance: &Maintenance, seen_before_ms: i64) -> BTreeSet<String> {
    let head = maintenance.ingest.head();
    let old: Vec<String> = {
        let known = head.metadata.read();
        let old = known.iter().filter(|(_, m)| m.seen_ms < seen_before_ms);
        old.map(|(family, _)| family.clone()).collect()
    };
    let mut holders = maintenance.family_holders.lock();
    let listed = maintenance.buckets.levels();
    holders.retain(|_, bucket| listed.contains(*bucket));
    drop(listed);
    let unknown = old.into_iter().filter(|f| !holders.contains_key(f));
    let without = unknown.filter(|family| !head.has_metrics_of(family));
    without.take(FAMILIES_MAX).collect()
}

/// Takes out families that have metrics in a bucket. Without a watch it does not wait.
async fn find_in(
    maintenance: &Maintenance,
    watch: Option<&Watch>,
    bucket: Bucket,
    left: &mut BTreeSet<String>,
    found: &mut FamilyHolders,
) -> Result<()> {
    let view = maintenance.context.engine.live_view();
    let prefix = key::inverted_index(bucket, METRIC_NAME, "");
    let mut records = view.scan_prefix(&prefix, ScanKind::Once).await?;
    let reading = || Error::store("reading names of metrics");
    let (mut names, mut bytes) = (0, 0);
    while let Some(record) = records.next().await.map_err(reading())? {
        names += 1;
        bytes += record.key.len() + record.value.len();
        if let Some(watch) = watch.filter(|_| names % PAGE_NAMES == 0) {
            watch.read(std::mem::take(&mut bytes)).await?;
        }
        let Ok(ParsedKey::InvertedIndex { value, .. }) = ParsedKey::parse(&record.key) else {
            continue;
        };
        for family in families_of(&value) {
            if let Some(family) = left.take(family) {
                found.insert(family, bucket);
            }
        }
    }
    match watch {
        Some(watch) => watch.read(bytes).await,
        None => Ok(()),
    }
}
