//! `count_values("label", …)`: one row for each value that occurs.

use std::collections::HashMap;

use icecore_model::LabelsBuilder;

use super::Fold;
use super::groups::Groups;
use crate::error::{Error, Result};
use crate::exec::{Row, Values};

pub(super) struct CountValues {
    groups: Groups,
    label: String,
    steps: usize,
    /// For each group the values by their text, in the order seen.
    counts: Vec<Counts>,
    held: usize,
}

#[derive(Default)]
struct Counts {
    places: HashMap<String, usize>,
    rows: Vec<(String, Vec<f64>)>,
}

impl CountValues {
    pub(super) fn new(groups: Groups, label: &str, steps: usize) -> Result<Self> {
        if label.is_empty() {
            return Err(Error::Execution(format!("invalid label name {label:?}")));
        }
        Ok(Self {
            groups,
            label: label.to_string(),
            steps,
            counts: Vec::new(),
            held: 0,
        })
    }

    fn count(&mut self, number: usize, text: String, step: usize) {
        let counts = &mut self.counts[number];
        let place = match counts.places.get(&text) {
            Some(place) => *place,
            None => {
                self.held += 8 * self.steps + 2 * text.len() + 64;
                counts.places.insert(text.clone(), counts.rows.len());
                counts.rows.push((text, vec![0.0; self.steps]));
                counts.rows.len() - 1
            }
        };
        counts.rows[place].1[step] += 1.0;
    }
}

impl Fold for CountValues {
    fn add(&mut self, rows: Vec<Row>) -> Result<()> {
        for row in rows {
            let number = self.groups.of(&row);
            self.counts.resize_with(self.groups.len(), Counts::default);
            for step in 0..self.steps {
                let text = match (row.values.histogram(step), row.values.float(step)) {
                    (Some(histogram), _) => histogram.to_string(),
                    (None, Some(value)) => plain_float(value),
                    (None, None) => continue,
                };
                self.count(number, text, step);
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<Row> {
        let mut rows = Vec::new();
        for (group, counts) in self.groups.into_groups().into_iter().zip(self.counts) {
            for (text, counted) in counts.rows {
                let mut builder = LabelsBuilder::from_labels(&group.labels);
                builder.set(&self.label, &text);
                let mut values = Values::absent(self.steps);
                for (value, count) in values.floats.iter_mut().zip(counted) {
                    if count > 0.0 {
                        *value = count;
                    }
                }
                rows.push(Row {
                    labels: builder.build(),
                    drop_name: group.drop_name,
                    values,
                });
            }
        }
        rows
    }

    fn heap_bytes(&self) -> usize {
        self.held
    }
}

/// A float as Go's `FormatFloat(v, 'f', -1, 64)` writes it: never an exponent.
fn plain_float(value: f64) -> String {
    match value {
        _ if value.is_nan() => "NaN".to_string(),
        f64::INFINITY => "+Inf".to_string(),
        f64::NEG_INFINITY => "-Inf".to_string(),
        _ => format!("{value}"),
    }
}
