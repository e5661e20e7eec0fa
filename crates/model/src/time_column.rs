//! Timestamps that series share: the series of one scrape target are sampled at the same moments.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Timestamps in strictly ascending order, a part of a shared list.
///
/// Columns of equal [`identity`](Self::identity) hold equal times, so what was derived from one
/// (the bounds of windows, for example) holds for the other. The reverse is not promised.
#[derive(Clone)]
pub struct TimeColumn {
    shared: Arc<[i64]>,
    start: usize,
    end: usize,
}

/// Tells columns apart for as long as one of them is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeColumnIdentity {
    address: usize,
    start: usize,
    end: usize,
}

impl TimeColumn {
    /// The part `range` of this column, sharing its memory.
    ///
    /// # Panics
    /// When the range does not lie within the column.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len());
        Self {
            shared: Arc::clone(&self.shared),
            start: self.start + range.start,
            end: self.start + range.end,
        }
    }

    pub fn identity(&self) -> TimeColumnIdentity {
        TimeColumnIdentity {
            address: self.shared.as_ptr() as usize,
            start: self.start,
            end: self.end,
        }
    }
}

impl Default for TimeColumn {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl From<Vec<i64>> for TimeColumn {
    fn from(timestamps: Vec<i64>) -> Self {
        Self::from(Arc::<[i64]>::from(timestamps))
    }
}

impl From<Arc<[i64]>> for TimeColumn {
    fn from(shared: Arc<[i64]>) -> Self {
        let end = shared.len();
        Self {
            shared,
            start: 0,
            end,
        }
    }
}

impl FromIterator<i64> for TimeColumn {
    fn from_iter<T: IntoIterator<Item = i64>>(timestamps: T) -> Self {
        Self::from(timestamps.into_iter().collect::<Arc<[i64]>>())
    }
}

impl Deref for TimeColumn {
    type Target = [i64];

    #[inline]
    fn deref(&self) -> &[i64] {
        &self.shared[self.start..self.end]
    }
}

impl PartialEq for TimeColumn {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity() || **self == **other
    }
}

impl Eq for TimeColumn {}

impl fmt::Debug for TimeColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_and_know_each_other() {
        let column = TimeColumn::from(vec![1, 2, 3, 4]);
        let part = column.slice(1..4);
        assert_eq!(&*part, &[2, 3, 4]);
        assert_eq!(part.slice(0..2).identity(), column.slice(1..3).identity());
        assert_ne!(part.identity(), column.identity());
        assert_eq!(part, TimeColumn::from(vec![2, 3, 4]));
        assert_ne!(part.identity(), TimeColumn::from(vec![2, 3, 4]).identity());
        assert!(TimeColumn::default().is_empty());
    }
}
