//! Where the windows of a record lie: which ones there are, and the segments that hold them.
//!
//! ```text
//! varint windows | which ones (`presence`)
//! | varint windows per segment | length of each segment but the last, varint | segments
//! ```
//!
//! A segment is read without the others.

use std::ops::Range;

use icecore_model::rollup::Resolution;
use icecore_model::varint::push_varint;

use super::presence::Presence;
use crate::reader::Reader;
use crate::{Bucket, DecodeError};

/// The windows of one series in a bucket, and the bytes of their segments.
#[derive(Clone, Debug)]
pub(crate) struct Layout<'a> {
    bucket: Bucket,
    resolution: Resolution,
    presence: Presence,
    segment_len: usize,
    segments: Vec<&'a [u8]>,
}

/// A segment, and which of a range of windows lie in it.
pub(crate) struct SegmentPart<'a> {
    pub(crate) segment: &'a [u8],
    /// How many windows the segment has.
    pub(crate) len: usize,
    /// Those of the range, by their indexes in the segment.
    pub(crate) indexes: Range<usize>,
    /// The same, by their indexes in the range.
    pub(crate) in_range: Range<usize>,
}

/// Appends the windows that begin at these times; `push_segment` appends those of some indexes.
///
/// # Panics
/// When a window does not lie in the bucket, or they are not in the order of time.
pub(crate) fn push(
    bucket: Bucket,
    resolution: Resolution,
    starts_ms: &[i64],
    max_segment_len: usize,
    mut push_segment: impl FnMut(Range<usize>, &mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    let in_bucket = windows_of(bucket, resolution);
    let in_bucket = in_bucket.expect("windows are not wider than their bucket");
    let number = |start_ms: &i64| {
        let offset = start_ms - bucket.start_ms();
        assert_eq!(offset % resolution.ms(), 0, "windows begin on the grid");
        let number = u32::try_from(offset / resolution.ms()).ok();
        let number = number.filter(|number| *number < in_bucket);
        number.expect("windows lie in their bucket")
    };
    assert!(
        starts_ms.is_sorted_by(|a, b| a < b),
        "windows must be in the order of time"
    );
    let len = starts_ms.len();
    push_varint(out, len as u64);
    Presence::of(starts_ms.iter().map(number)).push(in_bucket, out);
    // Of about equal length: a last one of a few windows would cost more than it holds.
    let count = len.div_ceil(max_segment_len).max(1);
    let segment_len = len.div_ceil(count).max(1);
    push_varint(out, segment_len as u64);
    let mut segments = Vec::new();
    for begin in (0..len).step_by(segment_len) {
        let end = (begin + segment_len).min(len);
        let start = segments.len();
        push_segment(begin..end, &mut segments);
        if end < len {
            push_varint(out, (segments.len() - start) as u64);
        }
    }
    out.extend_from_slice(&segments);
}

/// How many windows fit a bucket; `None` where it is not larger than a window.
pub(crate) fn windows_of(bucket: Bucket, resolution: Resolution) -> Option<u32> {
    let duration_ms = bucket.size.duration_ms();
    let count = duration_ms.checked_div(resolution.ms())?;
    u32::try_from(count).ok().filter(|count| *count > 0)
}

/// Reads a resolution that fits the bucket.
pub(crate) fn read_resolution(
    reader: &mut Reader<'_>,
    bucket: Bucket,
) -> Result<Resolution, DecodeError> {
    let resolution = Resolution::from_code(reader.u8()?);
    let resolution = resolution.ok_or_else(|| reader.error("unknown resolution"))?;
    match windows_of(bucket, resolution) {
        Some(_) => Ok(resolution),
        None => Err(reader.error("resolution does not fit the bucket")),
    }
}

impl<'a> Layout<'a> {
    /// Reads what [`push`] wrote, to the end.
    pub(crate) fn read(
        mut reader: Reader<'a>,
        bucket: Bucket,
        resolution: Resolution,
        max_segment_len: usize,
    ) -> Result<Self, DecodeError> {
        let windows = reader.varint()?;
        let in_bucket = windows_of(bucket, resolution).unwrap_or_default();
        let presence = Presence::read(&mut reader, in_bucket)?;
        if windows != presence.len() as u64 {
            return Err(reader.error("number of windows does not match"));
        }
        let segment_len = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
        if !(1..=max_segment_len).contains(&segment_len) {
            return Err(reader.error("impossible length of segments"));
        }
        let segments = read_segments(&mut reader, presence.len().div_ceil(segment_len))?;
        reader.finish()?;
        Ok(Self {
            bucket,
            resolution,
            presence,
            segment_len,
            segments,
        })
    }

    pub(crate) fn resolution(&self) -> Resolution {
        self.resolution
    }

    pub(crate) fn len(&self) -> usize {
        self.presence.len()
    }

    /// The indexes of the windows that begin in a range of time.
    pub(crate) fn indexes(&self, starts_ms: Range<i64>) -> Range<usize> {
        let number_from = |time_ms: i64| {
            let offset = time_ms.saturating_sub(self.bucket.start_ms());
            let width = self.resolution.ms();
            offset.div_euclid(width) + i64::from(offset.rem_euclid(width) != 0)
        };
        let start = self.presence.index_of(number_from(starts_ms.start));
        let end = self.presence.index_of(number_from(starts_ms.end));
        start..end.max(start)
    }

    /// Appends when the windows of these indexes begin.
    pub(crate) fn extend_starts(&self, indexes: Range<usize>, out: &mut Vec<i64>) {
        let (bucket_ms, width_ms) = (self.bucket.start_ms(), self.resolution.ms());
        let start_of = |number| bucket_ms + i64::from(number) * width_ms;
        self.presence.extend_starts(indexes, start_of, out);
    }

    /// The segments that hold windows of these indexes.
    pub(crate) fn segments_of(
        &self,
        indexes: Range<usize>,
    ) -> impl Iterator<Item = SegmentPart<'a>> {
        let (segment_len, len) = (self.segment_len, self.len());
        let segments = self.segments.iter().copied().enumerate();
        segments.filter_map(move |(number, segment)| {
            let begin = number * segment_len;
            let end = (begin + segment_len).min(len);
            let (from, to) = (indexes.start.max(begin), indexes.end.min(end));
            (from < to).then(|| SegmentPart {
                segment,
                len: end - begin,
                indexes: from - begin..to - begin,
                in_range: from - indexes.start..to - indexes.start,
            })
        })
    }
}

fn read_segments<'a>(reader: &mut Reader<'a>, count: usize) -> Result<Vec<&'a [u8]>, DecodeError> {
    if count > reader.remaining() {
        return Err(reader.error("more segments than bytes"));
    }
    let mut lengths = Vec::with_capacity(count);
    for _ in 1..count {
        lengths.push(reader.count(1)?);
    }
    let mut segments = Vec::with_capacity(count);
    for length in lengths {
        segments.push(reader.bytes(length)?);
    }
    if count > 0 {
        segments.push(reader.rest());
    }
    Ok(segments)
}
