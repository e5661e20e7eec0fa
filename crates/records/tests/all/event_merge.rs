//! Cells of events through the merge operator: they add up, and what does not is kept and reported.

use bytes::Bytes;
use icecore_model::event::{Cell, CounterCell, EventId, EventWindow, GaugeCell, Reducer};
use icecore_records::merge::{merge, readable, unmerged_parts};
use icecore_records::{event_cell, key};
use proptest::prelude::*;

use crate::golden_events::{cell_key, cells};

fn cell_of(window: EventWindow) -> Bytes {
    key::event_cell(&cell_key(window)).unwrap()
}

fn counter(first_s: i64, count: i64, sum: f64) -> Cell {
    Cell::Counter(CounterCell {
        first_s,
        count,
        sum,
    })
}

#[test]
fn counters_of_every_window_add_up() {
    for window in EventWindow::ALL {
        let operands =
            [counter(10, 1, 0.5), counter(5, 2, 0.25)].map(|cell| event_cell::encode(&cell));
        let base = event_cell::encode(&counter(20, -4, 1.0));
        let merged = merge(&cell_of(window), Some(&base), &operands).unwrap();
        assert_eq!(event_cell::decode(&merged), Ok(counter(5, -1, 1.75)));
        // An equal operand is another flush: it counts.
        let twice = merge(&cell_of(window), None, &[base.clone(), base.clone()]).unwrap();
        assert_eq!(event_cell::decode(&twice), Ok(counter(20, -8, 2.0)));
    }
}

#[test]
fn damage_is_kept_and_what_is_readable_is_the_union() {
    let key = cell_of(EventWindow::Minute);
    let one = event_cell::encode(&counter(5, 1, 0.0));
    let damaged = Bytes::from_static(b"\x09newer");
    let operands = [one.clone(), damaged.clone(), one.clone(), damaged.clone()];
    let merged = merge(&key, None, &operands).unwrap();
    assert!(event_cell::decode(&merged).unwrap_err().is_unmerged());
    let two = event_cell::encode(&counter(5, 2, 0.0));
    let expected = vec![two.clone(), damaged.clone(), damaged.clone()];
    assert_eq!(unmerged_parts(&merged), Some(expected));
    assert_eq!(readable(&key, &merged), (Some(two), 2));
    let hopeless = merge(&key, None, &[damaged.clone(), damaged]).unwrap();
    assert_eq!(readable(&key, &hopeless), (None, 2));
}

#[test]
fn cells_that_are_none_of_one_metric_are_kept_and_reported() {
    let key = cell_of(EventWindow::Hour);
    let operands = cells().map(|cell| event_cell::encode(&cell));
    let merged = merge(&key, None, &operands).unwrap();
    let parts = unmerged_parts(&merged).unwrap();
    assert!(operands.iter().all(|operand| parts.contains(operand)));
    assert_eq!(readable(&key, &merged), (None, 4), "any would be a guess");
    let more = merge(&key, Some(&merged), &operands[..1]).unwrap();
    let parts = unmerged_parts(&more).unwrap();
    assert_eq!(parts.len(), 4);
    let counts = parts
        .iter()
        .filter_map(|part| match event_cell::decode(part) {
            Ok(Cell::Counter(cell)) => Some(cell.count),
            _ => None,
        });
    assert_eq!(counts.collect::<Vec<_>>(), [-14]);
}

#[test]
fn identities_and_marks_keep_the_newest() {
    let (old, new) = (Bytes::from_static(b"old"), Bytes::from_static(b"new"));
    let identity = key::event_identity(&crate::golden_events::identity());
    for key in [identity, key::event_mark(), key::events_sealed()] {
        let merged = merge(&key, Some(&old), std::slice::from_ref(&new));
        assert_eq!(merged.unwrap(), new);
    }
}

fn any_operand() -> impl Strategy<Value = Bytes> {
    let number = -1000i32..1000;
    let counters = (number.clone(), number.clone(), number)
        .prop_map(|(first_s, count, sum)| counter(first_s.into(), count.into(), sum.into()));
    let gauges = (0i64..3, 0u8..3, any::<bool>()).prop_map(|(observed_ns, event, is_min)| {
        Cell::Gauge(GaugeCell {
            first_s: observed_ns,
            reducer: if is_min {
                Reducer::Min
            } else {
                Reducer::Latest
            },
            value: f64::from(event),
            observed_ns,
            event: EventId([event; 16]),
        })
    });
    let histograms = prop::sample::select(cells()[1..3].to_vec());
    prop_oneof![
        4 => counters.prop_map(|cell| event_cell::encode(&cell)),
        2 => gauges.prop_map(|cell| event_cell::encode(&cell)),
        1 => histograms.prop_map(|cell| event_cell::encode(&cell)),
        1 => prop::collection::vec(any::<u8>(), 0..5).prop_map(Bytes::from),
        1 => Just(Bytes::from_static(&[0xff; 9])),
        1 => Just(Bytes::from_static(&[255, 255, 255, 255, 255, 255, 255, 255, 1, 7, 0])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_grouping_gives_the_same(
        operands in prop::collection::vec(any_operand(), 2..9),
        cuts in any::<(prop::sample::Index, prop::sample::Index)>(),
        has_base in any::<bool>(),
    ) {
        let key = cell_of(EventWindow::Day);
        let merged = |parts: &[Bytes]| merge(&key, None, parts).unwrap();
        let all = merged(&operands);
        let mut cuts = [cuts.0.index(operands.len() - 1) + 1, cuts.1.index(operands.len() - 1) + 1];
        cuts.sort_unstable();
        let parts = [&operands[..cuts[0]], &operands[cuts[0]..cuts[1]], &operands[cuts[1]..]];
        let parts: Vec<Bytes> = parts.iter().filter(|p| !p.is_empty()).map(|p| merged(p)).collect();
        let grouped = if has_base {
            merge(&key, Some(&parts[0]), &parts[1..]).unwrap()
        } else {
            merged(&parts)
        };
        prop_assert_eq!(&grouped, &all);
        let (found, unreadable) = readable(&key, &all);
        prop_assert!(found.is_some() || unreadable > 0);
        if let Some(found) = found.filter(|_| unmerged_parts(&all).is_some()) {
            prop_assert!(event_cell::decode(&found).is_ok());
        }
    }
}
