//! Cells of events that were read before, span by span.
//!
//! ```text
//! snapshot: pinned at the number of changes that have ended ──► spans that have not changed since
//! batch:    change begins, its spans are forgotten ─► written, durable ─► change ends
//! ```
//!
//! Holds always:
//! - What is kept of a span is what every snapshot has of it that is pinned after the span's last
//!   change has ended. Others, earlier ones and those taken while it changes, find nothing here and
//!   leave nothing here.
//! - A snapshot is taken while no change begins or ends.
//! - A change whose outcome is not known does not end: its spans are read from the store until a
//!   later one has.
//! - That a span has no cells takes a bit: weeks of sparse events have ten thousand of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use icecore_model::event::{EventWindow, Week};
use parking_lot::Mutex;

use super::ReadCache;
use super::budget::Budget;
use super::span_cells::{CellSpan, SpanCells};

/// What a span takes beside its cells, about.
const ENTRY_BYTES: usize = 192;

/// The most that is kept of a span: where there are many dimension sets, most of them are asked
/// for by nobody, and reading a whole span for a part of it would cost more than it saves.
const SPAN_BYTES_MAX: usize = 1 << 20;

/// Changes that are remembered for snapshots from before them. Beyond that, these snapshots read
/// from the store.
const CHANGES_MAX: usize = 1 << 14;

pub(crate) struct EventCells {
    state: Mutex<State>,
    budget: Arc<Budget>,
}

#[derive(Default)]
struct State {
    /// How many changes have ended.
    version: u64,
    spans: BTreeMap<CellSpan, Entry>,
    /// For each window, week and metric the spans that have no cells.
    empty: BTreeMap<(EventWindow, Week, u32), EmptySpans>,
    /// Changes of whole weeks.
    weeks: BTreeMap<(EventWindow, Week), Change>,
    /// How many snapshots are pinned at a version.
    snapshots: BTreeMap<u64, usize>,
    /// Changes of spans that some snapshot does not have, in the order in which they ended.
    changed: VecDeque<(u64, CellSpan)>,
    /// Snapshots from before this version do not know what has changed since.
    forgotten_before: u64,
    /// Where the last sweep stopped.
    hand: Option<CellSpan>,
    bytes: usize,
}

#[derive(Default)]
struct Entry {
    change: Change,
    content: Option<Content>,
    /// Since the last sweep.
    was_hit: bool,
}

/// The last change of something.
#[derive(Clone, Copy, Default)]
struct Change {
    ended: u64,
    is_under_way: bool,
}

/// A bit for each span of a window, week and metric.
struct EmptySpans(Box<[u64]>);

impl EmptySpans {
    fn new(window: EventWindow) -> Self {
        Self(vec![0; CellSpan::count(window).div_ceil(64)].into())
    }

    fn bytes(&self) -> usize {
        ENTRY_BYTES + size_of_val(&*self.0)
    }

    fn has(&self, span: &CellSpan) -> bool {
        let word = self.0.get(span.number() / 64);
        word.is_some_and(|word| word & (1 << (span.number() % 64)) != 0)
    }

    fn set(&mut self, span: &CellSpan, is_empty: bool) {
        if let Some(word) = self.0.get_mut(span.number() / 64) {
            let bit = 1 << (span.number() % 64);
            *word = if is_empty { *word | bit } else { *word & !bit };
        }
    }
}

#[derive(Clone)]
enum Content {
    Cells(Arc<SpanCells>),
    TooLarge,
}

/// What is known of a span.
pub(crate) enum KnownSpan {
    Cells(Arc<SpanCells>),
    /// Nothing yet: whoever reads all of it may leave it here.
    Missing,
    /// Nothing is kept of it, at least for this snapshot.
    NotKept,
}

/// What a snapshot may use of the cache, for as long as it is there.
pub(crate) struct PinnedCells {
    cache: Arc<ReadCache>,
    version: u64,
}

/// Spans, or a week, that a write is about to change.
#[must_use = "a change that does not end keeps its cells out of the cache"]
pub(crate) struct CellChange {
    cache: Arc<ReadCache>,
    spans: Vec<CellSpan>,
    week: Option<(EventWindow, Week)>,
}

impl EventCells {
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        Self {
            state: Mutex::default(),
            budget: Arc::clone(budget),
        }
    }

    /// Memory that cells take, which is a part of what the whole cache takes.
    pub(crate) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// The most that is kept of a span.
    fn span_bytes_max(&self) -> usize {
        SPAN_BYTES_MAX.min(self.budget.max() / 2)
    }

    /// Goes on from where the last sweep stopped and drops what was not hit since, until there is
    /// enough room. Says whether there is.
    pub(super) fn sweep(&self) -> bool {
        let mut state = self.state.lock();
        let state = &mut *state;
        let oldest = state.oldest();
        let mut hand = state.hand.take();
        while self.budget.exceeded() {
            let rest = match hand {
                Some(at) => state.spans.range_mut(at..).next(),
                None => state.spans.iter_mut().next(),
            };
            let Some((span, entry)) = rest else {
                state.forget_empty(&self.budget, |_| true);
                return !self.budget.exceeded();
            };
            let span = *span;
            hand = Some(span.next());
            if std::mem::take(&mut entry.was_hit) {
                continue;
            }
            entry.forget(&self.budget, &mut state.bytes);
            if entry.change.is_over(oldest) {
                state.spans.remove(&span);
            }
        }
        state.hand = hand;
        true
    }
}

impl State {
    /// The version of the oldest snapshot that uses what is kept.
    fn oldest(&self) -> u64 {
        let oldest = self.snapshots.first_key_value();
        let oldest = oldest.map_or(self.version, |(version, _)| *version);
        oldest.max(self.forgotten_before)
    }

    /// Whether a snapshot has every change of a span, and nothing that comes later.
    fn is_current(&self, span: &CellSpan, version: u64) -> bool {
        let of_week = self.weeks.get(&span.segment()).copied();
        let of_span = self.spans.get(span).map(|entry| entry.change);
        version >= self.forgotten_before
            && [of_week, of_span]
                .iter()
                .flatten()
                .all(|change| change.is_over(version))
    }

    /// Forgets which spans are empty, of some segments.
    fn forget_empty(&mut self, budget: &Budget, is_meant: impl Fn((EventWindow, Week)) -> bool) {
        let bytes = &mut self.bytes;
        self.empty.retain(|(window, week, _), empty| {
            let stays = !is_meant((*window, *week));
            if !stays {
                budget.take(empty.bytes());
                *bytes -= empty.bytes();
            }
            stays
        });
    }

    /// Forgets changes that every snapshot has.
    fn prune(&mut self) {
        if self.changed.len() > CHANGES_MAX {
            self.forgotten_before = self.version;
        }
        let oldest = self.oldest();
        while let Some((ended, span)) = self.changed.pop_front_if(|(ended, _)| *ended <= oldest) {
            let entry = self.spans.get(&span);
            if entry.is_some_and(|entry| entry.is_bare() && entry.change.ended == ended) {
                self.spans.remove(&span);
            }
        }
    }
}

impl Change {
    fn is_over(&self, version: u64) -> bool {
        !self.is_under_way && self.ended <= version
    }
}

impl Entry {
    fn is_bare(&self) -> bool {
        self.content.is_none() && !self.change.is_under_way
    }

    fn forget(&mut self, budget: &Budget, bytes: &mut usize) {
        if let Some(content) = self.content.take() {
            budget.take(content.bytes());
            *bytes -= content.bytes();
        }
    }
}

impl Content {
    fn bytes(&self) -> usize {
        match self {
            Self::Cells(cells) => ENTRY_BYTES + cells.bytes(),
            Self::TooLarge => ENTRY_BYTES,
        }
    }
}

impl ReadCache {
    /// Takes a snapshot of the store, with what may be used of the cache for it.
    pub(crate) fn pin_event_cells<V, E>(
        self: &Arc<Self>,
        snapshot: impl FnOnce() -> Result<V, E>,
    ) -> Result<(V, PinnedCells), E> {
        let mut state = self.event_cells.state.lock();
        let snapshot = snapshot()?;
        let version = state.version;
        *state.snapshots.entry(version).or_default() += 1;
        let cache = Arc::clone(self);
        Ok((snapshot, PinnedCells { cache, version }))
    }

    /// Cells of some spans are about to be written.
    pub(crate) fn begin_cell_change(self: &Arc<Self>, spans: Vec<CellSpan>) -> CellChange {
        let mut state = self.event_cells.state.lock();
        let state = &mut *state;
        for span in &spans {
            let entry = state.spans.entry(*span).or_default();
            entry.change.is_under_way = true;
            if let Some(empty) = state.empty.get_mut(&span.group()) {
                empty.set(span, false);
            }
            // Cells do not become fewer by a write.
            if !matches!(entry.content, Some(Content::TooLarge)) {
                entry.forget(&self.event_cells.budget, &mut state.bytes);
            }
        }
        CellChange {
            cache: Arc::clone(self),
            spans,
            week: None,
        }
    }

    /// Cells of a window and week are about to be dropped.
    pub(crate) fn begin_week_drop(self: &Arc<Self>, window: EventWindow, week: Week) -> CellChange {
        let mut state = self.event_cells.state.lock();
        let state = &mut *state;
        state.weeks.entry((window, week)).or_default().is_under_way = true;
        let oldest = state.oldest();
        let mut unused = Vec::new();
        for (span, entry) in state.spans.range_mut(CellSpan::all_of(window, week)) {
            entry.forget(&self.event_cells.budget, &mut state.bytes);
            if entry.change.is_over(oldest) {
                unused.push(*span);
            }
        }
        for span in unused {
            state.spans.remove(&span);
        }
        state.forget_empty(&self.event_cells.budget, |of| of == (window, week));
        CellChange {
            cache: Arc::clone(self),
            spans: Vec::new(),
            week: Some((window, week)),
        }
    }
}

impl CellChange {
    /// What was to be written is written: every later snapshot has it.
    pub(crate) fn end(self) {
        let mut state = self.cache.event_cells.state.lock();
        let state = &mut *state;
        state.version += 1;
        let ended = Change {
            ended: state.version,
            is_under_way: false,
        };
        if let Some(week) = self.week {
            state.weeks.insert(week, ended);
        }
        for span in &self.spans {
            state.spans.entry(*span).or_default().change = ended;
            state.changed.push_back((state.version, *span));
        }
        state.prune();
    }
}

impl PinnedCells {
    /// What is known of a span.
    pub(crate) fn get(&self, span: &CellSpan) -> KnownSpan {
        let cells = &self.cache.event_cells;
        let mut state = cells.state.lock();
        if cells.span_bytes_max() == 0 || !state.is_current(span, self.version) {
            return KnownSpan::NotKept;
        }
        let entry = state.spans.get_mut(span);
        let known = entry.and_then(|entry| {
            entry.was_hit = true;
            entry.content.clone()
        });
        match known {
            Some(Content::Cells(cells)) => KnownSpan::Cells(cells),
            Some(Content::TooLarge) => KnownSpan::NotKept,
            None => {
                let empty = state.empty.get(&span.group());
                if empty.is_some_and(|empty| empty.has(span)) {
                    KnownSpan::Cells(Arc::default())
                } else {
                    KnownSpan::Missing
                }
            }
        }
    }

    /// The most that is kept of a span.
    pub(crate) fn span_bytes_max(&self) -> usize {
        self.cache.event_cells.span_bytes_max()
    }

    /// Keeps all cells that the snapshot has of a span.
    pub(crate) fn keep(&self, span: CellSpan, cells: &Arc<SpanCells>) {
        self.put(span, Content::Cells(Arc::clone(cells)));
    }

    /// Takes note of a span that has more than can be kept.
    pub(crate) fn keep_out(&self, span: CellSpan) {
        self.put(span, Content::TooLarge);
    }

    fn put(&self, span: CellSpan, content: Content) {
        let cells = &self.cache.event_cells;
        let mut state = cells.state.lock();
        let state = &mut *state;
        if !state.is_current(&span, self.version) {
            return;
        }
        if matches!(&content, Content::Cells(cells) if cells.is_empty()) {
            let empty = state.empty.entry(span.group()).or_insert_with(|| {
                let made = EmptySpans::new(span.segment().0);
                cells.budget.add(made.bytes());
                state.bytes += made.bytes();
                made
            });
            return empty.set(&span, true);
        }
        let entry = state.spans.entry(span).or_default();
        entry.forget(&cells.budget, &mut state.bytes);
        cells.budget.add(content.bytes());
        state.bytes += content.bytes();
        entry.content = Some(content);
    }

    /// Gives up what was not used for longest, if there is too much.
    pub(crate) fn make_room(&self) {
        self.cache.make_room();
    }
}

impl Drop for PinnedCells {
    fn drop(&mut self) {
        let mut state = self.cache.event_cells.state.lock();
        match state.snapshots.get_mut(&self.version) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(state.snapshots.remove(&self.version)),
        }
        state.prune();
    }
}

#[cfg(test)]
mod tests;
