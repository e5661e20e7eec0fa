//! The merge operator: how several values written to one key become one.
//!
//! Holds always:
//! - Associative: however flushes and compactions group the operands, the result is the same.
//! - Total: it never panics. An operand that cannot be read is not lost and does not stop a
//!   compaction: it is kept verbatim, in its place in the order, and what is readable before and
//!   after it still merges.
//! - One operand without a base comes back as it is, without being read.
//!
//! A value is a list of parts, oldest first. Merging joins the lists and then unites neighbours
//! that can both be read; a list of one part is stored bare, a longer one as a container.
//!
//! Cells of events add up, in whatever order: those of one shape become one, and what cannot be
//! read or has another shape stays beside it. Sums of floats depend on the grouping in their last
//! bits.
//!
//! Samples and histograms of a bucket larger than an hour are only concatenated: their base is
//! columns, which are expensive to rewrite for every late sample. Readers merge them, and
//! maintenance does later.

use bytes::Bytes;

use crate::coarse_samples::Part;
use crate::{
    DecodeError, ParsedKey, bucket_list, coarse_samples, container, event_cell, exemplar_series,
    gorilla, histogram_series, inverted_index, series_dictionary, start_timestamps,
};
use icecore_model::BucketSize;

/// Merges values of one key, oldest first. Types that are never written with merge keep the newest.
pub fn merge(
    key: &[u8],
    existing: Option<&Bytes>,
    operands: &[Bytes],
) -> Result<Bytes, DecodeError> {
    let newest = operands.last().or(existing);
    let Some(newest) = newest else {
        return Err(DecodeError::new("merge", 0, "nothing to merge"));
    };
    if operands.len() + usize::from(existing.is_some()) == 1 {
        return Ok(newest.clone());
    }
    let Some(kind) = MergeKind::of(key) else {
        return Ok(newest.clone());
    };
    let mut parts: Vec<Bytes> = Vec::new();
    for value in existing.into_iter().chain(operands) {
        match container::decode(value) {
            Some(inner) => parts.extend(inner),
            None => parts.push(value.clone()),
        }
    }
    Ok(to_value(kind.unite(parts)))
}

/// The parts of a value that is not one: operands are kept apart because some could not be read, or
/// because their type is only concatenated. Oldest first; `None` for every other value.
pub fn unmerged_parts(value: &Bytes) -> Option<Vec<Bytes>> {
    container::decode(value)
}

/// The union of what can be read in a value that is unmerged, and how many parts cannot be read. Of
/// a type that is only concatenated: the parts that can be read. For every other value: the value
/// itself. Cells that are none of one metric are not readable: any of them would be a guess.
pub fn readable(key: &[u8], value: &Bytes) -> (Option<Bytes>, usize) {
    let (Some(parts), Some(kind)) = (container::decode(value), MergeKind::of(key)) else {
        return (Some(value.clone()), 0);
    };
    let total = parts.len();
    let good: Vec<Bytes> = parts
        .into_iter()
        .filter(|part| kind.can_read(part))
        .collect();
    let unreadable = total - good.len();
    if good.is_empty() {
        return (None, unreadable);
    }
    let united = kind.unite(good);
    if matches!(kind, MergeKind::EventCells) && united.len() > 1 {
        return (None, total);
    }
    (Some(to_value(united)), unreadable)
}

/// A list of parts as a value. A damaged container is not stored bare, so that it stays a part.
fn to_value(mut parts: Vec<Bytes>) -> Bytes {
    match parts.pop() {
        Some(only) if parts.is_empty() && !container::has_magic(&only) => only,
        last => {
            parts.extend(last);
            container::encode(&parts)
        }
    }
}

/// The types that are written with merge.
#[derive(Clone, Copy)]
enum MergeKind {
    BucketList,
    SeriesDictionary,
    InvertedIndex,
    HourSamples,
    /// Only concatenated, as coarse histograms are.
    CoarseSamples,
    HourHistograms,
    CoarseHistograms,
    Exemplars,
    StartTimestamps,
    /// Added up by shape.
    EventCells,
}

impl MergeKind {
    fn of(key: &[u8]) -> Option<Self> {
        Some(match ParsedKey::parse(key).ok()? {
            ParsedKey::BucketList => Self::BucketList,
            ParsedKey::SeriesDictionary { .. } => Self::SeriesDictionary,
            ParsedKey::InvertedIndex { .. } => Self::InvertedIndex,
            ParsedKey::TimeSeries { bucket, .. } if bucket.size == BucketSize::HOUR => {
                Self::HourSamples
            }
            ParsedKey::TimeSeries { .. } => Self::CoarseSamples,
            ParsedKey::HistogramSeries { bucket, .. } if bucket.size == BucketSize::HOUR => {
                Self::HourHistograms
            }
            ParsedKey::HistogramSeries { .. } => Self::CoarseHistograms,
            ParsedKey::ExemplarSeries { .. } => Self::Exemplars,
            ParsedKey::TimeSeriesStarts { .. } | ParsedKey::HistogramSeriesStarts { .. } => {
                Self::StartTimestamps
            }
            ParsedKey::EventCell(_) => Self::EventCells,
            _ => return None,
        })
    }

    fn is_concatenated(self) -> bool {
        matches!(self, Self::CoarseSamples | Self::CoarseHistograms)
    }

    /// Unites neighbours that can be read, and drops a repetition of a part that stays.
    fn unite(self, mut parts: Vec<Bytes>) -> Vec<Bytes> {
        if self.is_concatenated() {
            parts.dedup();
            return parts;
        }
        if matches!(self, Self::EventCells) {
            return event_cell::unite(parts);
        }
        // In nearly every case everything is readable, and one pass does it.
        if let Ok(all) = self.union(&parts) {
            return vec![all];
        }
        let mut united: Vec<Bytes> = Vec::new();
        let mut run: Vec<Bytes> = Vec::new();
        for part in parts {
            if self.can_read(&part) {
                run.push(part);
                continue;
            }
            self.close_run(&mut run, &mut united);
            if united.last() != Some(&part) {
                united.push(part);
            }
        }
        self.close_run(&mut run, &mut united);
        united
    }

    fn close_run(self, run: &mut Vec<Bytes>, united: &mut Vec<Bytes>) {
        match self.union(run) {
            Ok(all) if !run.is_empty() => united.push(all),
            // Every part of a run can be read alone, so the union cannot fail; if a codec broke
            // that promise, the parts would still be kept.
            _ => united.append(run),
        }
        run.clear();
    }

    fn union(self, parts: &[Bytes]) -> Result<Bytes, DecodeError> {
        if let [only] = parts {
            self.check(only)?;
            return Ok(only.clone());
        }
        let slices: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        let union = match self {
            Self::BucketList => bucket_list::merge(&slices)?,
            Self::SeriesDictionary => series_dictionary::merge(&slices)?,
            Self::InvertedIndex => inverted_index::merge(&slices)?,
            Self::HourSamples => gorilla::merge_all(&slices)?,
            Self::HourHistograms => histogram_series::merge(&slices)?,
            Self::CoarseSamples | Self::CoarseHistograms => {
                return Err(DecodeError::new("merge", 0, "only concatenated"));
            }
            Self::Exemplars => exemplar_series::merge(&slices)?,
            Self::StartTimestamps => start_timestamps::merge(&slices)?,
            Self::EventCells => return Err(DecodeError::new("merge", 0, "united by shape")),
        };
        Ok(union.into())
    }

    fn can_read(self, part: &[u8]) -> bool {
        self.check(part).is_ok()
    }

    fn check(self, part: &[u8]) -> Result<(), DecodeError> {
        match self {
            Self::BucketList => bucket_list::decode(part).map(drop),
            Self::SeriesDictionary => series_dictionary::decode(part).map(drop),
            Self::InvertedIndex => inverted_index::decode(part).map(drop),
            Self::HourSamples => {
                gorilla::decode_into(part, &mut Vec::new(), &mut Vec::new()).map(drop)
            }
            Self::CoarseSamples => match coarse_samples::parse(part)? {
                // What is in the chunks is for readers to find out.
                Part::Columns(_) => Ok(()),
                Part::Stream(stream) => Self::HourSamples.check(stream),
            },
            Self::HourHistograms | Self::CoarseHistograms => {
                histogram_series::decode(part).map(drop)
            }
            Self::Exemplars => exemplar_series::decode(part).map(drop),
            Self::StartTimestamps => start_timestamps::decode(part).map(drop),
            Self::EventCells => event_cell::decode(part).map(drop),
        }
    }
}
