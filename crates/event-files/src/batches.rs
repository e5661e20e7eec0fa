//! Events of a file as columns, for queries that look at many events and few columns.

use arrow_array::cast::AsArray as _;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::ArrowError;
use arrow_schema::{Field, SchemaRef};
use icecore_events::{FileBytes, FileScan};
use icecore_model::StoreError;

use crate::attribute_values::{Texts, attribute_values};
use crate::attributes_json;
use crate::columns::{self, attribute_of};
use crate::footer::Footer;
use crate::scan::RowScan;

/// Reads columns of a file. All events of the range of time are there, and those that the
/// condition excludes may be.
pub struct ColumnBatches {
    rows: RowScan,
    schema: SchemaRef,
    positions: Vec<usize>,
}

impl ColumnBatches {
    /// Begins to read the columns of `schema`, which are some of those that
    /// [`crate::event_schema`] has. Attributes that had no column when the file was written, or
    /// whose column does not have all of them, are taken from the JSON of all attributes.
    pub async fn open(
        file: FileBytes,
        scan: FileScan,
        schema: SchemaRef,
    ) -> Result<Self, StoreError> {
        let rows = RowScan::new(file, scan).await?;
        let has = rows.footer.metadata.schema();
        let mut positions = Vec::new();
        for field in schema.fields() {
            let stored = has.index_of(field.name());
            let position = match stored {
                Ok(at) if is_whole(&rows.footer, field) => at,
                _ => has.index_of(columns::ATTRIBUTES).map_err(in_arrow)?,
            };
            if !positions.contains(&position) {
                positions.push(position);
            }
        }
        Ok(Self {
            rows,
            schema,
            positions,
        })
    }

    /// Some more rows, or `None` at the end.
    pub async fn next_batch(&mut self) -> Result<Option<RecordBatch>, StoreError> {
        let Some((rows, batch)) = self.rows.next(&self.positions).await? else {
            return Ok(None);
        };
        self.arrange(rows, batch).map(Some).map_err(in_arrow)
    }

    fn arrange(&self, rows: usize, batch: Option<RecordBatch>) -> Result<RecordBatch, ArrowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let Some(batch) = batch else {
            let empty = Vec::new();
            return RecordBatch::try_new_with_options(self.schema.clone(), empty, &options);
        };
        let columns: Result<Vec<ArrayRef>, ArrowError> = (self.schema.fields().iter())
            .map(|field| match batch.column_by_name(field.name()) {
                Some(array) if is_whole(&self.rows.footer, field) => Ok(array.clone()),
                _ => from_attributes(field, &batch),
            })
            .collect();
        RecordBatch::try_new_with_options(self.schema.clone(), columns?, &options)
    }
}

/// Whether a file has all values of a column.
fn is_whole(footer: &Footer, field: &Field) -> bool {
    let stored = footer.metadata.schema().field_with_name(field.name());
    let has_type = stored.is_ok_and(|stored| stored.data_type() == field.data_type());
    has_type && footer.is_complete(field.name())
}

/// A column that the file does not have, or not all of, made of all attributes.
fn from_attributes(field: &Field, batch: &RecordBatch) -> Result<ArrayRef, ArrowError> {
    let lacking = || ArrowError::SchemaError(format!("events have no column {field}"));
    let path = attribute_of(field.name()).ok_or_else(lacking)?;
    let json = batch.column_by_name(columns::ATTRIBUTES);
    let json = json
        .and_then(|array| array.as_string_opt::<i32>())
        .ok_or_else(lacking)?;
    let attributes = json
        .iter()
        .map(|json| attributes_json::from_json(json.unwrap_or("{}")));
    let attributes: Result<Vec<_>, _> = attributes.collect();
    let attributes = attributes.map_err(|error| ArrowError::JsonError(error.reason.into()))?;
    let values = attributes.iter().map(|attributes| attributes.get(path));
    let column = attribute_values(field.data_type(), Texts::Whole, values);
    column.map(|(array, _)| array).ok_or_else(lacking)
}

fn in_arrow(error: ArrowError) -> StoreError {
    StoreError(format!("columns of a file of events: {error}"))
}
