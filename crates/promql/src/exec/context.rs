//! What all operators of one query share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use icecore_model::{MemoryBudget, Reservation, SelectHints, SeriesSource};
use parking_lot::Mutex;

use crate::annotations::Annotations;
use crate::error::{Error, Result};
use crate::exec::{Grid, Row};

/// The shared state of a running query.
pub(crate) struct Context<'q> {
    pub(crate) source: &'q dyn SeriesSource,
    pub(crate) annotations: Annotations,
    pub(crate) limits: Limits,
    /// Set when nobody waits for the answer any more.
    pub(crate) canceled: &'q AtomicBool,
    pub(crate) deadline: Option<Instant>,
    pub(crate) samples_read: AtomicU64,
    pub(crate) series_read: AtomicU64,
    /// Samples that windows and look-backs touched, where somebody wants to know.
    touched: Option<Touched>,
    /// Shared with the source, which holds what it has resolved.
    pub(crate) memory: Arc<MemoryBudget>,
}

struct Touched {
    grid: Grid,
    steps: Mutex<Vec<u64>>,
    elsewhere: AtomicU64,
}

/// What one query may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) memory_bytes: usize,
    pub(crate) samples: usize,
}

impl<'q> Context<'q> {
    pub(crate) fn new(
        source: &'q dyn SeriesSource,
        limits: Limits,
        canceled: &'q AtomicBool,
        deadline: Option<Instant>,
    ) -> Self {
        Self {
            source,
            annotations: Annotations::default(),
            limits,
            canceled,
            deadline,
            samples_read: AtomicU64::new(0),
            series_read: AtomicU64::new(0),
            touched: None,
            memory: MemoryBudget::new(limits.memory_bytes),
        }
    }

    /// Counts the samples that are touched at the steps of the query's grid.
    pub(crate) fn count_touched(&mut self, grid: Grid) {
        self.touched = Some(Touched {
            grid,
            steps: Mutex::new(vec![0; grid.steps]),
            elsewhere: AtomicU64::new(0),
        });
    }

    /// Takes note of samples touched at the steps of a grid. `counts` is only asked if it matters.
    pub(crate) fn touch(&self, grid: Grid, counts: impl FnOnce() -> Vec<u64>) {
        let Some(touched) = &self.touched else {
            return;
        };
        let counts = counts();
        if grid != touched.grid {
            let sum = counts.iter().sum();
            touched.elsewhere.fetch_add(sum, Ordering::Relaxed);
            return;
        }
        for (step, count) in touched.steps.lock().iter_mut().zip(counts) {
            *step += count;
        }
    }

    /// The samples touched in all, and by step; those of subqueries belong to no step.
    pub(crate) fn touched(&self) -> (u64, Vec<(i64, u64)>) {
        let Some(touched) = &self.touched else {
            return (0, Vec::new());
        };
        let steps = touched.steps.lock();
        let sum = steps.iter().sum::<u64>() + touched.elsewhere.load(Ordering::Relaxed);
        let by_step = touched.grid.times().zip(steps.iter().copied());
        (sum, by_step.collect())
    }

    /// Whether to go on. Called once per batch.
    pub(crate) fn check(&self) -> Result<()> {
        if self.canceled.load(Ordering::Relaxed) {
            return Err(Error::Canceled("query execution"));
        }
        if self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            return Err(Error::Timeout("expression evaluation"));
        }
        Ok(())
    }

    /// What the source is told: that it shares the query's memory.
    pub(crate) fn hints(&self) -> SelectHints {
        SelectHints {
            memory: Some(Arc::clone(&self.memory)),
            ..SelectHints::default()
        }
    }

    /// Takes memory for rows that an operator holds; it is given back with the reservation.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Reservation> {
        Ok(self.memory.reserve(bytes)?)
    }

    /// Takes memory for rows that are about to be made, as long as the reservation lives. Rows of a
    /// batch are counted by whoever keeps them, but by then they are there: a subquery of a million
    /// steps has eight megabytes a row.
    pub(crate) fn reserve_rows(&self, rows: usize, steps: usize) -> Result<Reservation> {
        self.reserve(rows.saturating_mul(steps).saturating_mul(8))
    }

    pub(crate) fn grow(&self, reservation: &mut Reservation, bytes: usize) -> Result<()> {
        Ok(reservation.grow(bytes)?)
    }

    /// Takes memory for rows.
    pub(crate) fn hold(&self, reservation: &mut Reservation, rows: &[Row]) -> Result<()> {
        let bytes = rows.iter().map(Row::heap_bytes).sum();
        self.grow(reservation, bytes)
    }

    pub(crate) fn memory_peak(&self) -> usize {
        self.memory.peak()
    }
}
