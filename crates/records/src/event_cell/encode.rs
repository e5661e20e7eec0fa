//! Cells into bytes.

use bytes::Bytes;
use icecore_model::event::{Cell, CellExemplar, HistogramCell, SketchCounts};
use icecore_model::varint::{push_varint, push_zigzag};

use super::{VERSION, canonical, kind, reducer_number};

pub fn encode(cell: &Cell) -> Bytes {
    let mut value = vec![VERSION];
    match cell {
        Cell::Counter(cell) => {
            value.push(kind::COUNTER);
            push_zigzag(&mut value, cell.first_s);
            push_zigzag(&mut value, cell.count);
            push_f64(&mut value, cell.sum);
        }
        Cell::Histogram(cell) => {
            value.push(kind::HISTOGRAM);
            push_zigzag(&mut value, cell.first_s);
            push_histogram(&mut value, cell);
        }
        Cell::Gauge(cell) => {
            value.push(kind::GAUGE);
            push_zigzag(&mut value, cell.first_s);
            value.push(reducer_number(cell.reducer));
            push_f64(&mut value, cell.value);
            push_zigzag(&mut value, cell.observed_ns);
            value.extend_from_slice(&cell.event.0);
        }
    }
    value.into()
}

fn push_histogram(value: &mut Vec<u8>, cell: &HistogramCell) {
    push_varint(value, cell.counts.len() as u64);
    for count in &cell.counts {
        push_varint(value, *count);
    }
    push_varint(value, cell.samples);
    push_f64(value, cell.sum);
    push_f64(value, cell.min);
    push_f64(value, cell.max);
    value.push(cell.sketch.is_some().into());
    if let Some(sketch) = &cell.sketch {
        push_sketch(value, sketch);
    }
    push_exemplars(value, &cell.exemplars);
}

fn push_sketch(value: &mut Vec<u8>, sketch: &SketchCounts) {
    push_f64(value, sketch.relative_accuracy);
    push_varint(value, sketch.zero);
    for counts in [&sketch.positive, &sketch.negative] {
        debug_assert!(counts.is_sorted_by(|a, b| a.0 < b.0), "indexes ascend");
        let filled = counts.iter().filter(|(_, count)| *count > 0);
        push_varint(value, filled.clone().count() as u64);
        let mut before = None;
        for (index, count) in filled {
            match before.replace(*index) {
                None => push_zigzag(value, (*index).into()),
                Some(before) => push_varint(value, index.abs_diff(before).into()),
            }
            push_varint(value, *count);
        }
    }
}

fn push_exemplars(value: &mut Vec<u8>, exemplars: &[CellExemplar]) {
    debug_assert!(
        exemplars.is_sorted_by(|a, b| a.bucket < b.bucket),
        "buckets ascend"
    );
    push_varint(value, exemplars.len() as u64);
    let mut before = 0;
    for exemplar in exemplars {
        push_varint(value, exemplar.bucket.abs_diff(before).into());
        push_f64(value, exemplar.value);
        push_zigzag(value, exemplar.at_ns);
        value.extend_from_slice(&exemplar.event.0);
        value.push(exemplar.trace_id.is_some().into());
        value.extend(exemplar.trace_id.iter().flatten());
        before = exemplar.bucket;
    }
}

fn push_f64(value: &mut Vec<u8>, number: f64) {
    value.extend_from_slice(&canonical(number).to_bits().to_le_bytes());
}
