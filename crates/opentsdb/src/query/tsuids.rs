//! The TSUIDs of series. Those that others have written get UIDs when they have to be shown.

use icecore_model::Labels;

use super::series_key::tags;
use crate::error::Error;
use crate::series::{SeriesName, assigned_tsuids};
use crate::tsd::Tsd;
use crate::uid::Tsuid;

/// One for each series.
pub(crate) async fn tsuids(tsd: &Tsd, series: &[Labels]) -> Result<Vec<Tsuid>, Error> {
    let name = |labels: &Labels| SeriesName {
        metric: labels.metric_name().to_owned(),
        tags: tags(labels)
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect(),
    };
    let names: Vec<SeriesName> = series.iter().map(name).collect();
    assigned_tsuids(tsd, &names).await
}
