//! The memory budget of one query, shared by its operators and its source.
//!
//! Holds always: what is reserved is released when the reservation is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use thiserror::Error;

/// What one query may hold. Operators and the source of its series take from the same budget.
#[derive(Debug)]
pub struct MemoryBudget {
    used: AtomicUsize,
    peak: AtomicUsize,
    max: usize,
}

/// The budget is exceeded.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "the query needs more than {max} bytes of memory (query.max_memory): select fewer series, a shorter range or a larger step"
)]
pub struct OutOfMemory {
    max: usize,
}

impl MemoryBudget {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            max,
        })
    }

    /// The most that may be reserved.
    pub fn max(&self) -> usize {
        self.max
    }

    /// What is reserved now.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// The most that was reserved at a time.
    pub fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }

    /// The error for an allocation beyond the budget.
    pub fn exceeded(&self) -> OutOfMemory {
        OutOfMemory { max: self.max }
    }

    /// Takes memory until the reservation is dropped.
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Reservation, OutOfMemory> {
        let mut reservation = Reservation {
            budget: Arc::clone(self),
            bytes: 0,
        };
        reservation.grow(bytes)?;
        Ok(reservation)
    }
}

/// Memory that is released when this is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: usize,
}

impl Reservation {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more. What exceeds the budget stays reserved until the reservation is dropped, so that
    /// other parts of the query fail, too; a size above the whole budget is not taken.
    pub fn grow(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let budget = &self.budget;
        if bytes > budget.max {
            return Err(budget.exceeded());
        }
        let used = budget.used.fetch_add(bytes, Relaxed) + bytes;
        self.bytes += bytes;
        budget.peak.fetch_max(used, Relaxed);
        if used > budget.max {
            return Err(budget.exceeded());
        }
        Ok(())
    }

    /// Releases a part.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.used.fetch_sub(bytes, Relaxed);
    }

    /// Grows or shrinks to this size.
    pub fn set(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.grow(more),
            None => {
                self.shrink(self.bytes - bytes);
                Ok(())
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_until_it_goes() {
        let budget = MemoryBudget::new(100);
        let mut first = budget.reserve(60).unwrap();
        let second = budget.reserve(40).unwrap();
        assert_eq!((budget.used(), budget.peak()), (100, 100));
        assert_eq!(first.grow(1), Err(budget.exceeded()));
        drop(second);
        first.set(10).unwrap();
        assert_eq!((first.bytes(), budget.used()), (10, 10));
        first.set(30).unwrap();
        assert_eq!(budget.used(), 30);
        first.shrink(1000);
        assert_eq!((budget.used(), budget.peak()), (0, 101));
        assert!(budget.reserve(usize::MAX).is_err());
        drop(first);
        assert_eq!(budget.used(), 0);
    }
}
