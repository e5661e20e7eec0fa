//! Held-back flushes: while a job copies buckets, nothing is flushed into them.
//!
//! ```text
//! begin (under the flush lock) ─► snapshot ─► copy … ─► commit (under the flush lock) ─► drop
//!        └──── flushes leave the hours of the window in head and journal ────┘    └► they go to the target
//! ```
//!
//! Holds always:
//! - One window at a time, as there is one job at a time.
//! - An hour that a failed flush left half written is never part of a window: the job would copy that
//!   half. Such a hold is refused until a flush has succeeded.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use icecore_model::BucketStart;
use icecore_records::Bucket;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::flush::FrozenHours;
use crate::metrics::Metrics;

/// Which hours flushes leave alone.
pub(crate) struct Hold {
    window: watch::Sender<Option<Bucket>>,
    /// Hours of the window that some flush wanted.
    wanted: Mutex<BTreeSet<u32>>,
    /// Who waits for the end of a hold.
    waiting: AtomicUsize,
    metrics: Arc<Metrics>,
}

/// Flushes of a window are held back until this is dropped.
pub(crate) struct Held<'h>(&'h Hold);

impl Hold {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            window: watch::channel(None).0,
            wanted: Mutex::default(),
            waiting: AtomicUsize::new(0),
            metrics,
        }
    }

    /// Holds back the hours of a window. The caller holds the flush lock, whose content says which
    /// hours a failed flush has left.
    pub(crate) fn begin(&self, window: Bucket, frozen: &FrozenHours) -> Result<Held<'_>> {
        if let Some(hour) = frozen.keys().find(|hour| holds(window, **hour)) {
            return Err(Error::Unavailable(format!(
                "a flush of hour {hour} failed, so {window} cannot be copied yet"
            )));
        }
        let mut taken = false;
        self.window.send_if_modified(|held| {
            taken = held.is_some();
            *held = held.or(Some(window));
            !taken
        });
        match taken {
            true => Err(Error::Unavailable("another job is under way".into())),
            false => Ok(Held(self)),
        }
    }

    /// The window that is held back now.
    pub(crate) fn window(&self) -> Option<Bucket> {
        *self.window.borrow()
    }

    /// Takes the hours that are held back out of those that are to be flushed.
    pub(crate) fn take_out(&self, hours: &mut BTreeSet<u32>) -> BTreeSet<u32> {
        let Some(window) = self.window() else {
            return BTreeSet::new();
        };
        let held_back: BTreeSet<u32> = hours
            .iter()
            .copied()
            .filter(|hour| holds(window, *hour))
            .collect();
        hours.retain(|hour| !held_back.contains(hour));
        self.wanted.lock().extend(&held_back);
        held_back
    }

    /// Waits until none of these hours is held back. The job is told that somebody waits.
    pub(crate) async fn ended(&self, hours: &BTreeSet<u32>) {
        let _waiting = Waiting::new(&self.waiting);
        let free = |held: &Option<Bucket>| {
            held.is_none_or(|window| !hours.iter().any(|hour| holds(window, *hour)))
        };
        // The sender lives as long as `self`, so this ends only when it is true.
        let _ = self.window.subscribe().wait_for(free).await;
    }

    /// Whether somebody waits for the end of a hold: then the job does not pace itself.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let wanted = std::mem::take(&mut *self.0.wanted.lock());
        self.0.metrics.held_hours.add(wanted.len() as u64);
        self.0.window.send_replace(None);
    }
}

/// Whether an hour lies in a window.
pub(crate) fn holds(window: Bucket, hour: u32) -> bool {
    window.contains(BucketStart(hour).start_ms())
}

struct Waiting<'h>(&'h AtomicUsize);

impl<'h> Waiting<'h> {
    fn new(count: &'h AtomicUsize) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_model::BucketSize;

    fn window(start: u32) -> Bucket {
        Bucket {
            size: BucketSize::from_exponent(3).unwrap(),
            start: BucketStart(start),
        }
    }

    #[test]
    fn hours_of_the_window_are_taken_out_until_it_ends() {
        let hold = Hold::new(Arc::default());
        let mut hours = BTreeSet::from([180, 240, 420, 480]);
        assert!(hold.take_out(&mut hours).is_empty());
        let held = hold.begin(window(240), &FrozenHours::new()).unwrap();
        assert!(hold.begin(window(480), &FrozenHours::new()).is_err());
        let held_back = hold.take_out(&mut hours);
        assert_eq!(held_back, BTreeSet::from([240, 420]));
        assert_eq!(hours, BTreeSet::from([180, 480]));
        drop(held);
        assert_eq!(hold.window(), None);
        assert_eq!(hold.metrics.held_hours.get(), 2);
        let mut hours = held_back;
        assert!(hold.take_out(&mut hours).is_empty());
    }

    #[tokio::test]
    async fn who_waits_is_counted_and_woken() {
        let hold = Arc::new(Hold::new(Arc::default()));
        let hours = BTreeSet::from([240]);
        hold.ended(&hours).await;
        let held = hold.begin(window(240), &FrozenHours::new()).unwrap();
        hold.ended(&BTreeSet::from([480])).await;
        let waiter = tokio::spawn({
            let hold = Arc::clone(&hold);
            async move { hold.ended(&hours).await }
        });
        while !hold.is_waited_for() {
            tokio::task::yield_now().await;
        }
        drop(held);
        waiter.await.unwrap();
        assert!(!hold.is_waited_for());
    }
}
