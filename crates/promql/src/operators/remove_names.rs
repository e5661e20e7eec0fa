//! Metric names go at once: a node that takes them away hands out rows without them.
//!
//! Where rows can become equal by that they are gathered first; elsewhere they pass batch by batch.

use futures::future::BoxFuture;
use icecore_model::{Labels, METRIC_NAME};

use super::label_key::{is_metric_label, without_name};
use super::scan::map_rows;
use super::{Operator, Run, collect};
use crate::error::{Error, Result};
use crate::exec::{Row, has_equal_labels, merge_equal_labels};
use crate::plan::{Collisions, Removal, RemovedLabels, Vector};

/// The operator of a node, with names removed as the plan wants it. Who does not look at names can have
/// them left on rows that cannot meet.
pub(super) fn removing<'q>(
    run: &'q Run<'q>,
    node: &'q Vector,
    operator: Box<dyn Operator + 'q>,
    names_matter: bool,
) -> Box<dyn Operator + 'q> {
    let removal = match run.plan.delayed_names {
        true => None,
        false => run.plan.removal(node),
    };
    match removal {
        Some(removal) if names_matter || removal.collisions != Collisions::Impossible => {
            Box::new(RemoveNames {
                run,
                input: Some(operator),
                removal,
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
}

impl RemoveNames<'_> {
    async fn rows(&mut self) -> Result<Option<Vec<Row>>> {
        let labels = self.removal.labels;
        let removed = |rows: Vec<Row>| map_rows(rows, |row| Some(without(row, labels)));
        if self.removal.collisions == Collisions::Impossible {
            return match &mut self.input {
                Some(input) => Ok(input.next().await?.map(removed)),
                None => Ok(None),
            };
        }
        let Some(mut input) = self.input.take() else {
            return Ok(None);
        };
        let (rows, _held) = collect(self.run.context, &mut *input).await?;
        let rows = removed(rows);
        match self.removal.collisions {
            Collisions::Anywhere if has_equal_labels(&rows) => Err(Error::same_labelset()),
            Collisions::Anywhere => Ok(Some(rows)),
            _ => merge_equal_labels(rows).map(Some),
        }
    }
}

impl Operator for RemoveNames<'_> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Row>>>> {
        Box::pin(self.rows())
    }
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
