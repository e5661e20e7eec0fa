//! From what the head holds of a series in some hours to the values that are stored.
//!
//! ```text
//! one hour ─► its stream      several hours, late ─► one stream      new coarse bucket ─► columns
//! ```
//!
//! Holds always:
//! - One value per timestamp, the last one written. Same input, same bytes.

use bytes::Bytes;
use icecore_model::{Exemplar, HOUR_MS};
use icecore_records::{
    HistogramEntry, exemplar_series, gorilla, histogram_series, start_timestamps,
};

use crate::buckets::united::MergedSeries;
use crate::ingest::head::{HourPart, overlay};
use crate::stored::Floats;

/// One series of one hour or of several, ready to be written.
pub(super) struct SeriesValues {
    /// The float stream; empty when there are no floats.
    pub(super) stream: Bytes,
    /// In time order, the last entry of each time.
    pub(super) histograms: Vec<HistogramEntry>,
    pub(super) exemplars: Vec<Exemplar>,
    starts: Vec<(i64, i64)>,
    pub(super) first_ms: i64,
    pub(super) last_ms: i64,
}

/// What a series has in some hours, of which it has something in at least one.
pub(super) fn assemble(parts: &[HourPart]) -> Option<SeriesValues> {
    let (first, rest) = parts.split_first()?;
    let mut assembled = of_hour(first);
    if rest.is_empty() {
        return Some(assembled);
    }
    let mut floats = floats_of(&assembled.stream);
    for part in rest {
        let newer = of_hour(part);
        floats.lay(floats_of(&newer.stream));
        assembled.histograms.extend(newer.histograms);
        assembled.exemplars.extend(newer.exemplars);
        assembled.starts.extend(newer.starts);
        assembled.first_ms = assembled.first_ms.min(newer.first_ms);
        assembled.last_ms = assembled.last_ms.max(newer.last_ms);
    }
    if !floats.is_empty() {
        assembled.stream = gorilla::encode(&floats.timestamps, &floats.values).into();
    }
    Some(assembled)
}

/// The same for columns.
pub(super) fn merge(id: u32, parts: &[HourPart]) -> MergedSeries {
    let mut merged = MergedSeries::new(id);
    for part in parts {
        let (timestamps, values) = overlay(&part.stream, &part.late);
        merged.add_floats(Floats { timestamps, values });
        let histograms = last_of_each_time(&part.histograms, |entry| entry.timestamp_ms);
        merged.add_histograms(histograms);
        merged.add_starts(last_of_each_time(part.starts(), |start| start.0));
        merged.add_exemplars(part.exemplars.clone());
    }
    merged.normalize();
    merged
}

fn floats_of(stream: &[u8]) -> Floats {
    let mut floats = Floats::default();
    if !stream.is_empty() {
        gorilla::decode_into(stream, &mut floats.timestamps, &mut floats.values)
            .expect("a stream that this process encoded decodes");
    }
    floats
}

fn of_hour(part: &HourPart) -> SeriesValues {
    let stream = if part.late.is_empty() {
        part.stream.clone()
    } else {
        let (timestamps, values) = overlay(&part.stream, &part.late);
        Bytes::from(gorilla::encode(&timestamps, &values))
    };
    let histograms = last_of_each_time(&part.histograms, |entry| entry.timestamp_ms);
    let starts = last_of_each_time(part.starts(), |start| start.0);
    let mut assembled = SeriesValues {
        stream,
        histograms,
        exemplars: part.exemplars.clone(),
        starts,
        first_ms: part.hour.start_ms(),
        last_ms: part.hour.start_ms(),
    };
    assembled.note_range();
    assembled
}

impl SeriesValues {
    pub(super) fn float_count(&self) -> u64 {
        gorilla::count(&self.stream).map_or(0, u64::from)
    }

    /// Without the entries that only say that there is none: how many of those there are depends on
    /// what an interrupted flush has already written.
    pub(super) fn histogram_count(&self) -> u64 {
        let entries = self.histograms.iter();
        entries.filter(|entry| entry.value.is_some()).count() as u64
    }

    pub(super) fn histograms_value(&self) -> Option<Bytes> {
        let some = !self.histograms.is_empty();
        some.then(|| histogram_series::encode(&self.histograms).into())
    }

    pub(super) fn exemplars_value(&self) -> Option<Bytes> {
        let some = !self.exemplars.is_empty();
        some.then(|| exemplar_series::encode(&self.exemplars).into())
    }

    pub(super) fn starts_value(&self) -> Option<Bytes> {
        let some = !self.starts.is_empty();
        some.then(|| start_timestamps::encode(&self.starts).into())
    }

    /// Says "no histogram here any more" for each float that takes the place of a stored one.
    pub(super) fn beat_stored_histograms(&mut self, stored: &[HistogramEntry]) {
        let floats = self.float_times();
        for entry in stored.iter().filter(|entry| entry.value.is_some()) {
            let time = entry.timestamp_ms;
            let at = self
                .histograms
                .binary_search_by_key(&time, |e| e.timestamp_ms);
            if let (Err(at), Ok(_)) = (at, floats.binary_search(&time)) {
                self.histograms.insert(
                    at,
                    HistogramEntry {
                        timestamp_ms: time,
                        value: None,
                    },
                );
            }
        }
    }

    /// Says "start unknown" for each sample that takes the place of one with a known start.
    pub(super) fn beat_stored_starts(&mut self, stored: &[u8]) {
        let Ok(stored) = start_timestamps::decode(stored) else {
            return;
        };
        let mut times = self.float_times();
        times.extend(self.histograms.iter().map(|entry| entry.timestamp_ms));
        times.sort_unstable();
        for (time, start) in stored {
            let at = self.starts.binary_search_by_key(&time, |s| s.0);
            if let (true, Err(at), Ok(_)) = (start != 0, at, times.binary_search(&time)) {
                self.starts.insert(at, (time, 0));
            }
        }
    }

    fn float_times(&self) -> Vec<i64> {
        floats_of(&self.stream).timestamps
    }

    fn note_range(&mut self) {
        let first = gorilla::first_timestamp(&self.stream).ok().flatten();
        let histogram_first = self.histograms.first().map(|e| e.timestamp_ms);
        let known = first.into_iter().chain(histogram_first).min();
        self.first_ms = known.unwrap_or(self.first_ms);
        // The end of the stream is not worth a decode: the hour's end bounds it.
        self.last_ms = self.last_ms + HOUR_MS - 1;
    }
}

fn last_of_each_time<T: Clone>(entries: &[T], time: impl Fn(&T) -> i64) -> Vec<T> {
    let mut sorted: Vec<T> = entries.to_vec();
    // Stable: of equal times the one written last stays last.
    sorted.sort_by_key(&time);
    let mut kept: Vec<T> = Vec::with_capacity(sorted.len());
    for entry in sorted {
        match kept.last_mut() {
            Some(last) if time(last) == time(&entry) => *last = entry,
            _ => kept.push(entry),
        }
    }
    kept
}
