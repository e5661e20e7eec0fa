//! What a bucket stores of some series: read, looked at, and written anew without what was deleted.
//!
//! Holds always:
//! - A record is written anew only if it loses something, and was decoded again and is the same
//!   then.
//! - Records that a newer version laid beside those of a series are left alone.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use icecore_model::BucketSize;
use icecore_records::bucket_meta::BucketMeta;
use icecore_records::columns::Times;
use icecore_records::rollup_histograms::HistogramRecord;
use icecore_records::rollup_series::RollupRecord;
use icecore_records::{Bucket, DecodeError, SeriesId, exemplar_series, key, start_timestamps};

use super::record_kind::RecordKind;
use super::{Buckets, encode};
use crate::error::{Error, Result};
use crate::slate::fetch::fetch;
use crate::slate::read_view::View;
use crate::stored::{self, Floats, SharedColumns, drop_lost, is_lost};

/// The byte behind a series' key under which its start timestamps lie.
const STARTS_SUFFIX: u8 = 1;

/// Records of some series, with the columns of timestamps that they refer to.
pub(crate) struct Contents {
    bucket: Bucket,
    series: BTreeMap<u32, Vec<StoredRecord>>,
    columns: SharedColumns,
}

struct StoredRecord {
    kind: RecordKind,
    value: Bytes,
}

/// What a deletion does to a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeletionEffect {
    /// It has nothing in the range.
    Untouched,
    /// It has more than that.
    Shortened,
    /// Nothing is left of it.
    Erased,
}

/// What has left a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemovedCounts {
    pub(crate) floats: u64,
    pub(crate) histograms: u64,
    pub(crate) exemplars: u64,
}

impl RemovedCounts {
    pub(crate) fn add(&mut self, more: Self) {
        self.floats += more.floats;
        self.histograms += more.histograms;
        self.exemplars += more.exemplars;
    }

    /// Takes it out of the counts of a bucket, which count what was written twice twice: they are
    /// never smaller than what is there.
    pub(crate) fn take_from(self, meta: &mut BucketMeta) {
        meta.float_samples = meta.float_samples.saturating_sub(self.floats);
        meta.histogram_samples = meta.histogram_samples.saturating_sub(self.histograms);
        meta.exemplars = meta.exemplars.saturating_sub(self.exemplars);
    }
}

/// Keys with what is to lie there; `None`: nothing.
pub(crate) type Rewrites = Vec<(Bytes, Option<Bytes>)>;

/// Reads everything that a bucket has of series, given in ascending order.
pub(crate) async fn read(
    buckets: &Buckets,
    view: &View,
    bucket: Bucket,
    meta: &BucketMeta,
    ids: &[u32],
) -> Result<Contents> {
    let gets = buckets.context.options.read.concurrent_gets;
    let mut contents = Contents {
        bucket,
        series: ids.iter().map(|id| (*id, Vec::new())).collect(),
        columns: SharedColumns::new(),
    };
    if meta.resolution_ms > 0 {
        let key_of = |id| key::rollup_series(bucket, id);
        let found = fetch(view, ids, key_of, true, gets).await?;
        contents.take(found, RecordKind::Windows, RecordKind::HistogramWindows);
        return Ok(contents);
    }
    let starts = meta.has_start_timestamps;
    let key_of = |id| key::time_series(bucket, id);
    let found = fetch(view, ids, key_of, starts, gets).await?;
    contents.take(found, RecordKind::Floats, RecordKind::Starts);
    // BucketMeta speaks of histograms; records that only say that there is none are there without
    // it.
    let key_of = |id| key::histogram_series(bucket, id);
    let found = fetch(view, ids, key_of, true, gets).await?;
    contents.take(found, RecordKind::Histograms, RecordKind::HistogramStarts);
    if meta.exemplars > 0 {
        let key_of = |id| key::exemplar_series(bucket, id);
        let found = fetch(view, ids, key_of, false, gets).await?;
        contents.take(found, RecordKind::Exemplars, RecordKind::Exemplars);
    }
    Ok(contents)
}

impl Contents {
    fn take(
        &mut self,
        found: Vec<crate::slate::fetch::FetchedRecord>,
        plain: RecordKind,
        behind: RecordKind,
    ) {
        for record in found {
            let kind = match record.suffix {
                0 => plain,
                STARTS_SUFFIX => behind,
                _ => continue,
            };
            if let Some(records) = self.series.get_mut(&record.id.0) {
                records.push(StoredRecord {
                    kind,
                    value: record.value,
                });
            }
        }
    }

    /// Reads the columns of timestamps that the records refer to; needed before anything is
    /// decoded.
    pub(crate) async fn read_columns(&mut self, view: &View) -> Result<()> {
        let mut wanted = BTreeSet::new();
        for (id, records) in &self.series {
            for record in records.iter().filter(|r| r.kind == RecordKind::Floats) {
                let id = SeriesId(*id);
                stored::add_referenced_columns(self.bucket, id, &record.value, &mut wanted)?;
            }
        }
        stored::read_columns(view, self.bucket, &wanted, &mut self.columns).await
    }

    /// What losing a range does to each series, where `lost_before` is what it has lost already.
    pub(crate) fn fates(
        &self,
        range_ms: (i64, i64),
        lost_before: impl Fn(SeriesId) -> Vec<(i64, i64)>,
    ) -> Result<Vec<(u32, DeletionEffect)>> {
        let mut fates = Vec::with_capacity(self.series.len());
        for (id, records) in &self.series {
            let before = lost_before(SeriesId(*id));
            let (mut all, mut inside) = (0u64, 0u64);
            for record in records {
                for time in self.times(SeriesId(*id), record)? {
                    if !is_lost(&before, time) {
                        all += 1;
                        inside += u64::from(is_lost(&[range_ms], time));
                    }
                }
            }
            let fate = match inside {
                0 => DeletionEffect::Untouched,
                inside if inside == all => DeletionEffect::Erased,
                _ => DeletionEffect::Shortened,
            };
            fates.push((*id, fate));
        }
        Ok(fates)
    }

    /// Whether windows that begin in `windows_ms`, and were not lost before, stand for samples
    /// before and behind a range. Those that cannot be read may.
    pub(crate) fn reach_beyond(
        &self,
        range_ms: (i64, i64),
        windows_ms: (i64, i64),
        lost_before: impl Fn(SeriesId) -> Vec<(i64, i64)>,
    ) -> [bool; 2] {
        let mut reached = [false; 2];
        for (id, records) in &self.series {
            let id = SeriesId(*id);
            let before = lost_before(id);
            for record in records {
                let Ok(spans) = self.window_spans(id, record) else {
                    return [true; 2];
                };
                for (start_ms, first_ms, last_ms) in spans {
                    if is_lost(&[windows_ms], start_ms) && !is_lost(&before, start_ms) {
                        reached[0] |= first_ms < range_ms.0;
                        reached[1] |= last_ms > range_ms.1;
                    }
                }
            }
        }
        reached
    }

    /// The starts of the windows of a record, with the times of the first and the last sample that
    /// each stands for.
    fn window_spans(&self, id: SeriesId, record: &StoredRecord) -> Result<Vec<(i64, i64, i64)>> {
        match record.kind {
            RecordKind::Windows => {
                let windows = stored::windows(self.bucket, id, &record.value)?;
                let spans = windows.iter().filter_map(|window| {
                    let all = window.all()?;
                    Some((window.start_ms, all.first_ms, all.last_ms))
                });
                Ok(spans.collect())
            }
            RecordKind::HistogramWindows => {
                let windows = stored::histogram_windows(self.bucket, id, &record.value)?;
                let spans = windows.iter().filter_map(|window| {
                    let mut times = window.left().map(|(time_ms, _)| time_ms);
                    let first_ms = times.next()?;
                    Some((window.start_ms, first_ms, times.last().unwrap_or(first_ms)))
                });
                Ok(spans.collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The times at which a record has something to show.
    fn times(&self, id: SeriesId, record: &StoredRecord) -> Result<Vec<i64>> {
        match record.kind {
            RecordKind::Floats => self.floats(id, &record.value).map(|f| f.timestamps),
            RecordKind::Histograms => {
                let entries = stored::histograms(self.bucket, id, &record.value)?;
                let shown = entries.iter().filter(|entry| entry.value.is_some());
                Ok(shown.map(|entry| entry.timestamp_ms).collect())
            }
            RecordKind::Exemplars => {
                let exemplars = exemplar_series::decode(&record.value);
                let exemplars = exemplars.map_err(self.corrupt(id))?;
                Ok(exemplars.iter().map(|e| e.timestamp_ms).collect())
            }
            // A deletion takes whole windows: their starts stand for them.
            RecordKind::Windows => {
                let windows = stored::windows(self.bucket, id, &record.value)?;
                Ok(windows.iter().map(|window| window.start_ms).collect())
            }
            RecordKind::HistogramWindows => {
                let windows = stored::histogram_windows(self.bucket, id, &record.value)?;
                Ok(windows.iter().map(|window| window.start_ms).collect())
            }
            // They say something about samples.
            RecordKind::Starts | RecordKind::HistogramStarts => Ok(Vec::new()),
        }
    }

    /// The windows that do not begin in what was lost; `None` when those are all, and nothing to
    /// write when there is none.
    fn windows_without(
        &self,
        id: SeriesId,
        value: &Bytes,
        lost: &[(i64, i64)],
    ) -> Result<Option<Option<Bytes>>> {
        let windows = stored::windows(self.bucket, id, value)?;
        left_of(
            windows,
            |window| is_lost(lost, window.start_ms),
            |windows| {
                let record = RollupRecord::parse(self.bucket, value).map_err(self.corrupt(id))?;
                let (resolution, fields) = (record.resolution(), record.fields());
                encode::windows(self.bucket, id, resolution, fields, windows)
            },
        )
    }

    /// The same for windows of histograms.
    fn histogram_windows_without(
        &self,
        id: SeriesId,
        value: &Bytes,
        lost: &[(i64, i64)],
    ) -> Result<Option<Option<Bytes>>> {
        let windows = stored::histogram_windows(self.bucket, id, value)?;
        left_of(
            windows,
            |window| is_lost(lost, window.start_ms),
            |windows| {
                let record =
                    HistogramRecord::parse(self.bucket, value).map_err(self.corrupt(id))?;
                encode::histogram_windows(self.bucket, id, record.resolution(), windows)
            },
        )
    }

    fn floats(&self, id: SeriesId, value: &Bytes) -> Result<Floats> {
        stored::floats(self.bucket, id, value, &self.columns)
    }

    fn corrupt(&self, id: SeriesId) -> impl FnOnce(DecodeError) -> Error {
        Error::corrupt(format!("series {id} in bucket {}", self.bucket))
    }

    /// The records without what their series have lost; only those that are not as they were.
    pub(crate) fn without(
        &self,
        lost: impl Fn(SeriesId) -> Vec<(i64, i64)>,
    ) -> Result<(Rewrites, RemovedCounts)> {
        let (mut rewrites, mut removed) = (Rewrites::new(), RemovedCounts::default());
        for (id, records) in &self.series {
            let id = SeriesId(*id);
            let lost = lost(id);
            for record in records {
                if let Some((value, less)) = self.record_without(id, record, &lost)? {
                    rewrites.push((record.kind.key(self.bucket, id), value));
                    removed.add(less);
                }
            }
        }
        Ok((rewrites, removed))
    }

    /// All records are to go. Values that cannot be read go, too.
    pub(crate) fn nothing(&self) -> (Rewrites, RemovedCounts) {
        let (mut rewrites, mut removed) = (Rewrites::new(), RemovedCounts::default());
        for (id, records) in &self.series {
            let id = SeriesId(*id);
            for record in records {
                rewrites.push((record.kind.key(self.bucket, id), None));
                let count = match record.kind {
                    RecordKind::Floats => stored::float_count(self.bucket, id, &record.value),
                    _ => self.times(id, record).map(|times| times.len()),
                };
                let count = count.unwrap_or(0) as u64;
                match record.kind {
                    RecordKind::Floats => removed.floats += count,
                    RecordKind::Histograms => removed.histograms += count,
                    RecordKind::Exemplars => removed.exemplars += count,
                    // BucketMeta may count more samples than windows stand for.
                    RecordKind::Starts
                    | RecordKind::HistogramStarts
                    | RecordKind::Windows
                    | RecordKind::HistogramWindows => {}
                }
            }
        }
        (rewrites, removed)
    }

    fn record_without(
        &self,
        id: SeriesId,
        record: &StoredRecord,
        lost: &[(i64, i64)],
    ) -> Result<Option<(Option<Bytes>, RemovedCounts)>> {
        let value = &record.value;
        let mut removed = RemovedCounts::default();
        let left = match record.kind {
            RecordKind::Floats => {
                let mut floats = self.floats(id, value)?;
                removed.floats = drop_lost(&mut floats, lost);
                if removed.floats == 0 {
                    return Ok(None);
                }
                self.encode_floats(id, &floats)?
            }
            RecordKind::Histograms => {
                let mut entries = stored::histograms(self.bucket, id, value)?;
                let (all, shown) = (entries.len(), count_shown(&entries));
                entries.retain(|entry| !is_lost(lost, entry.timestamp_ms));
                if entries.len() == all {
                    return Ok(None);
                }
                removed.histograms = shown - count_shown(&entries);
                self.encode_histograms(id, entries)?
            }
            RecordKind::Starts | RecordKind::HistogramStarts => {
                let starts = start_timestamps::decode(value);
                let mut starts = starts.map_err(self.corrupt(id))?;
                let all = starts.len();
                starts.retain(|(time, _)| !is_lost(lost, *time));
                if starts.len() == all {
                    return Ok(None);
                }
                match &starts[..] {
                    [] => None,
                    starts => Some(encode::starts(self.bucket, id, starts)?),
                }
            }
            RecordKind::Windows => match self.windows_without(id, value, lost)? {
                Some(left) => left,
                None => return Ok(None),
            },
            RecordKind::HistogramWindows => {
                match self.histogram_windows_without(id, value, lost)? {
                    Some(left) => left,
                    None => return Ok(None),
                }
            }
            RecordKind::Exemplars => {
                let exemplars = exemplar_series::decode(value);
                let mut exemplars = exemplars.map_err(self.corrupt(id))?;
                let all = exemplars.len();
                exemplars.retain(|exemplar| !is_lost(lost, exemplar.timestamp_ms));
                removed.exemplars = (all - exemplars.len()) as u64;
                if removed.exemplars == 0 {
                    return Ok(None);
                }
                match &exemplars[..] {
                    [] => None,
                    exemplars => Some(encode::exemplars(self.bucket, id, exemplars)?),
                }
            }
        };
        Ok(Some((left, removed)))
    }

    fn encode_floats(&self, id: SeriesId, floats: &Floats) -> Result<Option<Bytes>> {
        if floats.is_empty() {
            return Ok(None);
        }
        let times = Times::Own(&floats.timestamps);
        encode::floats(self.bucket, id, floats, times, &self.columns).map(Some)
    }

    fn encode_histograms(
        &self,
        id: SeriesId,
        mut entries: Vec<icecore_records::HistogramEntry>,
    ) -> Result<Option<Bytes>> {
        if self.bucket.size > BucketSize::HOUR {
            // "None here" was said to older parts, and there are none any more.
            entries.retain(|entry| entry.value.is_some());
        }
        if entries.is_empty() {
            return Ok(None);
        }
        encode::histograms(self.bucket, id, &entries).map(Some)
    }
}

/// What is left of windows, encoded; `None` when that is all, and nothing to write when there is
/// none.
fn left_of<W>(
    mut windows: Vec<W>,
    is_lost: impl Fn(&W) -> bool,
    encode: impl FnOnce(&[W]) -> Result<Bytes>,
) -> Result<Option<Option<Bytes>>> {
    let all = windows.len();
    windows.retain(|window| !is_lost(window));
    match windows.len() {
        left if left == all => Ok(None),
        0 => Ok(Some(None)),
        _ => Ok(Some(Some(encode(&windows)?))),
    }
}

fn count_shown(entries: &[icecore_records::HistogramEntry]) -> u64 {
    entries.iter().filter(|e| e.value.is_some()).count() as u64
}
