//! Events at rest: files of Parquet, as other programs read them, too.
//!
//! ```text
//! events ─► columns ─► row groups of 100 000 ─► file
//! file ─► footer ─► groups that may have rows ─► columns of the condition ─► pages of candidates
//! ```
//!
//! Holds always:
//! - What is read is what was written, event by event and type by type.
//! - A file is read in pieces, and only those that are needed.
//! - A damaged file is an error, never a panic.

mod attribute_values;
mod attributes_json;
mod batches;
mod columns;
mod condition_mask;
mod footer;
mod from_columns;
mod groups;
mod id_text;
mod scan;
mod to_columns;
mod write;

use icecore_events::{
    Field, FileBytes, FileFormat, FileRows, FileScan, FileSize, FileWriter, StoredEvent,
};
use icecore_model::{BoxFuture, StoreError};

pub use attribute_values::TEXT_LIMIT;
pub use batches::ColumnBatches;
pub use columns::{attribute_column, attribute_of, event_schema};
pub use to_columns::events_to_batch;

/// Files of Parquet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parquet;

impl FileFormat for Parquet {
    fn extension(&self) -> &'static str {
        "parquet"
    }

    fn begin(&self, indexed: &[Field], size: FileSize) -> Result<Box<dyn FileWriter>, StoreError> {
        Ok(Box::new(write::ParquetWriter::new(indexed, size)?))
    }

    fn open<'a>(
        &'a self,
        file: FileBytes,
        scan: FileScan,
    ) -> BoxFuture<'a, Result<Box<dyn FileRows>, StoreError>> {
        Box::pin(async move {
            let newest_first = scan.newest_first;
            let rows = scan::RowScan::new(file, scan).await?;
            let schema = rows.footer.metadata.schema().fields();
            let whole = schema.iter().map(|field| field.name().as_str());
            // Columns of attributes say nothing that the JSON does not.
            let whole = whole.filter(|name| attribute_of(name).is_none());
            let positions = rows.footer.positions(whole);
            let rows = EventRows {
                rows,
                positions,
                newest_first,
            };
            Ok(Box::new(rows) as Box<dyn FileRows>)
        })
    }
}

struct EventRows {
    rows: scan::RowScan,
    positions: Vec<usize>,
    newest_first: bool,
}

impl FileRows for EventRows {
    fn next_batch(
        &mut self,
    ) -> BoxFuture<'_, Result<Option<Vec<StoredEvent<'static>>>, StoreError>> {
        Box::pin(async move {
            let Some((_, Some(batch))) = self.rows.next(&self.positions).await? else {
                return Ok(None);
            };
            let events = footer::on_thread(move || from_columns::from_columns(&batch)).await?;
            let mut events = events?;
            if self.newest_first {
                events.reverse();
            }
            Ok(Some(events))
        })
    }
}
