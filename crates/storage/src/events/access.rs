//! Who writes, reads and drops segments of events.
//!
//! A drain takes all that a segment has, also what is written to it meanwhile, and from under
//! whoever reads it. So writers of a segment wait while it is dropped, a drop waits for the writers
//! that are in it, and, for a while, for the snapshots that were taken before.
//!
//! Holds always:
//! - A segment has either writers or one that drops it.
//! - Nobody waits for whom it keeps waiting: writers name all their segments at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

#[derive(Default)]
pub(super) struct SegmentAccess {
    state: Mutex<State>,
    /// Somebody has left.
    left: Notify,
}

#[derive(Default)]
struct State {
    writers: BTreeMap<Bytes, usize>,
    dropped: BTreeSet<Bytes>,
    /// Numbers of the snapshots that somebody holds.
    snapshots: BTreeSet<u64>,
    next_snapshot: u64,
}

/// Keeps segments from being dropped.
pub(super) struct Writing {
    access: Arc<SegmentAccess>,
    segments: BTreeSet<Bytes>,
}

/// Keeps a segment from being written to.
pub(super) struct Dropping {
    access: Arc<SegmentAccess>,
    segment: Bytes,
}

/// Lets drops wait for a snapshot.
pub(super) struct Reading {
    access: Arc<SegmentAccess>,
    number: u64,
}

impl SegmentAccess {
    /// Waits until none of the segments is being dropped.
    pub(super) async fn write(self: &Arc<Self>, segments: BTreeSet<Bytes>) -> Writing {
        self.until(|state| {
            let free = state.dropped.is_disjoint(&segments);
            if free {
                for segment in &segments {
                    *state.writers.entry(segment.clone()).or_default() += 1;
                }
            }
            free
        })
        .await;
        Writing {
            access: Arc::clone(self),
            segments,
        }
    }

    /// Waits until nobody else drops the segment, and then until nobody writes to it.
    pub(super) async fn drop_segment(self: &Arc<Self>, segment: &Bytes) -> Dropping {
        self.until(|state| state.dropped.insert(segment.clone()))
            .await;
        // From here on no writer comes in; the guard is there in case nobody waits for this.
        let dropping = Dropping {
            access: Arc::clone(self),
            segment: segment.clone(),
        };
        self.until(|state| !state.writers.contains_key(segment))
            .await;
        dropping
    }

    /// Takes note of a snapshot that is about to be taken.
    pub(super) fn read(self: &Arc<Self>) -> Reading {
        let mut state = self.state.lock();
        let number = state.next_snapshot;
        state.next_snapshot += 1;
        state.snapshots.insert(number);
        Reading {
            access: Arc::clone(self),
            number,
        }
    }

    /// Waits until the snapshots of now are gone, for at most so long. Says whether they are.
    pub(super) async fn snapshots_end(&self, patience: Duration) -> bool {
        let next = self.state.lock().next_snapshot;
        let ended = self.until(|state| state.snapshots.first().is_none_or(|first| *first >= next));
        tokio::time::timeout(patience, ended).await.is_ok()
    }

    async fn until(&self, mut is_so: impl FnMut(&mut State) -> bool) {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            // Who leaves between the look and the wait is noticed.
            left.as_mut().enable();
            if is_so(&mut self.state.lock()) {
                return;
            }
            left.await;
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut state = self.access.state.lock();
        for segment in &self.segments {
            match state.writers.get_mut(segment) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(state.writers.remove(segment)),
            }
        }
        self.access.left.notify_waiters();
    }
}

impl Drop for Dropping {
    fn drop(&mut self) {
        self.access.state.lock().dropped.remove(&self.segment);
        self.access.left.notify_waiters();
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.access.state.lock().snapshots.remove(&self.number);
        self.access.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn segment(name: &'static str) -> Bytes {
        Bytes::from_static(name.as_bytes())
    }

    #[tokio::test]
    async fn a_segment_is_written_or_dropped() {
        let access = Arc::new(SegmentAccess::default());
        let (a, b) = (segment("a"), segment("b"));
        let writing = access.write([a.clone(), b.clone()].into()).await;
        let again = access.write([a.clone()].into()).await;
        let mut dropping = Box::pin(access.drop_segment(&a));
        assert!(dropping.as_mut().now_or_never().is_none());
        let mut third = Box::pin(access.write([a.clone()].into()));
        assert!(third.as_mut().now_or_never().is_none(), "it comes after");
        drop(access.write([b.clone()].into()).await);
        drop(writing);
        assert!(dropping.as_mut().now_or_never().is_none());
        drop(again);
        let dropped = dropping.await;
        assert!(third.as_mut().now_or_never().is_none());
        drop(access.drop_segment(&b).await);
        drop(dropped);
        drop(third.await);
        assert!(access.state.lock().writers.is_empty());
        assert!(access.state.lock().dropped.is_empty());
    }

    #[tokio::test]
    async fn a_drop_that_nobody_waits_for_lets_writers_in() {
        let access = Arc::new(SegmentAccess::default());
        let a = segment("a");
        let writing = access.write([a.clone()].into()).await;
        let mut dropping = Box::pin(access.drop_segment(&a));
        assert!(dropping.as_mut().now_or_never().is_none());
        drop(dropping);
        drop(access.write([a.clone()].into()).await);
        drop(writing);
    }

    #[tokio::test]
    async fn only_earlier_snapshots_are_waited_for() {
        let access = Arc::new(SegmentAccess::default());
        let soon = Duration::from_millis(20);
        assert!(access.snapshots_end(soon).await);
        let early = access.read();
        assert!(!access.snapshots_end(soon).await);
        let mut waiting = Box::pin(access.snapshots_end(Duration::from_secs(60)));
        assert!(waiting.as_mut().now_or_never().is_none());
        let _late = access.read();
        drop(early);
        assert!(waiting.await);
    }
}
