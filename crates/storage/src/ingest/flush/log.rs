//! What the log is told about flushed hours: one line for all of them, at most once a minute.
//!
//! A live process flushes an hour per hour and says so within a second. A backfill flushes hundreds
//! per second; each of them is a line at debug level only.

use std::time::Duration;

use icecore_records::Bucket;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::info;

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(60);

/// Flushes that the log has not been told of.
#[derive(Debug, Default)]
pub(crate) struct FlushLog(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    untold: Option<FlushedHours>,
    told: Option<Instant>,
}

/// Hours that were flushed, together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FlushedHours {
    pub(crate) hours: u64,
    pub(crate) first: Bucket,
    pub(crate) last: Bucket,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
}

impl FlushLog {
    pub(crate) fn note(&self, flushed: FlushedHours) {
        let mut state = self.0.lock();
        state.untold = Some(match state.untold.take() {
            None => flushed,
            Some(before) => FlushedHours {
                hours: before.hours + flushed.hours,
                first: before.first.min(flushed.first),
                last: before.last.max(flushed.last),
                records: before.records + flushed.records,
                bytes: before.bytes + flushed.bytes,
                seconds: before.seconds + flushed.seconds,
            },
        });
    }

    /// Tells the log, unless it was told a short while ago.
    pub(crate) fn tell(&self) {
        self.tell_after(INTERVAL);
    }

    /// Tells the log whatever is left.
    pub(crate) fn tell_all(&self) {
        self.tell_after(Duration::ZERO);
    }

    fn tell_after(&self, interval: Duration) {
        let Some(flushed) = self.take_after(interval) else {
            return;
        };
        let FlushedHours {
            hours,
            first,
            last,
            records,
            bytes,
            seconds,
        } = flushed;
        info!(hours, %first, %last, records, bytes, seconds, "hours flushed");
    }

    fn take_after(&self, interval: Duration) -> Option<FlushedHours> {
        let mut state = self.0.lock();
        if state.told.is_some_and(|told| told.elapsed() < interval) {
            return None;
        }
        let flushed = state.untold.take()?;
        state.told = Some(Instant::now());
        Some(flushed)
    }
}

#[cfg(test)]
mod tests {
    use icecore_model::{BucketSize, BucketStart};

    use super::*;

    fn hour(start: u32) -> FlushedHours {
        let bucket = Bucket {
            size: BucketSize::HOUR,
            start: BucketStart(start),
        };
        FlushedHours {
            hours: 1,
            first: bucket,
            last: bucket,
            records: 10,
            bytes: 100,
            seconds: 0.5,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_hours_are_one_line_a_minute() {
        let log = FlushLog::default();
        assert_eq!(log.take_after(INTERVAL), None);
        log.note(hour(120));
        assert_eq!(
            log.take_after(INTERVAL),
            Some(hour(120)),
            "the first at once"
        );
        for start in [240, 60, 180] {
            log.note(hour(start));
            assert_eq!(log.take_after(INTERVAL), None);
        }
        tokio::time::advance(INTERVAL).await;
        let told = log.take_after(INTERVAL).unwrap();
        assert_eq!((told.hours, told.records, told.bytes), (3, 30, 300));
        assert_eq!((told.first, told.last), (hour(60).first, hour(240).last));
        log.note(hour(300));
        assert_eq!(log.take_after(Duration::ZERO), Some(hour(300)));
    }
}
