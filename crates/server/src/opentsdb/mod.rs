//! OpenTSDB's protocols: HTTP below `/opentsdb` and on a port of its own, where telnet lines are
//! spoken as well; its data in and out.

pub(crate) mod export;
pub(crate) mod http;
pub(crate) mod import;
mod tables;
mod telnet;
pub(crate) mod translate;

pub(crate) use telnet::Telnet;

use std::sync::Arc;

use icecore_model::{BoxFuture, Clock, MAX_TIMESTAMP_MS, Matcher, MemoryBudget, StoreError};
use icecore_opentsdb::{Config, LabelIndex, PointDeletion, Stores, Tsd};
use icecore_storage::{Database, Deletion, LabelQuery};
use tracing::warn;

use crate::usage::{CountingSource, QueryUsage};

/// Percent of `opentsdb.uid_bytes_max` beyond which a start warns: what takes years to get there is
/// seen months before, and what came with an upgrade at once.
const NAMES_WARNED_PERCENT: usize = 80;

/// Opens OpenTSDB's view of a database: reads all names.
pub(crate) async fn open(
    config: Config,
    database: &Database,
    clock: Arc<dyn Clock>,
    usage: Arc<QueryUsage>,
) -> Result<Tsd, StoreError> {
    let series = CountingSource {
        source: Arc::new(database.clone()),
        usage: Some(usage),
        clock: Arc::clone(&clock),
    };
    let stores = Stores {
        points: Arc::new(database.clone()),
        series: Arc::new(series),
        catalog: Arc::new(database.clone()),
        deletion: Arc::new(SeriesDeletion(database.clone())),
        labels: Arc::new(DatabaseLabels(database.clone())),
    };
    let tsd = Tsd::open(config, stores, clock).await?;
    let (used, max) = (tsd.name_bytes(), tsd.name_bytes_max());
    if are_nearly_full(used, max) {
        warn!(
            used,
            max,
            "names with UIDs are near opentsdb.uid_bytes_max: at the limit points with new names \
             are refused; raise it, or find the client that sends ever new names"
        );
    }
    Ok(tsd)
}

/// Returns `true` if names use so much of their limit that a start warns.
fn are_nearly_full(used: usize, max: usize) -> bool {
    used > max / 100 * NAMES_WARNED_PERCENT
}

/// Labels by the index of a database.
struct DatabaseLabels(Database);

/// Memory of one look into the index.
const INDEX_MEMORY_MAX: usize = 256 << 20;

impl DatabaseLabels {
    fn query(limit: usize) -> LabelQuery {
        LabelQuery {
            selectors: Vec::new(),
            start_ms: 0,
            end_ms: MAX_TIMESTAMP_MS,
            limit: Some(limit),
            memory: Some(MemoryBudget::new(INDEX_MEMORY_MAX)),
        }
    }
}

impl LabelIndex for DatabaseLabels {
    fn names(&self, limit: usize) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        Box::pin(async move { Ok(self.0.label_names(&Self::query(limit)).await?) })
    }

    fn values<'a>(
        &'a self,
        label: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        Box::pin(async move { Ok(self.0.label_values(label, &Self::query(limit)).await?) })
    }
}

/// Deletes points of a database.
struct SeriesDeletion(Database);

impl PointDeletion for SeriesDeletion {
    fn delete(
        &self,
        selectors: Vec<Vec<Matcher>>,
        start_ms: i64,
        end_ms: i64,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let deletion = Deletion {
                selectors,
                start_ms,
                end_ms,
            };
            // The answer is the points that were read, as OpenTSDB has it: what went beside them is
            // in the log.
            self.0.delete_series(deletion).await?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_warns_above_four_fifths() {
        for (used, expected) in [(0, false), (800, false), (801, true), (5000, true)] {
            assert_eq!(are_nearly_full(used, 1000), expected, "{used}");
        }
        assert!(!are_nearly_full(usize::MAX / 2, usize::MAX));
    }
}
