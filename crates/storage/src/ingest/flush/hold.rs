//! Held-back flushes: while a job copies buckets, nothing is flushed into them.
//!
//! ```text
//! begin (under the flush lock) ─► snapshot ─► copy … ─► commit (under the flush lock) ─► drop
//!        └── flushes leave the window's hours in head and journal ──┘    └► they go to the target
//! ```
//!
//! Holds always:
//! - One window at a time: who holds one back has the turn. Turns are taken in the order in which
//!   they were asked for, so a deletion that waits for a job goes before the next job.
//! - An hour that a failed flush left half written is never part of a window: the job would copy
//!   that half. Such a hold is refused until a flush has succeeded.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use icecore_model::BucketStart;
use icecore_records::Bucket;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::FrozenHours;
use crate::error::{Error, Result};
use crate::metrics::Metrics;

/// Which hours flushes leave alone.
pub(crate) struct FlushHold {
    window: watch::Sender<Option<Bucket>>,
    /// Hours of the window that some flush wanted.
    wanted: Mutex<BTreeSet<BucketStart>>,
    /// Who waits for the end of a hold.
    waiting: AtomicUsize,
    /// Fair: waiters are served in order.
    turn: tokio::sync::Mutex<()>,
    metrics: Arc<Metrics>,
}

/// While somebody has the turn nobody else begins to hold a window back.
pub(crate) struct Turn<'h> {
    hold: &'h FlushHold,
    _turn: tokio::sync::MutexGuard<'h, ()>,
}

/// Flushes of a window are held back until this is dropped.
pub(crate) struct HoldGuard<'h>(Turn<'h>);

impl FlushHold {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            window: watch::channel(None).0,
            wanted: Mutex::default(),
            waiting: AtomicUsize::new(0),
            turn: tokio::sync::Mutex::default(),
            metrics,
        }
    }

    /// Waits for the turn. The job that has it is told that somebody waits.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        let _waiting = Waiting::new(&self.waiting);
        Turn {
            hold: self,
            _turn: self.turn.lock().await,
        }
    }

    /// The window that is held back now.
    pub(crate) fn window(&self) -> Option<Bucket> {
        *self.window.borrow()
    }

    /// Takes the hours that are held back out of those that are to be flushed.
    pub(crate) fn take_out(&self, hours: &mut BTreeSet<BucketStart>) -> BTreeSet<BucketStart> {
        let Some(window) = self.window() else {
            return BTreeSet::new();
        };
        let held_back: BTreeSet<BucketStart> = hours
            .iter()
            .copied()
            .filter(|hour| holds(window, *hour))
            .collect();
        hours.retain(|hour| !held_back.contains(hour));
        self.wanted.lock().extend(&held_back);
        held_back
    }

    /// Waits until none of these hours is held back. The job is told that somebody waits.
    pub(crate) async fn ended(&self, hours: &BTreeSet<BucketStart>) {
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

impl<'h> Turn<'h> {
    /// Holds back the hours of a window. The caller holds the flush lock, whose content says which
    /// hours a failed flush has left.
    pub(crate) fn begin(self, window: Bucket, frozen: &FrozenHours) -> Result<HoldGuard<'h>> {
        if let Some(hour) = frozen.keys().find(|hour| holds(window, **hour)) {
            return Err(Error::Unavailable(
                format!("the flush of hour {hour} failed: {window} cannot be rewritten yet").into(),
            ));
        }
        self.hold.window.send_replace(Some(window));
        Ok(HoldGuard(self))
    }
}

impl Drop for HoldGuard<'_> {
    fn drop(&mut self) {
        // Before the turn goes to the next one.
        let hold = self.0.hold;
        let wanted = std::mem::take(&mut *hold.wanted.lock());
        hold.metrics.held_hours.add(wanted.len() as u64);
        hold.window.send_replace(None);
    }
}

/// Whether an hour lies in a window.
pub(crate) fn holds(window: Bucket, hour: BucketStart) -> bool {
    window.contains(hour.start_ms())
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

    fn hours<const N: usize>(minutes: [u32; N]) -> BTreeSet<BucketStart> {
        minutes.map(BucketStart).into()
    }

    #[tokio::test]
    async fn hours_of_the_window_are_taken_out_until_it_ends() {
        let hold = FlushHold::new(Arc::default());
        let mut left = hours([180, 240, 420, 480]);
        assert!(hold.take_out(&mut left).is_empty());
        let turn = hold.turn().await;
        let held = turn.begin(window(240), &FrozenHours::new()).unwrap();
        assert_eq!(hold.window(), Some(window(240)));
        let mut held_back = hold.take_out(&mut left);
        assert_eq!(held_back, hours([240, 420]));
        assert_eq!(left, hours([180, 480]));
        drop(held);
        assert_eq!(hold.window(), None);
        assert_eq!(hold.metrics.held_hours.get(), 2);
        assert!(hold.take_out(&mut held_back).is_empty());
    }

    #[tokio::test]
    async fn who_waits_is_counted_and_woken() {
        let hold = Arc::new(FlushHold::new(Arc::default()));
        let hours_of_window = hours([240]);
        hold.ended(&hours_of_window).await;
        let turn = hold.turn().await;
        let held = turn.begin(window(240), &FrozenHours::new()).unwrap();
        hold.ended(&hours([480])).await;
        let waiter = tokio::spawn({
            let hold = Arc::clone(&hold);
            async move { hold.ended(&hours_of_window).await }
        });
        while !hold.is_waited_for() {
            tokio::task::yield_now().await;
        }
        drop(held);
        waiter.await.unwrap();
        assert!(!hold.is_waited_for());
    }

    /// Jobs that follow one another without a pause let who waits go first, and go on behind it.
    #[tokio::test]
    async fn turns_are_taken_in_order() {
        let hold = Arc::new(FlushHold::new(Arc::default()));
        let order = Arc::new(Mutex::new(Vec::new()));
        let first = hold.turn().await;
        let first = first.begin(window(0), &FrozenHours::new()).unwrap();
        let spawn = |name: &'static str| {
            let (hold, order) = (Arc::clone(&hold), Arc::clone(&order));
            tokio::spawn(async move {
                let _turn = hold.turn().await;
                order.lock().push((name, hold.window()));
            })
        };
        let mut waiters = Vec::new();
        for (count, name) in ["deletion", "next job", "later deletion"]
            .iter()
            .enumerate()
        {
            waiters.push(spawn(name));
            while hold.waiting.load(Relaxed) <= count {
                tokio::task::yield_now().await;
            }
        }
        drop(first);
        for waiter in waiters {
            waiter.await.unwrap();
        }
        let expected = [
            ("deletion", None),
            ("next job", None),
            ("later deletion", None),
        ];
        assert_eq!(*order.lock(), expected);
    }
}
