//! TimeSeries values of hour buckets: one Gorilla stream per series.
//!
//! ```text
//! varint count | zigzag-varint t0 | v0 8 bytes LE | bits, most significant first, padded with 0
//! ```
//!
//! Each sample after the first is a timestamp code and a value code:
//!
//! ```text
//! timestamp   0                      same delta as before (before the first: 0)
//!             10 + 3 bits … 11111 + 64 bits   delta of delta, see `classes`
//! value       0                      same bits as before
//!             10 + window bits       XOR, within the last window
//!             11 + 5 bits leading zeros + 6 bits (significant bits − 1) + the bits: new window
//! ```
//!
//! Holds always:
//! - Samples are strictly increasing in time; all arithmetic wraps, so any i64 and every f64 bit
//!   pattern survive.
//! - Same samples, same bytes.
//! - A stream without samples is the single byte 0.

mod appender;
mod classes;
mod decode;
#[cfg(test)]
mod tests;

pub use appender::{Appender, NotIncreasing};
pub use decode::{count, decode_into, decode_range_into, first_timestamp};

use crate::DecodeError;

const RECORD: &str = "TimeSeries";

/// Writes a stream from columns of equal length. Timestamps must be strictly increasing: leaving a
/// sample out would lose it.
pub fn encode(timestamps: &[i64], values: &[f64]) -> Vec<u8> {
    assert_eq!(
        timestamps.len(),
        values.len(),
        "columns must be equally long"
    );
    let mut appender = Appender::with_capacity(timestamps.len());
    for (&timestamp, &value) in timestamps.iter().zip(values) {
        let appended = appender.push(timestamp, value);
        assert!(appended.is_ok(), "timestamps must be strictly increasing");
    }
    appender.finish()
}

/// The union of two streams by timestamp; of equal timestamps the sample of `new` counts.
pub fn merge(old: &[u8], new: &[u8]) -> Result<Vec<u8>, DecodeError> {
    merge_all(&[old, new])
}

/// The union of streams, oldest first.
pub(crate) fn merge_all(streams: &[&[u8]]) -> Result<Vec<u8>, DecodeError> {
    let (mut timestamps, mut values) = (Vec::new(), Vec::new());
    for stream in streams {
        // Most merges append: then the samples are decoded straight to their place.
        let middle = timestamps.len();
        decode_into(stream, &mut timestamps, &mut values)?;
        let appended = match (timestamps[..middle].last(), timestamps.get(middle)) {
            (Some(last), Some(first)) => last < first,
            _ => true,
        };
        if !appended {
            (timestamps, values) = interleave(&timestamps, &values, middle);
        }
    }
    Ok(encode(&timestamps, &values))
}

/// Merges the columns before and after `middle`; the latter win.
fn interleave(timestamps: &[i64], values: &[f64], middle: usize) -> (Vec<i64>, Vec<f64>) {
    let (mut merged_timestamps, mut merged_values) = (Vec::new(), Vec::new());
    merged_timestamps.reserve(timestamps.len());
    merged_values.reserve(values.len());
    let (mut old, mut new) = (0, middle);
    while old < middle || new < timestamps.len() {
        let take_new =
            old == middle || (new < timestamps.len() && timestamps[new] <= timestamps[old]);
        let from = if take_new { new } else { old };
        if take_new && old < middle && timestamps[old] == timestamps[new] {
            old += 1;
        }
        if take_new {
            new += 1
        } else {
            old += 1
        }
        merged_timestamps.push(timestamps[from]);
        merged_values.push(values[from]);
    }
    (merged_timestamps, merged_values)
}
