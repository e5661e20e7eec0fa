//! Which metrics queries ask for: how often, and when last, since the process began.
//!
//! ```text
//! query ─► CountingSource ─► select ─► series
//!               └─► names in the selector's __name__ ─► QueryUsage
//! ```
//!
//! Holds always:
//! - A selection costs a look-up per name that it gives, whatever it finds. One that gives no name,
//!   or is about labels alone, is not counted.
//! - At most [`NAMES_MAX`] names are known: those that were asked for least recently go first.

use std::collections::HashMap;
use std::sync::Arc;

use icecore_model::{
    BoxFuture, Clock, METRIC_NAME, Matcher, Selection, SeriesSource, SeriesStream, SourceError,
    ValueLookup,
};
use parking_lot::Mutex;

/// Names that are remembered: as many as a large installation has, in about 10 MB.
const NAMES_MAX: usize = 100_000;

/// Longer names are not remembered.
const NAME_BYTES_MAX: usize = 256;

/// Names that one selector counts for: `{__name__=~"a|b"}` may give many.
const SELECTOR_NAMES_MAX: usize = 64;

/// How often a metric was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) queries: u64,
    /// `None` for never.
    pub(crate) last_ms: Option<i64>,
}

/// Counts of all metrics that were asked for.
pub(crate) struct QueryUsage {
    since_ms: i64,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    by_name: HashMap<Box<str>, Entry>,
    /// Selections so far: the order in which names were asked for.
    turn: u64,
}

struct Entry {
    usage: Usage,
    turn: u64,
}

impl QueryUsage {
    pub(crate) fn new(since_ms: i64) -> Self {
        Self {
            since_ms,
            counts: Mutex::default(),
        }
    }

    /// Since when is counted.
    pub(crate) fn since_ms(&self) -> i64 {
        self.since_ms
    }

    /// Counts the names that a selector gives.
    fn count(&self, matchers: &[Matcher], now_ms: i64) {
        let names = matchers
            .iter()
            .filter(|matcher| matcher.name() == METRIC_NAME && !matcher.is_negative())
            .filter_map(|matcher| match matcher.lookup() {
                ValueLookup::Literals(names) => Some(names),
                _ => None,
            })
            .flatten();
        let names = names.filter(|name| !name.is_empty() && name.len() <= NAME_BYTES_MAX);
        for name in names.take(SELECTOR_NAMES_MAX) {
            self.counts.lock().add(name, now_ms, NAMES_MAX);
        }
    }

    /// The counts of some names, in their order.
    pub(crate) fn of<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<Usage> {
        let counts = self.counts.lock();
        names
            .map(|name| counts.by_name.get(name).map(|entry| entry.usage))
            .map(Option::unwrap_or_default)
            .collect()
    }

    /// What `read` makes of every name that was asked for, which are in no order. No query is
    /// counted meanwhile.
    pub(crate) fn read<R>(&self, read: impl FnOnce(Vec<(&str, Usage)>) -> R) -> R {
        let counts = self.counts.lock();
        let all = counts.by_name.iter();
        read(all.map(|(name, entry)| (&**name, entry.usage)).collect())
    }
}

impl Counts {
    fn add(&mut self, name: &str, now_ms: i64, names_max: usize) {
        self.turn += 1;
        if !self.by_name.contains_key(name) {
            if self.by_name.len() >= names_max {
                // Many at once, so that looking for the oldest ones is rare.
                self.forget(names_max.div_ceil(10));
            }
            let entry = Entry {
                usage: Usage::default(),
                turn: self.turn,
            };
            self.by_name.insert(name.into(), entry);
        }
        if let Some(entry) = self.by_name.get_mut(name) {
            entry.turn = self.turn;
            entry.usage.queries += 1;
            entry.usage.last_ms = Some(now_ms);
        }
    }

    /// Forgets so many, those that were asked for least recently.
    fn forget(&mut self, count: usize) {
        let mut turns: Vec<u64> = self.by_name.values().map(|entry| entry.turn).collect();
        if (1..=turns.len()).contains(&count) {
            // No two have the same turn.
            let last_forgotten = *turns.select_nth_unstable(count - 1).1;
            self.by_name.retain(|_, entry| entry.turn > last_forgotten);
        }
    }
}

/// A source of series that counts what is asked of it.
pub(crate) struct CountingSource {
    pub(crate) source: Arc<dyn SeriesSource>,
    /// `None` for a query that is not to count.
    pub(crate) usage: Option<Arc<QueryUsage>>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl SeriesSource for CountingSource {
    fn select(
        &self,
        selection: Selection,
    ) -> BoxFuture<'_, Result<Box<dyn SeriesStream>, SourceError>> {
        if let Some(usage) = self.usage.as_ref().filter(|_| !selection.hints.labels_only) {
            usage.count(&selection.matchers, self.clock.now_ms());
        }
        self.source.select(selection)
    }
}

#[cfg(test)]
mod tests {
    use icecore_wire::prometheus::parse_selector;

    use super::*;

    fn counted(selectors: &[&str]) -> Vec<(Box<str>, Usage)> {
        let usage = QueryUsage::new(0);
        for (now_ms, selector) in (1..).zip(selectors) {
            usage.count(&parse_selector(selector).unwrap(), now_ms);
        }
        usage.read(|mut all| {
            all.sort_unstable_by_key(|(name, _)| *name);
            let owned = all.into_iter().map(|(name, usage)| (name.into(), usage));
            owned.collect()
        })
    }

    fn used(queries: u64, last_ms: i64) -> Usage {
        Usage {
            queries,
            last_ms: Some(last_ms),
        }
    }

    #[test]
    fn names_that_are_given_count() {
        let all = counted(&[
            "up",
            "up{job=\"a\"}",
            "{__name__=~\"a|b\"}",
            "{job=\"a\"}",
            "{__name__=~\"no.*name\"}",
            "{__name__!=\"not\",job=\"a\"}",
        ]);
        let expected = [("a", used(1, 3)), ("b", used(1, 3)), ("up", used(2, 2))];
        assert_eq!(all, expected.map(|(name, usage)| (name.into(), usage)));
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(counted(&[&long]), []);
        let usage = QueryUsage::new(0);
        assert_eq!(usage.of(["none"].into_iter()), [Usage::default()]);
    }

    #[test]
    fn the_least_recently_asked_for_are_forgotten() {
        let mut counts = Counts::default();
        for number in 0..20 {
            counts.add(&number.to_string(), number, 20);
        }
        counts.add("0", 20, 20);
        counts.add("new", 21, 20);
        let known = |name: &str| counts.by_name.contains_key(name);
        assert!(known("0") && known("new") && known("3"));
        assert!(!known("1") && !known("2"));
        assert_eq!(counts.by_name.len(), 19);
        assert_eq!(counts.by_name["0"].usage, used(2, 20));
    }
}
