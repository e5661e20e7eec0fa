//! What all operators of one query share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use icecore_model::{MemoryBudget, Reservation, RolledTime, SelectHints, SeriesSource};
use parking_lot::Mutex;

use crate::annotations::Annotations;
use crate::error::{Error, Result};
use crate::exec::{Grid, Profile, Row};
use crate::rollup::RollupReport;

/// Sample counts with the time of their step.
pub(crate) type SamplesByStep = Vec<(i64, u64)>;

/// The shared state of a running query.
pub(crate) struct Context<'q> {
    pub(crate) source: &'q dyn SeriesSource,
    pub(crate) annotations: Annotations,
    pub(crate) limits: Limits,
    /// Set when the client no longer waits for the answer.
    pub(crate) canceled: &'q AtomicBool,
    pub(crate) deadline: Option<Instant>,
    pub(crate) samples_read: AtomicU64,
    pub(crate) series_read: AtomicU64,
    pub(crate) rollup: RollupReport,
    /// What each part of the plan takes, if that is to be explained.
    pub(crate) profile: Option<Profile>,
    /// Counts the samples that windows and look-backs touch, if the request asks for it.
    touched: Option<SampleCounter>,
    /// Shared with the source, which accounts for resolved series.
    pub(crate) memory: Arc<MemoryBudget>,
}

struct SampleCounter {
    grid: Grid,
    steps: Mutex<SampleCounts>,
    /// Samples touched at the steps of other grids, those of subqueries.
    elsewhere: AtomicU64,
}

/// Samples by step.
#[derive(Clone, Debug, Default)]
pub(crate) struct SampleCounts {
    /// Samples in windows and look-backs.
    pub(crate) touched: Vec<u64>,
    /// Those of them that the step before did not touch.
    pub(crate) read: Vec<u64>,
}

impl SampleCounts {
    pub(crate) fn new(steps: usize) -> Self {
        Self {
            touched: vec![0; steps],
            read: vec![0; steps],
        }
    }

    /// Adds what each step touched and read, `times` times.
    pub(crate) fn add(&mut self, by_step: impl Iterator<Item = (u64, u64)>, times: u64) {
        let steps = self.touched.iter_mut().zip(&mut self.read);
        for ((touched, read), (more_touched, more_read)) in steps.zip(by_step) {
            *touched += times * more_touched;
            *read += times * more_read;
        }
    }
}

/// What one query may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) memory_bytes: usize,
    pub(crate) samples: usize,
    /// Most bytes of a label value that a function makes.
    pub(crate) label_value_bytes: usize,
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
            rollup: RollupReport::default(),
            profile: None,
            touched: None,
            memory: MemoryBudget::new(limits.memory_bytes),
        }
    }

    /// Counts the samples that are touched at the steps of the query's grid.
    pub(crate) fn count_touched(&mut self, grid: Grid) {
        self.touched = Some(SampleCounter {
            grid,
            steps: Mutex::new(SampleCounts::new(grid.steps)),
            elsewhere: AtomicU64::new(0),
        });
    }

    /// Counts samples touched at the steps of a grid. `counts` is only called if counting is on.
    pub(crate) fn touch(&self, grid: Grid, counts: impl FnOnce() -> SampleCounts) {
        let Some(touched) = &self.touched else {
            return;
        };
        let counts = counts();
        let mut steps = touched.steps.lock();
        if grid == touched.grid {
            let by_step = counts.touched.into_iter().zip(counts.read);
            steps.add(by_step, 1);
            return;
        }
        let sum = counts.touched.iter().sum();
        touched.elsewhere.fetch_add(sum, Ordering::Relaxed);
        // A read of a subquery counts for the first step at or after it, or for the last step.
        let (start_ms, step_ms) = (touched.grid.start_ms, touched.grid.step_ms.max(1));
        let last = touched.grid.steps.saturating_sub(1);
        for (time, read) in grid.times().zip(counts.read) {
            let after = time.saturating_sub(start_ms).max(0) as u64;
            let step = usize::try_from(after.div_ceil(step_ms as u64)).unwrap_or(last);
            if let Some(sum) = steps.read.get_mut(step.min(last)) {
                *sum += read;
            }
        }
    }

    /// The total of samples touched (those of subqueries belong to no step), and the samples
    /// touched and read by step.
    pub(crate) fn touched(&self) -> (u64, SamplesByStep, SamplesByStep) {
        let Some(touched) = &self.touched else {
            return (0, Vec::new(), Vec::new());
        };
        let steps = touched.steps.lock();
        let sum = steps.touched.iter().sum::<u64>() + touched.elsewhere.load(Ordering::Relaxed);
        let by_step = |counts: &[u64]| touched.grid.times().zip(counts.iter().copied()).collect();
        (sum, by_step(&steps.touched), by_step(&steps.read))
    }

    /// Fails if the query was canceled or its deadline has passed. Called once per batch.
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

    /// Whether samples that are touched are counted.
    pub(crate) fn counts_touched(&self) -> bool {
        self.touched.is_some()
    }

    /// Hints for the source: it shares the memory budget of the query.
    pub(crate) fn hints(&self, rolled: RolledTime) -> SelectHints {
        SelectHints {
            memory: Some(Arc::clone(&self.memory)),
            rolled,
            ..SelectHints::default()
        }
    }

    /// Reserves memory for rows that an operator holds, until the reservation is dropped.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Reservation> {
        Ok(self.memory.reserve(bytes)?)
    }

    /// Reserves memory for rows before they are allocated. Rows of a batch are counted by the
    /// operator that keeps them, which is too late: a row of a subquery with a million steps has
    /// eight megabytes.
    pub(crate) fn reserve_rows(&self, rows: usize, steps: usize) -> Result<Reservation> {
        self.reserve(rows.saturating_mul(steps).saturating_mul(8))
    }

    pub(crate) fn grow(&self, reservation: &mut Reservation, bytes: usize) -> Result<()> {
        Ok(reservation.grow(bytes)?)
    }

    /// Reserves memory for rows that an operator keeps.
    pub(crate) fn hold(&self, reservation: &mut Reservation, rows: &[Row]) -> Result<()> {
        let bytes = rows.iter().map(Row::heap_bytes).sum();
        self.grow(reservation, bytes)
    }

    pub(crate) fn memory_peak(&self) -> usize {
        self.memory.peak()
    }
}
