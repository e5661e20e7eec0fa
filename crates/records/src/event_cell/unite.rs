//! Adds up the cells that were written to one key.
//!
//! Holds always:
//! - The result does not depend on how the parts were grouped before, except for the last bits of
//!   sums.
//! - A part that cannot be read is kept as it is, and equal ones are all kept: two cells of a newer
//!   program may have equal bytes and both count.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bytes::Bytes;
use icecore_model::event::Cell;

use super::{decode, encode, kind, reducer_number};

/// What two cells must have in common to add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    kind: u8,
    /// Of a gauge.
    reducer: u8,
    /// Of a histogram.
    buckets: usize,
    /// The bits of the accuracy of a histogram's sketch.
    sketch: Option<u64>,
}

impl Shape {
    fn of(cell: &Cell) -> Self {
        let shape = |kind| Self {
            kind,
            reducer: 0,
            buckets: 0,
            sketch: None,
        };
        match cell {
            Cell::Counter(_) => shape(kind::COUNTER),
            Cell::Histogram(cell) => Self {
                buckets: cell.counts.len(),
                sketch: cell.sketch.as_ref().map(|s| s.relative_accuracy.to_bits()),
                ..shape(kind::HISTOGRAM)
            },
            Cell::Gauge(cell) => Self {
                reducer: reducer_number(cell.reducer),
                ..shape(kind::GAUGE)
            },
        }
    }
}

/// The cells of one shape, and the bytes of the only one.
struct United {
    cell: Cell,
    only: Option<Bytes>,
}

/// One part for each shape, in the order of shapes, and then what cannot be read.
pub(crate) fn unite(parts: Vec<Bytes>) -> Vec<Bytes> {
    let mut shapes: BTreeMap<Shape, United> = BTreeMap::new();
    let mut kept = Vec::new();
    for part in parts {
        let Ok(cell) = decode(&part) else {
            kept.push(part);
            continue;
        };
        match shapes.entry(Shape::of(&cell)) {
            Entry::Vacant(entry) => {
                let only = Some(part);
                entry.insert(United { cell, only });
            }
            Entry::Occupied(mut entry) => {
                let united = entry.get_mut();
                match united.cell.merge(&cell) {
                    Ok(()) => united.only = None,
                    // Cells of one shape add up; if a cell broke that promise, it would be kept.
                    Err(_) => kept.push(part),
                }
            }
        }
    }
    let cells = shapes.into_values();
    let cells = cells.map(|united| united.only.unwrap_or_else(|| encode(&united.cell)));
    cells.chain(kept).collect()
}
