//! Deletion of what a query has read.

use std::collections::BTreeSet;

use http::StatusCode;
use icecore_model::{Labels, Matcher};

use super::window::Scan;
use crate::error::Error;
use crate::tsd::Tsd;

/// Series that are deleted at once.
const SERIES_MAX: usize = 256;

/// Deletes points of series. Whole hours go, as in the original, also where the window begins or
/// ends within one.
pub(crate) async fn delete(tsd: &Tsd, series: &[Labels], scan: Scan) -> Result<(), Error> {
    let pairs = series.iter().flat_map(|labels| labels.iter());
    let names: BTreeSet<&str> = pairs.map(|(name, _)| name).collect();
    for series in series.chunks(SERIES_MAX) {
        let selectors = series
            .iter()
            .map(|labels| exactly(labels, &names))
            .collect();
        let deletion = &tsd.stores.deletion;
        let deleted = deletion.delete(selectors, scan.start_ms, scan.end_ms.saturating_sub(1));
        deleted
            .await
            .map_err(|error| Error::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    }
    Ok(())
}

/// Matchers for one series, and for none of those that have further labels.
fn exactly(labels: &Labels, names: &BTreeSet<&str>) -> Vec<Matcher> {
    let value = |name: &&str| Matcher::equal(*name, labels.get(name).unwrap_or_default());
    names.iter().map(value).collect()
}
