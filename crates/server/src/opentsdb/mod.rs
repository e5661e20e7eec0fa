//! OpenTSDB's protocols: HTTP below `/opentsdb` and on a port of its own, where telnet lines are
//! spoken as well.

pub(crate) mod http;
mod telnet;

pub(crate) use telnet::Telnet;

use std::sync::Arc;

use icecore_model::{BoxFuture, Clock, Matcher, StoreError};
use icecore_opentsdb::{Config, PointDeletion, Stores, Tsd};
use icecore_storage::{Database, Deletion};

/// Opens OpenTSDB's view of a database: reads all names.
pub(crate) async fn open(
    config: Config,
    database: &Database,
    clock: Arc<dyn Clock>,
) -> Result<Tsd, StoreError> {
    let stores = Stores {
        points: Arc::new(database.clone()),
        series: Arc::new(database.clone()),
        catalog: Arc::new(database.clone()),
        deletion: Arc::new(SeriesDeletion(database.clone())),
    };
    Tsd::open(config, stores, clock).await
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
            Ok(self.0.delete_series(deletion).await?)
        })
    }
}
