//! One record for people: what its key names, the main facts of its value, and on demand all of it.

mod coarse;
mod events;
mod windows;

use bytes::Bytes;
use icecore_model::{BucketSize, Histogram, HistogramCounts, NumberForm};
use icecore_records::delta_totals::{self, TotalValue};
use icecore_records::epoch_summary::FlushUnit;
use icecore_records::journal::{self, Section};
use icecore_records::{
    Bucket, DecodeError, ParsedKey, RecordType, Temporality, bucket_list, bucket_meta,
    epoch_summary, event_identity, exemplar_series, flush_cursor, forward_index, gorilla,
    inverted_index, merge, metadata, restore_mark, series_dictionary, start_timestamps, watermark,
};

pub(super) use coarse::phase_name;

/// A record, taken apart.
#[derive(Clone, Debug)]
pub struct RecordView {
    pub key: Vec<u8>,
    pub value: Bytes,
    /// `None` for key versions and types that this program does not know.
    pub record_type: Option<RecordType>,
    pub bucket: Option<Bucket>,
    /// What the key names, for example `TimeSeries 1h@28333320 series 713`.
    pub name: String,
    /// The main facts of the value, in the order in which people want them.
    pub facts: Vec<(&'static str, Fact)>,
    /// Everything in the value, a line each; only where it was asked for.
    pub details: Vec<String>,
    /// Why key or value cannot be read.
    pub problem: Option<String>,
}

/// One fact about a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    Count(u64),
    Number(f64),
    /// Milliseconds since the UNIX epoch.
    Time(i64),
    /// A series as PromQL writes it.
    Series(String),
    Text(String),
}

impl From<String> for Fact {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<usize> for Fact {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<u64> for Fact {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<u32> for Fact {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

/// Takes a record apart; `details` says whether to list all that is in it.
pub(super) fn describe(key: &[u8], value: &Bytes, details: bool) -> RecordView {
    let parsed = ParsedKey::parse(key);
    let mut view = RecordView {
        key: key.to_vec(),
        value: value.clone(),
        record_type: record_type(key),
        bucket: parsed.as_ref().ok().and_then(bucket_of),
        name: parsed
            .as_ref()
            .map_or_else(|_| "broken key".into(), ParsedKey::to_string),
        facts: Vec::new(),
        details: Vec::new(),
        problem: None,
    };
    let mut reading = Reading {
        view: &mut view,
        details,
    };
    let read = parsed.and_then(|parsed| reading.value(&parsed, value));
    if let Err(cause) = read {
        view.problem = Some(cause.to_string());
        if let Some(parts) = merge::unmerged_parts(value) {
            view.fact("parts", parts.len());
            // In a coarse bucket parts are not merged, and the problem names the first that is
            // broken.
            if cause.is_unmerged() {
                let (_, unreadable) = merge::readable(key, value);
                view.fact("unreadable_parts", unreadable);
            }
        }
    }
    view
}

/// The type that a key claims to be of.
fn record_type(key: &[u8]) -> Option<RecordType> {
    match key {
        [icecore_records::key::VERSION, tag, ..] => RecordType::from_number(tag >> 4),
        _ => None,
    }
}

pub(super) fn bucket_of(key: &ParsedKey) -> Option<Bucket> {
    match key {
        ParsedKey::SeriesDictionary { bucket, .. }
        | ParsedKey::ForwardIndex { bucket, .. }
        | ParsedKey::InvertedIndex { bucket, .. }
        | ParsedKey::TimeSeries { bucket, .. }
        | ParsedKey::TimeSeriesStarts { bucket, .. }
        | ParsedKey::RollupSeries { bucket, .. }
        | ParsedKey::RollupHistograms { bucket, .. }
        | ParsedKey::BucketMeta { bucket }
        | ParsedKey::HistogramSeries { bucket, .. }
        | ParsedKey::HistogramSeriesStarts { bucket, .. }
        | ParsedKey::ExemplarSeries { bucket, .. }
        | ParsedKey::TimeColumn { bucket, .. }
        | ParsedKey::RetiredBucket { bucket }
        | ParsedKey::Tombstones { bucket }
        | ParsedKey::FlushCursor { bucket } => Some(*bucket),
        _ => None,
    }
}

impl RecordView {
    fn fact(&mut self, name: &'static str, fact: impl Into<Fact>) {
        self.facts.push((name, fact.into()));
    }

    /// First and last time of something sorted by time.
    fn range(&mut self, first: Option<i64>, last: Option<i64>) {
        if let (Some(first), Some(last)) = (first, last) {
            self.fact("first", Fact::Time(first));
            self.fact("last", Fact::Time(last));
        }
    }
}

struct Reading<'v> {
    view: &'v mut RecordView,
    details: bool,
}

impl Reading<'_> {
    fn value(&mut self, key: &ParsedKey, value: &Bytes) -> Result<(), DecodeError> {
        match key {
            ParsedKey::BucketList => {
                let buckets = bucket_list::decode(value)?;
                self.view.fact("buckets", buckets.len());
                self.lines(buckets.iter());
            }
            ParsedKey::SeriesDictionary { .. } => {
                let ids = series_dictionary::decode(value)?;
                let text: Vec<String> = ids.iter().map(ToString::to_string).collect();
                self.view.fact("series", text.join(","));
            }
            ParsedKey::ForwardIndex { .. } => self.forward(value)?,
            ParsedKey::InvertedIndex { .. } => {
                let ids = inverted_index::decode(value)?;
                self.view.fact("series", ids.len());
                self.view.fact("first", ids.min().unwrap_or_default());
                self.view.fact("last", ids.max().unwrap_or_default());
                self.lines(ids.iter());
            }
            ParsedKey::TimeSeries { bucket, .. } if bucket.size == BucketSize::HOUR => {
                self.floats(value)?;
            }
            ParsedKey::TimeSeries { bucket, .. } => self.coarse_floats(*bucket, value)?,
            ParsedKey::TimeSeriesStarts { .. } | ParsedKey::HistogramSeriesStarts { .. } => {
                let starts = start_timestamps::decode(value)?;
                self.view.fact("starts", starts.len());
                let (first, last) = (starts.first(), starts.last());
                self.view.range(first.map(|s| s.0), last.map(|s| s.0));
                self.lines(
                    starts
                        .iter()
                        .map(|(time, start)| format!("{time} {}", start_text(*start))),
                );
            }
            ParsedKey::BucketMeta { .. } => self.meta(value)?,
            ParsedKey::TimeColumn { bucket, .. } => self.time_column(*bucket, value)?,
            ParsedKey::HistogramSeries { bucket, .. } => {
                self.histograms(value, bucket.size == BucketSize::HOUR)?;
            }
            ParsedKey::ExemplarSeries { .. } => {
                let found = exemplar_series::decode(value)?;
                self.view.fact("exemplars", found.len());
                let (first, last) = (found.first(), found.last());
                self.view
                    .range(first.map(|e| e.timestamp_ms), last.map(|e| e.timestamp_ms));
                self.lines(
                    found
                        .iter()
                        .map(|e| format!("{} {} {}", e.timestamp_ms, e.value, e.labels)),
                );
            }
            ParsedKey::Journal { seq, .. } => self.journal(*seq, value)?,
            ParsedKey::FlushCursor { .. }
            | ParsedKey::CatalogCursor
            | ParsedKey::DeltaTotalsCursor
            | ParsedKey::EventsSealed => {
                self.view.fact("sequence", flush_cursor::decode(value)?);
            }
            ParsedKey::JournalWatermark => {
                let mark = watermark::decode(value)?;
                self.view.fact("next_sequence", mark.next_seq);
                self.view.fact("next_epoch", mark.next_epoch);
            }
            ParsedKey::CatalogRecord { .. } => {
                self.view.fact("bytes", value.len());
                self.view
                    .fact("text", String::from_utf8_lossy(value).into_owned());
            }
            ParsedKey::MetricMetadata { .. } => {
                let found = metadata::decode(value)?;
                self.view.fact("type", found.metric_type.to_string());
                if found.temporality != icecore_model::Temporality::Unspecified {
                    self.view
                        .fact("temporality", format!("{:?}", found.temporality));
                    self.view.fact("monotonic", found.monotonic.to_string());
                }
                self.view.fact("unit", found.unit);
                self.view.fact("help", found.help);
            }
            ParsedKey::DeltaTotals { .. } => self.totals(value)?,
            ParsedKey::MaintenanceJob => self.job(value)?,
            ParsedKey::RetiredBucket { .. } => self.retired(value)?,
            ParsedKey::Tombstones { .. } => self.tombstones(value)?,
            ParsedKey::RestoreMark => {
                let mark = restore_mark::decode(value)?;
                self.view.fact("snapshot", mark.snapshot);
                self.view.fact("records", mark.records);
                self.view.fact("bytes", mark.bytes);
            }
            ParsedKey::EventMark => self.event_mark(value)?,
            ParsedKey::EventCell(_) => self.event_cell(value)?,
            ParsedKey::EventIdentity(_) => {
                self.view.fact("sequence", event_identity::decode(value)?);
            }
            ParsedKey::EpochSummary { .. } => self.epoch_summary(value)?,
            ParsedKey::RollupSeries { bucket, .. } => self.windows(*bucket, value)?,
            ParsedKey::RollupHistograms { bucket, .. } => {
                self.histogram_windows(*bucket, value)?;
            }
            // Not known to this program: shown as bytes.
            ParsedKey::RetentionState | ParsedKey::Unknown { .. } => {
                self.view.fact("bytes", value.len());
            }
        }
        Ok(())
    }

    fn epoch_summary(&mut self, value: &[u8]) -> Result<(), DecodeError> {
        let summary = epoch_summary::decode(value)?;
        self.view.fact("first_sequence", summary.first_seq);
        self.view.fact("last_sequence", summary.last_seq);
        self.view.fact("hours", summary.units.len());
        self.lines(summary.units.iter().map(|(unit, last)| match unit {
            FlushUnit::Catalog => format!("catalog up to sequence {last}"),
            FlushUnit::Totals => format!("running totals up to sequence {last}"),
            FlushUnit::Events => format!("events up to sequence {last}"),
            FlushUnit::Hour(hour) => format!("hour {hour} up to sequence {last}"),
        }));
        Ok(())
    }

    fn totals(&mut self, value: &[u8]) -> Result<(), DecodeError> {
        let totals = delta_totals::decode(value)?;
        self.view.fact("totals", totals.len());
        self.lines(totals.iter().map(|total| {
            let value = match &total.value {
                TotalValue::Float(value) => value.to_string(),
                TotalValue::Histogram(histogram) => summary(histogram),
            };
            format!(
                "fingerprint {:032x} from {} to {}: {value}",
                total.series.fingerprint, total.start_ms, total.end_ms
            )
        }));
        Ok(())
    }

    fn forward(&mut self, value: &[u8]) -> Result<(), DecodeError> {
        let record = forward_index::decode(value)?;
        let labels = Fact::Series(record.labels.to_string());
        self.view.fact("labels", labels);
        self.view
            .fact("type", format!("{:?}", record.meta.metric_type));
        if !record.unit.is_empty() {
            self.view.fact("unit", record.unit.clone());
        }
        if record.meta.temporality != Temporality::Unspecified {
            let temporality = format!("{:?}", record.meta.temporality);
            self.view.fact("temporality", temporality);
        }
        if record.meta.monotonic {
            self.view.fact("monotonic", true.to_string());
        }
        let fingerprint = record.labels.fingerprint();
        self.lines([
            format!("fingerprint {fingerprint:032x}"),
            format!("temporality {:?}", record.meta.temporality),
            format!("monotonic {}", record.meta.monotonic),
        ]);
        Ok(())
    }

    fn floats(&mut self, value: &[u8]) -> Result<(), DecodeError> {
        let (mut times, mut values) = (Vec::new(), Vec::new());
        gorilla::decode_into(value, &mut times, &mut values)?;
        self.view.fact("samples", times.len());
        self.view
            .range(times.first().copied(), times.last().copied());
        if let (Some(first), Some(last)) = (values.first(), values.last()) {
            self.view.fact("first_value", Fact::Number(*first));
            self.view.fact("last_value", Fact::Number(*last));
        }
        self.samples(&times, &values);
        Ok(())
    }

    fn meta(&mut self, value: &[u8]) -> Result<(), DecodeError> {
        let meta = bucket_meta::decode(value)?;
        self.view.fact("next_series", meta.next_series_id);
        self.view.fact("runs", meta.run_starts.len());
        self.view.fact("floats", meta.float_samples);
        self.view.fact("histograms", meta.histogram_samples);
        self.view.fact("exemplars", meta.exemplars);
        self.view
            .range(Some(meta.min_timestamp_ms), Some(meta.max_timestamp_ms));
        self.lines([
            format!("state {:?}", meta.state),
            format!("resolution {} ms", meta.resolution_ms),
            format!(
                "run starts {:?}",
                meta.run_starts.iter().map(|id| id.0).collect::<Vec<_>>()
            ),
            format!("dirty hours {:?}", meta.dirty_hours),
            format!("has histograms {}", meta.has_histograms),
            format!("has start timestamps {}", meta.has_start_timestamps),
            format!("overlay {}", meta.is_overlay),
        ]);
        if let Some(left_out) = &meta.rollup.left_out {
            let groups = left_out.len();
            self.lines([format!("groups of series left out {groups}")]);
        }
        if meta.rollup.stands_in {
            self.lines(["stands in for finer levels"]);
        }
        Ok(())
    }

    fn journal(&mut self, first_seq: u64, value: &[u8]) -> Result<(), DecodeError> {
        let blocks = journal::decode_record(value)?;
        let mut counts: [(&'static str, u64); 10] = [
            ("definitions", 0),
            ("floats", 0),
            ("histograms", 0),
            ("exemplars", 0),
            ("metadata", 0),
            ("starts", 0),
            ("unknown", 0),
            ("totals", 0),
            ("catalog", 0),
            ("event_bytes", 0),
        ];
        for (i, block) in blocks.iter().enumerate() {
            for section in journal::decode_block(block)? {
                let (kind, entries) = section_size(&section);
                counts[kind].1 += entries as u64;
                if self.details {
                    let seq = first_seq.saturating_add(i as u64);
                    self.section(seq, counts[kind].0, &section);
                }
            }
        }
        self.view.fact("blocks", blocks.len());
        for (name, entries) in counts.into_iter().filter(|(_, entries)| *entries > 0) {
            self.view.fact(name, entries);
        }
        Ok(())
    }

    fn section(&mut self, seq: u64, name: &str, section: &Section) {
        let at = |line: String| format!("sequence {seq} {name}: {line}");
        match section {
            Section::Definitions(entries) => {
                self.lines(
                    entries
                        .iter()
                        .map(|(r, labels)| at(format!("{r} = {labels}"))),
                );
            }
            Section::Floats {
                refs,
                timestamps,
                values,
            } => {
                let columns = refs.iter().zip(timestamps).zip(values);
                self.lines(columns.map(|((r, t), v)| at(format!("{r} {t} {v}"))));
            }
            Section::Histograms(entries) => {
                let line = |r: &u32, t: &i64, h| at(format!("{r} {t} {}", summary(h)));
                self.lines(entries.iter().map(|(r, t, h)| line(r, t, h)));
            }
            Section::Exemplars(entries) => self.lines(
                entries
                    .iter()
                    .map(|(r, e)| at(format!("{r} {} {} {}", e.timestamp_ms, e.value, e.labels))),
            ),
            Section::Metadata(entries) => self.lines(entries.iter().map(|(family, m)| {
                at(format!(
                    "{family} {} {:?} {:?}",
                    m.metric_type, m.unit, m.help
                ))
            })),
            Section::StartTimestamps(entries) => {
                self.lines(
                    entries
                        .iter()
                        .map(|(r, t, start)| at(format!("{r} {t} {}", start_text(*start)))),
                );
            }
            Section::Totals { floats, histograms } => self.lines([at(format!(
                "the last {floats} floats and {histograms} histograms"
            ))]),
            Section::Catalog(changes) => self.lines(changes.iter().map(|change| {
                let bytes = change.value.as_ref().map(Vec::len);
                let bytes = bytes.map_or("removed".into(), |bytes| format!("{bytes} bytes"));
                at(format!("{}: {bytes}", hex::encode(&change.key)))
            })),
            Section::Events(bytes) => self.lines([at(bytes.len().to_string())]),
            Section::Unknown { kind } => self.lines([at(format!("kind {kind}"))]),
        }
    }

    fn lines<T: ToString>(&mut self, lines: impl IntoIterator<Item = T>) {
        if self.details {
            let lines = lines.into_iter().map(|line| line.to_string());
            self.view.details.extend(lines);
        }
    }
}

/// When the counter of a sample began, or how its number was written.
fn start_text(start_ms: i64) -> String {
    let Some(form) = NumberForm::of_start(start_ms) else {
        return format!("from {start_ms}");
    };
    match form.correction() {
        None => "is a float".into(),
        Some(0) => "is an integer".into(),
        Some(correction) => format!("is an integer {correction:+} away"),
    }
}

/// Place in the list of counts, and entries.
fn section_size(section: &Section) -> (usize, usize) {
    match section {
        Section::Definitions(entries) => (0, entries.len()),
        Section::Floats { refs, .. } => (1, refs.len()),
        Section::Histograms(entries) => (2, entries.len()),
        Section::Exemplars(entries) => (3, entries.len()),
        Section::Metadata(entries) => (4, entries.len()),
        Section::StartTimestamps(entries) => (5, entries.len()),
        Section::Unknown { .. } => (6, 1),
        Section::Totals { floats, histograms } => (7, floats.saturating_add(*histograms)),
        Section::Catalog(changes) => (8, changes.len()),
        Section::Events(bytes) => (9, bytes.len()),
    }
}

fn summary(histogram: &Histogram) -> String {
    let count = match &histogram.counts {
        HistogramCounts::Integer { count, .. } => count.to_string(),
        HistogramCounts::Float { count, .. } => format!("{count} (float)"),
    };
    format!(
        "schema {} count {count} sum {} buckets {}",
        histogram.schema,
        histogram.sum,
        histogram.bucket_count()
    )
}
