//! RollupSeries: the windows of one series in one bucket.
//!
//! ```text
//! version u8 = 1 | resolution u8 | kept fields u16 LE | varint windows | which ones (`presence`)
//! | varint windows per segment | length of each segment but the last, varint | segments
//!
//! segment = stored columns u16 LE | length of each of them, varint | payloads
//! ```
//!
//! A segment is read without the others, and in it only the columns that are asked for, so a query
//! for a week of sums does not pay for the rest of a bucket of six weeks.
//!
//! Holds always:
//! - Nothing is lost: every bit of a value comes back, NaN payloads and −0 included.
//! - Same windows, same bytes: every column takes the shortest of its forms, of equal ones the
//!   simplest, and all arithmetic on the way is on integers or rounds the same everywhere.
//! - What decodes has its samples within their windows, and no stale marker for a value.
//! - Memory follows the input: a segment has at most [`MAX_SEGMENT_LEN`] windows.
//!
//! How columns are made small: values are decimals, so they become integers, which are packed as
//! those of samples are (`columns`). First and last values form a chain, least and greatest value
//! lie near them, and the sum near the number of samples times their middle; the sum of squares is
//! an integer again (`squares`). Variable-length integers and XORed floats, column by column, take
//! twice to five times the bytes for decimals, and more time to read.

mod column;
mod floats;
mod output;
mod presence;
mod read;
mod squares;
#[cfg(test)]
mod tests;
mod write;

use std::ops::Range;

use icecore_model::TimeColumn;
use icecore_model::rollup::{Resolution, Window, WindowColumns, WindowFields};
use icecore_model::varint::push_varint;

use crate::reader::Reader;
use crate::{Bucket, DecodeError};
use column::{field_bits, fields_of_bits};
use output::Slice;
use presence::Presence;
use read::{Segment, SegmentReader};
use write::SegmentWriter;

const RECORD: &str = "RollupSeries";
const VERSION: u8 = 1;

/// The most windows of a segment. Fewer would cost bytes, more would cost reads of a short range,
/// and a few bytes can stand for a whole segment.
pub const MAX_SEGMENT_LEN: usize = 512;

/// Writes records; keeps its room from one to the next.
#[derive(Debug, Default)]
pub struct Encoder {
    segments: SegmentWriter,
}

/// Writes the windows of one series. Who writes many keeps an [`Encoder`].
pub fn encode(
    bucket: Bucket,
    resolution: Resolution,
    fields: WindowFields,
    windows: &[Window],
) -> Vec<u8> {
    Encoder::default().encode(bucket, resolution, fields, windows)
}

impl Encoder {
    /// Writes windows in the order of time, with these fields of their interiors.
    ///
    /// # Panics
    /// When a window does not lie in the bucket, or a sample not in its window.
    pub fn encode(
        &mut self,
        bucket: Bucket,
        resolution: Resolution,
        fields: WindowFields,
        windows: &[Window],
    ) -> Vec<u8> {
        let in_bucket = windows_of(bucket, resolution);
        let in_bucket = in_bucket.expect("windows are not wider than their bucket");
        let number = |window: &Window| {
            let offset = window.start_ms - bucket.start_ms();
            assert_eq!(offset % resolution.ms(), 0, "windows begin on the grid");
            let number = u32::try_from(offset / resolution.ms()).ok();
            let number = number.filter(|number| *number < in_bucket);
            number.expect("windows lie in their bucket")
        };
        assert!(
            windows.is_sorted_by(|a, b| a.start_ms < b.start_ms),
            "windows must be in the order of time"
        );
        let mut value = vec![VERSION, resolution.code()];
        value.extend_from_slice(&field_bits(fields).to_le_bytes());
        push_varint(&mut value, windows.len() as u64);
        Presence::of(windows.iter().map(number)).push(in_bucket, &mut value);
        let segment_len = even_segment_len(windows.len());
        push_varint(&mut value, segment_len as u64);
        let mut segments = Vec::new();
        let mut left = windows;
        while !left.is_empty() {
            let (segment, rest) = left.split_at(segment_len.min(left.len()));
            left = rest;
            let start = segments.len();
            self.segments
                .push(resolution, fields, segment, &mut segments);
            if !left.is_empty() {
                push_varint(&mut value, (segments.len() - start) as u64);
            }
        }
        value.extend_from_slice(&segments);
        value
    }
}

/// Segments of about equal length: a last one of a few windows would cost more than it holds.
fn even_segment_len(len: usize) -> usize {
    let segments = len.div_ceil(MAX_SEGMENT_LEN).max(1);
    len.div_ceil(segments).max(1)
}

/// How many windows fit a bucket; `None` where it is not larger than a window.
fn windows_of(bucket: Bucket, resolution: Resolution) -> Option<u32> {
    let duration_ms = bucket.size.duration_ms();
    let count = duration_ms.checked_div(resolution.ms())?;
    u32::try_from(count).ok().filter(|count| *count > 0)
}

/// A record whose header is read and whose segments are not.
#[derive(Clone, Debug)]
pub struct RollupRecord<'a> {
    bucket: Bucket,
    resolution: Resolution,
    fields: WindowFields,
    presence: Presence,
    segment_len: usize,
    segments: Vec<&'a [u8]>,
}

impl<'a> RollupRecord<'a> {
    pub fn parse(bucket: Bucket, value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(RECORD, value);
        reader.version(VERSION)?;
        let resolution = Resolution::from_code(reader.u8()?);
        let resolution = resolution.ok_or_else(|| reader.error("unknown resolution"))?;
        let in_bucket = windows_of(bucket, resolution);
        let in_bucket =
            in_bucket.ok_or_else(|| reader.error("resolution does not fit the bucket"))?;
        let fields = fields_of_bits(reader.u16()?);
        let fields = fields.ok_or_else(|| reader.error("unknown fields"))?;
        let windows = reader.varint()?;
        let presence = Presence::read(&mut reader, in_bucket)?;
        if windows != presence.len() as u64 {
            return Err(reader.error("number of windows does not match"));
        }
        let segment_len = match usize::try_from(reader.varint()?) {
            Ok(segment_len @ 1..=MAX_SEGMENT_LEN) => segment_len,
            _ => return Err(reader.error("impossible length of segments")),
        };
        let segments = read_segments(&mut reader, presence.len().div_ceil(segment_len))?;
        reader.finish()?;
        Ok(Self {
            bucket,
            resolution,
            fields,
            presence,
            segment_len,
            segments,
        })
    }

    pub fn resolution(&self) -> Resolution {
        self.resolution
    }

    /// What is kept of the interiors.
    pub fn fields(&self) -> WindowFields {
        self.fields
    }

    /// How many windows there are.
    pub fn len(&self) -> usize {
        self.presence.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn starts(&self, indexes: Range<usize>, like: &TimeColumn) -> TimeColumn {
        let (bucket_ms, width_ms) = (self.bucket.start_ms(), self.resolution.ms());
        let start_of = |number| bucket_ms + i64::from(number) * width_ms;
        self.presence.starts(indexes, start_of, like)
    }

    /// The indexes of the windows that begin in a range of time.
    fn indexes(&self, starts_ms: Range<i64>) -> Range<usize> {
        let number_from = |time_ms: i64| {
            let offset = time_ms.saturating_sub(self.bucket.start_ms());
            let width = self.resolution.ms();
            offset.div_euclid(width) + i64::from(offset.rem_euclid(width) != 0)
        };
        let start = self.presence.index_of(number_from(starts_ms.start));
        let end = self.presence.index_of(number_from(starts_ms.end));
        start..end.max(start)
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

/// Reads records; keeps its room from one to the next, and lets series share the starts of windows
/// where they are the same.
#[derive(Debug, Default)]
pub struct Decoder {
    segment: SegmentReader,
    starts: TimeColumn,
}

impl Decoder {
    /// The windows that begin in a range of time, with those of the fields that the record keeps.
    pub fn columns(
        &mut self,
        record: &RollupRecord<'_>,
        fields: WindowFields,
        starts_ms: Range<i64>,
    ) -> Result<WindowColumns, DecodeError> {
        let indexes = record.indexes(starts_ms);
        let starts = record.starts(indexes.clone(), &self.starts);
        self.starts.clone_from(&starts);
        let mut columns = WindowColumns {
            fields: fields.without(fields.without(record.fields)),
            starts,
            ..WindowColumns::default()
        };
        let (fields, starts) = (columns.fields, columns.starts.clone());
        self.each_segment(record, fields, indexes, &starts, |segment, slice| {
            segment.append_to(slice, &mut columns);
        })?;
        Ok(columns)
    }

    /// All windows. What the record does not keep of an interior reads as 0 or NaN.
    pub fn windows(&mut self, record: &RollupRecord<'_>) -> Result<Vec<Window>, DecodeError> {
        let all = 0..record.len();
        let starts = record.starts(all.clone(), &self.starts);
        self.starts.clone_from(&starts);
        let mut windows = Vec::with_capacity(all.len());
        self.each_segment(record, record.fields, all, &starts, |segment, slice| {
            segment.append_windows(slice, record.fields, &mut windows);
        })?;
        Ok(windows)
    }

    /// Reads the segments that hold windows of these indexes.
    fn each_segment(
        &mut self,
        record: &RollupRecord<'_>,
        fields: WindowFields,
        indexes: Range<usize>,
        starts: &[i64],
        mut take: impl FnMut(&SegmentReader, &Slice<'_>),
    ) -> Result<(), DecodeError> {
        let (segment_len, width_ms) = (record.segment_len, record.resolution.ms());
        for (number, segment) in record.segments.iter().enumerate() {
            let begin = number * segment_len;
            let end = (begin + segment_len).min(record.len());
            let (from, to) = (indexes.start.max(begin), indexes.end.min(end));
            if from >= to {
                continue;
            }
            let segment = Segment::parse(segment, record.fields)?;
            self.segment.read(&segment, end - begin, width_ms, fields)?;
            let slice = Slice {
                indexes: from - begin..to - begin,
                starts: &starts[from - indexes.start..to - indexes.start],
                width_ms,
            };
            take(&self.segment, &slice);
        }
        Ok(())
    }
}

/// The windows of a record that begin in a range of time, with those of the fields that it keeps.
/// Who reads many keeps a [`Decoder`].
pub fn decode(
    bucket: Bucket,
    value: &[u8],
    fields: WindowFields,
    starts_ms: Range<i64>,
) -> Result<WindowColumns, DecodeError> {
    let record = RollupRecord::parse(bucket, value)?;
    Decoder::default().columns(&record, fields, starts_ms)
}

/// All windows of a record. [`RollupRecord::fields`] says what is kept of them; the rest reads as 0
/// or NaN.
pub fn decode_windows(bucket: Bucket, value: &[u8]) -> Result<Vec<Window>, DecodeError> {
    let record = RollupRecord::parse(bucket, value)?;
    Decoder::default().windows(&record)
}
