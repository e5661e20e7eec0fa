//! What one read may hold.

use std::sync::Arc;

use icecore_model::{Matcher, MemoryBudget, SelectHints, Selection};
use icecore_storage::testing::Hooks;
use icecore_storage::{Error, LabelQuery};

use super::*;
use crate::support::*;

const SERIES: i64 = 60;
const HOURS: i64 = 12;

/// Series with a sample in each of some hours, all in buckets, and a few in the head.
fn with_buckets() -> (World, Process) {
    let (world, process) = with(|_| {});
    for hour in 0..HOURS {
        let time = T0 - hour * HOUR;
        let entries = (0..SERIES).map(|n| Entry::float(&format!("s{n:03}"), time, 1.0));
        send(&process, entries.collect()).unwrap();
    }
    process.run(process.db.flush_buckets()).unwrap();
    send(&process, vec![Entry::float("s000", T0 + HOUR, 1.0)]).unwrap();
    (world, process)
}

fn refused<T>(answer: Result<T, Error>) -> bool {
    match answer {
        Ok(_) => false,
        Err(Error::LimitReached(reason)) => {
            assert!(reason.contains("query.max_memory"), "{reason}");
            true
        }
        Err(other) => panic!("{other}"),
    }
}

/// Whether a selection is refused that may hold so much, and the most that it held.
fn select(process: &Process, bytes: usize) -> (bool, usize) {
    let memory = MemoryBudget::new(bytes);
    let selection = Selection {
        hints: SelectHints {
            memory: Some(Arc::clone(&memory)),
            ..SelectHints::default()
        },
        ..everything()
    };
    let stream = process.run(process.db.select(selection));
    let refused = refused(stream.map(|stream| {
        assert!(memory.used() > 0, "the stream holds what was resolved");
        drop(stream);
    }));
    assert_eq!(memory.used(), 0, "everything is given back");
    (refused, memory.peak())
}

#[test]
fn a_selection_counts_what_it_resolves_and_is_refused_beyond_its_memory() {
    let (_world, process) = with_buckets();
    let (was_refused, peak) = select(&process, usize::MAX);
    assert!(!was_refused);
    let entries = (SERIES * HOURS) as usize;
    assert!(peak >= entries * 40, "{peak} bytes for {entries} places");
    assert!(!select(&process, peak).0);
    assert!(select(&process, peak / 2).0);
    assert!(select(&process, 0).0);
}

#[test]
fn requests_for_labels_hold_what_they_answer_with_and_not_every_bucket() {
    let (_world, process) = with_buckets();
    let db = &process.db;
    let ask = |bytes: usize, selectors: Vec<Vec<Matcher>>| {
        let memory = MemoryBudget::new(bytes);
        let query = LabelQuery {
            selectors,
            start_ms: 0,
            end_ms: i64::MAX,
            limit: None,
            memory: Some(Arc::clone(&memory)),
        };
        let answers = (
            refused(
                process
                    .run(db.series(&query))
                    .map(|list| assert_eq!(list.len(), 60)),
            ),
            refused(process.run(db.label_names(&query))),
            refused(process.run(db.label_values("series", &query))),
        );
        assert_eq!(memory.used(), 0, "everything is given back");
        (answers, memory.peak())
    };
    let named = || vec![vec![Matcher::equal("__name__", "m")]];
    for selectors in [Vec::new(), named()] {
        let (answers, peak) = ask(usize::MAX, selectors.clone());
        assert_eq!(answers, (false, false, false));
        // Sixty label sets, and the ids of a few buckets at a time.
        assert!(peak < 60 * 400 + 9 * 60 * 40, "{peak} bytes");
        assert_eq!(ask(0, selectors).0, (true, true, true));
    }
}
