//! `icecore events sql`: a question in SQL to a running server.

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use reqwest::{Method, header};
use serde_json::{Value, json};

use super::problem::answer_of;
use crate::output::Output;
use crate::remote::ServerArgs;

/// Ask in SQL
///
/// Tables are events, "SERVICE"."EVENT TYPE", and rollup_5s to rollup_7d. A question about events
/// needs a bound on started_at, or --full-scan.
#[derive(Args)]
pub(super) struct SqlArgs {
    #[arg(value_name = "QUERY")]
    query: String,

    /// Rows of the answer
    #[arg(long, default_value_t = 1_000)]
    limit: usize,

    /// Read all events, of any time
    #[arg(long)]
    full_scan: bool,

    /// How to print the result
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: SqlFormat,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum SqlFormat {
    /// Columns for people
    #[default]
    Table,
    Csv,
    /// The answer as it came
    Json,
}

impl SqlArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let connection = self.server.connect()?;
        let question = json!({
            "q": self.query,
            "limit": self.limit,
            "format": "columnar",
            "allowFullScan": self.full_scan,
        });
        let request = connection
            .request(Method::POST, "/events/sql")
            .header(header::CONTENT_TYPE, "application/json")
            .body(question.to_string());
        let body = connection.exchange(request).await?;
        let answer = answer_of(&body, connection.server())?;
        let mut output = Output::new();
        match self.output {
            SqlFormat::Json => output.json(&answer)?,
            SqlFormat::Table => print_table(&mut output, &rows_of(&answer)?)?,
            SqlFormat::Csv => print_csv(&mut output, &rows_of(&answer)?)?,
        };
        Ok(output.finish()?)
    }
}

/// Names of columns, then rows of texts.
fn rows_of(answer: &Value) -> anyhow::Result<Vec<Vec<String>>> {
    let data = &answer["data"];
    let fields = data["schema"]["fields"].as_array();
    let fields = fields.context("the answer has no columns")?;
    let names: Vec<String> = fields.iter().map(|field| shown(&field["name"])).collect();
    let columns: Vec<&[Value]> = names
        .iter()
        .map(|name| data["data"][name].as_array().map_or(&[][..], Vec::as_slice))
        .collect();
    let count = columns.iter().map(|column| column.len()).max().unwrap_or(0);
    let row = |at: usize| {
        let values = columns
            .iter()
            .map(|column| column.get(at).map_or_else(String::new, shown));
        values.collect()
    };
    let mut rows = vec![names.clone()];
    rows.extend((0..count).map(row));
    Ok(rows)
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn print_table(output: &mut Output, rows: &[Vec<String>]) -> anyhow::Result<bool> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        let widths = rows.iter().filter_map(|row| row.get(at));
        widths.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut goes_on = true;
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(text, width)| format!("{text:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        goes_on = output.line(line.trim_end())?;
    }
    Ok(goes_on)
}

fn print_csv(output: &mut Output, rows: &[Vec<String>]) -> anyhow::Result<bool> {
    let mut goes_on = true;
    for row in rows {
        let cells: Vec<String> = row.iter().map(|text| csv(text)).collect();
        goes_on = output.line(&cells.join(","))?;
    }
    Ok(goes_on)
}

/// As RFC 4180 quotes.
fn csv(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_become_rows() {
        let answer = json!({"data": {
            "schema": {"fields": [{"name": "a", "type": "string"}, {"name": "n", "type": "integer"}]},
            "data": {"a": ["x,\"y\"", null], "n": [1, 2.5]},
        }});
        let rows = rows_of(&answer).unwrap();
        assert_eq!(rows, [["a", "n"], ["x,\"y\"", "1"], ["", "2.5"]]);
        assert_eq!(csv(&rows[1][0]), "\"x,\"\"y\"\"\"");
        assert!(rows_of(&json!({})).is_err());
    }
}
