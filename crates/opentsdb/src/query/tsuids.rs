//! The TSUIDs of series. Those that others have written get UIDs when they have to be shown.

use std::time::Duration;

use http::StatusCode;
use icecore_model::{Labels, SampleSink};

use super::series_key::tags;
use crate::error::Error;
use crate::tsd::Tsd;
use crate::uid::{Tsuid, UidKind};

/// How long the store may take to accept new UIDs.
const PATIENCE: Duration = Duration::from_secs(10);

/// One for each series.
pub(crate) async fn tsuids(tsd: &Tsd, series: &[Labels]) -> Result<Vec<Tsuid>, Error> {
    let mut changes = Vec::new();
    let mut found = Vec::with_capacity(series.len());
    for labels in series {
        let mut uid = |kind, name| tsd.uids.get_or_assign(kind, name, &mut changes);
        let metric = uid(UidKind::Metric, labels.metric_name())?;
        let mut pairs = Vec::new();
        for (name, value) in tags(labels) {
            pairs.push((uid(UidKind::Tagk, name)?, uid(UidKind::Tagv, value)?));
        }
        found.push(Tsuid::new(metric, pairs));
    }
    if changes.is_empty() {
        return Ok(found);
    }
    let failed = |message: String| Error::new(StatusCode::INTERNAL_SERVER_ERROR, message);
    let assigned = changes.clone();
    let fill = move |sink: &mut dyn SampleSink| {
        assigned.into_iter().for_each(|change| sink.catalog(change));
        Ok::<_, std::convert::Infallible>(())
    };
    let pending = tsd.stores.points.append(PATIENCE, fill).await;
    let pending = pending.map_err(|error| failed(error.to_string()))?;
    pending
        .commit
        .await
        .map_err(|error| failed(error.to_string()))?;
    tsd.uids.committed(&changes);
    Ok(found)
}
