//! Answers as JSON, CSV, or a stream of Arrow.

use std::sync::Arc;

use arrow::array::{Array as _, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::json::writer::{EncoderOptions, JsonArray, WriterBuilder, make_encoder};
use icecore_events::Problem;
use serde_json::json;

use crate::request::{SqlAnswer, SqlFormat, SqlRequest};

/// The rows of an answer.
pub(crate) struct Found {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
    /// Whether there were more rows than the limit.
    pub(crate) is_cut: bool,
}

pub(crate) fn write(request: &SqlRequest, found: &Found) -> Result<SqlAnswer, Problem> {
    let (content_type, body) = match request.format {
        SqlFormat::Row => ("application/json", rows(request, found)),
        SqlFormat::Columnar => ("application/json", columns(request, found)),
        SqlFormat::Csv => ("text/csv; charset=utf-8", csv(found)),
        SqlFormat::Arrow => ("application/vnd.apache.arrow.stream", ipc(found)),
    };
    let body = body.map_err(|error| Problem::new(400, "sql.failed", error.to_string()))?;
    Ok(SqlAnswer { content_type, body })
}

/// `{"count": …, "truncated": …, "data": ` up to the data itself.
fn head(request: &SqlRequest, found: &Found, format: &str) -> Vec<u8> {
    let count: usize = found.batches.iter().map(RecordBatch::num_rows).sum();
    let (limit, cut) = (request.limit, found.is_cut);
    format!(
        "{{\"count\":{count},\"limit\":{limit},\"format\":\"{format}\",\"truncated\":{cut},\"data\":"
    )
    .into_bytes()
}

fn rows(request: &SqlRequest, found: &Found) -> Result<Vec<u8>, ArrowError> {
    let mut body = head(request, found, "row");
    body.extend_from_slice(b"{\"rows\":");
    let mut writer = WriterBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, JsonArray>(&mut body);
    for batch in &found.batches {
        writer.write(batch)?;
    }
    writer.finish()?;
    body.extend_from_slice(b"}}");
    Ok(body)
}

fn columns(request: &SqlRequest, found: &Found) -> Result<Vec<u8>, ArrowError> {
    let mut body = head(request, found, "columnar");
    let fields = found.schema.fields();
    let described = fields
        .iter()
        .map(|field| json!({ "name": field.name(), "type": type_name(field.data_type()) }));
    let described: Vec<_> = described.collect();
    let schema = json!({ "fields": described });
    body.extend_from_slice(format!("{{\"schema\":{schema},\"data\":{{").as_bytes());
    let options = EncoderOptions::default();
    for (at, field) in fields.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        body.extend_from_slice(format!("{comma}{}:[", json!(field.name())).as_bytes());
        let mut is_first = true;
        for batch in &found.batches {
            let array = batch.column(at);
            let mut encoder = make_encoder(field, array.as_ref(), &options)?;
            for row in 0..batch.num_rows() {
                if !is_first {
                    body.push(b',');
                }
                is_first = false;
                if encoder.is_null(row) {
                    body.extend_from_slice(b"null");
                } else {
                    encoder.encode(row, &mut body);
                }
            }
        }
        body.push(b']');
    }
    body.extend_from_slice(b"}}}");
    Ok(body)
}

fn csv(found: &Found) -> Result<Vec<u8>, ArrowError> {
    let mut body = Vec::new();
    let mut writer = arrow::csv::WriterBuilder::new()
        .with_header(true)
        .build(&mut body);
    // A batch without rows writes the header.
    let none = RecordBatch::new_empty(found.schema.clone());
    for batch in std::iter::once(&none).chain(&found.batches) {
        writer.write(&without_lists(batch)?)?;
    }
    drop(writer);
    Ok(body)
}

/// Lists as text: CSV has none.
fn without_lists(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let mut columns = Vec::with_capacity(batch.num_columns());
    let mut fields = Vec::with_capacity(batch.num_columns());
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        if column.data_type().is_nested() {
            fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, true)));
            columns.push(cast(column, &DataType::Utf8)?);
        } else {
            fields.push(field.clone());
            columns.push(column.clone());
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
}

fn ipc(found: &Found) -> Result<Vec<u8>, ArrowError> {
    let mut body = Vec::new();
    let mut writer = StreamWriter::try_new(&mut body, &found.schema)?;
    for batch in &found.batches {
        writer.write(batch)?;
    }
    writer.finish()?;
    drop(writer);
    Ok(body)
}

/// As columnar answers name types.
fn type_name(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string",
        DataType::Boolean => "boolean",
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => "datetime",
        DataType::List(_) | DataType::LargeList(_) => "array",
        DataType::Struct(_) | DataType::Map(..) => "object",
        data_type if data_type.is_integer() => "integer",
        data_type if data_type.is_numeric() => "number",
        _ => "any",
    }
}
