//! Immediate removal of metric names: a node that drops them yields rows without them.
//!
//! Rows are collected first if they may have equal labels afterwards; otherwise they pass batch by
//! batch.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use futures::future::BoxFuture;
use icecore_model::{Labels, METRIC_NAME};

use super::label_key::{LAST_METRIC_LABEL, is_metric_label, without_name};
use super::scan::map_rows;
use super::{Operator, Run, collect};
use crate::error::{Error, Result};
use crate::exec::{Context, Reservation, Row, has_equal_labels, merge_equal_labels};
use crate::plan::{DuplicateCheck, Duplicates, Removal, RemovedLabels, Vector};

/// The operator of a node, with names removed as planned. For a consumer that ignores names they
/// are left on rows that cannot become duplicates.
pub(super) fn with_removal<'q>(
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
        Some(removal) if names_matter || removal.duplicates != Duplicates::Never => {
            Box::new(RemoveNames {
                run,
                input: Some(operator),
                removal,
                names_matter,
                detector: DuplicateDetector::default(),
                held: None,
            })
        }
        _ => operator,
    }
}

struct RemoveNames<'q> {
    run: &'q Run<'q>,
    /// Taken once all rows are collected.
    input: Option<Box<dyn Operator + 'q>>,
    removal: Removal,
    names_matter: bool,
    detector: DuplicateDetector,
    /// Memory of all rows while the consumer works on them.
    held: Option<Reservation>,
}

impl RemoveNames<'_> {
    async fn rows(&mut self) -> Result<Option<Vec<Row>>> {
        self.held = None;
        let labels = self.removal.labels;
        let removed = |rows: Vec<Row>| map_rows(rows, |row| Some(without(row, labels)));
        if self.removal.duplicates != Duplicates::Possible {
            let Some(input) = &mut self.input else {
                return Ok(None);
            };
            let Some(rows) = input.next().await? else {
                return Ok(None);
            };
            if self.removal.duplicates == Duplicates::AcrossTypes {
                let passing = rows.iter().filter(|row| row.drop_name);
                self.detector
                    .add(self.run.context, passing, self.removal.check)?;
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
        let (rows, held) = collect(self.run.context, &mut *input).await?;
        self.held = Some(held);
        let rows = removed(rows);
        match self.removal.check {
            DuplicateCheck::Always if has_equal_labels(&rows) => Err(Error::same_labelset()),
            DuplicateCheck::Always => Ok(Some(rows)),
            DuplicateCheck::AtSameStep => merge_equal_labels(rows).map(Some),
        }
    }
}

impl Operator for RemoveNames<'_> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Row>>>> {
        Box::pin(self.rows())
    }

    fn hand_over(&mut self) {
        self.held = None;
        if let Some(input) = &mut self.input {
            input.hand_over();
        }
    }
}

/// Finds duplicates among rows of one metric that come in the order of their labels: rows of
/// another type or unit may become equal to earlier ones. Keeps nothing if no row has a type or
/// unit.
#[derive(Default)]
struct DuplicateDetector {
    /// By the remaining labels, the steps with a value; empty if steps do not matter.
    steps: HashMap<Labels, Vec<bool>>,
    any_typed: bool,
    held: Option<Reservation>,
}

impl DuplicateDetector {
    fn add<'r>(
        &mut self,
        context: &Context<'_>,
        rows: impl Iterator<Item = &'r Row>,
        check: DuplicateCheck,
    ) -> Result<()> {
        let mut bytes = 0;
        for row in rows {
            self.any_typed |= has_type(&row.labels);
            if !self.any_typed && comes_after_types(&row.labels) {
                continue;
            }
            let steps: Vec<bool> = match check {
                DuplicateCheck::Always => Vec::new(),
                DuplicateCheck::AtSameStep => {
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
