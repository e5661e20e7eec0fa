//! The write side: the store that requests are appended to, and the outcome of one.
//!
//! ```text
//! fill ─► sink ─► appended: queries see it ─► commit: durable
//!   └── discarded: nothing of it is stored
//! ```

use std::fmt::Write as _;
use std::sync::mpsc;
use std::time::Duration;

use thiserror::Error;

use crate::{BoxFuture, SampleSink};

/// Reasons that a response lists.
const REASONS_SHOWN: usize = 4;

/// Stores requests.
pub trait SampleStore: Send + Sync {
    /// Appends one request, which queries see from then on, and does not wait until it is durable.
    /// It becomes durable even if the commit is not awaited; if it cannot, the store has failed as
    /// a whole. Until then it may wait for others to share its commit with, at most for `patience`.
    ///
    /// `fill` runs on a CPU thread of the store, not on an async worker. Nothing is stored when it
    /// fails.
    fn append_boxed(
        &self,
        patience: Duration,
        fill: Fill,
    ) -> BoxFuture<'_, Result<PendingWrite, AppendError<Discard>>>;

    /// Waits until every request whose `fill` has begun is appended or refused, whether its caller
    /// still waits or not. What is appended afterwards comes behind them.
    fn barrier(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

impl dyn SampleStore {
    /// [`SampleStore::append_boxed`] for a `fill` with its own error type.
    pub async fn append<E, F>(
        &self,
        patience: Duration,
        fill: F,
    ) -> Result<PendingWrite, AppendError<E>>
    where
        E: Send + 'static,
        F: FnOnce(&mut dyn SampleSink) -> Result<(), E> + Send + 'static,
    {
        let (tell, told) = mpsc::channel();
        let fill = move |sink: &mut dyn SampleSink| {
            fill(sink).map_err(|reason| {
                // The caller may have been dropped.
                let _ = tell.send(reason);
                Discard
            })
        };
        let appended = self.append_boxed(patience, Box::new(fill)).await;
        appended.map_err(|error| match (told.try_recv(), error) {
            (Ok(reason), _) => AppendError::Fill(reason),
            (Err(_), AppendError::Fill(discard)) => AppendError::Store(discard.into()),
            (Err(_), AppendError::Refused(error)) => AppendError::Refused(error),
            (Err(_), AppendError::Store(error)) => AppendError::Store(error),
        })
    }
}

/// Writes the content of one request.
pub type Fill = Box<dyn FnOnce(&mut dyn SampleSink) -> Result<(), Discard> + Send>;

/// What a [`Fill`] ends with when nothing of its request is to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Discard;

/// A request that queries see and that is not durable yet.
#[must_use = "whether a request is durable is known by waiting for it"]
pub struct PendingWrite {
    pub outcome: WriteOutcome,
    pub commit: Commit,
}

/// Ends when a request is durable.
pub type Commit = BoxFuture<'static, Result<(), StoreError>>;

/// Why nothing of a request was appended.
#[derive(Debug, Error)]
pub enum AppendError<E> {
    /// Reading the request failed.
    #[error("{0}")]
    Fill(E),
    /// The request is more than the store takes at once: sent again, it is refused again.
    #[error(transparent)]
    Refused(StoreError),
    /// The store takes nothing now. Sending the request again may succeed.
    #[error(transparent)]
    Store(StoreError),
}

impl From<Discard> for AppendError<Discard> {
    fn from(discard: Discard) -> Self {
        Self::Fill(discard)
    }
}

impl<E> From<StoreError> for AppendError<E> {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Why a store did not accept a request, as a message.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct StoreError(pub String);

impl From<Discard> for StoreError {
    fn from(_: Discard) -> Self {
        Self("the request was discarded while it was being read".into())
    }
}

/// The outcome of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOutcome {
    pub samples: u64,
    pub histograms: u64,
    pub exemplars: u64,
    /// Delta points that had been added before, and so were not added again.
    pub duplicates: u64,
    /// What was not stored, and why.
    pub rejected: Vec<Rejection>,
    /// The first of the points that were refused, where the sink was told where points begin
    /// ([`SampleSink::point`](crate::SampleSink::point)).
    pub refused_points: Vec<RefusedPoint>,
}

/// A point of a request that was not stored, or not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedPoint {
    /// The number of the point in the request, from 0.
    pub point: u32,
    /// The index of the reason in [`WriteOutcome::rejected`].
    pub reason: u32,
}

/// Something of a request that was not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub reason: String,
    /// Samples, histograms or exemplars refused for this reason.
    pub count: u64,
    /// Whether sending it again may succeed.
    pub retryable: bool,
}

impl WriteOutcome {
    /// Samples, histograms and exemplars that were not stored.
    pub fn rejected_count(&self) -> u64 {
        count(&self.rejected)
    }

    /// The first reasons with how often each applies, and how often others do, in one line.
    pub fn rejection_reasons(&self) -> String {
        let shown = self.rejected.len().min(REASONS_SHOWN);
        let (shown, further) = self.rejected.split_at(shown);
        let mut text = String::new();
        for (i, rejection) in shown.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            let Rejection { reason, count, .. } = rejection;
            let _ = write!(text, "{separator}{reason} (×{count})");
        }
        if !further.is_empty() {
            let _ = write!(text, "; other reasons (×{})", count(further));
        }
        text
    }
}

fn count(rejected: &[Rejection]) -> u64 {
    rejected.iter().map(|rejection| rejection.count).sum()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::{Exemplar, Histogram, Metadata, RawLabels, Sample};

    /// Counts samples and takes nothing else.
    #[derive(Default)]
    struct CountingSink(u64);

    impl SampleSink for CountingSink {
        fn guess_series(&mut self, _: &[u8]) -> Option<usize> {
            None
        }
        fn series(&mut self, _: RawLabels<'_>) {}
        fn sample(&mut self, _: Sample) {
            self.0 += 1;
        }
        fn histogram(&mut self, _: i64, _: i64, _: Histogram) {}
        fn exemplar(&mut self, _: Exemplar) {}
        fn metadata(&mut self, _: &str, _: Metadata) {}
        fn reject(&mut self, _: String) {}
    }

    /// Takes everything, or nothing for a reason.
    struct TestStore(Option<&'static str>);

    impl SampleStore for TestStore {
        fn append_boxed(
            &self,
            _: Duration,
            fill: Fill,
        ) -> BoxFuture<'_, Result<PendingWrite, AppendError<Discard>>> {
            Box::pin(async move {
                match self.0 {
                    Some("too much") => {
                        return Err(AppendError::Refused(StoreError("too much".into())));
                    }
                    Some(reason) => return Err(StoreError(reason.into()).into()),
                    None => {}
                }
                let mut sink = CountingSink::default();
                fill(&mut sink)?;
                let outcome = WriteOutcome {
                    samples: sink.0,
                    ..WriteOutcome::default()
                };
                let commit = Box::pin(async { Ok(()) });
                Ok(PendingWrite { outcome, commit })
            })
        }

        fn barrier(&self) -> BoxFuture<'_, Result<(), StoreError>> {
            Box::pin(async { Ok(()) })
        }
    }

    fn ready<T>(future: impl Future<Output = T>) -> T {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(future).poll(&mut context) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("nothing here waits"),
        }
    }

    fn one_sample(sink: &mut dyn SampleSink) -> Result<(), Infallible> {
        sink.sample(Sample {
            timestamp_ms: 1,
            value: 1.0,
            start_timestamp_ms: 0,
        });
        Ok(())
    }

    #[test]
    fn a_fill_that_fails_says_why_and_a_store_that_fails_too() {
        let store: &dyn SampleStore = &TestStore(None);
        let appended = ready(store.append(Duration::ZERO, one_sample)).unwrap();
        assert_eq!(appended.outcome.samples, 1);
        ready(appended.commit).unwrap();
        let refused = ready(store.append(Duration::ZERO, |_| Err(7)));
        assert!(matches!(refused, Err(AppendError::Fill(7))));
        let store: &dyn SampleStore = &TestStore(Some("full"));
        let Err(AppendError::Store(error)) = ready(store.append(Duration::ZERO, one_sample)) else {
            panic!("a store that is full takes nothing")
        };
        assert_eq!(error.to_string(), "full");
        let store: &dyn SampleStore = &TestStore(Some("too much"));
        let refused = ready(store.append(Duration::ZERO, one_sample));
        assert!(matches!(refused, Err(AppendError::Refused(error)) if error.0 == "too much"));
    }

    fn refused(reasons: usize) -> WriteOutcome {
        let rejection = |i| Rejection {
            reason: format!("r{i}"),
            count: 2,
            retryable: false,
        };
        WriteOutcome {
            rejected: (0..reasons).map(rejection).collect(),
            ..WriteOutcome::default()
        }
    }

    #[test]
    fn reasons_are_cut_but_counted() {
        assert_eq!(refused(0).rejection_reasons(), "");
        assert_eq!(refused(1).rejection_reasons(), "r0 (×2)");
        let four = "r0 (×2); r1 (×2); r2 (×2); r3 (×2)";
        assert_eq!(refused(4).rejection_reasons(), four);
        let six = format!("{four}; other reasons (×4)");
        assert_eq!(refused(6).rejection_reasons(), six);
        assert_eq!(refused(6).rejected_count(), 12);
    }
}
