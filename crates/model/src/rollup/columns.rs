//! The windows of a series as columns: what a query reads.

use std::ops::{BitOr, BitOrAssign};

use super::{Aggregate, Edge, Resolution, Window};
use crate::TimeColumn;

/// A set of columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowFields(u16);

impl WindowFields {
    pub const NONE: Self = Self(0);
    /// How many numbers, how many NaN.
    pub const COUNTS: Self = Self(1);
    /// Time and value of the first sample.
    pub const FIRST: Self = Self(1 << 1);
    pub const LAST: Self = Self(1 << 2);
    pub const SUM: Self = Self(1 << 3);
    pub const MIN: Self = Self(1 << 4);
    pub const MAX: Self = Self(1 << 5);
    pub const M2: Self = Self(1 << 6);
    pub const CORRECTION: Self = Self(1 << 7);
    pub const RESETS: Self = Self(1 << 8);
    pub const CHANGES: Self = Self(1 << 9);
    pub const ALL: Self = Self((1 << 10) - 1);

    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// What to read of windows of histograms for a function that reads these columns of floats. The
    /// increase of a counter has the coarsest layout of its histograms, which only their sum tells,
    /// as it tells whether there is a gauge among them.
    pub fn of_histograms(self) -> Self {
        if self.contains(Self::CORRECTION) {
            self | Self::SUM
        } else {
            self
        }
    }
}

impl BitOr for WindowFields {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

impl BitOrAssign for WindowFields {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// The windows of one series at one resolution, in time order. Each column is as long as `starts`,
/// or empty when it was not read or is not kept. Where a window has nothing after its start, its
/// counts are 0 and the other columns hold anything.
///
/// What hardly any series has takes no memory where it is not: `edges`, `ends_stale`, `nans`,
/// `correction`, `resets` and `changes` are empty, too, when no window has any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WindowColumns {
    /// The columns that are there.
    pub fields: WindowFields,
    pub starts: TimeColumn,
    pub edges: Vec<Edge>,
    /// Whether a stale marker is the last thing inside.
    pub ends_stale: Vec<bool>,
    pub numbers: Vec<u64>,
    pub nans: Vec<u64>,
    pub first_ms: Vec<i64>,
    pub first: Vec<f64>,
    pub last_ms: Vec<i64>,
    pub last: Vec<f64>,
    pub sum: Vec<f64>,
    pub min: Vec<f64>,
    pub max: Vec<f64>,
    pub m2: Vec<f64>,
    pub correction: Vec<f64>,
    pub resets: Vec<u64>,
    pub changes: Vec<u64>,
}

impl WindowColumns {
    /// The windows with these columns.
    pub fn from_windows(windows: &[Window], fields: WindowFields) -> Self {
        let mut columns = Self {
            fields,
            starts: windows.iter().map(|window| window.start_ms).collect(),
            ..Self::default()
        };
        let nothing = Aggregate {
            numbers: 0,
            nans: 0,
            ..Aggregate::of(0, 0.0)
        };
        for window in windows {
            columns.edges.push(window.edge);
            columns.ends_stale.push(window.ends_stale);
            columns.push(window.interior.as_ref().unwrap_or(&nothing));
        }
        columns.leave_out_defaults();
        columns
    }

    fn push(&mut self, interior: &Aggregate) {
        let fields = self.fields;
        let has = |field| fields.contains(field);
        if has(WindowFields::COUNTS) {
            self.numbers.push(interior.numbers);
            self.nans.push(interior.nans);
        }
        if has(WindowFields::FIRST) {
            self.first_ms.push(interior.first_ms);
            self.first.push(interior.first);
        }
        if has(WindowFields::LAST) {
            self.last_ms.push(interior.last_ms);
            self.last.push(interior.last);
        }
        for (field, column, value) in [
            (WindowFields::SUM, &mut self.sum, interior.sum),
            (WindowFields::MIN, &mut self.min, interior.min),
            (WindowFields::MAX, &mut self.max, interior.max),
            (WindowFields::M2, &mut self.m2, interior.m2),
            (
                WindowFields::CORRECTION,
                &mut self.correction,
                interior.correction,
            ),
        ] {
            if has(field) {
                column.push(value);
            }
        }
        if has(WindowFields::RESETS) {
            self.resets.push(interior.resets);
        }
        if has(WindowFields::CHANGES) {
            self.changes.push(interior.changes);
        }
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The sample at the start of a window.
    #[inline]
    pub fn edge(&self, i: usize) -> Edge {
        self.edges.get(i).copied().unwrap_or_default()
    }

    /// Whether a stale marker is the last thing inside of a window.
    #[inline]
    pub fn ends_stale(&self, i: usize) -> bool {
        self.ends_stale.get(i).copied().unwrap_or_default()
    }

    /// How many NaN a window has; the counts must be there.
    #[inline]
    pub fn nans(&self, i: usize) -> u64 {
        self.nans.get(i).copied().unwrap_or_default()
    }

    /// Whether a window has samples after its start; the counts must be there.
    #[inline]
    pub fn has_interior(&self, i: usize) -> bool {
        self.numbers[i] | self.nans(i) != 0
    }

    /// Approximate bytes held; starts are mostly shared and not counted.
    pub fn heap_bytes(&self) -> usize {
        let floats = [
            &self.first,
            &self.last,
            &self.sum,
            &self.min,
            &self.max,
            &self.m2,
            &self.correction,
        ];
        let floats: usize = floats.iter().map(|column| column.capacity()).sum();
        let counts = [&self.numbers, &self.nans, &self.resets, &self.changes];
        let counts: usize = counts.iter().map(|column| column.capacity()).sum();
        let times = self.first_ms.capacity() + self.last_ms.capacity();
        8 * (floats + counts + times)
            + size_of::<Edge>() * self.edges.capacity()
            + self.ends_stale.capacity()
    }

    /// The windows, of which the counts must be there; [`Self::interior`] says what becomes of
    /// columns that are not.
    pub fn windows(&self) -> Vec<Window> {
        let window = |i: usize| Window {
            start_ms: self.starts[i],
            edge: self.edge(i),
            interior: self.interior(i),
            ends_stale: self.ends_stale(i),
            has_late: false,
        };
        (0..self.len()).map(window).collect()
    }

    /// The samples that are left, in time order; needs counts, first and last samples.
    pub fn samples(&self) -> impl Iterator<Item = (i64, f64)> {
        let has_ends = self
            .fields
            .contains(WindowFields::COUNTS | WindowFields::FIRST | WindowFields::LAST);
        (0..self.len()).flat_map(move |i| {
            let edge = match self.edge(i) {
                Edge::Sample(value) => Some((self.starts[i], value)),
                Edge::None | Edge::Stale => None,
            };
            let interior = if has_ends { self.interior(i) } else { None };
            let first = interior.map(|of| (of.first_ms, of.first));
            let last = interior.filter(|of| of.first_ms != of.last_ms);
            let last = last.map(|of| (of.last_ms, of.last));
            [edge, first, last].into_iter().flatten()
        })
    }

    /// What lies after the start of a window. Columns that are not there read as 0 or NaN; the
    /// counts must be.
    pub fn interior(&self, i: usize) -> Option<Aggregate> {
        let (numbers, nans) = (self.numbers[i], self.nans(i));
        if numbers + nans == 0 {
            return None;
        }
        let float = |column: &[f64], absent| column.get(i).copied().unwrap_or(absent);
        let count = |column: &[u64]| column.get(i).copied().unwrap_or_default();
        let time = |column: &[i64]| column.get(i).copied().unwrap_or_default();
        Some(Aggregate {
            numbers,
            nans,
            first_ms: time(&self.first_ms),
            first: float(&self.first, f64::NAN),
            last_ms: time(&self.last_ms),
            last: float(&self.last, f64::NAN),
            sum: float(&self.sum, 0.0),
            min: float(&self.min, f64::NAN),
            max: float(&self.max, f64::NAN),
            m2: float(&self.m2, 0.0),
            correction: float(&self.correction, 0.0),
            resets: count(&self.resets),
            changes: count(&self.changes),
        })
    }
}

/// A part of the time of a selection, and the level that answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub start_ms: i64,
    /// The first millisecond after it.
    pub end_ms: i64,
    pub resolution: Resolution,
}

impl Segment {
    /// Whether something after `after_ms` and up to `until_ms` lies in it.
    pub fn overlaps(&self, after_ms: i64, until_ms: i64) -> bool {
        self.start_ms <= until_ms && self.end_ms > after_ms.saturating_add(1)
    }
}
