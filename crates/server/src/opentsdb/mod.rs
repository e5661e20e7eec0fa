//! OpenTSDB's protocols: HTTP below `/opentsdb` and on a port of its own, where telnet lines are
//! spoken as well.

pub(crate) mod http;
mod telnet;

pub(crate) use telnet::Telnet;

use std::sync::Arc;

use icecore_model::Clock;
use icecore_opentsdb::{Config, Stores, Tsd};
use icecore_storage::Database;

/// Opens OpenTSDB's view of a database: reads all names.
pub(crate) async fn open(
    config: Config,
    database: &Database,
    clock: Arc<dyn Clock>,
) -> Result<Tsd, icecore_model::StoreError> {
    let database = Arc::new(database.clone());
    let stores = Stores {
        points: database.clone(),
        series: database.clone(),
        catalog: database,
    };
    Tsd::open(config, stores, clock).await
}
