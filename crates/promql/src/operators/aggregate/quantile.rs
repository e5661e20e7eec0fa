//! `quantile(φ, …)`: all values of a group are needed at once.

use super::groups::Groups;
use super::{Accumulator, Annotate};
use crate::annotations::Annotation;
use crate::error::Result;
use crate::exec::{ABSENT, Row, ScalarColumn, Values, is_absent};
use crate::functions::window::quantile_of;

pub(super) struct Quantile<'a> {
    groups: Groups,
    quantiles: ScalarColumn,
    /// The floats of each group's rows.
    columns: Vec<Vec<Vec<f64>>>,
    held: usize,
    annotate: Annotate<'a>,
}

impl<'a> Quantile<'a> {
    pub(super) fn new(groups: Groups, quantiles: ScalarColumn, annotate: Annotate<'a>) -> Self {
        Self {
            groups,
            quantiles,
            columns: Vec::new(),
            held: 0,
            annotate,
        }
    }
}

impl Accumulator for Quantile<'_> {
    fn add(&mut self, rows: Vec<Row>) -> Result<()> {
        for row in rows {
            let number = self.groups.of(&row);
            self.columns.resize_with(self.groups.len(), Vec::new);
            if row.values.histograms.iter().any(Option::is_some) {
                (self.annotate)(Annotation::HistogramIgnoredInAggregation("quantile"));
            }
            self.held += 8 * row.values.floats.len();
            self.columns[number].push(row.values.floats);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<Row> {
        let mut rows = Vec::with_capacity(self.columns.len());
        let mut sorted = Vec::new();
        for (group, columns) in self.groups.into_groups().into_iter().zip(self.columns) {
            let steps = columns.first().map_or(0, Vec::len);
            let mut values = Values::absent(steps);
            for (step, value) in values.floats.iter_mut().enumerate() {
                sorted.clear();
                sorted.extend(columns.iter().map(|column| column[step]));
                sorted.retain(|value| !is_absent(*value));
                *value = if sorted.is_empty() {
                    ABSENT
                } else {
                    quantile_of(self.quantiles.at(step), &mut sorted)
                };
            }
            if !values.is_empty() {
                rows.push(Row {
                    labels: group.labels,
                    drop_name: group.drop_name,
                    values,
                });
            }
        }
        rows
    }

    fn heap_bytes(&self) -> usize {
        self.held + self.groups.heap_bytes()
    }
}
