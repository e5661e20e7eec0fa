//! Answers as tables, comma-separated values and JSON.

use std::io;

use anyhow::Context as _;
use serde_json::Value;

use super::Format;
use super::answer::{Series, series_name, split_labels};
use super::csv;
use crate::output::{Output, Table};
use crate::remote::Answer;
use crate::utc;

/// Points of a series in a table of moderate length, and in data for a program.
pub(super) const TABLE_POINTS: usize = 60;
pub(super) const DATA_POINTS: usize = 250;

pub(super) fn print_query(
    answer: &Answer,
    format: Format,
    mut output: Output,
) -> anyhow::Result<()> {
    match format {
        Format::Json => drop(output.json(&answer.data)?),
        Format::Csv => lines(&mut output, |line| {
            answer.series().map(|all| csv::of_series(&all, line))
        })?,
        Format::Table => {
            let all = answer.series()?;
            match answer.data["resultType"].as_str() {
                Some("matrix") => print_points(&all, &mut output)?,
                _ => print_values(&all, &mut output)?,
            }
        }
    }
    Ok(output.finish()?)
}

/// One line per series.
fn print_values(all: &[Series], output: &mut Output) -> io::Result<()> {
    let mut table = Table::new(1, ["series", "value"]);
    for series in all {
        for point in &series.points {
            table.row([series.name(), point.text.clone()]);
        }
    }
    table.print(output)
}

/// One block per series, one line per point.
fn print_points(all: &[Series], output: &mut Output) -> io::Result<()> {
    for (i, series) in all.iter().enumerate() {
        if i > 0 {
            output.line("")?;
        }
        if !output.line(&series.name())? {
            return Ok(());
        }
        let mut table = Table::new(1, ["  time", "value"]);
        for point in &series.points {
            let time = format!("  {}", utc::format_ms(point.time_ms));
            table.row([time, point.text.clone()]);
        }
        table.print(output)?;
    }
    Ok(())
}

pub(super) fn print_label_sets(
    answer: &Answer,
    format: Format,
    mut output: Output,
) -> anyhow::Result<()> {
    let list = answer.data.as_array().context("the answer is no list")?;
    let sets: Vec<_> = list.iter().map(split_labels).collect();
    match format {
        Format::Json => drop(output.json(&answer.data)?),
        Format::Csv => lines(&mut output, |line| {
            csv::of_label_sets(&sets, line);
            Ok(())
        })?,
        Format::Table => {
            for (metric, labels) in &sets {
                output.line(&series_name(metric, labels))?;
            }
        }
    }
    Ok(output.finish()?)
}

/// Label names or values, which need no table.
pub(super) fn print_words(
    answer: &Answer,
    heading: &str,
    format: Format,
    mut output: Output,
) -> anyhow::Result<()> {
    let list = answer.data.as_array().context("the answer is no list")?;
    let words = list.iter().filter_map(Value::as_str);
    match format {
        Format::Json => drop(output.json(&answer.data)?),
        Format::Csv => {
            output.line(&csv::row([heading]))?;
            for word in words {
                output.line(&csv::row([word]))?;
            }
        }
        Format::Table => {
            for word in words {
                output.line(word)?;
            }
        }
    }
    Ok(output.finish()?)
}

/// Hands lines to the output and keeps its first error.
fn lines(
    output: &mut Output,
    write: impl FnOnce(&mut dyn FnMut(&str) -> bool) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut written = Ok(());
    write(&mut |line| match output.line(line) {
        Ok(go_on) => go_on,
        Err(error) => {
            written = Err(error);
            false
        }
    })?;
    Ok(written?)
}
