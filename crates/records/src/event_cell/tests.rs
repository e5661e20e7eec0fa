//! Cells come back as they were written, damage is an error, and parts of one key add up.

use bytes::Bytes;
use icecore_model::event::{
    Cell, CellExemplar, CounterCell, EventId, GaugeCell, HistogramCell, Reducer, SketchCounts,
};
use proptest::prelude::*;

use super::*;

fn counter(count: i64, sum: f64) -> Cell {
    Cell::Counter(CounterCell {
        first_s: 1_794_218_400,
        count,
        sum,
    })
}

fn exemplar(bucket: u32, at_ns: i64, trace_id: Option<[u8; 16]>) -> CellExemplar {
    CellExemplar {
        bucket,
        value: 0.25,
        at_ns,
        event: EventId([7; 16]),
        trace_id,
    }
}

fn histogram() -> HistogramCell {
    HistogramCell {
        first_s: 1_794_218_400,
        counts: vec![3, 0, 500],
        samples: 503,
        sum: 1.5,
        min: 0.25,
        max: 9.0,
        sketch: Some(SketchCounts {
            relative_accuracy: 0.01,
            zero: 1,
            positive: vec![(-70, 2), (0, 1), (300, 500)],
            negative: vec![(i32::MIN, 1), (i32::MAX, u64::MAX)],
        }),
        exemplars: vec![exemplar(0, -5, None), exemplar(2, i64::MAX, Some([9; 16]))],
    }
}

fn gauge(reducer: Reducer) -> Cell {
    Cell::Gauge(GaugeCell {
        first_s: -5,
        reducer,
        value: -0.0,
        observed_ns: i64::MIN,
        event: EventId([255; 16]),
    })
}

fn cells() -> Vec<Cell> {
    let plain = HistogramCell {
        sketch: None,
        exemplars: Vec::new(),
        ..histogram()
    };
    vec![
        counter(i64::MIN, f64::INFINITY),
        counter(3, 0.0),
        Cell::Histogram(histogram()),
        Cell::Histogram(plain),
        gauge(Reducer::Latest),
        gauge(Reducer::Min),
        gauge(Reducer::Max),
    ]
}

#[test]
fn every_cut_and_every_further_byte_is_an_error() {
    for cell in cells() {
        let value = encode(&cell);
        assert_eq!(decode(&value), Ok(cell.clone()));
        for end in 0..value.len() {
            assert!(decode(&value[..end]).is_err(), "{cell:?} cut at {end}");
        }
        assert!(decode(&[&value[..], &[0]].concat()).is_err(), "{cell:?}");
    }
}

/// The histogram from outside, changed at one place.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> String {
    let cell = HistogramCell {
        counts: vec![1],
        sketch: Some(SketchCounts {
            relative_accuracy: 0.5,
            zero: 0,
            positive: vec![(2, 1), (3, 1)],
            negative: vec![],
        }),
        exemplars: vec![exemplar(0, 0, None)],
        ..histogram()
    };
    let mut value = encode(&Cell::Histogram(cell)).to_vec();
    change(&mut value);
    decode(&value).unwrap_err().reason.into_owned()
}

#[test]
fn what_no_encoder_writes_is_an_error() {
    // Version, kind, five bytes of the start, counts, samples 503 and three floats come first.
    let sketch = 2 + 5 + 2 + 2 + 24;
    let positive = sketch + 1 + 8 + 1;
    let exemplars = positive + 5 + 1;
    assert_eq!(changed(|value| value[0] = 2), "unknown version");
    assert_eq!(changed(|value| value[1] = 4), "unknown kind of cell");
    assert_eq!(
        changed(|value| value[sketch] = 2),
        "neither there nor absent"
    );
    assert_eq!(
        changed(|value| value[positive + 3] = 0),
        "index of a bucket of the sketch"
    );
    assert_eq!(
        changed(|value| value[positive + 4] = 0),
        "an empty bucket of the sketch"
    );
    assert_eq!(
        changed(|value| value[exemplars + 1] = 1),
        "bucket of an exemplar"
    );
    assert_eq!(
        changed(|value| value[exemplars] = 2),
        "more elements than bytes"
    );
    let mut value = encode(&gauge(Reducer::Max)).to_vec();
    value[3] = 4;
    assert_eq!(decode(&value).unwrap_err().reason, "unknown reducer");
    assert!(decode(&[0xff; 8]).unwrap_err().is_unmerged());
}

#[test]
fn buckets_of_a_sketch_that_are_empty_are_not_written() {
    let cell = |positive: Vec<(i32, u64)>| {
        let sketch = SketchCounts {
            relative_accuracy: 0.01,
            zero: 0,
            positive,
            negative: vec![],
        };
        Cell::Histogram(HistogramCell {
            sketch: Some(sketch),
            ..histogram()
        })
    };
    let with = cell(vec![(-1, 0), (4, 2), (5, 0)]);
    assert_eq!(decode(&encode(&with)), Ok(cell(vec![(4, 2)])));
}

#[test]
fn what_is_not_a_number_has_one_form() {
    let other = f64::from_bits(0xfff8_0000_0000_0001);
    assert_eq!(
        encode(&counter(1, other)),
        encode(&counter(1, f64::NAN)),
        "encoded"
    );
    let mut value = encode(&counter(1, 0.0)).to_vec();
    let len = value.len();
    value[len - 8..].copy_from_slice(&other.to_bits().to_le_bytes());
    let Ok(Cell::Counter(read)) = decode(&value) else {
        panic!("a counter");
    };
    assert_eq!(read.sum.to_bits(), f64::NAN.to_bits());
}

#[test]
fn shapes_are_kept_apart_and_nothing_is_lost() {
    let other_bounds = HistogramCell {
        counts: vec![1, 1],
        exemplars: vec![],
        ..histogram()
    };
    let other_accuracy = HistogramCell {
        sketch: Some(SketchCounts {
            relative_accuracy: 0.02,
            ..histogram().sketch.unwrap()
        }),
        ..histogram()
    };
    let mut all = cells();
    all.push(Cell::Histogram(other_bounds));
    all.push(Cell::Histogram(other_accuracy));
    all.remove(0);
    let damaged = Bytes::from_static(b"damaged");
    let mut parts: Vec<Bytes> = all.iter().map(encode).collect();
    parts.insert(1, damaged.clone());
    parts.push(damaged.clone());
    let united = unite(parts.clone());
    assert_eq!(united.len(), parts.len(), "none has the shape of another");
    assert!(parts.iter().all(|part| united.contains(part)), "verbatim");
    assert_eq!(united[parts.len() - 2..], [damaged.clone(), damaged]);
    let twice = unite([united.clone(), united].concat());
    assert_eq!(twice.len(), parts.len() + 2);
    assert_eq!(decode(&twice[0]), Ok(counter(6, 0.0)));
}

fn any_float() -> impl Strategy<Value = f64> {
    // Sums of these are exact in any order.
    prop_oneof![
        3 => (-1000i32..1000).prop_map(f64::from),
        1 => Just(-0.0),
    ]
}

fn any_sketch() -> impl Strategy<Value = SketchCounts> {
    let counts = || prop::collection::btree_map(-5i32..5, 1u64..9, 0..5);
    (counts(), counts(), 0u64..9).prop_map(|(positive, negative, zero)| SketchCounts {
        relative_accuracy: 0.01,
        zero,
        positive: positive.into_iter().collect(),
        negative: negative.into_iter().collect(),
    })
}

fn any_exemplars() -> impl Strategy<Value = Vec<CellExemplar>> {
    // What is said of an event is always the same: it has one value, and one place.
    let chosen = prop::collection::btree_map(0u32..3, (0i64..4, 0u8..4), 0..3);
    chosen.prop_map(|chosen| {
        let exemplar = |(bucket, (at_ns, event)): (u32, (i64, u8))| CellExemplar {
            bucket,
            value: f64::from(event),
            at_ns,
            event: EventId([event; 16]),
            trace_id: (event % 2 == 0).then_some([event; 16]),
        };
        chosen.into_iter().map(exemplar).collect()
    })
}

fn any_cell() -> impl Strategy<Value = Cell> {
    let counter =
        (any::<i32>(), any::<i32>(), any_float()).prop_map(|(first_s, count, sum)| CounterCell {
            first_s: first_s.into(),
            count: count.into(),
            sum,
        });
    let numbers = (any::<i32>(), any_float(), any_float(), any_float());
    let counts = prop::collection::vec(0u64..500, 3);
    let histogram = (numbers, counts, any_sketch(), any_exemplars()).prop_map(
        |((first_s, sum, min, max), counts, sketch, exemplars)| HistogramCell {
            first_s: first_s.into(),
            samples: counts.iter().sum(),
            counts,
            sum,
            min,
            max,
            sketch: (first_s % 2 == 0).then_some(sketch),
            exemplars,
        },
    );
    let reducer = prop_oneof![
        Just(Reducer::Latest),
        Just(Reducer::Min),
        Just(Reducer::Max)
    ];
    let gauge = (any::<i8>(), reducer, 0i64..4, 0u8..4).prop_map(
        |(first_s, reducer, observed_ns, event)| GaugeCell {
            first_s: first_s.into(),
            reducer,
            value: f64::from(event / 2),
            observed_ns,
            event: EventId([event; 16]),
        },
    );
    prop_oneof![
        counter.prop_map(Cell::Counter),
        histogram.prop_map(Cell::Histogram),
        gauge.prop_map(Cell::Gauge),
    ]
}

fn any_parts() -> impl Strategy<Value = Vec<Bytes>> {
    let garbage = prop::collection::vec(any::<u8>(), 0..4).prop_map(Bytes::from);
    let part = prop_oneof![
        9 => any_cell().prop_map(|cell| encode(&cell)),
        1 => garbage,
    ];
    prop::collection::vec(part, 1..9)
}

proptest! {
    #[test]
    fn what_is_written_is_read(cell in any_cell()) {
        let value = encode(&cell);
        prop_assert_eq!(decode(&value), Ok(cell));
        prop_assert_eq!(encode(&decode(&value).unwrap()), value);
    }

    #[test]
    fn any_bytes_are_a_cell_or_an_error(kind in 0u8..5, rest in prop::collection::vec(any::<u8>(), 0..80)) {
        let value = [&[VERSION, kind][..], &rest].concat();
        if let Ok(cell) = decode(&value) {
            prop_assert_eq!(decode(&encode(&cell)).map(|again| encode(&again)), Ok(encode(&cell)));
        }
    }

    /// However flushes and compactions group them.
    #[test]
    fn every_grouping_adds_up_to_the_same(parts in any_parts(), cut in any::<prop::sample::Index>()) {
        let all = unite(parts.clone());
        let (old, new) = parts.split_at(cut.index(parts.len()));
        let halves = [unite(old.to_vec()), unite(new.to_vec())].concat();
        prop_assert_eq!(unite(halves), all.clone());
        prop_assert_eq!(unite(all.clone()), all);
    }

    /// Only the places of what cannot be read tell in which order it came.
    #[test]
    fn every_order_adds_up_to_the_same(cells in prop::collection::vec(any_cell(), 1..9)) {
        let parts: Vec<Bytes> = cells.iter().map(encode).collect();
        let backwards = parts.iter().rev().cloned().collect();
        prop_assert_eq!(unite(backwards), unite(parts));
    }
}
