//! RollupHistograms: the windows of the native histograms of one series in one bucket.
//!
//! ```text
//! version u8 = 1 | resolution u8 | segments (`rollup_series::layout`, `rollup_series::segment`)
//! ```
//!
//! Counts and times are columns of integers as those of floats are; histograms are lists in the
//! format of HistogramSeries, one list for each of first, last, sum and so on, whose timestamps
//! only count. So a query for the last values does not pay for the sums.
//!
//! Holds always:
//! - Every bit of every histogram survives.
//! - Same windows, same bytes.
//! - What decodes has its samples within their windows, and no stale marker for a value.

mod read;
#[cfg(test)]
mod tests;
mod write;

use std::ops::Range;

use icecore_model::rollup::{HistogramWindow, Resolution, WindowFields};

use crate::reader::Reader;
use crate::rollup_series::layout::{self, Layout};
use crate::{Bucket, DecodeError};

const RECORD: &str = "RollupHistograms";
const VERSION: u8 = 1;

/// The most windows of a segment: a window of histograms takes as long to read as many of floats.
const MAX_SEGMENT_LEN: usize = 128;

/// A stored column; its number is its place in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Column {
    /// As those of RollupSeries, one number per window.
    Flags,
    Samples,
    FirstTime,
    LastTime,
    Resets,
    Edges,
    First,
    Last,
    Sum,
    Correction,
    Changes,
}

const COLUMNS: usize = 11;

/// Writes the windows of one series, in the order of time.
///
/// # Panics
/// When a window does not lie in the bucket, or a sample not in its window, or a histogram is a
/// stale marker.
pub fn encode(bucket: Bucket, resolution: Resolution, windows: &[HistogramWindow]) -> Vec<u8> {
    let mut value = vec![VERSION, resolution.code()];
    let starts_ms: Vec<i64> = windows.iter().map(|window| window.start_ms).collect();
    let push_segment = |indexes: Range<usize>, out: &mut Vec<u8>| {
        write::push_segment(resolution, &windows[indexes], out);
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

/// A record whose header is read and whose segments are not.
#[derive(Clone, Debug)]
pub struct HistogramRecord<'a> {
    layout: Layout<'a>,
}

impl<'a> HistogramRecord<'a> {
    pub fn parse(bucket: Bucket, value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(RECORD, value);
        reader.version(VERSION)?;
        let resolution = layout::read_resolution(&mut reader, bucket)?;
        let layout = Layout::read(reader, bucket, resolution, MAX_SEGMENT_LEN)?;
        Ok(Self { layout })
    }

    pub fn resolution(&self) -> Resolution {
        self.layout.resolution()
    }

    /// How many windows there are.
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The windows that begin in a range of time, with these fields of their interiors; counts and
    /// times are always there.
    pub fn windows(
        &self,
        fields: WindowFields,
        starts_ms: Range<i64>,
    ) -> Result<Vec<HistogramWindow>, DecodeError> {
        let indexes = self.layout.indexes(starts_ms);
        let mut starts = Vec::new();
        self.layout.extend_starts(indexes.clone(), &mut starts);
        let mut windows = Vec::new();
        for part in self.layout.segments_of(indexes) {
            let width_ms = self.resolution().ms();
            let segment = read::Segment::parse(part.segment, part.len, width_ms, fields)?;
            let starts = &starts[part.in_range];
            segment.append_to(part.indexes, starts, &mut windows);
        }
        Ok(windows)
    }
}

/// The windows of a record that begin in a range of time, with these fields of their interiors.
pub fn decode(
    bucket: Bucket,
    value: &[u8],
    fields: WindowFields,
    starts_ms: Range<i64>,
) -> Result<Vec<HistogramWindow>, DecodeError> {
    HistogramRecord::parse(bucket, value)?.windows(fields, starts_ms)
}
