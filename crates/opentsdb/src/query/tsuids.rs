//! The TSUIDs of series.

use icecore_model::Labels;

use super::series_key::tags;
use crate::series::SeriesName;
use crate::tsd::Tsd;
use crate::uid::Tsuid;

/// The TSUIDs of those series that have one. Names that only others have written have no UID, and a
/// query gives them none.
pub(crate) fn tsuids(tsd: &Tsd, series: &[Labels]) -> Vec<Tsuid> {
    let name = |labels: &Labels| SeriesName {
        metric: labels.metric_name().to_owned(),
        tags: tags(labels)
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect(),
    };
    let names = series.iter().map(name);
    names
        .filter_map(|name| name.durable_tsuid(&tsd.uids))
        .collect()
}
