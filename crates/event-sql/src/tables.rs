//! The tables that a query sees.

use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, MemorySchemaProvider};
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use icecore_model::event::EventWindow;

use crate::event_table::EventTable;
use crate::json_get::json_get;
use crate::rollup_table::RollupTable;
use crate::scanned::ScannedTable;
use crate::source::Source;

pub(crate) const CATALOG: &str = "icecore";
pub(crate) const SCHEMA: &str = "public";

/// Registers `events`, the rollup tables, and a schema for each service with a table for each of
/// its types.
pub(crate) fn register(
    context: &SessionContext,
    source: &Source,
    allow_full_scan: bool,
) -> Result<()> {
    let catalog = MemoryCatalogProvider::new();
    let public = Arc::new(MemorySchemaProvider::new());
    for (name, service) in &source.registry().services {
        // A service of that name has its tables beside ours, and ours win.
        let schema = match name.as_str() {
            SCHEMA => public.clone(),
            _ => Arc::new(MemorySchemaProvider::new()),
        };
        for (name, event_type) in &service.types {
            let of_type = Some(event_type.clone());
            let table = EventTable::new(source.clone(), of_type, allow_full_scan);
            schema.register_table(name.clone(), Arc::new(ScannedTable(table)))?;
        }
        catalog.register_schema(name, schema)?;
    }
    let own = |name: &str| public.deregister_table(name).map(drop);
    own("events")?;
    let events = EventTable::new(source.clone(), None, allow_full_scan);
    public.register_table("events".into(), Arc::new(ScannedTable(events)))?;
    for window in EventWindow::ALL {
        let name = format!("rollup_{}", window.code());
        own(&name)?;
        let table = RollupTable::new(source.clone(), window);
        public.register_table(name, Arc::new(ScannedTable(table)))?;
    }
    catalog.register_schema(SCHEMA, public)?;
    context.register_catalog(CATALOG, Arc::new(catalog));
    context.register_udf(json_get());
    Ok(())
}
