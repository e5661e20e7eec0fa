//! The labels by which rows are grouped or joined, as a key of bytes.
//!
//! Comparing bytes is exact (no hash collisions) and needs no allocation for an existing key.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use icecore_model::{Labels, METRIC_NAME};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Selects the labels of keys.
#[derive(Clone, Debug)]
pub(super) struct LabelKey {
    /// Sorted, unique.
    names: Vec<String>,
    /// All labels but `names` and the metric name, rather than only `names`.
    excluding: bool,
}

impl LabelKey {
    pub(super) fn new(names: &[String], excluding: bool) -> Self {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        Self { names, excluding }
    }

    /// Writes the key of a label set.
    pub(super) fn write(&self, labels: &Labels, key: &mut Vec<u8>) {
        key.clear();
        if !self.excluding {
            for name in &self.names {
                push(key, labels.get(name).unwrap_or_default());
            }
            return;
        }
        for (name, value) in labels.iter().filter(|(name, _)| self.counts(name)) {
            push(key, name);
            push(key, value);
        }
    }

    /// The labels of the key.
    pub(super) fn project(&self, labels: &Labels) -> Labels {
        Labels::from_sorted(labels.iter().filter(|(name, _)| self.counts(name)))
    }

    pub(super) fn counts(&self, name: &str) -> bool {
        // Lists are short: a linear search is faster than a binary one.
        let listed = self.names.iter().any(|n| n == name);
        if self.excluding {
            !listed && name != METRIC_NAME
        } else {
            listed
        }
    }
}

fn push(key: &mut Vec<u8>, text: &str) {
    key.extend_from_slice(&(text.len() as u32).to_le_bytes());
    key.extend_from_slice(text.as_bytes());
}

/// Assigns ids to keys in the order in which they are first seen.
#[derive(Debug, Default)]
pub(super) struct KeyInterner {
    numbers: HashMap<Box<[u8]>, usize, KeyHash>,
    key_bytes: usize,
    /// The last key: neighbours often have the same one.
    last: Vec<u8>,
    last_number: usize,
}

impl KeyInterner {
    /// The id of a key, and whether it is new.
    pub(super) fn intern(&mut self, key: &[u8]) -> (usize, bool) {
        if self.last == key && !self.numbers.is_empty() {
            return (self.last_number, false);
        }
        let (number, is_new) = match self.numbers.get(key) {
            Some(number) => (*number, false),
            None => {
                let number = self.numbers.len();
                self.numbers.insert(key.into(), number);
                self.key_bytes += key.len();
                (number, true)
            }
        };
        self.last.clear();
        self.last.extend_from_slice(key);
        self.last_number = number;
        (number, is_new)
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The bytes of all keys.
    pub(super) fn key_bytes(&self) -> usize {
        self.key_bytes
    }
}

/// XXH3 with a random seed, so that clients cannot choose labels that collide.
#[derive(Clone, Debug)]
struct KeyHash {
    seed: u64,
}

impl Default for KeyHash {
    fn default() -> Self {
        Self {
            seed: RandomState::new().hash_one(0),
        }
    }
}

impl BuildHasher for KeyHash {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(self.seed)
    }
}

struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    fn write_usize(&mut self, length: usize) {
        self.0 ^= length as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Labels that identify a metric: its name, and type and unit, which are removed with the name.
const METRIC_LABELS: [&str; 3] = [METRIC_NAME, "__type__", LAST_METRIC_LABEL];

/// The last of them in the order of labels.
pub(super) const LAST_METRIC_LABEL: &str = "__unit__";

pub(super) fn is_metric_label(name: &str) -> bool {
    METRIC_LABELS.contains(&name)
}

/// A label set without metric name, type and unit.
pub(super) fn without_name(labels: &Labels) -> Labels {
    Labels::from_sorted(labels.iter().filter(|(name, _)| !is_metric_label(name)))
}
