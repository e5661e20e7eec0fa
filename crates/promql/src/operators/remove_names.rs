//! Metric names go at once: a node that takes them away hands out rows without them.
//!
//! Where rows can become equal by that they are gathered first; elsewhere they pass batch by batch.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use futures::future::BoxFuture;
use icecore_model::{Labels, METRIC_NAME};

use super::label_key::{LAST_METRIC_LABEL, is_metric_label, without_name};
use super::scan::map_rows;
use super::{Operator, Run, collect};
use crate::error::{Error, Result};
use crate::exec::{Context, Reservation, Row, has_equal_labels, merge_equal_labels};
use crate::plan::{Collisions, Meeting, Removal, RemovedLabels, Vector};

/// The operator of a node, with names removed as the plan wants it. Who does not look at names can have
/// them left on rows that cannot meet.
pub(super) fn removing<'q>(
    run: &'q Run<'q>,
    node: &'q Vector,
    operator: Box<dyn Operator + 'q>,
    names_matter: bool,
) -> Box<dyn Operator + 'q> {
    let removal = if run.plan.delayed_names {
        None
    } else {
        run.plan.removal(node)
    };
    match removal {
        Some(removal) if names_matter || removal.meeting != Meeting::Never => {
            Box::new(RemoveNames {
                run,
                input: Some(operator),
                removal,
                names_matter,
                passed: Passed::default(),
            })
        }
        _ => operator,
    }
}

struct RemoveNames<'q> {
    run: &'q Run<'q>,
    /// Taken when everything was gathered.
    input: Option<Box<dyn Operator + 'q>>,
    removal: Removal,
    names_matter: bool,
    passed: Passed,
}

impl RemoveNames<'_> {
    async fn rows(&mut self) -> Result<Option<Vec<Row>>> {
        let labels = self.removal.labels;
        let removed = |rows: Vec<Row>| map_rows(rows, |row| Some(without(row, labels)));
        if self.removal.meeting != Meeting::OfAny {
            let Some(input) = &mut self.input else {
                return Ok(None);
            };
            let Some(rows) = input.next().await? else {
                return Ok(None);
            };
            if self.removal.meeting == Meeting::OfTypes {
                let passing = rows.iter().filter(|row| row.drop_name);
                self.passed
                    .add(self.run.context, passing, self.removal.collisions)?;
            }
            return Ok(Some(if self.names_matter {
                removed(rows)
            } else {
                rows
            }));
        }
        let Some(mut input) = self.input.take() else {
            return Ok(None);
        };
        let (rows, _held) = collect(self.run.context, &mut *input).await?;
        let rows = removed(rows);
        match self.removal.collisions {
            Collisions::Anywhere if has_equal_labels(&rows) => Err(Error::same_labelset()),
            Collisions::Anywhere => Ok(Some(rows)),
            Collisions::AtSameStep => merge_equal_labels(rows).map(Some),
        }
    }
}

impl Operator for RemoveNames<'_> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Row>>>> {
        Box::pin(self.rows())
    }
}

/// Rows of one metric that went by in the order of their labels, and may be met again by rows of another
/// type or unit. Without types none is kept.
#[derive(Default)]
struct Passed {
    /// By what is left of their labels, the steps at which they have a value; none where that is all the
    /// same.
    steps: HashMap<Labels, Vec<bool>>,
    any_typed: bool,
    held: Option<Reservation>,
}

impl Passed {
    fn add<'r>(
        &mut self,
        context: &Context<'_>,
        rows: impl Iterator<Item = &'r Row>,
        collisions: Collisions,
    ) -> Result<()> {
        let mut bytes = 0;
        for row in rows {
            self.any_typed |= has_type(&row.labels);
            if !self.any_typed && comes_after_types(&row.labels) {
                continue;
            }
            let steps: Vec<bool> = match collisions {
                Collisions::Anywhere => Vec::new(),
                Collisions::AtSameStep => {
                    let steps = 0..row.values.floats.len();
                    steps.map(|step| row.values.is_present(step)).collect()
                }
            };
            let labels = without_name(&row.labels);
            match self.steps.entry(labels) {
                Entry::Vacant(place) => {
                    bytes += place.key().heap_bytes() + size_of::<(Labels, Vec<bool>)>();
                    bytes += steps.len();
                    place.insert(steps);
                }
                Entry::Occupied(mut known) => {
                    let mut both = known.get_mut().iter_mut().zip(&steps);
                    if steps.is_empty() || both.any(|(known, new)| *known && *new) {
                        return Err(Error::same_labelset());
                    }
                    let both = known.get_mut().iter_mut().zip(&steps);
                    both.for_each(|(known, new)| *known |= *new);
                }
            }
        }
        let held = match &mut self.held {
            Some(held) => held,
            None => self.held.insert(context.reserve(0)?),
        };
        context.grow(held, bytes)
    }
}

fn has_type(labels: &Labels) -> bool {
    let mut names = labels.iter().map(|(name, _)| name);
    names.any(|name| name != METRIC_NAME && is_metric_label(name))
}

/// Whether labels without type and unit come after the same ones with them.
fn comes_after_types(labels: &Labels) -> bool {
    labels.iter().any(|(name, _)| name > LAST_METRIC_LABEL)
}

fn without(mut row: Row, labels: RemovedLabels) -> Row {
    let goes: fn(&str) -> bool = match labels {
        RemovedLabels::Metric => is_metric_label,
        RemovedLabels::Name => |name: &str| name == METRIC_NAME,
    };
    if row.drop_name && row.labels.iter().any(|(name, _)| goes(name)) {
        row.labels = match labels {
            RemovedLabels::Metric => without_name(&row.labels),
            RemovedLabels::Name => {
                Labels::from_sorted(row.labels.iter().filter(|(name, _)| *name != METRIC_NAME))
            }
        };
    }
    row
}
