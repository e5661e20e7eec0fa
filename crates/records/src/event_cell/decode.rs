//! Bytes into cells.

use icecore_model::event::{
    Cell, CellExemplar, CounterCell, EventId, GaugeCell, HistogramCell, SketchCounts,
};

use super::{RECORD, VERSION, canonical, kind, reducer_from_number};
use crate::reader::Reader;
use crate::{DecodeError, container};

/// Bucket, value, time, event id and whether there is a trace take at least so many bytes.
const MIN_EXEMPLAR_LEN: usize = 1 + 8 + 1 + 16 + 1;

/// An index and a count take at least a byte each.
const MIN_SKETCH_BUCKET_LEN: usize = 2;

pub fn decode(value: &[u8]) -> Result<Cell, DecodeError> {
    container::refuse(RECORD, value)?;
    let mut reader = Reader::new(RECORD, value);
    reader.version(VERSION)?;
    let cell_kind = reader.u8()?;
    let first_s = reader.zigzag()?;
    let cell = match cell_kind {
        kind::COUNTER => Cell::Counter(CounterCell {
            first_s,
            count: reader.zigzag()?,
            sum: read_f64(&mut reader)?,
        }),
        kind::HISTOGRAM => Cell::Histogram(read_histogram(&mut reader, first_s)?),
        kind::GAUGE => Cell::Gauge(read_gauge(&mut reader, first_s)?),
        _ => return Err(reader.error("unknown kind of cell")),
    };
    reader.finish()?;
    Ok(cell)
}

fn read_gauge(reader: &mut Reader<'_>, first_s: i64) -> Result<GaugeCell, DecodeError> {
    let reducer = reducer_from_number(reader.u8()?);
    Ok(GaugeCell {
        first_s,
        reducer: reducer.ok_or_else(|| reader.error("unknown reducer"))?,
        value: read_f64(reader)?,
        observed_ns: reader.zigzag()?,
        event: EventId(reader.array()?),
    })
}

fn read_histogram(reader: &mut Reader<'_>, first_s: i64) -> Result<HistogramCell, DecodeError> {
    let buckets = reader.count(1)?;
    let counts = (0..buckets).map(|_| reader.varint());
    let counts = counts.collect::<Result<Vec<u64>, _>>()?;
    let samples = reader.varint()?;
    let (sum, min, max) = (read_f64(reader)?, read_f64(reader)?, read_f64(reader)?);
    let sketch = if flag(reader)? {
        Some(read_sketch(reader)?)
    } else {
        None
    };
    Ok(HistogramCell {
        first_s,
        counts,
        samples,
        sum,
        min,
        max,
        sketch,
        exemplars: read_exemplars(reader, buckets)?,
    })
}

fn read_sketch(reader: &mut Reader<'_>) -> Result<SketchCounts, DecodeError> {
    Ok(SketchCounts {
        relative_accuracy: read_f64(reader)?,
        zero: reader.varint()?,
        positive: read_sketch_buckets(reader)?,
        negative: read_sketch_buckets(reader)?,
    })
}

fn read_sketch_buckets(reader: &mut Reader<'_>) -> Result<Vec<(i32, u64)>, DecodeError> {
    let buckets = reader.count(MIN_SKETCH_BUCKET_LEN)?;
    let mut counts = Vec::with_capacity(buckets);
    let mut before: Option<i32> = None;
    for _ in 0..buckets {
        let index = match before {
            None => i32::try_from(reader.zigzag()?).ok(),
            Some(before) => {
                let step = reader.varint32()?;
                before.checked_add_unsigned(step).filter(|_| step > 0)
            }
        };
        let index = index.ok_or_else(|| reader.error("index of a bucket of the sketch"))?;
        let count = reader.varint()?;
        if count == 0 {
            return Err(reader.error("an empty bucket of the sketch"));
        }
        counts.push((index, count));
        before = Some(index);
    }
    Ok(counts)
}

fn read_exemplars(
    reader: &mut Reader<'_>,
    buckets: usize,
) -> Result<Vec<CellExemplar>, DecodeError> {
    let count = reader.count(MIN_EXEMPLAR_LEN)?;
    let mut exemplars = Vec::with_capacity(count);
    let mut before = 0u32;
    for i in 0..count {
        let step = reader.varint32()?;
        let bucket = before.checked_add(step).filter(|_| i == 0 || step > 0);
        let bucket = bucket.filter(|bucket| (*bucket as usize) < buckets);
        exemplars.push(CellExemplar {
            bucket: bucket.ok_or_else(|| reader.error("bucket of an exemplar"))?,
            value: read_f64(reader)?,
            at_ns: reader.zigzag()?,
            event: EventId(reader.array()?),
            trace_id: if flag(reader)? {
                Some(reader.array()?)
            } else {
                None
            },
        });
        before = before.saturating_add(step);
    }
    Ok(exemplars)
}

fn flag(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(reader.error("neither there nor absent")),
    }
}

fn read_f64(reader: &mut Reader<'_>) -> Result<f64, DecodeError> {
    reader.f64().map(canonical)
}
