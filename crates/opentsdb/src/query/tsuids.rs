//! The TSUIDs of series. Those that others have written get UIDs when they have to be shown.

use icecore_model::Labels;

use super::series_key::tags;
use crate::error::Error;
use crate::series::store_assigned;
use crate::tsd::Tsd;
use crate::uid::{Tsuid, UidKind};

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
    if !changes.is_empty() {
        store_assigned(tsd, changes).await?;
    }
    Ok(found)
}
