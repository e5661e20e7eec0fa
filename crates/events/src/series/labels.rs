//! Label sets, names and values of views, without samples.
//!
//! Time is filtered by the week: what has events in a week that the range touches is in the answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use icecore_model::{Labels, Matcher, MemoryBudget, SourceError};

use super::resolve::resolve;
use super::{ViewMemory, source_error};
use crate::query::CellSource;

/// What to look for: series that match any of the selectors, or all if there are none.
#[derive(Clone, Debug, Default)]
pub struct ViewQuery {
    pub selectors: Vec<Vec<Matcher>>,
    pub start_ms: i64,
    pub end_ms: i64,
    /// What is held for the answer is taken from this.
    pub memory: Option<Arc<MemoryBudget>>,
}

/// The label sets of views, in label order.
pub async fn view_series(
    cells: &dyn CellSource,
    query: &ViewQuery,
) -> Result<Vec<Labels>, SourceError> {
    let mut memory = ViewMemory::new(query.memory.as_ref())?;
    let everything = [Vec::new()];
    let selectors = match &query.selectors[..] {
        [] => &everything[..],
        selectors => selectors,
    };
    // Times that the API has for "always" are far away.
    let range = (
        query.start_ms.max(0),
        query.end_ms.min(cells.now_ms().saturating_mul(2)),
    );
    let mut found = BTreeSet::new();
    for matchers in selectors {
        let families = resolve(cells, matchers, range, &mut memory).await;
        for family in families.map_err(source_error)? {
            found.extend(family.series.into_iter().map(|series| series.labels));
        }
    }
    Ok(found.into_iter().collect())
}

/// Label names of views, sorted.
pub async fn view_label_names(
    cells: &dyn CellSource,
    query: &ViewQuery,
) -> Result<Vec<String>, SourceError> {
    let mut names = BTreeSet::new();
    for labels in view_series(cells, query).await? {
        for (name, _) in labels.iter() {
            if !names.contains(name) {
                names.insert(name.to_owned());
            }
        }
    }
    Ok(names.into_iter().collect())
}

/// Values of a label of views, sorted.
pub async fn view_label_values(
    cells: &dyn CellSource,
    name: &str,
    query: &ViewQuery,
) -> Result<Vec<String>, SourceError> {
    let mut values = BTreeSet::new();
    for labels in view_series(cells, query).await? {
        if let Some(value) = labels.get(name)
            && !values.contains(value)
        {
            values.insert(value.to_owned());
        }
    }
    Ok(values.into_iter().collect())
}
