//! Buckets of windows, compared with what they were made of while that is there.
//!
//! Left out are hours that are out of date, because readers take samples there; and whatever a
//! flush has written before its commit, which says that windows are out of date.

use std::collections::BTreeSet;

use icecore_model::rollup::Resolution;
use icecore_records::bucket_meta::{self, BucketMeta};
use icecore_records::{Bucket, bucket_list, forward_index, key};

use super::super::still::StillView;
use super::journal::covers;
use super::report::{Findings, ProblemKind};
use crate::buckets::{ladder, list, raw_of};
use crate::error::Result;
use crate::maintenance::build::{WindowComparison, compare_windows};

/// Compares one bucket, if it is listed and its sources are.
pub(super) async fn compare(
    view: &StillView,
    bucket: Bucket,
    problems_max: usize,
) -> Result<Findings> {
    let mut findings = Findings::new(problems_max);
    let Some(sources) = sources_of(view, bucket).await? else {
        return Ok(findings);
    };
    let read = |bytes| view.note_read(bytes);
    let compared = compare_windows(view.view(), bucket, &sources, read).await?;
    findings.counts.windows_compared = compared.windows;
    if compared.absent > 0 {
        let absent = compared.absent;
        let text = format!("bucket {bucket}: {absent} series of its sources are not in it");
        findings.note(&key::bucket_meta(bucket), text);
    }
    if compared.wrong_count > 0 && covers(view, bucket).await? {
        let text = format!("bucket {bucket}: samples of its time are being flushed");
        findings.note(&key::bucket_meta(bucket), text);
        return Ok(findings);
    }
    report(view, bucket, &compared, &mut findings).await?;
    Ok(findings)
}

async fn report(
    view: &StillView,
    bucket: Bucket,
    compared: &WindowComparison,
    findings: &mut Findings,
) -> Result<()> {
    for wrong in &compared.wrong {
        let forward = view.get(&key::forward_index(bucket, wrong.series)).await?;
        let forward = forward.and_then(|value| forward_index::decode(&value).ok());
        let labels = forward.map_or_else(String::new, |forward| format!(" of {}", forward.labels));
        let more = match wrong.count {
            1 => String::new(),
            count => format!("; {count} windows are wrong"),
        };
        let (start_ms, reason) = (wrong.start_ms, &wrong.reason);
        let reason = format!("window {start_ms}{labels}: {reason}{more}");
        let key = wrong.kind.key(bucket, wrong.series);
        findings.problem(ProblemKind::Windows, &key, reason);
    }
    let untold = compared.wrong_count - compared.wrong.len() as u64;
    if untold > 0 {
        let text = format!("bucket {bucket}: {untold} more series have wrong windows");
        findings.note(&key::bucket_meta(bucket), text);
    }
    Ok(())
}

/// What a bucket was made of; `None` if that has gone, or cannot be told.
async fn sources_of(view: &StillView, bucket: Bucket) -> Result<Option<Vec<Bucket>>> {
    let list = view.get(&key::bucket_list()).await?;
    let listed = list.and_then(|value| bucket_list::decode(&value).ok());
    let listed = listed.unwrap_or_default();
    let meta = meta_of(view, bucket).await?;
    let Some(meta) = meta.filter(|meta| !meta.rollup.sources_gone && meta.resolution_ms > 0) else {
        return Ok(None);
    };
    if !listed.contains(&bucket) {
        return Ok(None);
    }
    let source: Resolution = meta.rollup.source;
    let (start_ms, last_ms) = (bucket.start_ms(), bucket.end_ms() - 1);
    let mut level = raw_of(&listed);
    if !source.is_raw() {
        level = BTreeSet::new();
        for other in list::in_range(&listed, start_ms, last_ms) {
            let is_rolled = !ladder::is_raw(other.size);
            let other_meta = if is_rolled {
                meta_of(view, other).await?
            } else {
                None
            };
            if other_meta.is_some_and(|meta| meta.resolution() == Some(source)) {
                level.insert(other);
            }
        }
    }
    let sources = list::in_range(&level, start_ms, last_ms);
    let overlap = |pair: &[Bucket]| pair[0].end_ms() > pair[1].start_ms();
    // Of buckets that overlap, which is reported, nobody knows which is right.
    Ok((!sources.windows(2).any(overlap)).then_some(sources))
}

/// What cannot be read is reported with its bucket.
async fn meta_of(view: &StillView, bucket: Bucket) -> Result<Option<BucketMeta>> {
    let value = view.get(&key::bucket_meta(bucket)).await?;
    Ok(value.and_then(|value| bucket_meta::decode(&value).ok()))
}
