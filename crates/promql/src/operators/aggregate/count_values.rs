//! `count_values("label", …)`: one row for each value that occurs.

use std::collections::HashMap;
use std::sync::Arc;

use icecore_model::{Labels, LabelsBuilder, METRIC_NAME, MemoryBudget, go_plain_float};

use super::Accumulator;
use super::groups::Groups;
use crate::error::Result;
use crate::exec::{Row, Values};
use crate::plan::Grouping;

pub(super) struct CountValues {
    groups: Groups,
    /// The label for the value; none if grouping removes it.
    label: Option<String>,
    steps: usize,
    /// For each group the indexes of its values in `rows`, by their text.
    places: Vec<HashMap<String, usize>>,
    /// Groups may become equal if the label replaces one of theirs.
    by_labels: HashMap<Labels, usize>,
    rows: Vec<Row>,
    memory: Arc<MemoryBudget>,
}

impl CountValues {
    pub(super) fn new(
        groups: Groups,
        grouping: &Grouping,
        label: &str,
        steps: usize,
        memory: Arc<MemoryBudget>,
    ) -> Self {
        // `without` removes labels after the value has become one.
        let is_dropped = grouping.without
            && (label == METRIC_NAME || grouping.labels.iter().any(|name| name == label));
        Self {
            memory,
            groups,
            label: (!is_dropped).then(|| label.to_string()),
            steps,
            places: Vec::new(),
            by_labels: HashMap::new(),
            rows: Vec::new(),
        }
    }

    fn count(&mut self, group: usize, text: String, step: usize) -> Result<()> {
        let place = match self.places[group].get(&text) {
            Some(place) => *place,
            None => {
                let place = self.place(group, &text)?;
                self.places[group].insert(text, place);
                place
            }
        };
        let row = &mut self.rows[place];
        row.values.floats[step] = row.values.float(step).unwrap_or(0.0) + 1.0;
        Ok(())
    }

    /// The index of a value's row, which may be new. One row of the input can yield as many rows as
    /// it has steps, so memory is checked here and not only after each batch.
    fn place(&mut self, group: usize, text: &str) -> Result<usize> {
        let group = self.groups.get(group);
        let mut builder = LabelsBuilder::from_labels(&group.labels);
        if let Some(label) = &self.label {
            builder.set(label, text);
        }
        let labels = builder.build();
        let next = self.rows.len();
        let place = *self.by_labels.entry(labels.clone()).or_insert(next);
        if place == next {
            if self.heap_bytes() > self.memory.max() {
                return Err(self.memory.exceeded().into());
            }
            self.rows.push(Row {
                labels,
                // As in Prometheus, a name set by the query is not removed.
                drop_name: false,
                values: Values::absent(self.steps),
            });
        }
        Ok(place)
    }
}

impl Accumulator for CountValues {
    fn add(&mut self, rows: Vec<Row>) -> Result<()> {
        for row in rows {
            let number = self.groups.of(&row);
            self.places.resize_with(self.groups.len(), HashMap::new);
            for step in 0..self.steps {
                let text = match (row.values.histogram(step), row.values.float(step)) {
                    (Some(histogram), _) => histogram.to_string(),
                    (None, Some(value)) => go_plain_float(value),
                    (None, None) => continue,
                };
                self.count(number, text, step)?;
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<Row> {
        self.rows
    }

    fn heap_bytes(&self) -> usize {
        // A row has its values, and its labels twice.
        self.rows.len() * (8 * self.steps + 512)
    }
}
