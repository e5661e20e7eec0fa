//! One series out of parts that overlap: stored buckets and what the head has, one value per
//! timestamp.
//!
//! The usual series, whose parts follow one another and hold only floats, does not come this way
//! (`super::assemble`).

use std::collections::BTreeMap;
use std::sync::Arc;

use icecore_model::{Histogram, HistogramSample};
use icecore_records::{Bucket, DecodeError, HistogramEntry};

use crate::buckets::ladder;
use crate::cache::Chunk;
use crate::cache::PartCopy;

/// What a bucket holds of a series.
pub(super) struct StoredPart<'s> {
    pub(super) bucket: Bucket,
    pub(super) chunk: &'s Chunk,
}

/// What the head holds of a series in an hour.
pub(super) struct HeadPart<'s> {
    pub(super) part: &'s PartCopy,
    /// What its stream decodes to; `None` where it has none.
    pub(super) chunk: Option<&'s Chunk>,
}

/// The samples of a series as they are gathered, in time order.
#[derive(Default)]
pub(super) struct Samples {
    pub(super) timestamps: Vec<i64>,
    pub(super) values: Vec<f64>,
    pub(super) histograms: Vec<HistogramSample>,
    pub(super) starts: Vec<(i64, i64)>,
    /// How many of them come from buckets, about: where hours overlap, all do.
    pub(super) from_buckets: usize,
}

impl Samples {
    fn count(&self) -> usize {
        self.timestamps.len() + self.histograms.len()
    }
}

/// Gathers a series. Buckets are sorted by time, parts of the head by hour, older writes first.
pub(super) fn gather(
    stored: Vec<StoredPart<'_>>,
    head: Vec<HeadPart<'_>>,
    start_ms: i64,
    end_ms: i64,
) -> Result<Samples, DecodeError> {
    let mut series = Samples::default();
    let mut head = head.into_iter().peekable();
    let mut add = |stored: &[StoredPart<'_>], head: Vec<HeadPart<'_>>| {
        let before = series.count();
        let from_bucket = !stored.is_empty();
        let span = Span {
            stored: stored.iter().map(|stored| stored.chunk).collect(),
            head,
            start_ms,
            end_ms,
        };
        span.add_to(&mut series)?;
        if from_bucket {
            series.from_buckets += series.count() - before;
        }
        Ok::<(), DecodeError>(())
    };
    for together in together(stored) {
        let start = together.iter().map(|stored| stored.bucket.start).min();
        let end_ms = together.iter().map(|stored| stored.bucket.end_ms()).max();
        while let Some(first) = head.next_if(|h| Some(h.part.hour) < start) {
            add(&[], same_hour(first, &mut head))?;
        }
        // Of a bucket larger than an hour these may be of several hours. Those lie one after the
        // other, so the order of writes within each of them still decides.
        let mut same = Vec::new();
        while let Some(next) = head.next_if(|h| Some(h.part.hour.start_ms()) < end_ms) {
            same.push(next);
        }
        add(&together, same)?;
    }
    while let Some(first) = head.next() {
        add(&[], same_hour(first, &mut head))?;
    }
    Ok(series)
}

/// Buckets that overlap one another, which only remnants should, are read as one; older writes
/// first. A larger bucket is the newer: late samples go to it. A remnant is older than all that
/// came after it was made.
fn together(stored: Vec<StoredPart<'_>>) -> Vec<Vec<StoredPart<'_>>> {
    let mut all: Vec<Vec<StoredPart<'_>>> = Vec::with_capacity(stored.len());
    let mut end_ms = i64::MIN;
    for part in stored {
        let overlaps = part.bucket.start_ms() < end_ms;
        end_ms = end_ms.max(part.bucket.end_ms());
        match all.last_mut().filter(|_| overlaps) {
            Some(last) => last.push(part),
            None => all.push(vec![part]),
        }
    }
    for parts in &mut all {
        parts.sort_by_key(|part| (!ladder::is_remnant(part.bucket.size), part.bucket.size));
    }
    all
}

/// All parts of the hour that `first` is of.
fn same_hour<'s>(
    first: HeadPart<'s>,
    head: &mut std::iter::Peekable<impl Iterator<Item = HeadPart<'s>>>,
) -> Vec<HeadPart<'s>> {
    let hour = first.part.hour;
    let mut same = vec![first];
    while let Some(next) = head.next_if(|next| next.part.hour == hour) {
        same.push(next);
    }
    same
}

/// All parts within one hour or one larger bucket, older writes first.
pub(super) struct Span<'s> {
    pub(super) stored: Vec<&'s Chunk>,
    pub(super) head: Vec<HeadPart<'s>>,
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
}

enum Value {
    Float(f64),
    Histogram(Arc<Histogram>),
}

impl Span<'_> {
    fn add_to(&self, series: &mut Samples) -> Result<(), DecodeError> {
        let stored = self.stored.iter().map(|chunk| histograms_of(chunk));
        let head = self.head.iter().map(|head| head.part.histograms());
        let histograms = stored.chain(head).any(|entries| !entries.is_empty());
        if histograms {
            self.add_mixed(series)?
        } else {
            self.add_floats(series)?
        }
        self.add_starts(&mut series.starts)
    }

    fn add_floats(&self, floats: &mut Samples) -> Result<(), DecodeError> {
        let mut all: Vec<(i64, f64)> = Vec::new();
        for stored in &self.stored {
            all.extend(self.floats_of(stored)?);
        }
        for head in &self.head {
            all.extend(self.layer(head)?);
        }
        // Stable: of equal times the one written last stays last.
        all.sort_by_key(|(time, _)| *time);
        for (i, (time, value)) in all.iter().enumerate() {
            if all.get(i + 1).is_none_or(|next| next.0 != *time) {
                floats.timestamps.push(*time);
                floats.values.push(*value);
            }
        }
        Ok(())
    }

    /// Floats and histograms: layer by layer, the newer one decides.
    fn add_mixed(&self, series: &mut Samples) -> Result<(), DecodeError> {
        let mut values: BTreeMap<i64, Value> = BTreeMap::new();
        for stored in &self.stored {
            let floats = self.floats_of(stored)?;
            self.lay(&mut values, floats, histograms_of(stored));
        }
        for head in &self.head {
            self.lay(&mut values, self.layer(head)?, head.part.histograms());
        }
        for (timestamp_ms, value) in values {
            match value {
                Value::Float(value) => {
                    series.timestamps.push(timestamp_ms);
                    series.values.push(value);
                }
                Value::Histogram(histogram) => {
                    series.histograms.push(HistogramSample {
                        timestamp_ms,
                        histogram,
                    });
                }
            }
        }
        Ok(())
    }

    fn lay(
        &self,
        values: &mut BTreeMap<i64, Value>,
        floats: Vec<(i64, f64)>,
        histograms: &[HistogramEntry],
    ) {
        for (time, value) in floats {
            values.insert(time, Value::Float(value));
        }
        // Only the last entry of each time counts; `None` leaves the float that was just laid.
        let mut last: BTreeMap<i64, &Option<Arc<Histogram>>> = BTreeMap::new();
        for entry in histograms
            .iter()
            .filter(|entry| self.wants(entry.timestamp_ms))
        {
            last.insert(entry.timestamp_ms, &entry.value);
        }
        for (time, histogram) in last {
            if let Some(histogram) = histogram {
                values.insert(time, Value::Histogram(Arc::clone(histogram)));
            }
        }
    }

    pub(super) fn add_starts(&self, found: &mut Vec<(i64, i64)>) -> Result<(), DecodeError> {
        let stored = self.stored.iter().any(|chunk| !starts_of(chunk).is_empty());
        if !stored && self.head.iter().all(|head| head.part.starts().is_empty()) {
            return Ok(());
        }
        let mut starts: BTreeMap<i64, i64> = BTreeMap::new();
        for stored in &self.stored {
            if !starts.is_empty() {
                // As below, of buckets that overlap.
                for (time, _) in self.floats_of(stored)? {
                    starts.remove(&time);
                }
                for entry in histograms_of(stored) {
                    starts.remove(&entry.timestamp_ms);
                }
            }
            starts.extend(starts_of(stored).iter().copied());
        }
        for head in &self.head {
            if !starts.is_empty() {
                // A newer sample takes the place of an older one together with its start.
                let floats = self.layer(head)?.into_iter().map(|(time, _)| time);
                let histograms = head.part.histograms().iter().map(|e| e.timestamp_ms);
                for time in floats.chain(histograms) {
                    starts.remove(&time);
                }
            }
            starts.extend(head.part.starts().iter().copied());
        }
        let known = starts
            .into_iter()
            .filter(|(time, start)| *start != 0 && self.wants(*time));
        found.extend(known);
        Ok(())
    }

    /// The floats of a part of the head that lie in the range, in the order in which they count.
    fn layer(&self, head: &HeadPart<'_>) -> Result<Vec<(i64, f64)>, DecodeError> {
        let mut floats = match head.chunk {
            Some(chunk) => self.floats_of(chunk)?,
            None => Vec::new(),
        };
        let late = head.part.late().iter().copied();
        floats.extend(late.filter(|(time, _)| self.wants(*time)));
        Ok(floats)
    }

    fn floats_of(&self, chunk: &Chunk) -> Result<Vec<(i64, f64)>, DecodeError> {
        let range = chunk.times.range(self.start_ms, self.end_ms);
        let (mut timestamps, mut values) = (Vec::new(), Vec::new());
        chunk.times.copy_into(range.clone(), &mut timestamps);
        chunk.values_into(range, &mut values)?;
        Ok(timestamps.into_iter().zip(values).collect())
    }

    fn wants(&self, timestamp_ms: i64) -> bool {
        (self.start_ms..=self.end_ms).contains(&timestamp_ms)
    }
}

fn histograms_of(chunk: &Chunk) -> &[HistogramEntry] {
    chunk.side.as_ref().map_or(&[], |side| &side.histograms)
}

fn starts_of(chunk: &Chunk) -> &[(i64, i64)] {
    chunk.side.as_ref().map_or(&[], |side| &side.starts)
}
