//! What HBase's REST gateway answers a scanner with: rows of cells in base 64.
//!
//! ```text
//! {"Row":[{"key":"<row>","Cell":[{"column":"<family:qualifier>","timestamp":1,"$":"<value>"}]}]}
//! ```

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::cell_line::{CellLine, CellLineError};
use crate::json::JsonReader;

/// The document, its rows, a row, its cells, a cell, and members that nobody knows.
const DEPTH_MAX: usize = 12;

/// The cells of an answer, in its order.
pub fn read_cells<'a>(text: &str, table: &'a str) -> Result<Vec<CellLine<'a>>, CellLineError> {
    let mut cells = Vec::new();
    let mut reader = JsonReader::new(text, DEPTH_MAX);
    reader.object(|reader, name| match name {
        "Row" => reader.array(|reader| read_row(reader, table, &mut cells)),
        _ => Ok(reader.skip()?),
    })?;
    if reader.is_at_end() {
        Ok(cells)
    } else {
        Err(CellLineError::Syntax("something follows the object"))
    }
}

fn read_row<'a>(
    reader: &mut JsonReader<'_>,
    table: &'a str,
    cells: &mut Vec<CellLine<'a>>,
) -> Result<(), CellLineError> {
    let first = cells.len();
    let mut row = None;
    reader.object(|reader, name| {
        match name {
            "key" => row = Some(base64(&reader.string()?, "key")?),
            "Cell" => reader.array(|reader| {
                cells.push(read_cell(reader, table)?);
                Ok::<_, CellLineError>(())
            })?,
            _ => reader.skip()?,
        }
        Ok::<_, CellLineError>(())
    })?;
    let row = row.ok_or(CellLineError::Missing("key"))?;
    for cell in cells.iter_mut().skip(first) {
        cell.row.clone_from(&row);
    }
    Ok(())
}

fn read_cell<'a>(
    reader: &mut JsonReader<'_>,
    table: &'a str,
) -> Result<CellLine<'a>, CellLineError> {
    let mut cell = CellLine {
        table: Cow::Borrowed(table),
        ..CellLine::default()
    };
    let (mut column, mut value) = (None, None);
    reader.object(|reader, name| {
        match name {
            "column" => column = Some(base64(&reader.string()?, "column")?),
            "$" => value = Some(base64(&reader.string()?, "$")?),
            "timestamp" => cell.timestamp_ms = reader.number()?.parse().ok(),
            _ => reader.skip()?,
        }
        Ok::<_, CellLineError>(())
    })?;
    let column = column.ok_or(CellLineError::Missing("column"))?;
    let colon = column.iter().position(|byte| *byte == b':');
    let (family, qualifier) = column.split_at(colon.unwrap_or(column.len()));
    cell.family = family.to_vec();
    cell.qualifier = qualifier.get(1..).unwrap_or_default().to_vec();
    cell.value = value.ok_or(CellLineError::Missing("$"))?;
    Ok(cell)
}

fn base64(text: &str, name: &'static str) -> Result<Vec<u8>, CellLineError> {
    let decoded = STANDARD.decode(text);
    decoded.map_err(|_| CellLineError::NotBase64(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cells_with_their_keys() {
        // The key comes last, which nobody forbids.
        let text = r#"{"Row":[
            {"Cell":[{"column":"dDoB4A==","timestamp":1356998430000,"$":"Kg=="},
                     {"column":"dDoC0Q==","timestamp":1,"$":"ASw="}],"key":"AAABUOInAAAAAQAAAQ=="},
            {"key":"AA==","Cell":[{"column":"aWQ6bWV0cmljcw==","$":""}]}]}"#;
        let cells = read_cells(text, "tsdb").unwrap();
        let shown: Vec<_> = cells
            .iter()
            .map(|cell| {
                let hex = |bytes: &[u8]| ::hex::encode(bytes);
                let family = String::from_utf8(cell.family.clone()).unwrap();
                (
                    hex(&cell.row),
                    family,
                    hex(&cell.qualifier),
                    hex(&cell.value),
                )
            })
            .collect();
        let text = |(r, f, q, v): (&str, &str, &str, &str)| {
            (r.to_owned(), f.to_owned(), q.to_owned(), v.to_owned())
        };
        let expected = [
            ("00000150e22700000001000001", "t", "01e0", "2a"),
            ("00000150e22700000001000001", "t", "02d1", "012c"),
            ("00", "id", "6d657472696373", ""),
        ];
        let expected = expected.map(text);
        assert_eq!(shown, expected);
        assert_eq!(cells[0].timestamp_ms, Some(1_356_998_430_000));
        for broken in [
            "",
            "[]",
            r#"{"Row":[{"Cell":[]}]}"#,
            r#"{"Row":[{"key":"AA==","Cell":[{"column":"dDo="}]}]}"#,
            r#"{"Row":[{"key":"A","Cell":[]}]}"#,
        ] {
            assert!(read_cells(broken, "tsdb").is_err(), "{broken}");
        }
        assert_eq!(read_cells("{}", "tsdb"), Ok(vec![]));
    }
}
