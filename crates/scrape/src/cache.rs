//! What one target exposed before, so that a scrape that repeats itself parses no label.
//!
//! ```text
//! text of a series ─► exposed (hash, what follows usually) ─► stored (label bytes, live or not)
//!                        several texts may mean one series ──┘
//! ```
//!
//! Holds always:
//! - A series that was written with the time of its scrape is live until its staleness marker is
//!   stored. What a scrape changes about that becomes true with `commit`, when the write has
//!   succeeded: a marker that could not be stored is written with the next scrape.
//! - A series that the previous scrape had allocates nothing.
//! - Texts that are no longer exposed are forgotten: memory follows what the target exposes now.
//!
//! Elsewhere: how a text becomes labels (`append`, `relabel`).

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

/// Texts that may be remembered although they were not exposed, beside as many as were. As in
/// Prometheus, so that a target that sometimes leaves something out does not pay for it each time.
const FORGOTTEN_MIN: usize = 1_000;

/// Stands for "nothing": no successor known, or a series that relabelling drops.
const NONE: u32 = u32::MAX;

/// A series in [`SeriesCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SeriesIndex(u32);

/// The identity of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextHash(u128);

struct TextEntry {
    hash: u128,
    /// What followed it last time.
    next: u32,
    /// Into `stored`; `NONE` for what relabelling drops.
    series: u32,
    seen: u64,
}

struct SeriesEntry {
    labels: Box<[u8]>,
    /// The scrape that wrote it last, and the timestamp of its first sample there.
    seen: u64,
    first_ms: i64,
    /// Whether it ends with a staleness marker when it does not come again.
    live: bool,
    histogram: bool,
    /// Hash of the exemplar without a timestamp that was written last; 0 for none.
    exemplar: u64,
}

pub(super) struct SeriesCache {
    seed: u64,
    exposed: Vec<TextEntry>,
    by_text: HashMap<u64, u32>,
    stored: Vec<SeriesEntry>,
    by_labels: HashMap<u64, u32>,
    /// Number of the scrape under way.
    scrape: u64,
    /// The first text of the last scrape, and the one that was looked up last.
    first: u32,
    last: u32,
    texts_seen: usize,
    live: usize,
    live_seen: usize,
    /// Series that this scrape makes live, and such that it ends.
    fresh: Vec<u32>,
    stale: Vec<u32>,
}

impl SeriesCache {
    pub(super) fn new() -> Self {
        Self {
            // Targets must not be able to choose texts that collide.
            seed: RandomState::new().hash_one(0),
            exposed: Vec::new(),
            by_text: HashMap::new(),
            stored: Vec::new(),
            by_labels: HashMap::new(),
            scrape: 0,
            first: NONE,
            last: NONE,
            texts_seen: 0,
            live: 0,
            live_seen: 0,
            fresh: Vec::new(),
            stale: Vec::new(),
        }
    }

    /// A scrape begins, or begins again: what the last one would have changed is forgotten.
    pub(super) fn begin(&mut self) {
        self.scrape += 1;
        self.last = NONE;
        self.texts_seen = 0;
        self.live_seen = 0;
        self.fresh.clear();
        self.stale.clear();
    }

    pub(super) fn hash(&self, text: &[u8]) -> TextHash {
        TextHash(xxh3_128_with_seed(text, self.seed))
    }

    /// What a text meant before: `Some(None)` for a series that is dropped, `None` for a text that
    /// is new.
    #[inline]
    pub(super) fn find(&mut self, text: TextHash) -> Option<Option<SeriesIndex>> {
        let guess = match self.exposed.get(self.last as usize) {
            Some(last) => last.next,
            None => self.first,
        };
        let index = match self.exposed.get(guess as usize) {
            Some(exposed) if exposed.hash == text.0 => guess,
            _ => {
                let index = *self.by_text.get(&short(text))?;
                let found = self.exposed.get(index as usize)?;
                if found.hash != text.0 {
                    return None;
                }
                self.link(index);
                index
            }
        };
        Some(self.visit(index))
    }

    /// Remembers what a new text means; `None` for labels that relabelling drops.
    pub(super) fn insert(&mut self, text: TextHash, labels: Option<&[u8]>) -> Option<SeriesIndex> {
        let series = labels.map_or(NONE, |labels| self.series_of(labels));
        // A target with so many series fails for its size long before.
        let index = u32::try_from(self.exposed.len()).unwrap_or(NONE);
        self.exposed.push(TextEntry {
            hash: text.0,
            next: NONE,
            series,
            seen: 0,
        });
        self.by_text.insert(short(text), index);
        self.link(index);
        self.visit(index)
    }

    pub(super) fn labels(&self, series: SeriesIndex) -> &[u8] {
        self.stored
            .get(series.0 as usize)
            .map_or(&[], |stored| &stored.labels)
    }

    /// Notes that the scrape has a sample of the series; when it had one already, that one's
    /// timestamp. `tracked` says whether the series ends when it does not come again.
    #[inline]
    pub(super) fn mark(
        &mut self,
        series: SeriesIndex,
        timestamp_ms: i64,
        tracked: bool,
        histogram: bool,
    ) -> Option<i64> {
        let stored = self.stored.get_mut(series.0 as usize)?;
        if stored.seen == self.scrape {
            return Some(stored.first_ms);
        }
        stored.seen = self.scrape;
        stored.first_ms = timestamp_ms;
        stored.histogram = histogram;
        if stored.live {
            // A series that is no longer tracked does not end here, either: its samples go on.
            self.live_seen += 1;
        } else if tracked {
            self.fresh.push(series.0);
        }
        None
    }

    /// Whether an exemplar without a timestamp of its own is another one than the last.
    pub(super) fn exemplar_is_new(&mut self, series: SeriesIndex, hash: u64) -> bool {
        let hash = hash | 1;
        match self.stored.get_mut(series.0 as usize) {
            Some(stored) if stored.exemplar == hash => false,
            Some(stored) => {
                stored.exemplar = hash;
                true
            }
            None => true,
        }
    }

    /// The label bytes of every live series that this scrape did not have, and whether it is one of
    /// histograms. They are over when `commit` is called.
    pub(super) fn end_others(&mut self, mut end: impl FnMut(&[u8], bool)) {
        if self.live_seen == self.live {
            return;
        }
        for (index, stored) in (0u32..).zip(&self.stored) {
            if stored.live && stored.seen != self.scrape {
                end(&stored.labels, stored.histogram);
                self.stale.push(index);
            }
        }
    }

    /// The scrape is stored.
    pub(super) fn commit(&mut self) {
        for index in self.fresh.drain(..) {
            if let Some(stored) = self.stored.get_mut(index as usize) {
                stored.live = true;
                self.live += 1;
            }
        }
        for index in self.stale.drain(..) {
            if let Some(stored) = self.stored.get_mut(index as usize) {
                stored.live = false;
                self.live = self.live.saturating_sub(1);
            }
        }
        if self.exposed.len() > 2 * self.texts_seen + FORGOTTEN_MIN && self.texts_seen > 0 {
            self.forget_unseen();
        }
    }

    /// Texts may mean something else from now on (other labels of the target, other rules). Which
    /// series are live stays known, so that those that are not written any more end.
    pub(super) fn forget_texts(&mut self) {
        self.exposed = Vec::new();
        self.by_text = HashMap::new();
        self.first = NONE;
    }

    #[cfg(test)]
    fn series_live(&self) -> usize {
        self.live
    }

    #[inline]
    fn visit(&mut self, index: u32) -> Option<SeriesIndex> {
        self.last = index;
        let exposed = self.exposed.get_mut(index as usize)?;
        if exposed.seen != self.scrape {
            exposed.seen = self.scrape;
            self.texts_seen += 1;
        }
        (exposed.series != NONE).then_some(SeriesIndex(exposed.series))
    }

    fn link(&mut self, index: u32) {
        match self.exposed.get_mut(self.last as usize) {
            Some(last) => last.next = index,
            None => self.first = index,
        }
    }

    fn series_of(&mut self, labels: &[u8]) -> u32 {
        let hash = xxh3_64_with_seed(labels, self.seed);
        let known = self.by_labels.get(&hash).copied();
        let same = |index: &u32| {
            let stored = self.stored.get(*index as usize);
            stored.is_some_and(|stored| *stored.labels == *labels)
        };
        if let Some(index) = known.filter(same) {
            return index;
        }
        let index = u32::try_from(self.stored.len()).unwrap_or(NONE);
        self.stored.push(SeriesEntry {
            labels: labels.into(),
            seen: 0,
            first_ms: 0,
            live: false,
            histogram: false,
            exemplar: 0,
        });
        self.by_labels.insert(hash, index);
        index
    }

    /// Keeps what the last scrape had, and what is still live.
    fn forget_unseen(&mut self) {
        let mut moved = vec![NONE; self.stored.len()];
        let stored = std::mem::take(&mut self.stored);
        self.by_labels = HashMap::new();
        for (from, stored) in stored.into_iter().enumerate() {
            if stored.live || stored.seen == self.scrape {
                let to = u32::try_from(self.stored.len()).unwrap_or(NONE);
                if let Some(place) = moved.get_mut(from) {
                    *place = to;
                }
                let hash = xxh3_64_with_seed(&stored.labels, self.seed);
                self.by_labels.insert(hash, to);
                self.stored.push(stored);
            }
        }
        let exposed = std::mem::take(&mut self.exposed);
        self.by_text = HashMap::new();
        (self.first, self.last) = (NONE, NONE);
        for mut text in exposed {
            if text.seen != self.scrape {
                continue;
            }
            // A text whose series is forgotten is parsed again.
            if text.series != NONE {
                text.series = moved.get(text.series as usize).copied().unwrap_or(NONE);
                if text.series == NONE {
                    continue;
                }
            }
            text.next = NONE;
            let index = u32::try_from(self.exposed.len()).unwrap_or(NONE);
            self.by_text.insert(short(TextHash(text.hash)), index);
            self.exposed.push(text);
            self.link(index);
            self.last = index;
        }
    }
}

/// The part of a hash that maps are keyed by; the rest is compared.
fn short(hash: TextHash) -> u64 {
    hash.0 as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One scrape of these texts, which are labels, too; `-` in front means dropped. Gives back
    /// what ended.
    fn scrape(cache: &mut SeriesCache, texts: &[&str]) -> Vec<String> {
        cache.begin();
        for text in texts {
            let hash = cache.hash(text.as_bytes());
            let series = match cache.find(hash) {
                Some(series) => series,
                None => {
                    let labels = text.trim_end_matches('\'');
                    let kept = !labels.starts_with('-');
                    cache.insert(hash, kept.then_some(labels.as_bytes()))
                }
            };
            if let Some(series) = series {
                cache.mark(series, 0, true, false);
            }
        }
        let mut ended = Vec::new();
        cache.end_others(|labels, _| ended.push(String::from_utf8(labels.into()).unwrap()));
        ended
    }

    #[test]
    fn what_does_not_come_again_ends_once() {
        let mut cache = SeriesCache::new();
        assert!(scrape(&mut cache, &["a", "b", "-c", "d"]).is_empty());
        cache.commit();
        assert_eq!(scrape(&mut cache, &["a", "d"]), ["b"]);
        cache.commit();
        assert!(scrape(&mut cache, &["d", "a"]).is_empty());
        cache.commit();
        assert!(scrape(&mut cache, &["d", "b", "a"]).is_empty());
        cache.commit();
        assert_eq!(scrape(&mut cache, &[]), ["a", "b", "d"]);
        assert_eq!(cache.series_live(), 3);
        cache.commit();
        assert_eq!(cache.series_live(), 0);
    }

    #[test]
    fn what_was_not_stored_is_tried_again() {
        let mut cache = SeriesCache::new();
        scrape(&mut cache, &["a", "b"]);
        cache.commit();
        assert_eq!(scrape(&mut cache, &["a", "new"]), ["b"]);
        // No commit: the write failed. Nothing of `new` is stored, the end of `b` is not either.
        assert_eq!(scrape(&mut cache, &["a"]), ["b"]);
        cache.commit();
        assert_eq!(scrape(&mut cache, &[]), ["a"]);
    }

    #[test]
    fn two_texts_of_one_series_are_one_series() {
        let mut cache = SeriesCache::new();
        assert!(scrape(&mut cache, &["a", "a'"]).is_empty());
        cache.commit();
        assert_eq!(cache.series_live(), 1);
        assert!(scrape(&mut cache, &["a'"]).is_empty());
        cache.begin();
        let hash = cache.hash(b"a");
        let one = cache.find(hash).flatten().unwrap();
        let hash = cache.hash(b"a'");
        let other = cache.find(hash).flatten().unwrap();
        assert_eq!(one, other);
        assert_eq!(cache.mark(one, 7, true, false), None);
        assert_eq!(cache.mark(other, 8, true, false), Some(7));
    }

    #[test]
    fn the_order_of_the_last_scrape_is_guessed() {
        let mut cache = SeriesCache::new();
        scrape(&mut cache, &["a", "b", "c"]);
        cache.commit();
        // With the map gone only the guess can find them.
        cache.by_text.clear();
        cache.begin();
        for text in ["a", "b", "c"] {
            let hash = cache.hash(text.as_bytes());
            assert!(cache.find(hash).is_some(), "{text}");
        }
    }

    #[test]
    fn other_rules_end_series_that_are_not_written_any_more() {
        let mut cache = SeriesCache::new();
        scrape(&mut cache, &["a", "b"]);
        cache.commit();
        cache.forget_texts();
        cache.begin();
        for (text, labels) in [("a", "a"), ("b", "renamed")] {
            let hash = cache.hash(text.as_bytes());
            assert!(cache.find(hash).is_none());
            let series = cache.insert(hash, Some(labels.as_bytes())).unwrap();
            cache.mark(series, 0, true, false);
        }
        let mut ended = Vec::new();
        cache.end_others(|labels, _| ended.push(labels.to_vec()));
        assert_eq!(ended, [b"b"]);
    }

    #[test]
    fn memory_follows_what_is_exposed() {
        let mut cache = SeriesCache::new();
        for round in 0..20 {
            let texts: Vec<String> = (0..200).map(|i| format!("{round}-{i}")).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).chain(["same"]).collect();
            let ended = scrape(&mut cache, &texts);
            assert_eq!(ended.len(), if round == 0 { 0 } else { 200 });
            cache.commit();
            assert!(cache.exposed.len() <= 2 * 201 + FORGOTTEN_MIN);
            assert_eq!(cache.series_live(), 201);
        }
        assert!(cache.stored.len() <= 2 * 201 + FORGOTTEN_MIN);
    }

    #[test]
    fn untracked_series_never_end() {
        let mut cache = SeriesCache::new();
        cache.begin();
        let hash = cache.hash(b"own time");
        let series = cache.insert(hash, Some(b"own time")).unwrap();
        cache.mark(series, 0, false, false);
        cache.end_others(|_, _| panic!("nothing ends"));
        cache.commit();
        assert!(scrape(&mut cache, &[]).is_empty());
    }

    #[test]
    fn an_exemplar_without_a_time_is_new_once() {
        let mut cache = SeriesCache::new();
        cache.begin();
        let hash = cache.hash(b"a");
        let series = cache.insert(hash, Some(b"a")).unwrap();
        assert!(cache.exemplar_is_new(series, 7));
        assert!(!cache.exemplar_is_new(series, 7));
        assert!(cache.exemplar_is_new(series, 9));
    }
}
