//! Cells of HBase as lines of JSON, one for a cell.
//!
//! ```text
//! {"table":"tsdb","row":"00000150e22700000001000001","family":"t","qualifier":"01e0","value":"2a"}
//! ```
//!
//! All but the table is hexadecimal; families may be given as they are, too, because `t`, `id` and
//! `name` are no hexadecimal digits. A `timestamp` in ms may be there: it says which of two cells
//! with the same time of a point was written last.

use std::borrow::Cow;

use thiserror::Error;

use crate::json::{JsonReader, SyntaxError};

/// Objects within each other: a line is one, and members that nobody knows may be some more.
const DEPTH_MAX: usize = 8;

/// Families whose names are taken as they are.
const FAMILIES: [&str; 3] = ["t", "id", "name"];

/// A cell with its table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellLine<'a> {
    pub table: Cow<'a, str>,
    pub row: Vec<u8>,
    pub family: Vec<u8>,
    pub qualifier: Vec<u8>,
    pub value: Vec<u8>,
    /// When HBase stored it, in ms, if the line says so.
    pub timestamp_ms: Option<i64>,
}

/// Why a line is no cell.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum CellLineError {
    #[error("no JSON: {0}")]
    Syntax(&'static str),
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{0} is not hexadecimal")]
    NotHex(&'static str),
    #[error("{0} is not in base 64")]
    NotBase64(&'static str),
}

impl From<SyntaxError> for CellLineError {
    fn from(error: SyntaxError) -> Self {
        Self::Syntax(error.reason)
    }
}

impl<'a> CellLine<'a> {
    pub fn parse(line: &'a str) -> Result<Self, CellLineError> {
        let mut reader = JsonReader::new(line, DEPTH_MAX);
        let mut cell = Self::default();
        let mut seen = [false; 5];
        reader.object(|reader, name| {
            let mut saw = |index: usize| seen[index] = true;
            match name {
                "table" => {
                    cell.table = reader.string()?;
                    saw(0);
                }
                "row" => {
                    cell.row = hex(&reader.string()?, "row")?;
                    saw(1);
                }
                "family" => {
                    cell.family = family(&reader.string()?)?;
                    saw(2);
                }
                "qualifier" => {
                    cell.qualifier = hex(&reader.string()?, "qualifier")?;
                    saw(3);
                }
                "value" => {
                    cell.value = hex(&reader.string()?, "value")?;
                    saw(4);
                }
                "timestamp" => {
                    let number = reader.number()?.parse();
                    let number = number.map_err(|_| reader.error("expected a time in ms"))?;
                    cell.timestamp_ms = Some(number);
                }
                _ => reader.skip()?,
            }
            Ok::<_, CellLineError>(())
        })?;
        if !reader.is_at_end() {
            return Err(CellLineError::Syntax("something follows the object"));
        }
        let names = ["table", "row", "family", "qualifier", "value"];
        match seen.into_iter().zip(names).find(|(seen, _)| !seen) {
            Some((_, name)) => Err(CellLineError::Missing(name)),
            None => Ok(cell),
        }
    }

    /// Appends the line, with its end.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"table\":");
        crate::prometheus::api_json::write_string(out, &self.table);
        for (name, bytes) in [
            ("row", &self.row),
            ("family", &self.family),
            ("qualifier", &self.qualifier),
            ("value", &self.value),
        ] {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":\"");
            out.extend_from_slice(::hex::encode(bytes).as_bytes());
            out.push(b'"');
        }
        if let Some(timestamp_ms) = self.timestamp_ms {
            out.extend_from_slice(format!(",\"timestamp\":{timestamp_ms}").as_bytes());
        }
        out.extend_from_slice(b"}\n");
    }
}

fn hex(text: &str, name: &'static str) -> Result<Vec<u8>, CellLineError> {
    ::hex::decode(text).map_err(|_| CellLineError::NotHex(name))
}

fn family(text: &str) -> Result<Vec<u8>, CellLineError> {
    if FAMILIES.contains(&text) {
        Ok(text.as_bytes().to_vec())
    } else {
        hex(text, "family")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINE: &str = r#"{"table":"tsdb","row":"00000150E22700000001000001","family":"t","qualifier":"01E0","value":"2A"}"#;

    #[test]
    fn a_line_is_a_cell() {
        let cell = CellLine::parse(LINE).unwrap();
        assert_eq!((&*cell.table, cell.row.len()), ("tsdb", 13));
        assert_eq!(
            (&cell.family[..], &cell.qualifier[..]),
            (&b"t"[..], &[1, 0xe0][..])
        );
        assert_eq!((&cell.value[..], cell.timestamp_ms), (&[42][..], None));
        let mut written = Vec::new();
        cell.write(&mut written);
        let expected = "{\"table\":\"tsdb\",\"row\":\"00000150e22700000001000001\",\
                        \"family\":\"74\",\"qualifier\":\"01e0\",\"value\":\"2a\"}\n";
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (from, to, error) in [
            ("\"2A\"", "\"2\"", CellLineError::NotHex("value")),
            ("\"t\"", "\"x\"", CellLineError::NotHex("family")),
            ("\"row\"", "\"rows\"", CellLineError::Missing("row")),
            ("}", "", CellLineError::Syntax("the text ends too early")),
            (
                "}",
                "} x",
                CellLineError::Syntax("something follows the object"),
            ),
        ] {
            assert_eq!(CellLine::parse(&LINE.replace(from, to)), Err(error), "{to}");
        }
    }

    proptest! {
        #[test]
        fn lines_survive(
            table in ".{0,8}",
            row in prop::collection::vec(any::<u8>(), 0..20),
            family in prop::collection::vec(any::<u8>(), 0..4),
            qualifier in prop::collection::vec(any::<u8>(), 0..8),
            value in prop::collection::vec(any::<u8>(), 0..20),
            timestamp_ms in prop::option::of(any::<i64>()),
        ) {
            let table = Cow::Owned(table);
            let cell = CellLine { table, row, family, qualifier, value, timestamp_ms };
            let mut line = Vec::new();
            cell.write(&mut line);
            let line = String::from_utf8(line).unwrap();
            prop_assert_eq!(CellLine::parse(&line), Ok(cell));
        }
    }
}
