//! Questions about histograms.

use std::sync::Arc;

use icecore_model::event::{Cell, HistogramCell};
use serde_json::Value;

use super::CellSource;
use super::answer::{AnswerValues, Column, write_answer};
use super::cells::Table;
use super::groups::Groups;
use super::json::{push, push_list, push_number, push_optional};
use super::quantile::quantile;
use super::request::{Asked, Body, MetricRequest, invalid_field};
use crate::{Bounds, MetricKind, Problem};

/// The most histograms of an answer.
const VALUES_MAX: usize = 100_000;

/// The most quantiles that a request can ask for.
const PERCENTILES_MAX: usize = 100;

const HREF: &str = "/api/histograms/query";

/// Answers `POST /api/histograms/query` and `POST /api/query/histograms`.
pub async fn query_histograms(source: &dyn CellSource, body: &[u8]) -> Result<String, Problem> {
    let request = MetricRequest::read(source, Asked::Histogram, body).await?;
    let MetricKind::Histogram {
        bounds,
        percentiles,
        ..
    } = &request.metric.kind
    else {
        return Err(Problem::new(
            500,
            "query.internal",
            "no histogram was found",
        ));
    };
    let percentiles = asked_percentiles(&request.body)?.unwrap_or_else(|| percentiles.clone());
    let (bounds, with_buckets) = (Arc::clone(bounds), request.body.flag("includeBuckets")?);
    let table = Table::read(source, request.scan(), VALUES_MAX, merge).await?;
    let values = HistogramValues {
        table,
        bounds,
        percentiles,
        columns: if with_buckets {
            &COLUMNS
        } else {
            &COLUMNS[..COLUMNS.len() - 1]
        },
    };
    Ok(write_answer(request, &values, HREF))
}

/// Histograms take place, and most intervals of many groups are empty.
type Merged = Option<Box<HistogramCell>>;

fn merge(known: &mut Merged, cell: Cell) -> Result<(), Problem> {
    let Cell::Histogram(cell) = cell else {
        return Ok(());
    };
    match known {
        Some(known) => known.merge(&cell).map_err(Problem::corrupt),
        None => {
            *known = Some(Box::new(cell));
            Ok(())
        }
    }
}

fn asked_percentiles(body: &Body) -> Result<Option<Vec<f64>>, Problem> {
    let wrong = || invalid_field("percentiles", "must be a list of numbers from 0 to 1");
    let values = match body.get("percentiles") {
        None => return Ok(None),
        Some(Value::Array(values)) if values.len() <= PERCENTILES_MAX => values,
        Some(_) => return Err(wrong()),
    };
    let share = |value: &Value| value.as_f64().filter(|q| (0.0..=1.0).contains(q));
    let shares: Option<Vec<f64>> = values.iter().map(share).collect();
    shares.ok_or_else(wrong).map(Some)
}

struct HistogramValues {
    table: Table<Merged>,
    bounds: Bounds,
    percentiles: Vec<f64>,
    columns: &'static [Column],
}

/// Buckets come last: they are left out unless asked for.
const COLUMNS: [Column; 7] = [
    column("samples", "integer"),
    column("sum", "number"),
    column("mean", "number"),
    column("min", "number"),
    column("max", "number"),
    column("percentiles", "object"),
    column("buckets", "array"),
];

const fn column(name: &'static str, kind: &'static str) -> Column {
    Column { name, kind }
}

impl AnswerValues for HistogramValues {
    fn list_name(&self) -> &'static str {
        "series"
    }

    fn columns(&self) -> &[Column] {
        self.columns
    }

    fn groups(&self) -> &Groups {
        &self.table.groups
    }

    fn is_empty(&self, group: usize, place: usize) -> bool {
        self.table.value(group, place).is_none()
    }

    fn write(&self, out: &mut String, group: usize, place: usize, column: usize) {
        let cell = self.table.value(group, place).as_deref();
        let cell = cell.filter(|cell| cell.samples > 0);
        match column {
            0 => push(out, format_args!("{}", cell.map_or(0, |cell| cell.samples))),
            1 => push_number(out, cell.map_or(0.0, |cell| cell.sum)),
            2 => push_optional(out, cell.map(|cell| cell.sum / cell.samples as f64)),
            3 => push_optional(out, cell.map(|cell| cell.min)),
            4 => push_optional(out, cell.map(|cell| cell.max)),
            5 => self.push_percentiles(out, cell),
            _ => self.push_buckets(out, cell),
        }
    }
}

impl HistogramValues {
    fn push_percentiles(&self, out: &mut String, cell: Option<&HistogramCell>) {
        out.push('{');
        push_list(out, &self.percentiles, |out, q| {
            push(out, format_args!("\"{q}\":"));
            push_optional(out, cell.and_then(|cell| quantile(cell, &self.bounds, *q)));
        });
        out.push('}');
    }

    fn push_buckets(&self, out: &mut String, cell: Option<&HistogramCell>) {
        let count = |bucket: usize| {
            let counts = cell.map(|cell| &cell.counts);
            counts.and_then(|counts| counts.get(bucket)).copied()
        };
        out.push('[');
        push_list(out, 0..=self.bounds.len(), |out, bucket| {
            out.push_str("{\"le\":");
            match self.bounds.get(bucket) {
                Some(bound) => push_number(out, *bound),
                None => out.push_str("\"+Inf\""),
            }
            push(
                out,
                format_args!(",\"count\":{}}}", count(bucket).unwrap_or(0)),
            );
        });
        out.push(']');
    }
}
