//! Labels that a query makes, rather than the source.
//!
//! Holds always:
//! - Memory of labels is reserved before they are built.
//! - No value is longer than `query.label_value_bytes_max`, and no label set larger than
//!   [`LABEL_SET_BYTES_MAX`]: nested calls of `label_join` would multiply their bytes.

use icecore_model::{Labels, Reservation};
use parking_lot::Mutex;

use super::{Context, Row, Values};
use crate::annotations::shortened;
use crate::error::{Error, Result};

/// Most bytes of the names and values of one label set that a query makes. Three times as many as
/// the default limits of ingest admit, which are 64 labels of 5 KiB; and few enough that copies of
/// one set, as key of a group for example, need no account of their own.
pub(crate) const LABEL_SET_BYTES_MAX: usize = 1 << 20;

/// The rows of a function between two looks at the deadline.
const ROWS_PER_CHECK: usize = 64;

/// Builds labels for one operator. They count towards the memory of the query until this is
/// dropped.
pub(crate) struct LabelMaker<'q> {
    context: &'q Context<'q>,
    held: Mutex<Reservation>,
}

impl<'q> LabelMaker<'q> {
    pub(crate) fn new(context: &'q Context<'q>) -> Result<Self> {
        Ok(Self {
            context,
            held: Mutex::new(context.reserve(0)?),
        })
    }

    /// Fails now and then, by the number of the row at hand, if the query was canceled or its
    /// deadline has passed.
    pub(crate) fn check_at(&self, row: usize) -> Result<()> {
        if row.is_multiple_of(ROWS_PER_CHECK) {
            self.context.check()?;
        }
        Ok(())
    }

    /// Most bytes of a value that a function makes.
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.context.limits.label_value_bytes
    }

    /// The error for a longer value. `maker` is the function or aggregation.
    pub(crate) fn value_too_long(&self, maker: &str, label: &str) -> Error {
        let label = shortened(label);
        Error::LimitReached(format!(
            "{maker}() makes a value of label {label:?} with more than {} bytes \
             (query.label_value_bytes_max): join or repeat fewer labels, or raise the setting",
            self.value_bytes_max()
        ))
    }

    /// Fails if a value of `bytes` is too long.
    pub(crate) fn check_value(&self, maker: &str, label: &str, bytes: usize) -> Result<()> {
        if bytes > self.value_bytes_max() {
            Err(self.value_too_long(maker, label))
        } else {
            Ok(())
        }
    }

    /// The labels with one of them set; an empty value removes it.
    pub(crate) fn with_label(&self, labels: &Labels, name: &str, value: &str) -> Result<Labels> {
        let others = labels.iter().filter(move |(other, _)| *other != name);
        let before = others.clone().take_while(move |(other, _)| *other < name);
        let after = others.skip_while(move |(other, _)| *other < name);
        let set = (!value.is_empty()).then_some((name, value));
        self.context.check()?;
        self.sorted(before.chain(set).chain(after))
    }

    /// Builds a set from pairs that are sorted, unique and without empty values.
    pub(crate) fn sorted<'a>(
        &self,
        pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Result<Labels> {
        let (mut count, mut bytes) = (0, 0usize);
        for (name, value) in pairs.clone() {
            count += 1;
            bytes += name.len() + value.len();
        }
        if bytes > LABEL_SET_BYTES_MAX {
            return Err(Error::LimitReached(format!(
                "the query makes a series whose labels take {bytes} bytes, more than \
                 {LABEL_SET_BYTES_MAX}: set fewer or shorter labels"
            )));
        }
        self.grow(Labels::heap_bytes_of(count, bytes))?;
        Ok(Labels::from_sorted(pairs))
    }

    /// Reserves memory for something else that the operator makes.
    pub(crate) fn grow(&self, bytes: usize) -> Result<()> {
        self.context.grow(&mut self.held.lock(), bytes)
    }

    /// Reserves memory for a row that the operator makes, besides its labels.
    pub(crate) fn grow_row(&self, values: &Values) -> Result<()> {
        self.grow(size_of::<Row>() + values.heap_bytes())
    }

    /// Reserves memory for rows of floats before they are made, besides their labels.
    pub(crate) fn grow_rows(&self, rows: usize, steps: usize) -> Result<()> {
        self.grow(rows.saturating_mul(size_of::<Row>() + 8 * steps))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::exec::Limits;
    use crate::memory_source::MemorySource;

    fn with_maker<T>(memory_bytes: usize, make: impl FnOnce(&LabelMaker<'_>) -> T) -> (T, usize) {
        let (source, canceled) = (MemorySource::default(), AtomicBool::new(false));
        let limits = Limits {
            memory_bytes,
            samples: 1,
            label_value_bytes: 10,
        };
        let context = Context::new(&source, limits, &canceled, None);
        let made = make(&LabelMaker::new(&context).unwrap());
        assert_eq!(context.memory.used(), 0);
        (made, context.memory_peak())
    }

    #[test]
    fn a_label_is_set_in_its_place() {
        let labels = Labels::from_pairs([("__name__", "m"), ("b", "2"), ("d", "4")]);
        for (name, value) in [
            ("a", "1"),
            ("b", "3"),
            ("c", "3"),
            ("e", "5"),
            ("d", ""),
            ("x", ""),
        ] {
            let (made, peak) = with_maker(1 << 20, |maker| maker.with_label(&labels, name, value));
            let pairs = labels.iter().chain([(name, value)]);
            let expected = Labels::from_pairs(pairs);
            let made = made.unwrap();
            assert_eq!(made, expected);
            assert_eq!(peak, made.heap_bytes());
        }
    }

    #[test]
    fn sets_are_refused_before_they_are_built() {
        let value = "x".repeat(LABEL_SET_BYTES_MAX - 1);
        let set = |name: &str, memory| {
            let labels = Labels::empty();
            let (made, peak) = with_maker(memory, |maker| maker.with_label(&labels, name, &value));
            (made.map_err(|error| error.to_string()), peak)
        };
        assert!(set("a", 1 << 30).0.is_ok());
        let (refused, peak) = set("ab", 1 << 30);
        assert!(refused.unwrap_err().contains("take 1048577 bytes"));
        assert_eq!(peak, 0);
        assert!(
            set("a", 1 << 20)
                .0
                .unwrap_err()
                .contains("query.max_memory")
        );
    }
}
