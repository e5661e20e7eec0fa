//! Targets for what is stored of events: cells, identities, marks, and cells that are merged.

use bytes::Bytes;
use icecore_model::event::{
    Cell, CellExemplar, CellKey, CounterCell, DimensionHash, EventId, EventWindow, FlushMark,
    GaugeCell, HistogramCell, IdentityKey, Reducer, SketchCounts, Week,
};
use icecore_records::{
    ParsedKey, event_cell, event_identity, flush_cursor, flush_mark, journal, key, merge,
};

use crate::{MEMORY_BASE, Target};

const AT_S: i64 = 1_794_391_200;

/// Counts of counters, which have a sign, may reach the end of their numbers beyond this when they
/// are added up, and the order matters there.
const COUNT_MAX: u64 = 1 << 55;

pub fn targets() -> Vec<Target> {
    let target = |name, seeds, run| Target {
        name,
        seeds,
        run,
        memory_base: MEMORY_BASE,
    };
    vec![
        target("events/key", keys, |input| match ParsedKey::parse(input) {
            Ok(ParsedKey::EventCell(cell)) => {
                assert_eq!(key::event_cell(&cell).as_deref(), Some(input));
            }
            Ok(ParsedKey::EventIdentity(identity)) => {
                assert_eq!(key::event_identity(&identity), input);
            }
            _ => {}
        }),
        target("events/cell", cell_values, |input| {
            if let Ok(cell) = event_cell::decode(input) {
                let once = event_cell::encode(&cell);
                let again = event_cell::decode(&once).expect("own bytes");
                assert_eq!(event_cell::encode(&again), once);
            }
        }),
        target("events/identity", identities, |input| {
            if let Ok(seq) = event_identity::decode(input) {
                let again = event_identity::decode(&event_identity::encode(seq));
                assert_eq!(again, Ok(seq));
            }
        }),
        target("events/flush_mark", marks, |input| {
            if let Ok(mark) = flush_mark::decode(input) {
                assert_eq!(flush_mark::decode(&flush_mark::encode(mark)), Ok(mark));
            }
            if let Ok(seq) = flush_cursor::decode(input) {
                assert_eq!(flush_cursor::encode(seq), input);
            }
        }),
        target("events/journal_section", sections, |input| {
            drop(journal::decode_block(input));
            let mut encoder = journal::BlockEncoder::new();
            encoder.events(input);
            let sections = journal::decode_block(&encoder.finish()).expect("own block");
            match &sections[..] {
                [] => assert!(input.is_empty()),
                [journal::Section::Events(bytes)] => assert_eq!(bytes, input),
                other => panic!("{other:?}"),
            }
        }),
        target("events/merge", operands, merge_is_associative),
    ]
}

/// The input is operands, each after a length of two bytes.
fn merge_is_associative(mut input: &[u8]) {
    let mut operands: Vec<Bytes> = Vec::new();
    while let [high, low, tail @ ..] = input {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let (operand, tail) = tail.split_at(len.min(tail.len()));
        operands.push(Bytes::copy_from_slice(operand));
        input = tail;
    }
    operands.truncate(6);
    if operands.is_empty() || !operands.iter().all(is_of_exact_sums) {
        return;
    }
    let key = key::event_cell(&cell_key(EventWindow::Hour)).expect("a cell of this hour");
    let merged = |base: Option<&Bytes>, parts: &[Bytes]| {
        merge::merge(&key, base, parts).expect("there are operands")
    };
    let all = merged(None, &operands);
    merge::readable(&key, &all);
    for cut in 1..operands.len() {
        let (old, new) = (
            merged(None, &operands[..cut]),
            merged(None, &operands[cut..]),
        );
        assert_eq!(merged(Some(&old), &operands[cut..]), all, "cut at {cut}");
        assert_eq!(merged(None, &[old, new]), all, "cut at {cut}");
    }
}

/// Whether adding up is exact in any order. What cannot be read is not added up.
fn is_of_exact_sums(part: &Bytes) -> bool {
    // Operands that are lists of parts are left to the target of all record types.
    if merge::unmerged_parts(part).is_some() {
        return false;
    }
    let whole = |sum: f64| sum.trunc() == sum && sum.abs() < 1e15;
    match event_cell::decode(part) {
        Ok(Cell::Counter(cell)) => whole(cell.sum) && cell.count.unsigned_abs() < COUNT_MAX,
        Ok(Cell::Histogram(cell)) => whole(cell.sum),
        Ok(Cell::Gauge(_)) | Err(_) => true,
    }
}

fn cell_key(window: EventWindow) -> CellKey {
    CellKey {
        window,
        metric: 713,
        start_s: window.start_of(AT_S),
        dimensions: DimensionHash([7; 16]),
    }
}

fn keys() -> Vec<Vec<u8>> {
    let cells = EventWindow::ALL.map(|window| key::event_cell(&cell_key(window)));
    let identity = IdentityKey {
        week: Week::of(AT_S),
        service: 3,
        event: EventId([9; 16]),
    };
    let cells = cells.into_iter().flatten();
    let keys = cells.chain([
        key::event_identity(&identity),
        key::event_mark(),
        key::events_sealed(),
    ]);
    keys.map(Into::into).collect()
}

fn cells() -> Vec<Cell> {
    let exemplar = |bucket, trace_id| CellExemplar {
        bucket,
        value: 0.25,
        at_ns: AT_S * 1_000_000_000,
        event: EventId([9; 16]),
        trace_id,
    };
    let histogram = HistogramCell {
        first_s: AT_S,
        counts: vec![2, 0, 300],
        samples: 302,
        sum: 755.0,
        min: 0.25,
        max: 9.0,
        sketch: Some(SketchCounts {
            relative_accuracy: 0.01,
            zero: 1,
            positive: vec![(-69, 2), (46, 300)],
            negative: vec![(3, 1)],
        }),
        exemplars: vec![exemplar(0, None), exemplar(2, Some([1; 16]))],
    };
    let plain = HistogramCell {
        sketch: None,
        exemplars: Vec::new(),
        ..histogram.clone()
    };
    let gauge = |reducer| {
        Cell::Gauge(GaugeCell {
            first_s: AT_S,
            reducer,
            value: 4.5,
            observed_ns: AT_S * 1_000_000_000,
            event: EventId([9; 16]),
        })
    };
    let counter = CounterCell {
        first_s: AT_S,
        count: -7,
        sum: 12.0,
    };
    vec![
        Cell::Counter(counter),
        Cell::Histogram(histogram),
        Cell::Histogram(plain),
        gauge(Reducer::Latest),
        gauge(Reducer::Min),
        gauge(Reducer::Max),
    ]
}

fn cell_values() -> Vec<Vec<u8>> {
    let cells = cells().into_iter();
    cells.map(|cell| event_cell::encode(&cell).into()).collect()
}

fn identities() -> Vec<Vec<u8>> {
    vec![event_identity::encode(70_000).into()]
}

fn marks() -> Vec<Vec<u8>> {
    let mark = FlushMark {
        generation: 300,
        seq: 70_000,
        registry_version: 2,
    };
    vec![
        flush_mark::encode(mark).into(),
        flush_cursor::encode(70_000).into(),
    ]
}

fn sections() -> Vec<Vec<u8>> {
    let mut encoder = journal::BlockEncoder::new();
    let texts = [
        b"events of a small request".to_vec(),
        b"an event; ".repeat(200),
    ];
    texts
        .iter()
        .map(|bytes| {
            encoder.events(bytes);
            encoder.finish()
        })
        .collect()
}

fn operands() -> Vec<Vec<u8>> {
    let push = |mut input: Vec<u8>, value: &Vec<u8>| {
        input.extend_from_slice(&(value.len() as u16).to_be_bytes());
        input.extend_from_slice(value);
        input
    };
    let values = cell_values();
    let alone = values.iter().map(|value| {
        let twice = push(Vec::new(), value);
        push(twice, value)
    });
    let together = values.iter().fold(Vec::new(), push);
    alone.chain([together]).collect()
}
