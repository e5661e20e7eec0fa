//! One request on its way into the head: labels become references while the request is decoded.
//!
//! Holds always:
//! - Decoding takes no lock that another request needs for longer than a table lookup.
//! - What is refused is counted with its reason; the rest of the request goes on.
//! - Floats are kept as columns in request order; nothing is allocated per sample.
//! - What is refused of one point of the sender counts once, also when it is found out at the
//!   append.

use icecore_model::{
    BucketSize, BucketStart, CatalogChange, Exemplar, HOUR_MS, Histogram, Labels, MAX_TIMESTAMP_MS,
    METRIC_NAME, Metadata, RawLabels, RefusedPoint, Rejection, Sample, SampleSink, is_stale_nan,
    push_raw_label,
};
use icecore_records::{forward_index, journal, key};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::Head;
use super::cursor::HourCounts;
use super::floor::TimeFloor;
use super::registry::{LabelHash, SeriesRef};
use crate::ingest::EVENT_RECORD_KINDS;
use crate::options::Limits;

/// Bytes of an escaped label name plus value that fit into a key, whatever the configuration says.
const PAIR_BYTES_MAX: usize = 32 << 10;

/// Bytes of labels, exemplar labels and metadata that one request may spell out. Protocols with a
/// table of symbols repeat a long text in two bytes, so the size of the request is no bound.
const TEXT_BYTES_MAX: usize = 128 << 20;

/// Bytes that samples and histograms of one request may take in its journal block, before
/// compression. Together with text and running totals this stays below what a block may have.
const SAMPLE_BYTES_MAX: usize = 1 << 30;

/// Bytes that the running totals of histograms may take there: a point of one bucket becomes a
/// total of hundreds, so the size of the request is no bound either.
pub(super) const TOTAL_BYTES_MAX: usize = 512 << 20;

// Text has up to four bytes of lengths for a byte of label.
const _: () =
    assert!(SAMPLE_BYTES_MAX + TOTAL_BYTES_MAX + 3 * TEXT_BYTES_MAX <= journal::MAX_BLOCK_BYTES);

/// Bytes of a float and its start in the journal, at most.
const JOURNAL_FLOAT_BYTES: usize = 30 + 25;

/// Bytes of a record of the catalog.
const CATALOG_KEY_BYTES_MAX: usize = 32 << 10;
const CATALOG_VALUE_BYTES_MAX: usize = 4 << 20;

/// Different reasons that one answer spells out; further ones are only counted.
const REASONS_MAX: usize = 8;

/// Refused points that an outcome names; further ones are only counted.
const REFUSED_POINTS_MAX: usize = 1024;

/// Marks a reference in the columns that stands for a new series of this request.
const NEW: u32 = 1 << 31;

/// The buffers of a batch, reused from request to request.
#[derive(Default)]
pub(crate) struct BatchBuffers {
    pub(super) refs: Vec<u32>,
    pub(super) timestamps: Vec<i64>,
    pub(super) values: Vec<f64>,
    /// `(index into the columns, start timestamp)`.
    pub(super) starts: Vec<(u32, i64)>,
    pub(super) histograms: Vec<PendingHistogram>,
    /// Changes, which become totals at the append.
    pub(super) deltas: Vec<PendingDelta>,
    pub(super) delta_histograms: Vec<PendingHistogram>,
    /// How many of the last floats and histograms are totals.
    pub(super) total_floats: usize,
    pub(super) total_histograms: usize,
    pub(super) exemplars: Vec<(u32, Exemplar)>,
    pub(super) metadata: Vec<(String, Metadata)>,
    pub(super) catalog: Vec<CatalogChange>,
    pub(super) new_series: Vec<NewSeries>,
    /// Why some of them were refused, if any were.
    pub(super) series_refusal: Option<String>,
    /// Canonical label bytes of the new series.
    pub(super) label_bytes: Vec<u8>,
    new_by_hash: HashMap<LabelHash, u32>,
    hours: HourCounts,
    /// What was too old when the request was decoded, and the hours, with the classes of series, of
    /// which it has samples although some are.
    floor: Arc<TimeFloor>,
    hours_of_classes: BTreeSet<(BucketStart, usize)>,
    rejections: Vec<Rejection>,
    /// Where the points of the sender begin, if it is told, by [`Column`].
    points: Vec<[u32; 5]>,
    refused_points: HashSet<u32>,
    /// The first of them, with their reasons.
    refusals: Vec<RefusedPoint>,
}

/// What a point of the sender may have entries in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Column {
    Floats,
    Histograms,
    Exemplars,
    Deltas,
    DeltaHistograms,
}

pub(super) struct PendingDelta {
    pub(super) series: u32,
    pub(super) timestamp_ms: i64,
    pub(super) start_ms: i64,
    pub(super) value: f64,
}

pub(super) struct PendingHistogram {
    pub(super) series: u32,
    pub(super) timestamp_ms: i64,
    pub(super) start_ms: i64,
    pub(super) histogram: Histogram,
}

pub(super) struct NewSeries {
    pub(super) hash: LabelHash,
    /// How the client wrote it, where that is not the canonical form.
    pub(super) alias: Option<LabelHash>,
    pub(super) bytes: std::ops::Range<usize>,
}

impl BatchBuffers {
    pub(super) fn clear(&mut self) {
        self.refs.clear();
        self.timestamps.clear();
        self.values.clear();
        self.starts.clear();
        self.histograms.clear();
        self.deltas.clear();
        self.delta_histograms.clear();
        self.total_floats = 0;
        self.total_histograms = 0;
        self.exemplars.clear();
        self.metadata.clear();
        self.catalog.clear();
        self.new_series.clear();
        self.series_refusal = None;
        self.label_bytes.clear();
        self.new_by_hash.clear();
        self.hours.clear();
        self.hours_of_classes.clear();
        self.rejections.clear();
        self.points.clear();
        self.refused_points.clear();
        self.refusals.clear();
    }

    /// Whether the journal can hold the samples in one block.
    pub(crate) fn fits_a_block(&self) -> bool {
        let floats = (self.refs.len() + self.deltas.len()) * JOURNAL_FLOAT_BYTES;
        let histograms = self.histograms.iter();
        let histograms = histograms.map(|pending| journal_bytes(&pending.histogram));
        floats + histograms.sum::<usize>() <= SAMPLE_BYTES_MAX
    }

    /// Samples, histograms and exemplars.
    pub(crate) fn len(&self) -> usize {
        let deltas = self.deltas.len() + self.delta_histograms.len();
        self.refs.len() + self.histograms.len() + self.exemplars.len() + deltas
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0 && self.metadata.is_empty() && self.catalog.is_empty()
    }

    /// Hours that the request touches, each once.
    pub(crate) fn hours(&self) -> impl ExactSizeIterator<Item = BucketStart> {
        self.hours.hours()
    }

    /// Whether something became too old since it was decoded.
    pub(super) fn is_below(&self, floor: &Arc<TimeFloor>) -> bool {
        let is_same = Arc::ptr_eq(floor, &self.floor);
        !is_same && floor.rose(&self.floor, self.hours(), &self.hours_of_classes)
    }

    pub(crate) fn take_rejections(&mut self) -> Vec<Rejection> {
        std::mem::take(&mut self.rejections)
    }

    pub(crate) fn take_refused_points(&mut self) -> Vec<RefusedPoint> {
        std::mem::take(&mut self.refusals)
    }

    pub(super) fn reject(&mut self, reason: String, retryable: bool) {
        self.count_refusal(reason, retryable);
    }

    /// Counts a refusal, and returns the index of its reason.
    fn count_refusal(&mut self, reason: String, retryable: bool) -> usize {
        if let Some(at) = self.rejections.iter().position(|r| r.reason == reason) {
            self.rejections[at].count += 1;
            at
        } else if self.rejections.len() < REASONS_MAX {
            self.rejections.push(Rejection {
                reason,
                count: 1,
                retryable,
            });
            self.rejections.len() - 1
        } else {
            let last = &mut self.rejections[REASONS_MAX - 1];
            last.count += 1;
            last.retryable |= retryable;
            REASONS_MAX - 1
        }
    }

    /// Counts a refusal of a point of the sender, if it told points apart, unless something of the
    /// point has been refused already.
    fn reject_point(&mut self, point: Option<u32>, reason: impl Into<String>, retryable: bool) {
        if point.is_some_and(|point| !self.refused_points.insert(point)) {
            return;
        }
        let reason = self.count_refusal(reason.into(), retryable) as u32;
        if let Some(point) = point
            && self.refusals.len() < REFUSED_POINTS_MAX
        {
            self.refusals.push(RefusedPoint { point, reason });
        }
    }

    /// The point of the sender that an entry belongs to, if it told them apart.
    pub(super) fn point_of(&self, column: Column, at: usize) -> Option<u32> {
        let column = column as usize;
        let behind = self
            .points
            .partition_point(|begins| begins[column] as usize <= at);
        behind.checked_sub(1).map(|point| point as u32)
    }

    /// Counts the refusal of an entry, unless something of its point has been refused already.
    pub(super) fn reject_entry(
        &mut self,
        column: Column,
        at: usize,
        reason: &str,
        retryable: bool,
    ) {
        let point = self.point_of(column, at);
        self.reject_point(point, reason, retryable);
    }

    /// The same for what is being decoded.
    fn reject_now(&mut self, reason: String) {
        let point = self.points.len().checked_sub(1);
        self.reject_point(point.map(|point| point as u32), reason, false);
    }

    /// Refuses entries of a column that are about to be taken out of it, given in order.
    pub(super) fn reject_entries(&mut self, column: Column, removed: &[usize], reason: &str) {
        for at in removed {
            self.reject_entry(column, *at, reason, true);
        }
        for begins in &mut self.points {
            let begin = &mut begins[column as usize];
            *begin -= removed.partition_point(|at| *at < *begin as usize) as u32;
        }
    }

    fn begin_point(&mut self) {
        let begins = [
            self.refs.len(),
            self.histograms.len(),
            self.exemplars.len(),
            self.deltas.len(),
            self.delta_histograms.len(),
        ];
        self.points.push(begins.map(|len| len as u32));
    }

    pub(super) fn is_new(series: u32) -> Option<usize> {
        (series & NEW != 0).then_some((series & !NEW) as usize)
    }
}

/// A request being decoded. Made by [`Database::write`](crate::Database::write).
pub struct WriteBatch<'h> {
    head: &'h Head,
    buffers: &'h mut BatchBuffers,
    current: Current,
    last: Option<SeriesRef>,
    /// The hour touched last, as `[start, end)` in ms.
    hour_ms: (i64, i64),
    /// Whether it takes samples of some series only.
    hour_is_of_class: bool,
    /// The class of the current series, once it is known.
    class: Option<usize>,
    latest_ms: i64,
    /// What is left of [`TEXT_BYTES_MAX`].
    text_bytes_left: usize,
}

enum Current {
    Series(u32),
    Refused(String),
}

impl<'h> WriteBatch<'h> {
    /// `now_ms` is the machine's clock: timestamps too far ahead of it are refused.
    pub(crate) fn new(head: &'h Head, buffers: &'h mut BatchBuffers, now_ms: i64) -> Self {
        buffers.clear();
        buffers.floor = head.floor();
        let ahead = i64::try_from(head.limits.future_max.as_millis()).unwrap_or(MAX_TIMESTAMP_MS);
        Self {
            head,
            buffers,
            current: Current::Refused("sample before any series".into()),
            last: None,
            hour_ms: (0, 0),
            hour_is_of_class: false,
            class: None,
            latest_ms: now_ms.saturating_add(ahead).min(MAX_TIMESTAMP_MS - 1),
            text_bytes_left: TEXT_BYTES_MAX,
        }
    }

    /// Takes text off the budget; an error when it is used up.
    #[inline]
    fn spend(&mut self, bytes: usize) -> Result<(), String> {
        match self.text_bytes_left.checked_sub(bytes) {
            Some(left) => {
                self.text_bytes_left = left;
                Ok(())
            }
            None => Err(format!(
                "more than {TEXT_BYTES_MAX} bytes of labels and metadata in one request: split it"
            )),
        }
    }

    fn announce(&mut self, series: SeriesRef) {
        self.begin(Current::Series(series.0));
        self.last = Some(series);
    }

    #[inline]
    fn begin(&mut self, current: Current) {
        self.current = current;
        self.class = None;
        if self.hour_is_of_class {
            self.hour_ms = (0, 0);
        }
    }

    /// Checks a timestamp of a series, which is the current one, and notes its hour.
    #[inline]
    fn accept_time(&mut self, series: u32, timestamp_ms: i64) -> bool {
        if timestamp_ms >= self.hour_ms.0 && timestamp_ms < self.hour_ms.1 {
            return true;
        }
        self.accept_new_hour(series, timestamp_ms)
    }

    fn accept_new_hour(&mut self, series: u32, timestamp_ms: i64) -> bool {
        let Some(hour) = BucketSize::HOUR.bucket_of(timestamp_ms) else {
            self.refuse(format!(
                "timestamp {timestamp_ms} ms is outside of what can be stored"
            ));
            return false;
        };
        if timestamp_ms > self.latest_ms {
            let limit = self.head.limits.future_max;
            self.refuse(format!(
                "timestamp is more than {limit:?} ahead of the server's clock (limits.future_max)"
            ));
            return false;
        }
        let of_class = self.buffers.floor.refuses_some(hour);
        let class = of_class.then(|| self.class_of(series));
        if class.is_some_and(|class| self.buffers.floor.refuses(hour, class)) {
            self.refuse(TOO_OLD.into());
            return false;
        }
        if self.head.is_closed(hour) {
            self.refuse(
                "sample of an hour that cannot be flushed and takes no more: the status of maintenance says why"
                    .into(),
            );
            return false;
        }
        // The cached range never reaches past the limit, so the fast path needs no second check.
        self.hour_ms = (
            hour.start_ms(),
            (hour.start_ms() + HOUR_MS).min(self.latest_ms + 1),
        );
        self.hour_is_of_class = of_class;
        let of_class = class.map(|class| (hour, class));
        self.buffers.hours_of_classes.extend(of_class);
        self.buffers.hours.touch(hour);
        true
    }

    /// The class of a series, which is the current one: how long it is kept.
    fn class_of(&mut self, series: u32) -> usize {
        let floor = &self.buffers.floor;
        if !floor.has_classes() {
            return 0;
        }
        if let Some(class) = self.class {
            return class;
        }
        let labels = match BatchBuffers::is_new(series) {
            Some(new) => {
                let bytes = self.buffers.new_series[new].bytes.clone();
                let mut pairs = Vec::with_capacity(16);
                RawLabels(&self.buffers.label_bytes[bytes])
                    .parse(&mut pairs)
                    .expect("canonical label bytes were built from checked labels");
                Labels::from_sorted(pairs.into_iter())
            }
            None => self.head.index().labels(SeriesRef(series)),
        };
        let class = floor.class_of(&labels);
        self.class = Some(class);
        class
    }

    fn refuse(&mut self, reason: String) {
        self.buffers.reject_now(reason);
    }

    /// The series that samples now belong to, or `None` after counting the refusal.
    #[inline]
    fn current(&mut self) -> Option<u32> {
        match &self.current {
            Current::Series(series) => Some(*series),
            Current::Refused(reason) => {
                let reason = reason.clone();
                self.refuse(reason);
                None
            }
        }
    }

    /// A series that no table knows under these bytes: parse, check, and look once more.
    fn unknown_series(&mut self, raw: RawLabels<'_>, raw_hash: LabelHash) -> Result<u32, String> {
        let mut pairs = Vec::new();
        raw.parse(&mut pairs).map_err(|e| e.to_string())?;
        canonicalise(&mut pairs)?;
        check_limits(&self.head.limits, &pairs)?;
        let start = self.buffers.label_bytes.len();
        for (name, value) in &pairs {
            push_raw_label(&mut self.buffers.label_bytes, name, value);
        }
        let bytes = start..self.buffers.label_bytes.len();
        let hash = self
            .head
            .registry
            .hash(&self.buffers.label_bytes[bytes.clone()]);
        let alias = (hash != raw_hash).then_some(raw_hash);
        if alias.is_some() {
            if let Some(series) = self.head.registry.lookup(hash) {
                self.head.registry.insert_alias(series, raw_hash);
                self.buffers.label_bytes.truncate(start);
                self.last = Some(series);
                return Ok(series.0);
            }
            if let Some(new) = self.buffers.new_by_hash.get(&hash).copied() {
                self.buffers.label_bytes.truncate(start);
                return Ok(new);
            }
        }
        let new = NEW | self.buffers.new_series.len() as u32;
        self.buffers
            .new_series
            .push(NewSeries { hash, alias, bytes });
        self.buffers.new_by_hash.insert(hash, new);
        Ok(new)
    }
}

impl SampleSink for WriteBatch<'_> {
    #[inline]
    fn guess_series(&mut self, bytes: &[u8]) -> Option<usize> {
        let (series, length) = self.head.registry.guess(self.last, bytes)?;
        self.announce(series);
        if let Err(reason) = self.spend(length) {
            self.begin(Current::Refused(reason));
        }
        Some(length)
    }

    fn series(&mut self, labels: RawLabels<'_>) {
        if let Err(reason) = self.spend(labels.0.len()) {
            return self.begin(Current::Refused(reason));
        }
        let hash = self.head.registry.hash(labels.0);
        if let Some(series) = self.head.registry.lookup(hash) {
            if let Some(last) = self.last {
                self.head.registry.link(last, series);
            }
            return self.announce(series);
        }
        let current = match self.buffers.new_by_hash.get(&hash) {
            Some(new) => Current::Series(*new),
            None => match self.unknown_series(labels, hash) {
                Ok(series) => Current::Series(series),
                Err(reason) => Current::Refused(reason),
            },
        };
        self.begin(current);
    }

    #[inline]
    fn sample(&mut self, sample: Sample) {
        let Some(series) = self.current() else { return };
        if !self.accept_time(series, sample.timestamp_ms) {
            return;
        }
        if sample.start_timestamp_ms != 0 {
            self.buffers
                .starts
                .push((self.buffers.refs.len() as u32, sample.start_timestamp_ms));
        }
        self.buffers.refs.push(series);
        self.buffers.timestamps.push(sample.timestamp_ms);
        self.buffers.values.push(sample.value);
    }

    fn histogram(&mut self, timestamp_ms: i64, start_ms: i64, histogram: Histogram) {
        let Some(series) = self.current() else { return };
        if self.accept_time(series, timestamp_ms) {
            let pending = PendingHistogram {
                series,
                timestamp_ms,
                start_ms,
                histogram,
            };
            self.buffers.histograms.push(pending);
        }
    }

    fn delta(&mut self, change: Sample) {
        // "No value" ends a series, it does not change its total.
        if is_stale_nan(change.value) {
            return self.sample(Sample {
                start_timestamp_ms: 0,
                ..change
            });
        }
        let Some(series) = self.current() else { return };
        if change.value.is_nan() {
            return self.refuse("delta point whose value is not a number".into());
        }
        if self.accept_time(series, change.timestamp_ms) {
            self.buffers.deltas.push(PendingDelta {
                series,
                timestamp_ms: change.timestamp_ms,
                start_ms: change.start_timestamp_ms,
                value: change.value,
            });
        }
    }

    fn delta_histogram(&mut self, timestamp_ms: i64, start_ms: i64, histogram: Histogram) {
        if histogram.is_stale() {
            return self.histogram(timestamp_ms, 0, histogram);
        }
        let Some(series) = self.current() else { return };
        if self.accept_time(series, timestamp_ms) {
            self.buffers.delta_histograms.push(PendingHistogram {
                series,
                timestamp_ms,
                start_ms,
                histogram,
            });
        }
    }

    fn catalog(&mut self, change: CatalogChange) {
        let value_bytes = change.value.as_ref().map_or(0, Vec::len);
        let kind = change.key.first();
        let is_of_events = kind.is_some_and(|kind| EVENT_RECORD_KINDS.contains(kind));
        if is_of_events || key::catalog_record(&change.key).is_none() {
            return self.refuse("a catalog record whose key is not its writer's".into());
        }
        if change.key.len() > CATALOG_KEY_BYTES_MAX || value_bytes > CATALOG_VALUE_BYTES_MAX {
            return self.refuse(format!(
                "a catalog record with a key of more than {CATALOG_KEY_BYTES_MAX} bytes, \
                 or more than {CATALOG_VALUE_BYTES_MAX}"
            ));
        }
        match self.spend(change.key.len() + value_bytes) {
            Ok(()) => self.buffers.catalog.push(change),
            Err(reason) => self.refuse(reason),
        }
    }

    fn point(&mut self) {
        self.buffers.begin_point();
    }

    fn exemplar(&mut self, exemplar: Exemplar) {
        let Some(series) = self.current() else { return };
        let allowed = check_exemplar(&self.head.limits, &exemplar);
        if let Err(reason) = allowed.and_then(|bytes| self.spend(bytes)) {
            return self.refuse(reason);
        }
        if self.accept_time(series, exemplar.timestamp_ms) {
            self.buffers.exemplars.push((series, exemplar));
        }
    }

    fn metadata(&mut self, family: &str, mut metadata: Metadata) {
        let limits = &self.head.limits;
        if family.is_empty() || family.len() > limits.label_value_bytes_max.min(PAIR_BYTES_MAX) {
            let reason = "metadata for a metric whose name is empty or too long";
            return self.buffers.reject(reason.into(), false);
        }
        truncate(&mut metadata.help, limits.help_bytes_max);
        truncate(
            &mut metadata.unit,
            limits.label_value_bytes_max.min(PAIR_BYTES_MAX),
        );
        let bytes = family.len() + metadata.help.len() + metadata.unit.len();
        if let Err(reason) = self.spend(bytes) {
            return self.buffers.reject(reason, false);
        }
        self.buffers.metadata.push((family.into(), metadata));
    }

    fn reject(&mut self, reason: String) {
        self.refuse(reason);
    }
}

/// Why a sample is refused whose time takes no samples any more.
pub(crate) const TOO_OLD: &str =
    "too old sample: what was stored at its time has been rolled up or culled (retention)";

/// Bytes of a histogram, with its start, in the journal, at most.
pub(super) fn journal_bytes(histogram: &Histogram) -> usize {
    let (positive, negative) = histogram.counts.bucket_counts();
    let spans = histogram.positive_spans.len() + histogram.negative_spans.len();
    128 + 10 * (positive + negative) + 10 * spans + 8 * histogram.custom_bounds.len()
}

/// Sorts, drops empty values, and refuses names that are empty or occur twice.
fn canonicalise(pairs: &mut Vec<(&str, &str)>) -> Result<(), String> {
    if pairs.iter().any(|(name, _)| name.is_empty()) {
        return Err("label with an empty name".into());
    }
    if !pairs.is_sorted_by(|a, b| a.0 < b.0) {
        pairs.sort_unstable();
        if let Some(twice) = pairs.windows(2).find(|two| two[0].0 == two[1].0) {
            return Err(format!("label {:?} occurs twice", twice[0].0));
        }
    }
    pairs.retain(|(_, value)| !value.is_empty());
    if pairs.iter().any(|(name, _)| *name == METRIC_NAME) {
        Ok(())
    } else {
        Err("series without a metric name (label __name__)".into())
    }
}

fn check_limits(limits: &Limits, pairs: &[(&str, &str)]) -> Result<(), String> {
    let metric = pairs
        .iter()
        .find(|(name, _)| *name == METRIC_NAME)
        .map_or("", |pair| pair.1);
    let metric = cut(metric);
    let max = limits.labels_per_series_max.min(forward_index::MAX_LABELS);
    if pairs.len() > max {
        let n = pairs.len();
        return Err(format!(
            "{metric}: {n} labels, more than limits.labels_per_series_max = {max}"
        ));
    }
    for (name, value) in pairs {
        let (shown, max) = (cut(name), limits.label_name_bytes_max);
        if name.len() > max {
            let n = name.len();
            return Err(format!(
                "{metric}: label name {shown} of {n} bytes, more than limits.label_name_bytes_max = {max}"
            ));
        }
        let max = limits.label_value_bytes_max;
        if value.len() > max {
            let n = value.len();
            return Err(format!(
                "{metric}: value of label {shown} has {n} bytes, more than limits.label_value_bytes_max = {max}"
            ));
        }
        // Escaping doubles a byte at worst; u16 lengths in the forward index hold either.
        if 2 * name.len() + 1 + value.len() > PAIR_BYTES_MAX {
            return Err(format!(
                "{metric}: label {shown} and its value exceed {PAIR_BYTES_MAX} bytes"
            ));
        }
    }
    Ok(())
}

/// The bytes of an exemplar's labels, if it may have so many.
fn check_exemplar(limits: &Limits, exemplar: &Exemplar) -> Result<usize, String> {
    let bytes: usize = exemplar.labels.iter().map(|(n, v)| n.len() + v.len()).sum();
    let max = limits.label_value_bytes_max.min(PAIR_BYTES_MAX);
    if bytes > max {
        return Err(format!(
            "exemplar with {bytes} bytes of labels, more than {max}"
        ));
    }
    Ok(bytes)
}

/// The beginning of a text, for messages.
fn cut(text: &str) -> &str {
    let end = text.char_indices().nth(64).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

fn truncate(text: &mut String, max: usize) {
    if text.len() > max {
        let end = (0..=max)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        text.truncate(end);
    }
}
