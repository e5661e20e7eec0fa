//! Snapshots, changes and sweeps in all orders, against a list of what each span has had.

use icecore_model::event::DimensionHash;
use proptest::prelude::*;

use super::*;

const WEEK_S: i64 = 1_794_182_400;
const SPANS: u32 = 4;

fn week() -> Week {
    Week::of(WEEK_S)
}

fn span(number: u32) -> CellSpan {
    let at_s = WEEK_S + i64::from(number) * 86_400;
    CellSpan::of(EventWindow::Hour, week(), 7, at_s)
}

/// Cells that say which state of a span they are of; none in the first one.
fn cells(state: u64) -> Arc<SpanCells> {
    let mut cells = SpanCells::default();
    if state == 0 {
        return Arc::new(cells);
    }
    cells.push((WEEK_S, DimensionHash([1; 16])), &state.to_le_bytes());
    cells.into_shared()
}

fn cache(bytes_max: usize) -> Arc<ReadCache> {
    Arc::new(ReadCache::new(bytes_max, Arc::default()))
}

fn pin<V>(cache: &Arc<ReadCache>, view: V) -> (V, PinnedCells) {
    let pinned = cache.pin_event_cells(|| Ok::<V, ()>(view));
    pinned.unwrap_or_else(|()| panic!("the snapshot is taken"))
}

fn known(pinned: &PinnedCells, number: u32) -> Option<Arc<SpanCells>> {
    match pinned.get(&span(number)) {
        KnownSpan::Cells(cells) => Some(cells),
        KnownSpan::Missing | KnownSpan::NotKept => None,
    }
}

#[test]
fn a_span_that_changes_is_read_from_the_store_by_who_cannot_know() {
    let cache = cache(1 << 20);
    let (_, before) = pin(&cache, ());
    before.keep(span(0), &cells(1));
    assert_eq!(known(&before, 0), Some(cells(1)));
    let change = cache.begin_cell_change(vec![span(0)]);
    let (_, meanwhile) = pin(&cache, ());
    for pinned in [&before, &meanwhile] {
        assert!(matches!(pinned.get(&span(0)), KnownSpan::NotKept));
        pinned.keep(span(0), &cells(1));
    }
    assert!(matches!(meanwhile.get(&span(1)), KnownSpan::Missing));
    change.end();
    for pinned in [&before, &meanwhile] {
        pinned.keep(span(0), &cells(1));
        assert!(matches!(pinned.get(&span(0)), KnownSpan::NotKept));
    }
    let (_, after) = pin(&cache, ());
    assert!(matches!(after.get(&span(0)), KnownSpan::Missing));
    after.keep(span(0), &cells(2));
    assert_eq!(known(&after, 0), Some(cells(2)));
    assert!(known(&before, 0).is_none(), "it is of another state");
    drop((before, meanwhile, after));
    let state = cache.event_cells.state.lock();
    assert!(state.changed.is_empty() && state.snapshots.is_empty());
    assert_eq!(state.spans.len(), 1, "nothing is left but what is kept");
    assert_eq!(cache.event_cells.budget.bytes(), state.bytes);
}

#[test]
fn a_change_of_unknown_outcome_keeps_its_span_out_until_the_next_one() {
    let cache = cache(1 << 20);
    drop(cache.begin_cell_change(vec![span(0)]));
    let (_, pinned) = pin(&cache, ());
    assert!(matches!(pinned.get(&span(0)), KnownSpan::NotKept));
    cache.begin_cell_change(vec![span(0)]).end();
    let (_, pinned) = pin(&cache, ());
    assert!(matches!(pinned.get(&span(0)), KnownSpan::Missing));
}

#[test]
fn a_week_that_is_dropped_takes_its_spans_along() {
    let cache = cache(1 << 20);
    let (_, before) = pin(&cache, ());
    before.keep(span(0), &cells(1));
    before.keep_out(span(1));
    let change = cache.begin_week_drop(EventWindow::Hour, week());
    assert!(matches!(before.get(&span(0)), KnownSpan::NotKept));
    change.end();
    let (_, after) = pin(&cache, ());
    for number in 0..2 {
        assert!(matches!(before.get(&span(number)), KnownSpan::NotKept));
        assert!(matches!(after.get(&span(number)), KnownSpan::Missing));
    }
    assert_eq!(cache.event_cells.bytes(), 0);
}

#[test]
fn what_is_too_large_stays_so_when_more_is_written() {
    let cache = cache(1 << 20);
    let (_, pinned) = pin(&cache, ());
    pinned.keep_out(span(0));
    cache.begin_cell_change(vec![span(0)]).end();
    let (_, pinned) = pin(&cache, ());
    assert!(matches!(pinned.get(&span(0)), KnownSpan::NotKept));
}

#[test]
fn spans_that_are_asked_for_stay_longest() {
    let one = ENTRY_BYTES + cells(1).bytes();
    let cache = cache(3 * one);
    let (_, pinned) = pin(&cache, ());
    for number in 0..3 {
        pinned.keep(span(number), &cells(1));
    }
    assert!(known(&pinned, 0).is_some() && known(&pinned, 2).is_some());
    pinned.keep(span(3), &cells(1));
    pinned.make_room();
    let kept = (0..4).filter(|number| known(&pinned, *number).is_some());
    assert_eq!(kept.collect::<Vec<_>>(), [0, 2, 3]);
    assert_eq!(cache.bytes(), 3 * one);
}

#[test]
fn a_span_without_cells_is_remembered_until_it_has_some() {
    let cache = cache(1 << 20);
    let (_, before) = pin(&cache, ());
    for number in 0..3 {
        before.keep(span(number), &cells(0));
        assert_eq!(known(&before, number), Some(cells(0)));
    }
    assert!(cache.bytes() < 2 * ENTRY_BYTES, "all of them in one place");
    cache.begin_cell_change(vec![span(1)]).end();
    let (_, after) = pin(&cache, ());
    assert_eq!(known(&after, 0), Some(cells(0)));
    assert!(matches!(after.get(&span(1)), KnownSpan::Missing));
    assert!(known(&before, 1).is_none());
    cache.begin_week_drop(EventWindow::Hour, week()).end();
    let (_, after) = pin(&cache, ());
    assert!(matches!(after.get(&span(0)), KnownSpan::Missing));
    assert_eq!(cache.bytes(), 0);
}

#[test]
fn snapshots_from_before_too_many_changes_are_on_their_own() {
    let cache = cache(1 << 30);
    let (_, before) = pin(&cache, ());
    before.keep(span(0), &cells(1));
    for n in 0..CHANGES_MAX as i64 + 1 {
        let other = CellSpan::of(EventWindow::Hour, week(), 8, WEEK_S + n % 7 * 86_400);
        cache.begin_cell_change(vec![other]).end();
    }
    assert!(known(&before, 0).is_none());
    assert!(cache.event_cells.state.lock().changed.len() <= 1);
    let (_, after) = pin(&cache, ());
    assert_eq!(known(&after, 0), Some(cells(1)), "it has not changed");
}

/// What may happen. Numbers choose among what there is.
#[derive(Clone, Debug)]
enum Step {
    Begin(Vec<u32>),
    /// Ends the change that is under way; what it writes is visible from a moment on that nobody
    /// knows.
    Apply,
    End(bool),
    DropWeek,
    Pin,
    Unpin(usize),
    Read(usize, u32),
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => prop::collection::vec(0..SPANS, 1..3).prop_map(Step::Begin),
        2 => Just(Step::Apply),
        3 => prop::bool::weighted(0.8).prop_map(Step::End),
        1 => Just(Step::DropWeek),
        4 => Just(Step::Pin),
        3 => any::<usize>().prop_map(Step::Unpin),
        12 => (any::<usize>(), 0..SPANS).prop_map(|(at, span)| Step::Read(at, span)),
        1 => Just(Step::Sweep),
    ];
    prop::collection::vec(step, 1..80)
}

/// A change that is under way.
struct Writing {
    change: CellChange,
    spans: Vec<u32>,
    is_applied: bool,
}

proptest! {
    /// Whatever is found is what the snapshot has.
    #[test]
    fn the_answer_is_the_same_with_and_without_it(steps in steps(), small in any::<bool>()) {
        let cache = cache(if small { 700 } else { 1 << 20 });
        // The store: the state that each span has now.
        let mut store = [0u64; SPANS as usize];
        let mut next = 0u64;
        let mut writing: Option<Writing> = None;
        let mut pinned: Vec<([u64; SPANS as usize], PinnedCells)> = Vec::new();
        for step in steps {
            let apply = |writing: &mut Writing, store: &mut [u64], next: &mut u64| {
                if !std::mem::replace(&mut writing.is_applied, true) {
                    *next += 1;
                    for span in &writing.spans {
                        store[*span as usize] = *next;
                    }
                }
            };
            match step {
                Step::Begin(spans) if writing.is_none() => {
                    let changed = spans.iter().map(|number| span(*number)).collect();
                    let change = cache.begin_cell_change(changed);
                    writing = Some(Writing { change, spans, is_applied: false });
                }
                Step::DropWeek if writing.is_none() => {
                    let change = cache.begin_week_drop(EventWindow::Hour, week());
                    let spans = (0..SPANS).collect();
                    writing = Some(Writing { change, spans, is_applied: false });
                }
                Step::Begin(_) | Step::DropWeek => {}
                Step::Apply => {
                    if let Some(writing) = &mut writing {
                        apply(writing, &mut store, &mut next);
                    }
                }
                Step::End(is_known) => {
                    if let Some(mut writing) = writing.take() && is_known {
                        apply(&mut writing, &mut store, &mut next);
                        writing.change.end();
                    }
                }
                Step::Pin => pinned.push(pin(&cache, store)),
                Step::Unpin(at) if !pinned.is_empty() => {
                    pinned.swap_remove(at % pinned.len());
                }
                Step::Read(at, number) if !pinned.is_empty() => {
                    let (has, pinned) = &pinned[at % pinned.len()];
                    let has = cells(has[number as usize]);
                    match pinned.get(&span(number)) {
                        KnownSpan::Cells(cells) => prop_assert_eq!(cells, has),
                        KnownSpan::Missing | KnownSpan::NotKept => pinned.keep(span(number), &has),
                    }
                }
                Step::Unpin(_) | Step::Read(..) => {}
                Step::Sweep => cache.make_room(),
            }
            let bytes = cache.event_cells.budget.bytes();
            prop_assert_eq!(bytes, cache.event_cells.bytes());
        }
        drop(pinned);
        let state = cache.event_cells.state.lock();
        prop_assert!(state.changed.is_empty());
        let idle = state.spans.values().filter(|entry| entry.is_bare()).count();
        prop_assert_eq!(idle, 0, "what nobody needs is gone");
    }
}
