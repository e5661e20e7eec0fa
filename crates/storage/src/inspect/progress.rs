//! How far a long look has come. An estimate: sizes are those of files, what is only in the WAL is
//! not counted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use parking_lot::Mutex;

/// Records between two calls of the listener.
const TELL_EVERY: u64 = 4096;

/// What is known while a long look is under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub records: u64,
    pub bytes: u64,
    /// From 0 to 1.
    pub done: f64,
}

type Listener = Box<dyn Fn(&Progress) + Send + Sync>;

#[derive(Default)]
pub(super) struct Meter {
    listener: Option<Listener>,
    records: AtomicU64,
    bytes: AtomicU64,
    /// File bytes of all that is to be read, and of what has been read.
    total: AtomicU64,
    done: AtomicU64,
    /// File bytes of the segments that have not been read to their end.
    segments: Mutex<HashMap<Bytes, u64>>,
}

impl Meter {
    pub(super) fn telling(tell: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        Self {
            listener: Some(Box::new(tell)),
            ..Self::default()
        }
    }

    /// Says what is to be read.
    pub(super) fn expect(&self, segments: HashMap<Bytes, u64>) {
        self.total.store(segments.values().sum(), Relaxed);
        self.done.store(0, Relaxed);
        *self.segments.lock() = segments;
    }

    /// A segment has been read to its end. One that is read again does not count again.
    pub(super) fn finished(&self, segment: &[u8]) {
        let bytes = self.segments.lock().remove(segment);
        if let Some(bytes) = bytes {
            self.done.fetch_add(bytes, Relaxed);
            self.tell();
        }
    }

    pub(super) fn read(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
        let before = self.records.fetch_add(1, Relaxed);
        if before % TELL_EVERY == TELL_EVERY - 1 {
            self.tell();
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    fn tell(&self) {
        if let Some(listener) = &self.listener {
            let (done, total) = (self.done.load(Relaxed), self.total.load(Relaxed));
            let done = done as f64 / total.max(1) as f64;
            listener(&Progress {
                records: self.records.load(Relaxed),
                bytes: self.bytes(),
                done: done.min(1.0),
            });
        }
    }
}
