//! Events to the bytes of a file.

use icecore_events::{Field, StoredEvent};
use icecore_model::StoreError;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

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

pub(crate) fn encode(indexed: &[Field], events: &[StoredEvent<'_>]) -> Result<Vec<u8>, StoreError> {
    let mut rows: Vec<&StoredEvent<'_>> = events.iter().collect();
    let place = |event: &&StoredEvent<'_>| (event.started_ns, event.id);
    // Usually they are: a stable sort finds that out in one pass.
    rows.sort_by_key(place);
    write(indexed, &rows).map_err(|error| StoreError(format!("events as Parquet: {error}")))
}

fn write(indexed: &[Field], rows: &[&StoredEvent<'_>]) -> Result<Vec<u8>, ParquetError> {
    let schema = event_schema(indexed);
    let sorted_by = [columns::STARTED_AT, columns::EVENT_ID]
        .iter()
        .filter_map(|name| schema.index_of(name).ok());
    let properties = properties(sorted_by, rows.len())?;
    let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties))?;
    let mut incomplete = vec![false; schema.fields().len()];
    for chunk in rows.chunks(BATCH_ROWS) {
        let (batch, lacking) = to_columns(&schema, chunk)?;
        lacking.into_iter().for_each(|at| incomplete[at] = true);
        writer.write(&batch)?;
    }
    // One name on each line: paths of attributes have no line breaks.
    let names = schema.fields().iter().zip(incomplete);
    let names = names.filter(|(_, incomplete)| *incomplete);
    let names: Vec<&str> = names.map(|(field, _)| field.name().as_str()).collect();
    let names = names.join("\n");
    writer.append_key_value_metadata(KeyValue::new(INCOMPLETE_KEY.into(), Some(names)));
    writer.append_key_value_metadata(KeyValue::new(VERSION_KEY.into(), Some(VERSION.into())));
    writer.into_inner()
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
