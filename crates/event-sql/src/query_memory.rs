//! The memory of one query, which is also where its time is looked at.
//!
//! A timeout around a query is looked at when the query waits for something. Operators that collect
//! all of an input do not wait while that input comes from memory, as a product of tables does: for
//! as long as it takes. But they ask for memory batch by batch.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use icecore_events::Problem;
use tokio::time::Instant;

use crate::statement::external;

#[derive(Debug)]
pub(crate) struct QueryMemory {
    pool: GreedyMemoryPool,
    time: QueryTime,
}

/// How long a query may go on.
#[derive(Clone, Debug)]
pub(crate) struct QueryTime {
    limit: Duration,
    until: Instant,
    is_left: Arc<AtomicBool>,
}

/// Tells a query that nobody waits for it any more.
pub(crate) struct LeaveOnDrop(Arc<AtomicBool>);

impl QueryTime {
    /// From now on.
    pub(crate) fn new(limit: Duration) -> (Self, LeaveOnDrop) {
        let is_left = Arc::new(AtomicBool::new(false));
        let leave = LeaveOnDrop(Arc::clone(&is_left));
        let time = Self {
            limit,
            until: Instant::now() + limit,
            is_left,
        };
        (time, leave)
    }

    /// What is answered to a query that takes too long.
    pub(crate) fn problem(&self) -> Problem {
        let detail = format!("the query took longer than {} s", self.limit.as_secs());
        Problem::new(422, "sql.limit", detail)
    }

    /// Fails if the query has taken too long, or its client has left.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_left.load(Relaxed) || Instant::now() > self.until {
            return Err(external(self.problem()));
        }
        Ok(())
    }
}

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

impl QueryMemory {
    pub(crate) fn new(bytes: usize, time: QueryTime) -> Self {
        Self {
            pool: GreedyMemoryPool::new(bytes),
            time,
        }
    }
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.time.check()?;
        // The pool adds up without a look at overflows; bounds of what functions take saturate.
        let additional = additional.min(isize::MAX as usize);
        self.pool.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.pool, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_amount_is_small_because_it_is_too_large_to_add() {
        let (time, _leave) = QueryTime::new(Duration::from_secs(3600));
        let pool: Arc<dyn MemoryPool> = Arc::new(QueryMemory::new(1_000, time));
        let held = MemoryConsumer::new("test").register(&pool);
        held.try_grow(10).unwrap();
        assert!(held.try_grow(usize::MAX).is_err());
        assert_eq!(pool.reserved(), 10);
    }
}
