//! One series out of its parts: stored hours and what the head has, one value per timestamp.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::{BucketStart, FloatColumns, Histogram, HistogramSample, Labels, SeriesSamples};
use icecore_records::{
    Bucket, DecodeError, HistogramEntry, gorilla, histogram_series, start_timestamps,
};

use crate::error::{Error, Result};
use crate::head::HourPart;

/// What a bucket holds of a series; empty values where it has no such record.
pub(super) struct StoredHour {
    bucket: Bucket,
    pub(super) stream: Bytes,
    pub(super) starts: Bytes,
    pub(super) histograms: Bytes,
}

impl StoredHour {
    pub(super) fn new(bucket: Bucket) -> Self {
        Self {
            bucket,
            stream: Bytes::new(),
            starts: Bytes::new(),
            histograms: Bytes::new(),
        }
    }
}

/// Everything known of a series in a time range.
pub(super) struct SeriesParts {
    pub(super) labels: Labels,
    /// Sorted by hour, older writes first.
    pub(super) head: Vec<HourPart>,
    /// Sorted by bucket.
    pub(super) stored: Vec<StoredHour>,
}

/// Decodes a series. Also returns how many samples came from buckets.
pub(super) fn decode_series(
    parts: SeriesParts,
    start_ms: i64,
    end_ms: i64,
) -> Result<(SeriesSamples, u64)> {
    let mut from_buckets = 0;
    let mut series = Samples::default();
    let mut head = parts.head.into_iter().peekable();
    let mut add = |stored: Option<&StoredHour>, head: Vec<HourPart>| {
        let before = series.count();
        let hour = Hour {
            stored,
            head,
            start_ms,
            end_ms,
        };
        hour.add_to(&mut series)?;
        Ok::<u64, Error>((series.count() - before) as u64)
    };
    for stored in parts.stored {
        while let Some(hour) = next_hour(&mut head, stored.bucket.start) {
            add(None, hour)?;
        }
        let mut same = Vec::new();
        while let Some(part) = head.next_if(|part| part.hour.start_ms() < stored.bucket.end_ms()) {
            same.push(part);
        }
        from_buckets += add(Some(&stored), same)?;
    }
    while let Some(hour) = next_hour(&mut head, BucketStart(u32::MAX)) {
        add(None, hour)?;
    }
    let series = SeriesSamples {
        labels: parts.labels,
        floats: FloatColumns {
            timestamps: series.timestamps.into(),
            values: series.values,
        },
        histograms: series.histograms,
        start_timestamps: series.starts,
    };
    Ok((series, from_buckets))
}

/// The samples of a series as they are gathered, in time order.
#[derive(Default)]
struct Samples {
    timestamps: Vec<i64>,
    values: Vec<f64>,
    histograms: Vec<HistogramSample>,
    starts: Vec<(i64, i64)>,
}

impl Samples {
    fn count(&self) -> usize {
        self.timestamps.len() + self.histograms.len()
    }
}

/// All parts of the next hour, if that is before `before`.
fn next_hour(
    head: &mut Peekable<impl Iterator<Item = HourPart>>,
    before: BucketStart,
) -> Option<Vec<HourPart>> {
    let mut same = vec![head.next_if(|part| part.hour < before)?];
    while let Some(part) = head.next_if(|part| part.hour == same[0].hour) {
        same.push(part);
    }
    Some(same)
}

/// All parts of one hour, older writes first.
struct Hour<'s> {
    stored: Option<&'s StoredHour>,
    head: Vec<HourPart>,
    start_ms: i64,
    end_ms: i64,
}

enum Value {
    Float(f64),
    Histogram(Arc<Histogram>),
}

impl Hour<'_> {
    fn add_to(&self, series: &mut Samples) -> Result<()> {
        let histograms = self.stored.is_some_and(|s| !s.histograms.is_empty())
            || self.head.iter().any(|part| !part.histograms.is_empty());
        match histograms {
            true => self.add_mixed(series)?,
            false => self.add_floats(series)?,
        }
        self.add_starts(series)
    }

    /// Floats only, the usual case: a single stream is decoded in place.
    fn add_floats(&self, floats: &mut Samples) -> Result<()> {
        let streams: Vec<&Bytes> = self.streams().filter(|stream| !stream.is_empty()).collect();
        let late = self.head.iter().any(|part| !part.late.is_empty());
        if let ([stream], false) = (streams.as_slice(), late) {
            return self.decode(stream, &mut floats.timestamps, &mut floats.values);
        }
        let mut all: Vec<(i64, f64)> = Vec::new();
        self.each_layer(|layer| all.extend(layer))?;
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
    fn add_mixed(&self, series: &mut Samples) -> Result<()> {
        let mut values: BTreeMap<i64, Value> = BTreeMap::new();
        if let Some(stored) = self.stored {
            let (mut timestamps, mut floats) = (Vec::new(), Vec::new());
            self.decode(&stored.stream, &mut timestamps, &mut floats)?;
            let entries = match stored.histograms.is_empty() {
                true => Vec::new(),
                false => histogram_series::decode(&stored.histograms)
                    .map_err(|cause| self.corrupt(cause))?,
            };
            self.lay(&mut values, timestamps.into_iter().zip(floats), &entries);
        }
        for part in &self.head {
            let (mut timestamps, mut floats) = (Vec::new(), Vec::new());
            self.decode(&part.stream, &mut timestamps, &mut floats)?;
            let floats = timestamps
                .into_iter()
                .zip(floats)
                .chain(part.late.iter().copied());
            self.lay(&mut values, floats, &part.histograms);
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
        floats: impl Iterator<Item = (i64, f64)>,
        histograms: &[HistogramEntry],
    ) {
        for (time, value) in floats.filter(|(time, _)| self.wants(*time)) {
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

    fn add_starts(&self, series: &mut Samples) -> Result<()> {
        let mut starts: BTreeMap<i64, i64> = BTreeMap::new();
        if let Some(stored) = self.stored
            && !stored.starts.is_empty()
        {
            let found = start_timestamps::decode(&stored.starts);
            starts.extend(found.map_err(|cause| self.corrupt(cause))?);
        }
        for part in &self.head {
            if !starts.is_empty() {
                // A newer sample takes the place of an older one together with its start.
                for time in self.times_of(part)? {
                    starts.remove(&time);
                }
            }
            starts.extend(part.starts.iter().copied());
        }
        let known = starts
            .into_iter()
            .filter(|(time, start)| *start != 0 && self.wants(*time));
        series.starts.extend(known);
        Ok(())
    }

    /// The times in the range at which a part has a sample.
    fn times_of(&self, part: &HourPart) -> Result<Vec<i64>> {
        let (mut times, mut values) = (Vec::new(), Vec::new());
        self.decode(&part.stream, &mut times, &mut values)?;
        times.extend(part.late.iter().map(|(time, _)| *time));
        times.extend(part.histograms.iter().map(|entry| entry.timestamp_ms));
        Ok(times)
    }

    fn streams(&self) -> impl Iterator<Item = &Bytes> {
        let stored = self.stored.map(|stored| &stored.stream);
        stored
            .into_iter()
            .chain(self.head.iter().map(|part| &part.stream))
    }

    /// Hands over the floats of each part that lie in the range, older writes first.
    fn each_layer(&self, mut take: impl FnMut(Vec<(i64, f64)>)) -> Result<()> {
        let (mut timestamps, mut values) = (Vec::new(), Vec::new());
        if let Some(stored) = self.stored {
            self.decode(&stored.stream, &mut timestamps, &mut values)?;
            take(timestamps.drain(..).zip(values.drain(..)).collect());
        }
        for part in &self.head {
            self.decode(&part.stream, &mut timestamps, &mut values)?;
            take(timestamps.drain(..).zip(values.drain(..)).collect());
            take(
                part.late
                    .iter()
                    .copied()
                    .filter(|(time, _)| self.wants(*time))
                    .collect(),
            );
        }
        Ok(())
    }

    fn decode(
        &self,
        stream: &Bytes,
        timestamps: &mut Vec<i64>,
        values: &mut Vec<f64>,
    ) -> Result<()> {
        if stream.is_empty() {
            return Ok(());
        }
        gorilla::decode_range_into(stream, self.start_ms, self.end_ms, timestamps, values)
            .map(drop)
            .map_err(|cause| self.corrupt(cause))
    }

    fn wants(&self, timestamp_ms: i64) -> bool {
        (self.start_ms..=self.end_ms).contains(&timestamp_ms)
    }

    fn corrupt(&self, cause: DecodeError) -> Error {
        let bucket = self
            .stored
            .map_or(0, |stored| stored.bucket.start.minutes());
        Error::Corrupt(format!("samples in bucket {bucket}: {cause}"))
    }
}
