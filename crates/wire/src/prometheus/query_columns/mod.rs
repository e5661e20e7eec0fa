//! The matrix of a range query as columns: numbers that a client uses where they lie.
//!
//! ```text
//! 0         8           16         24      28       32
//! │ "ICEMTRX1" │ start, ms │ step, ms │ steps │ series │ series × steps floats │ JSON …
//! ```
//!
//! Everything is little endian. The JSON is the answer without its points, to the end of the body:
//! it has its place behind the columns because both can then be sent as they are written, and
//! because all before it has a multiple of eight bytes, so that columns are aligned in memory.
//!
//! Holds always:
//! - A column has a float for each step. Where a series has none, its bits are those of the
//!   staleness marker; every other NaN is a value.
//! - Nothing here knows the engine: callers bring the columns, and write the JSON with
//!   [`super::query_json`].

use icecore_model::Labels;

use super::api_json::write_labels;

/// The media type of such an answer.
pub const COLUMNS_TYPE: &str = "application/vnd.icecore.matrix";

/// What an answer begins with: its form, and the version of it.
pub const MAGIC: [u8; 8] = *b"ICEMTRX1";

const JSON_TYPE: &str = "application/json";

/// Floats between two calls of `flow`: 64 KiB.
const FLOATS_PER_PIECE: usize = 8 << 10;

/// The steps that every column has a float for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnGrid {
    pub start_ms: i64,
    pub step_ms: i64,
    pub steps: u32,
}

/// Whether a client wants columns: its `Accept` names them, and not JSON before them.
pub fn prefers_columns<'a>(accept: impl Iterator<Item = &'a str>) -> bool {
    let mut columns = 0.0;
    let mut json = 0.0;
    for choice in accept.flat_map(|header| header.split(',')) {
        let (name, weight) = weighed(choice);
        if name.eq_ignore_ascii_case(COLUMNS_TYPE) {
            columns = weight;
        } else if name.eq_ignore_ascii_case(JSON_TYPE) {
            json = weight;
        }
    }
    columns > 0.0 && columns >= json
}

/// The media type of a choice and how welcome it is; a weight that cannot be read is a full one.
fn weighed(choice: &str) -> (&str, f32) {
    let mut parts = choice.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| part.strip_prefix("q="));
    let weight = weight.and_then(|text| text.parse().ok());
    (name, weight.unwrap_or(1.0))
}

/// Begins an answer; so many columns follow, then the JSON.
pub fn write_columns_start(out: &mut Vec<u8>, grid: ColumnGrid, series: u32) {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&grid.start_ms.to_le_bytes());
    out.extend_from_slice(&grid.step_ms.to_le_bytes());
    out.extend_from_slice(&grid.steps.to_le_bytes());
    out.extend_from_slice(&series.to_le_bytes());
}

/// Writes the column of one series.
pub fn write_column<E>(
    out: &mut Vec<u8>,
    values: &[f64],
    mut flow: impl FnMut(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    for piece in values.chunks(FLOATS_PER_PIECE) {
        out.reserve(size_of_val(piece));
        for value in piece {
            out.extend_from_slice(&value.to_le_bytes());
        }
        flow(out)?;
    }
    Ok(())
}

/// Writes the labels of one series as an element of the result: `{"metric":{…}}`.
pub fn write_column_labels(out: &mut Vec<u8>, labels: &Labels) {
    out.extend_from_slice(b"{\"metric\":");
    write_labels(out, labels);
    out.push(b'}');
}

#[cfg(test)]
mod tests;
