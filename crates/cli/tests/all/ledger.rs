//! What must be in the database: each sample that was acknowledged, and what may be there beside
//! it.
//!
//! Holds always:
//! - One owner writes a series, one request after the other, so which write was last is known.
//! - A request without an answer may have happened or not. Its values stay possible until a later
//!   request is acknowledged for the same time, or a restart shows what became of it.

use std::collections::{BTreeMap, HashMap};

/// A sample's value, equal when every bit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// The bits of a float.
    Float(u64),
    /// A native histogram that is made from this number.
    Histogram(u32),
}

/// What may be found at one time of one series.
#[derive(Clone, Debug, Default)]
struct Cell {
    acknowledged: Option<Value>,
    /// Values of requests without an answer, since the acknowledged one.
    possible: Vec<Value>,
}

/// All that was sent for one series.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeriesLedger {
    cells: BTreeMap<i64, Cell>,
}

/// Label names and values in label order.
pub(crate) type LabelSet = Vec<(String, String)>;

/// Times, which ascend, and what lies there.
pub(crate) type Samples = Vec<(i64, Value)>;

/// What an export found.
pub(crate) type Found = HashMap<LabelSet, Samples>;

impl SeriesLedger {
    /// A request is about to be sent.
    pub(crate) fn sending(&mut self, samples: &[(i64, Value)]) {
        for (timestamp_ms, value) in last_of_each_time(samples) {
            let cell = self.cells.entry(timestamp_ms).or_default();
            if !cell.possible.contains(&value) {
                cell.possible.push(value);
            }
        }
    }

    /// The request was answered with success.
    pub(crate) fn acknowledged(&mut self, samples: &[(i64, Value)]) {
        for (timestamp_ms, value) in last_of_each_time(samples) {
            let cell = self.cells.entry(timestamp_ms).or_default();
            cell.acknowledged = Some(value);
            cell.possible.clear();
        }
    }

    pub(crate) fn times(&self) -> impl DoubleEndedIterator<Item = i64> + '_ {
        self.cells.keys().copied()
    }

    /// The value that is certainly there.
    pub(crate) fn certain(&self, timestamp_ms: i64) -> Option<Value> {
        let cell = self.cells.get(&timestamp_ms)?;
        cell.acknowledged.filter(|_| cell.possible.is_empty())
    }

    pub(crate) fn acknowledged_times(&self) -> usize {
        let acknowledged = |cell: &&Cell| cell.acknowledged.is_some();
        self.cells.values().filter(acknowledged).count()
    }

    /// Compares with what was read; the differences, in words.
    pub(crate) fn differences(&self, found: &[(i64, Value)]) -> Vec<String> {
        let mut differences = Vec::new();
        let mut expected = self.cells.iter().peekable();
        let mut last = i64::MIN;
        for (timestamp_ms, value) in found {
            if *timestamp_ms <= last {
                differences.push(format!("at {timestamp_ms}: twice, or out of order"));
            }
            last = *timestamp_ms;
            while let Some((missing, cell)) = expected.next_if(|(t, _)| **t < *timestamp_ms) {
                differences.extend(cell.mismatch(*missing, None));
            }
            match expected.next_if(|(t, _)| **t == *timestamp_ms) {
                Some((_, cell)) => {
                    differences.extend(cell.mismatch(*timestamp_ms, Some(*value)));
                }
                None => differences.push(format!("at {timestamp_ms}: {value:?} was never written")),
            }
        }
        for (missing, cell) in expected {
            differences.extend(cell.mismatch(*missing, None));
        }
        differences
    }

    /// After a restart: what was found is what there is from now on.
    pub(crate) fn settle(&mut self, found: &[(i64, Value)]) {
        let open: Vec<i64> = self
            .cells
            .iter()
            .filter(|(_, cell)| !cell.possible.is_empty())
            .map(|(timestamp_ms, _)| *timestamp_ms)
            .collect();
        for timestamp_ms in open {
            match found.binary_search_by_key(&timestamp_ms, |sample| sample.0) {
                Ok(at) => {
                    let settled = Cell {
                        acknowledged: Some(found[at].1),
                        possible: Vec::new(),
                    };
                    self.cells.insert(timestamp_ms, settled);
                }
                Err(_) => drop(self.cells.remove(&timestamp_ms)),
            }
        }
    }
}

impl Cell {
    fn mismatch(&self, timestamp_ms: i64, found: Option<Value>) -> Option<String> {
        let right =
            found == self.acknowledged || found.is_some_and(|value| self.possible.contains(&value));
        (!right).then(|| format!("at {timestamp_ms}: found {found:x?}, expected {self:x?}"))
    }
}

/// Within one request, too, the last value of a time wins.
fn last_of_each_time(samples: &[(i64, Value)]) -> BTreeMap<i64, Value> {
    samples.iter().copied().collect()
}

#[test]
fn a_ledger_tells_loss_invention_and_doubt() {
    let (old, new, other) = (Value::Float(1), Value::Float(2), Value::Float(3));
    let mut ledger = SeriesLedger::default();
    ledger.sending(&[(10, old), (20, old)]);
    ledger.acknowledged(&[(10, old), (20, old)]);
    ledger.sending(&[(20, new), (30, new)]);
    let right = |found: &[(i64, Value)]| ledger.differences(found).is_empty();
    assert!(right(&[(10, old), (20, old)]));
    assert!(right(&[(10, old), (20, new), (30, new)]));
    assert!(!right(&[(20, old)]), "loss");
    assert!(!right(&[(10, old), (20, other)]), "a value never sent");
    assert!(!right(&[(10, old), (20, old), (40, new)]), "invention");
    assert!(!right(&[(10, old), (10, old), (20, old)]), "twice");
    let mut settled = ledger.clone();
    settled.settle(&[(10, old), (20, new)]);
    assert!(settled.differences(&[(10, old), (20, new)]).is_empty());
    assert!(!settled.differences(&[(10, old), (20, old)]).is_empty());
    assert_eq!(settled.acknowledged_times(), 2);
}
