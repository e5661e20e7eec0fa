//! What all operators of one query share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use icecore_model::SeriesSource;

use crate::annotations::Annotations;
use crate::error::{Error, Result};
use crate::exec::Row;

/// The shared state of a running query.
pub(crate) struct Context<'q> {
    pub(crate) source: &'q dyn SeriesSource,
    pub(crate) annotations: Annotations,
    pub(crate) limits: Limits,
    /// Set when nobody waits for the answer any more.
    pub(crate) canceled: &'q AtomicBool,
    pub(crate) deadline: Option<Instant>,
    /// Samples that were read, and that windows and look-backs touched.
    pub(crate) samples_read: AtomicU64,
    pub(crate) series_read: AtomicU64,
    pub(crate) samples_touched: AtomicU64,
    memory: Arc<AtomicUsize>,
    memory_peak: AtomicUsize,
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
            samples_touched: AtomicU64::new(0),
            memory: Arc::new(AtomicUsize::new(0)),
            memory_peak: AtomicUsize::new(0),
        }
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

    /// Takes memory for rows that an operator holds; it is given back with the reservation.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Reservation> {
        let mut reservation = Reservation {
            used: Arc::clone(&self.memory),
            bytes: 0,
        };
        self.grow(&mut reservation, bytes)?;
        Ok(reservation)
    }

    pub(crate) fn grow(&self, reservation: &mut Reservation, bytes: usize) -> Result<()> {
        let used = self.memory.fetch_add(bytes, Ordering::Relaxed) + bytes;
        reservation.bytes += bytes;
        self.memory_peak.fetch_max(used, Ordering::Relaxed);
        if used > self.limits.memory_bytes {
            return Err(Error::LimitReached(format!(
                "the query needs more than {} bytes of memory (query.memory_max): select fewer series, a shorter range or a larger step",
                self.limits.memory_bytes
            )));
        }
        Ok(())
    }

    /// Takes memory for rows.
    pub(crate) fn hold(&self, reservation: &mut Reservation, rows: &[Row]) -> Result<()> {
        let bytes = rows.iter().map(Row::heap_bytes).sum();
        self.grow(reservation, bytes)
    }

    pub(crate) fn memory_peak(&self) -> usize {
        self.memory_peak.load(Ordering::Relaxed)
    }
}

/// Memory that is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    used: Arc<AtomicUsize>,
    bytes: usize,
}

impl Reservation {
    /// Gives back a part.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
