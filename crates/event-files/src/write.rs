//! Events to the bytes of a file.

use arrow_schema::SchemaRef;
use icecore_events::{Field, FileSize, FileWriter, StoredEvent};
use icecore_model::StoreError;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::attribute_values::Texts;
use crate::columns::{self, event_schema};
use crate::to_columns::to_columns;

/// Rows of a group: what statistics and bloom filters are kept of.
pub(crate) const GROUP_ROWS: usize = 100_000;

/// Rows of a page: the least that is decoded to get one row.
const PAGE_ROWS: usize = 4_096;

/// A dictionary is read with any page of its column, so that it must not be much larger than one.
const DICTIONARY_BYTES: usize = 64 * 1024;

/// Events that are turned into columns at once.
const BATCH_ROWS: usize = 8_192;

/// One of fifty look-ups finds a group that does not have the id.
const BLOOM_FALSE_POSITIVES: f64 = 0.02;

/// Which columns do not have all values of their attributes.
pub(crate) const INCOMPLETE_KEY: &str = "icecore.incomplete";

/// What the layout of a file is called.
pub(crate) const VERSION_KEY: &str = "icecore.events";
pub(crate) const VERSION: &str = "1";

/// A file in the making. What of it is encoded is in memory, and the group that is being filled.
pub(crate) struct ParquetWriter {
    writer: ArrowWriter<Vec<u8>>,
    schema: SchemaRef,
    /// For each column, whether it lacks values.
    incomplete: Vec<bool>,
}

impl ParquetWriter {
    pub(crate) fn new(indexed: &[Field], size: FileSize) -> Result<Self, StoreError> {
        let schema = event_schema(indexed);
        let sorted_by = [columns::STARTED_AT, columns::EVENT_ID]
            .iter()
            .filter_map(|name| schema.index_of(name).ok());
        let properties = properties(sorted_by, size.events).map_err(as_parquet)?;
        let content = Vec::with_capacity(size.bytes);
        let writer = ArrowWriter::try_new(content, schema.clone(), Some(properties));
        Ok(Self {
            writer: writer.map_err(as_parquet)?,
            incomplete: vec![false; schema.fields().len()],
            schema,
        })
    }

    fn write(&mut self, rows: &[&StoredEvent<'_>]) -> Result<(), ParquetError> {
        for chunk in rows.chunks(BATCH_ROWS) {
            let (batch, lacking) = to_columns(&self.schema, Texts::Cut, chunk)?;
            lacking
                .into_iter()
                .for_each(|at| self.incomplete[at] = true);
            self.writer.write(&batch)?;
        }
        Ok(())
    }
}

impl FileWriter for ParquetWriter {
    fn push(&mut self, events: &[&StoredEvent<'_>]) -> Result<(), StoreError> {
        self.write(events).map_err(as_parquet)
    }

    fn finish(self: Box<Self>) -> Result<Vec<u8>, StoreError> {
        let mut writer = self.writer;
        // One name on each line: paths of attributes have no line breaks.
        let names = self.schema.fields().iter().zip(self.incomplete);
        let names = names.filter(|(_, incomplete)| *incomplete);
        let names: Vec<&str> = names.map(|(field, _)| field.name().as_str()).collect();
        let names = names.join("\n");
        writer.append_key_value_metadata(KeyValue::new(INCOMPLETE_KEY.into(), Some(names)));
        writer.append_key_value_metadata(KeyValue::new(VERSION_KEY.into(), Some(VERSION.into())));
        writer.into_inner().map_err(as_parquet)
    }
}

fn as_parquet(error: ParquetError) -> StoreError {
    StoreError(format!("events as Parquet: {error}"))
}

fn properties(
    sorted_by: impl Iterator<Item = usize>,
    rows: usize,
) -> Result<WriterProperties, ParquetError> {
    let sorted_by = sorted_by.map(|at| SortingColumn {
        column_idx: i32::try_from(at).unwrap_or_default(),
        descending: false,
        nulls_first: false,
    });
    let path = |name: &str| ColumnPath::from(name);
    let ids = rows.clamp(1, GROUP_ROWS) as u64;
    let mut builder = WriterProperties::builder()
        .set_created_by("icecore".into())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_sorting_columns(Some(sorted_by.collect()));
    for name in [columns::EVENT_ID, columns::TRACE_ID] {
        builder = builder
            .set_column_bloom_filter_fpp(path(name), BLOOM_FALSE_POSITIVES)
            .set_column_bloom_filter_max_ndv(path(name), ids);
    }
    // Hardly a value comes twice: a dictionary would be the column once more.
    for name in [
        columns::EVENT_ID,
        columns::TRACE_ID,
        columns::SPAN_ID,
        columns::ATTRIBUTES,
    ] {
        builder = builder.set_column_dictionary_enabled(path(name), false);
    }
    for name in [columns::STARTED_AT, columns::ENDED_AT, columns::RECEIVED_AT] {
        builder = builder
            .set_column_dictionary_enabled(path(name), false)
            .set_column_encoding(path(name), Encoding::DELTA_BINARY_PACKED);
    }
    Ok(builder.build())
}
