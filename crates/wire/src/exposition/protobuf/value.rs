//! The messages of single values, summaries and points in time.
//!
//! ```text
//! Gauge, Untyped { double value = 1; }
//! Counter        { double value = 1; Exemplar exemplar = 2; Timestamp created_timestamp = 3; }
//! Summary        { uint64 sample_count = 1; double sample_sum = 2; Quantile quantile = 3;
//!                  Timestamp created_timestamp = 4; }
//! Quantile       { double quantile = 1; double value = 2; }
//! Timestamp      { int64 seconds = 1; int32 nanos = 2; }
//! ```

use crate::prometheus::protobuf::{Reader, Result, bytes_tag, fixed64_tag, known, varint_tag};

const VALUE: u32 = fixed64_tag(1);
const COUNTER_EXEMPLAR: u32 = bytes_tag(2);
const COUNTER_CREATED: u32 = bytes_tag(3);

const SUMMARY_COUNT: u32 = varint_tag(1);
const SUMMARY_SUM: u32 = fixed64_tag(2);
const SUMMARY_QUANTILE: u32 = bytes_tag(3);
const SUMMARY_CREATED: u32 = bytes_tag(4);

const QUANTILE_VALUE: u32 = fixed64_tag(2);

const SECONDS: u32 = varint_tag(1);
const NANOS: u32 = varint_tag(2);

/// The value of a gauge or of a metric without a type.
pub(super) fn read_value(message: &[u8]) -> Result<f64> {
    let mut value = 0.0;
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            VALUE => value = reader.double()?,
            other => reader.skip_unknown(other, known(&[1]))?,
        }
    }
    Ok(value)
}

#[derive(Default)]
pub(super) struct CounterMessage<'a> {
    pub(super) value: f64,
    pub(super) exemplar: Option<&'a [u8]>,
    pub(super) created_ms: Option<i64>,
}

impl<'a> CounterMessage<'a> {
    pub(super) fn read(message: &'a [u8]) -> Result<Self> {
        let mut counter = Self::default();
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                VALUE => counter.value = reader.double()?,
                COUNTER_EXEMPLAR => counter.exemplar = Some(reader.bytes()?),
                COUNTER_CREATED => counter.created_ms = read_timestamp(reader.bytes()?)?,
                other => reader.skip_unknown(other, known(&[1, 2, 3]))?,
            }
        }
        Ok(counter)
    }
}

#[derive(Clone, Copy)]
pub(super) struct SummaryMessage<'a> {
    pub(super) message: &'a [u8],
    pub(super) count: u64,
    pub(super) sum: f64,
    pub(super) created_ms: Option<i64>,
}

impl<'a> SummaryMessage<'a> {
    pub(super) fn read(message: &'a [u8]) -> Result<Self> {
        let mut summary = Self {
            message,
            count: 0,
            sum: 0.0,
            created_ms: None,
        };
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                SUMMARY_COUNT => summary.count = reader.varint()?,
                SUMMARY_SUM => summary.sum = reader.double()?,
                SUMMARY_QUANTILE => reader.skip(SUMMARY_QUANTILE)?,
                SUMMARY_CREATED => summary.created_ms = read_timestamp(reader.bytes()?)?,
                other => reader.skip_unknown(other, known(&[1, 2, 3, 4]))?,
            }
        }
        Ok(summary)
    }

    /// The next quantile and its value in what is left of a message.
    pub(super) fn next_quantile(rest: &mut Reader<'a>) -> Result<Option<(f64, f64)>> {
        while !rest.is_empty() {
            let tag = rest.tag()?;
            if tag != SUMMARY_QUANTILE {
                rest.skip(tag)?;
                continue;
            }
            let (mut quantile, mut value) = (0.0, 0.0);
            let mut reader = Reader::new(rest.bytes()?);
            while !reader.is_empty() {
                match reader.tag()? {
                    VALUE => quantile = reader.double()?,
                    QUANTILE_VALUE => value = reader.double()?,
                    other => reader.skip_unknown(other, known(&[1, 2]))?,
                }
            }
            return Ok(Some((quantile, value)));
        }
        Ok(None)
    }
}

/// Milliseconds; `None` for a point in time that no 64 bits hold.
pub(super) fn read_timestamp(message: &[u8]) -> Result<Option<i64>> {
    let (mut seconds, mut nanos) = (0i64, 0i32);
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            SECONDS => seconds = reader.varint()? as i64,
            NANOS => nanos = reader.varint()? as i32,
            other => reader.skip_unknown(other, known(&[1, 2]))?,
        }
    }
    let ms = seconds.checked_mul(1000);
    Ok(ms.and_then(|ms| ms.checked_add(i64::from(nanos / 1_000_000))))
}
