//! RollupSeries: the windows of one series in one bucket.
//!
//! ```text
//! version u8 = 1 | resolution u8 | kept fields u16 LE | segments (`layout`, `segment`)
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

mod check;
mod column;
pub(crate) mod floats;
pub(crate) mod layout;
mod output;
mod presence;
mod read;
pub(crate) mod segment;
mod squares;
#[cfg(test)]
mod tests;
mod windows;
mod write;

use std::ops::Range;

use icecore_model::TimeColumn;
use icecore_model::rollup::{JoinedWindows, Resolution, Window, WindowColumns, WindowFields};

use crate::reader::Reader;
use crate::{Bucket, DecodeError};
pub(crate) use column::{COUNT_LIMIT, flags};
use column::{field_bits, fields_of_bits};
use layout::Layout;
use output::Slice;
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
        let mut value = vec![VERSION, resolution.code()];
        value.extend_from_slice(&field_bits(fields).to_le_bytes());
        let starts_ms: Vec<i64> = windows.iter().map(|window| window.start_ms).collect();
        let segments = &mut self.segments;
        let push_segment = |indexes: Range<usize>, out: &mut Vec<u8>| {
            segments.push(resolution, fields, &windows[indexes], out);
        };
        let len = MAX_SEGMENT_LEN;
        layout::push(
            bucket,
            resolution,
            &starts_ms,
            len,
            push_segment,
            &mut value,
        );
        value
    }
}

/// A record whose header is read and whose segments are not.
#[derive(Clone, Debug)]
pub struct RollupRecord<'a> {
    fields: WindowFields,
    layout: Layout<'a>,
}

impl<'a> RollupRecord<'a> {
    pub fn parse(bucket: Bucket, value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(RECORD, value);
        reader.version(VERSION)?;
        let resolution = layout::read_resolution(&mut reader, bucket)?;
        let fields = fields_of_bits(reader.u16()?);
        let fields = fields.ok_or_else(|| reader.error("unknown fields"))?;
        let layout = Layout::read(reader, bucket, resolution, MAX_SEGMENT_LEN)?;
        Ok(Self { fields, layout })
    }

    pub fn resolution(&self) -> Resolution {
        self.layout.resolution()
    }

    /// What is kept of the interiors.
    pub fn fields(&self) -> WindowFields {
        self.fields
    }

    /// How many windows there are.
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Reads records; keeps its room from one to the next.
#[derive(Debug, Default)]
pub struct Decoder {
    segment: SegmentReader,
}

impl Decoder {
    /// Appends the windows that begin in a range of time, with those of the fields that the record
    /// keeps.
    pub fn append(
        &mut self,
        record: &RollupRecord<'_>,
        fields: WindowFields,
        starts_ms: Range<i64>,
        out: &mut JoinedWindows,
    ) -> Result<(), DecodeError> {
        let indexes = record.layout.indexes(starts_ms);
        let kept = fields.without(fields.without(record.fields));
        let starts = |out: &mut Vec<i64>| record.layout.extend_starts(indexes.clone(), out);
        out.append_with(kept, starts, |starts, before, columns| {
            let (fields, indexes) = (columns.fields, indexes.clone());
            let mut before = before;
            self.each_segment(record, fields, indexes, starts, |segment, slice| {
                segment.append_to(slice, before, columns);
                before += slice.indexes.len();
            })
        })
    }

    /// The same windows apart.
    pub fn columns(
        &mut self,
        record: &RollupRecord<'_>,
        fields: WindowFields,
        starts_ms: Range<i64>,
    ) -> Result<WindowColumns, DecodeError> {
        let mut windows = JoinedWindows::default();
        self.append(record, fields, starts_ms, &mut windows)?;
        Ok(windows.finish(&TimeColumn::default()))
    }

    /// All windows. What the record does not keep of an interior reads as 0 or NaN.
    pub fn windows(&mut self, record: &RollupRecord<'_>) -> Result<Vec<Window>, DecodeError> {
        let all = 0..record.len();
        let mut starts = Vec::new();
        record.layout.extend_starts(all.clone(), &mut starts);
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
        let width_ms = record.resolution().ms();
        for part in record.layout.segments_of(indexes) {
            let segment = Segment::parse(part.segment, record.fields)?;
            self.segment.read(&segment, part.len, width_ms, fields)?;
            let slice = Slice {
                indexes: part.indexes,
                starts: &starts[part.in_range],
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
