//! One request, whatever its number of points, is one append.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures::FutureExt as _;
use http::StatusCode;
use icecore_model::{AppendError, Commit, StoreError, WriteOutcome};

use super::report::{Answer, Report};
use super::writer::{Learned, PointWriter};
use crate::config::Config;
use crate::error::Error;
use crate::meta::hook;
use crate::refusals::{RefusalReason, RefusalTally};
use crate::response::Response;
use crate::series_cache::SeriesCache;
use crate::tsd::Tsd;
use crate::uid::Uids;

/// A request that queries see and that is not durable yet.
pub(crate) struct Appended<T> {
    /// What its writer returned.
    pub(crate) report: T,
    pub(crate) outcome: WriteOutcome,
    /// To be counted once it is clear that the request is not written again.
    pub(crate) refusals: RefusalTally,
    pub(crate) durable: Durable,
}

/// Waits until a request is durable; from then on its series and names are known.
pub(crate) struct Durable {
    commit: Commit,
    learned: Learned,
    uids: Arc<Uids>,
    cache: Arc<SeriesCache>,
}

/// Appends the points of a document, and answers when they are durable.
pub(super) async fn append_document<F>(
    tsd: &Tsd,
    answer: Answer,
    write: F,
) -> Result<Response, Error>
where
    F: FnOnce(&mut PointWriter<'_>) -> Result<Report, Error> + Send + 'static,
{
    let appended = append(tsd, Duration::ZERO, write).await?;
    tsd.note_refusals(appended.refusals);
    appended.durable.wait().await?;
    Ok(answer.response(appended.report, &appended.outcome))
}

/// Appends what `write` writes; nothing where it fails. For `patience` the request may wait for
/// others to become durable together with it.
pub(crate) async fn append<T, F>(
    tsd: &Tsd,
    patience: Duration,
    write: F,
) -> Result<Appended<T>, Error>
where
    T: Send + 'static,
    F: FnOnce(&mut PointWriter<'_>) -> Result<T, Error> + Send + 'static,
{
    append_with(tsd, Arc::clone(&tsd.config), patience, write).await
}

/// The same with other settings than those of the server.
pub(crate) async fn append_with<T, F>(
    tsd: &Tsd,
    config: Arc<Config>,
    patience: Duration,
    write: F,
) -> Result<Appended<T>, Error>
where
    T: Send + 'static,
    F: FnOnce(&mut PointWriter<'_>) -> Result<T, Error> + Send + 'static,
{
    let (tell, told) = mpsc::channel();
    let (uids, cache) = (Arc::clone(&tsd.uids), Arc::clone(&tsd.series_cache));
    let rollups = tsd.rollups.clone();
    let appended = tsd.stores.points.append(patience, move |sink| {
        let mut writer = PointWriter::new(sink, &config, &uids, &cache, rollups.as_deref());
        let report = write(&mut writer)?;
        // The caller may have been dropped.
        let _ = tell.send((report, writer.finish()));
        Ok(())
    });
    let appended = appended.await.map_err(|error| match error {
        AppendError::Fill(error) => error,
        // Not 503: clients that send it again would do so for ever.
        AppendError::Refused(error) => {
            Error::bad_request(error.0).with_refusal(RefusalReason::RequestTooLarge)
        }
        AppendError::Store(error) => {
            tsd.counters.storage_errors.add(1);
            storage_error(&error)
        }
    })?;
    let stored = appended.outcome.samples + appended.outcome.histograms;
    let (report, (learned, tally)) = told.try_recv().map_err(|_| {
        let message = "the store dropped a request that it accepted";
        Error::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    })?;
    hook::series_written(tsd, &learned.tsuids).await?;
    // Not before: whoever is refused writes the same points again.
    tally.add_to(&tsd.counters);
    tsd.counters.points_added.add(stored);
    let mut refusals = tally.refusals;
    for rejection in &appended.outcome.rejected {
        let reason = if rejection.retryable {
            RefusalReason::StoreUnavailable
        } else {
            RefusalReason::RejectedByStore
        };
        let cause = || rejection.reason.clone();
        refusals.add(reason, rejection.count, cause, String::new);
    }
    Ok(Appended {
        report,
        refusals,
        outcome: appended.outcome,
        durable: Durable {
            commit: appended.commit,
            learned,
            uids: Arc::clone(&tsd.uids),
            cache: Arc::clone(&tsd.series_cache),
        },
    })
}

impl Durable {
    pub(crate) async fn wait(mut self) -> Result<(), Error> {
        let committed = (&mut self.commit).await;
        self.take(committed)
    }

    /// How the request ended, where that is known; not to be asked for again then.
    pub(crate) fn outcome(&mut self) -> Option<Result<(), Error>> {
        let committed = (&mut self.commit).now_or_never()?;
        Some(self.take(committed))
    }

    /// Whether the request brought series that were not known.
    pub(crate) fn has_new_series(&self) -> bool {
        !self.learned.tsuids.is_empty()
    }

    fn take(&mut self, committed: Result<(), StoreError>) -> Result<(), Error> {
        committed.map_err(|error| storage_error(&error))?;
        self.uids.committed(&self.learned.changes);
        let nothing = self.learned.series.empty();
        let series = std::mem::replace(&mut self.learned.series, nothing);
        self.cache.extend(series);
        Ok(())
    }
}

/// Sending the request again may succeed.
fn storage_error(error: &StoreError) -> Error {
    let message = format!("Storage exception: {error}");
    let error = Error::new(StatusCode::SERVICE_UNAVAILABLE, message);
    error.with_refusal(RefusalReason::StoreUnavailable)
}
