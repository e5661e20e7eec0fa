//! Label sets: what identifies a series.
//!
//! Holds always:
//! - Sorted by name; names are unique; no value is empty (an empty value means "absent").
//! - Cloning shares; the fingerprint is computed once, when the set is built.
//! - The order of label sets is "metric name first, then pair by pair": the order in which ids are
//!   given out on disk, so that one metric's series are neighbours.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::quote::{write_label_name, write_quoted};

/// The label that holds the metric name.
pub const METRIC_NAME: &str = "__name__";

/// An immutable, shared label set.
#[derive(Clone)]
pub struct Labels(Arc<Inner>);

struct Inner {
    fingerprint: u128,
    /// All names and values, one after the other.
    text: Box<str>,
    /// Where each piece of `text` ends: name, value, name, value…
    ends: Box<[u32]>,
}

impl Labels {
    /// The label set without labels.
    pub fn empty() -> Self {
        LabelsBuilder::default().build()
    }

    /// Builds a set from pairs in any order; of equal names the last one counts.
    pub fn from_pairs<N: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let mut builder = LabelsBuilder::default();
        for (name, value) in pairs {
            builder.set(name.as_ref(), value.as_ref());
        }
        builder.build()
    }

    /// Builds a set from pairs that are known to be sorted, unique and without empty values.
    pub fn from_sorted<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Self {
        let mut count = 0;
        let mut bytes = 0;
        for (name, value) in pairs.clone() {
            count += 1;
            bytes += name.len() + value.len();
        }
        let mut text = String::with_capacity(bytes);
        let mut ends = Vec::with_capacity(2 * count);
        let mut previous: Option<&str> = None;
        for (name, value) in pairs {
            debug_assert!(
                previous.is_none_or(|p| p < name) && !value.is_empty(),
                "labels must be sorted, unique and not empty"
            );
            previous = Some(name);
            text.push_str(name);
            ends.push(text.len() as u32);
            text.push_str(value);
            ends.push(text.len() as u32);
        }
        let mut labels = Inner {
            fingerprint: 0,
            text: text.into_boxed_str(),
            ends: ends.into_boxed_slice(),
        };
        labels.fingerprint = fingerprint(pairs_of(&labels), bytes + 4 * count);
        Self(Arc::new(labels))
    }

    /// The stored identity of the set: XXH3-128, seed 0, over `(u16 LE length, bytes)` of each name
    /// and value in order. Length prefixes make `{ab="c"}` and `{a="bc"}` differ.
    pub fn fingerprint(&self) -> u128 {
        self.0.fingerprint
    }

    pub fn len(&self) -> usize {
        self.0.ends.len() / 2
    }

    pub fn is_empty(&self) -> bool {
        self.0.ends.is_empty()
    }

    /// The pairs in the order of their names.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone {
        pairs_of(&self.0)
    }

    /// The value of a label; `None` where it is absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        // Names are compared as bytes, and only the value that is found is cut out: this runs for
        // every series of a query.
        let (text, mut start) = (&*self.0.text, 0);
        for ends in self.0.ends.chunks_exact(2) {
            let (middle, end) = (ends[0] as usize, ends[1] as usize);
            if text.as_bytes()[start..middle] == *name.as_bytes() {
                return Some(&text[middle..end]);
            }
            start = end;
        }
        None
    }

    /// The value of `__name__`, or the empty string.
    pub fn metric_name(&self) -> &str {
        self.get(METRIC_NAME).unwrap_or_default()
    }

    /// Whether there is another clone of this set, so that dropping this one would free nothing.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Bytes that the set holds in memory, for accounting.
    pub fn heap_bytes(&self) -> usize {
        Self::heap_bytes_of(self.len(), self.0.text.len())
    }

    /// Bytes that a set of `count` labels would hold in memory, whose names and values take
    /// `text_bytes`.
    pub fn heap_bytes_of(count: usize, text_bytes: usize) -> usize {
        size_of::<Inner>() + text_bytes + 8 * count
    }
}

#[inline]
fn pairs_of(inner: &Inner) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone {
    let ends = &inner.ends;
    (0..ends.len() / 2).map(move |i| {
        let start = if i == 0 { 0 } else { ends[2 * i - 1] as usize };
        let middle = ends[2 * i] as usize;
        let end = ends[2 * i + 1] as usize;
        (&inner.text[start..middle], &inner.text[middle..end])
    })
}

/// Most bytes of the hash's input that are gathered first: threads keep the buffer, and a query can
/// make labels of any size.
const HASHED_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// Input of the hash, reused because label sets are made by the million.
    static HASHED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The fingerprint of pairs that are `bytes` of input for the hash.
fn fingerprint<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>, bytes: usize) -> u128 {
    let pieces = pairs.flat_map(|(name, value)| [name, value]);
    if bytes > HASHED_BYTES_MAX {
        let mut hash = Xxh3::new();
        for piece in pieces {
            hash.update(&(piece.len() as u16).to_le_bytes());
            hash.update(piece.as_bytes());
        }
        return hash.digest128();
    }
    HASHED.with_borrow_mut(|buffer| {
        buffer.clear();
        for piece in pieces {
            buffer.extend_from_slice(&(piece.len() as u16).to_le_bytes());
            buffer.extend_from_slice(piece.as_bytes());
        }
        xxh3_128(buffer)
    })
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.fingerprint == other.0.fingerprint
                && self.0.text == other.0.text
                && self.0.ends == other.0.ends)
    }
}

impl Eq for Labels {}

impl Hash for Labels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.fingerprint as u64);
    }
}

impl Ord for Labels {
    fn cmp(&self, other: &Self) -> Ordering {
        self.metric_name()
            .cmp(other.metric_name())
            .then_with(|| rest(self).cmp(rest(other)))
    }
}

/// The pairs without the metric name.
fn rest(labels: &Labels) -> impl Iterator<Item = (&str, &str)> {
    labels.iter().filter(|(name, _)| *name != METRIC_NAME)
}

impl PartialOrd for Labels {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Labels {
    /// The way PromQL writes a series: `name{a="b"}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.metric_name())?;
        let mut rest = self.iter().filter(|(n, _)| *n != METRIC_NAME).peekable();
        if rest.peek().is_none() && !self.metric_name().is_empty() {
            return Ok(());
        }
        f.write_str("{")?;
        for (i, (name, value)) in rest.enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            f.write_str(comma)?;
            write_label_name(f, name)?;
            f.write_str("=")?;
            write_quoted(f, value)?;
        }
        f.write_str("}")
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Gathers pairs in any order.
#[derive(Default, Clone)]
pub struct LabelsBuilder {
    pairs: Vec<(String, String)>,
}

impl LabelsBuilder {
    pub fn from_labels(labels: &Labels) -> Self {
        let pairs = labels.iter().map(|(n, v)| (n.into(), v.into())).collect();
        Self { pairs }
    }

    /// Sets a label; an empty value removes it.
    pub fn set(&mut self, name: &str, value: &str) -> &mut Self {
        self.pairs.retain(|(n, _)| n != name);
        if !value.is_empty() {
            self.pairs.push((name.into(), value.into()));
        }
        self
    }

    pub fn build(mut self) -> Labels {
        self.pairs.sort_unstable();
        Labels::from_sorted(self.pairs.iter().map(|(n, v)| (n.as_str(), v.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sorts_and_drops_empty_values() {
        let labels = Labels::from_pairs([("b", "2"), ("a", ""), ("__name__", "up"), ("b", "3")]);
        assert_eq!(
            labels.iter().collect::<Vec<_>>(),
            [("__name__", "up"), ("b", "3")]
        );
        assert_eq!(labels.to_string(), "up{b=\"3\"}");
        assert_eq!(labels.get("a"), None);
    }

    #[test]
    fn length_prefixes_tell_sets_apart() {
        let one = Labels::from_pairs([("ab", "c")]);
        let other = Labels::from_pairs([("a", "bc")]);
        assert_ne!(one, other);
        assert_ne!(one.fingerprint(), other.fingerprint());
    }

    #[test]
    fn metric_name_sorts_first() {
        // 'A' sorts before '_', so pair order alone would let `A` decide.
        let a = Labels::from_pairs([("__name__", "a"), ("A", "z")]);
        let b = Labels::from_pairs([("__name__", "b"), ("A", "a")]);
        assert!(a < b);
    }

    #[test]
    fn printed_as_promql_writes_it() {
        let text = |pairs: &[(&str, &str)]| Labels::from_pairs(pairs.iter().copied()).to_string();
        assert_eq!(text(&[]), "{}");
        assert_eq!(text(&[("__name__", "up")]), "up");
        assert_eq!(text(&[("a", "b\n\u{7f}\"")]), r#"{a="b\n\x7f\""}"#);
        assert_eq!(
            text(&[("http.code", "200"), ("a", "b")]),
            r#"{a="b", "http.code"="200"}"#
        );
    }

    #[test]
    fn the_fingerprint_is_pinned() {
        // XXH3-128 of 08 00 "__name__" 02 00 "up" 01 00 "a" 01 00 "b", and of nothing.
        let labels = Labels::from_pairs([("a", "b"), ("__name__", "up")]);
        let bytes = b"\x08\0__name__\x02\0up\x01\0a\x01\0b";
        assert_eq!(labels.fingerprint(), xxh3_128(bytes));
        assert_eq!(
            Labels::empty().fingerprint(),
            0x99aa06d3014798d86001c324468d497f
        );
    }

    #[test]
    fn large_sets_have_the_same_fingerprint_without_a_buffer() {
        for value_bytes in [
            HASHED_BYTES_MAX - 20,
            HASHED_BYTES_MAX,
            3 * HASHED_BYTES_MAX,
        ] {
            let value = "v".repeat(value_bytes);
            let labels = Labels::from_pairs([("a", value.as_str()), ("b", "2")]);
            let mut input = Vec::new();
            for piece in ["a", &value, "b", "2"] {
                input.extend_from_slice(&(piece.len() as u16).to_le_bytes());
                input.extend_from_slice(piece.as_bytes());
            }
            assert_eq!(labels.fingerprint(), xxh3_128(&input));
        }
        let kept = HASHED.with_borrow(Vec::capacity);
        assert!(kept <= 2 * HASHED_BYTES_MAX, "{kept}");
    }

    fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
        prop::collection::vec(("(__name__|[A-c_]{1,3})", "[a-cé]{0,3}"), 0..8)
    }

    proptest! {
        #[test]
        fn a_set_is_what_a_map_would_hold(pairs in pairs()) {
            let mut map = BTreeMap::new();
            for (name, value) in &pairs {
                map.insert(name.as_str(), value.as_str());
            }
            map.retain(|_, value| !value.is_empty());
            let labels = Labels::from_pairs(pairs.iter().map(|(n, v)| (n, v)));
            let expected: Vec<_> = map.iter().map(|(n, v)| (*n, *v)).collect();
            prop_assert_eq!(labels.iter().collect::<Vec<_>>(), expected);
            prop_assert_eq!(labels.len(), map.len());
            prop_assert_eq!(labels.is_empty(), map.is_empty());
            for (name, _) in &pairs {
                prop_assert_eq!(labels.get(name), map.get(name.as_str()).copied());
            }
            prop_assert_eq!(LabelsBuilder::from_labels(&labels).build(), labels);
        }

        #[test]
        fn order_equality_and_fingerprint_agree(a in pairs(), b in pairs()) {
            let (a, b) = (Labels::from_pairs(a), Labels::from_pairs(b));
            prop_assert_eq!(a.cmp(&b).is_eq(), a == b);
            prop_assert_eq!(a.fingerprint() == b.fingerprint(), a == b);
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            if a.metric_name() != b.metric_name() {
                prop_assert_eq!(a.cmp(&b), a.metric_name().cmp(b.metric_name()));
            }
        }

        #[test]
        fn order_is_transitive(mut sets in prop::collection::vec(pairs(), 3)) {
            let mut sets: Vec<_> = sets.drain(..).map(Labels::from_pairs).collect();
            sets.sort();
            prop_assert!(sets[0] <= sets[1] && sets[1] <= sets[2] && sets[0] <= sets[2]);
        }
    }
}
