//! One request, whatever its number of points, is one append.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use http::StatusCode;
use icecore_model::{AppendError, Commit, StoreError, WriteOutcome};

use super::writer::{Learned, PointWriter};
use crate::error::Error;
use crate::meta::hook;
use crate::series_cache::SeriesCache;
use crate::tsd::Tsd;
use crate::uid::Uids;

/// A request that queries see and that is not durable yet.
pub(crate) struct Appended<T> {
    /// What its writer returned.
    pub(crate) report: T,
    pub(crate) outcome: WriteOutcome,
    pub(crate) durable: Durable,
}

/// Waits until a request is durable; from then on its series and names are known.
pub(crate) struct Durable {
    commit: Commit,
    learned: Learned,
    uids: Arc<Uids>,
    cache: Arc<SeriesCache>,
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
    let (tell, told) = mpsc::channel();
    let config = Arc::clone(&tsd.config);
    let (uids, cache) = (Arc::clone(&tsd.uids), Arc::clone(&tsd.series_cache));
    let (rollups, counters) = (tsd.rollups.clone(), Arc::clone(&tsd.counters));
    let appended = tsd.stores.points.append(patience, move |sink| {
        let mut writer = PointWriter::new(sink, &config, &uids, &cache, rollups.as_deref());
        let report = write(&mut writer)?;
        // The caller may have been dropped.
        let _ = tell.send((report, writer.finish(&counters)));
        Ok(())
    });
    let appended = appended.await.map_err(|error| match error {
        AppendError::Fill(error) => error,
        AppendError::Store(error) => {
            tsd.counters.storage_errors.add(1);
            storage_error(&error)
        }
    })?;
    let stored = appended.outcome.samples + appended.outcome.histograms;
    tsd.counters.points_added.add(stored);
    let (report, learned) = told.try_recv().map_err(|_| {
        let message = "the store dropped a request that it accepted";
        Error::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    })?;
    hook::series_written(tsd, &learned.tsuids).await?;
    Ok(Appended {
        report,
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
    pub(crate) async fn wait(self) -> Result<(), Error> {
        self.commit.await.map_err(|error| storage_error(&error))?;
        self.uids.committed(&self.learned.changes);
        self.cache.extend(self.learned.series);
        Ok(())
    }
}

/// Sending the request again may succeed.
fn storage_error(error: &StoreError) -> Error {
    let message = format!("Storage exception: {error}");
    Error::new(StatusCode::SERVICE_UNAVAILABLE, message)
}
