//! Series of events beside the others, for PromQL and what lists series.
//!
//! Holds always: without a registry, and without other instances that may have one, nothing is
//! asked of events, so that nothing gets slower where there are none.

use std::sync::Arc;

use icecore_events::query::CellSource;
use icecore_events::series::{
    EventSeries, ViewQuery, series_exemplars, view_label_names, view_label_values, view_metadata,
    view_series,
};
use icecore_model::{Exemplar, Labels, Metadata, SeriesSource};
use icecore_storage::LabelQuery;

use crate::app::App;
use crate::middleware::error::ApiError;

/// What queries read: the series of the database, and those of events where there are any.
pub(crate) async fn source(app: &App) -> Result<Arc<dyn SeriesSource>, ApiError> {
    let database: Arc<dyn SeriesSource> = Arc::new(app.database()?.clone());
    let Some(cells) = cells(app).await? else {
        return Ok(database);
    };
    Ok(Arc::new(EventSeries::new(cells, database)))
}

/// A state of all cells; `None` where nothing is registered.
async fn cells(app: &App) -> Result<Option<Arc<dyn CellSource>>, ApiError> {
    let all = app.all_events()?;
    if !all.has_shards() && app.events()?.registry().services.is_empty() {
        return Ok(None);
    }
    Ok(Some(all.cells().await?))
}

fn view_query(query: &LabelQuery) -> ViewQuery {
    ViewQuery {
        selectors: query.selectors.clone(),
        start_ms: query.start_ms,
        end_ms: query.end_ms,
        memory: query.memory.clone(),
    }
}

/// Label sets of events that match.
pub(crate) async fn label_sets(app: &App, query: &LabelQuery) -> Result<Vec<Labels>, ApiError> {
    match cells(app).await? {
        Some(cells) => Ok(view_series(&*cells, &view_query(query)).await?),
        None => Ok(Vec::new()),
    }
}

/// Adds label names of events to those of the database.
pub(crate) async fn add_label_names(
    app: &App,
    query: &LabelQuery,
    names: &mut Vec<String>,
) -> Result<(), ApiError> {
    if let Some(cells) = cells(app).await? {
        let more = view_label_names(&*cells, &view_query(query)).await?;
        join(names, more, query.limit);
    }
    Ok(())
}

/// Adds values of a label of events to those of the database.
pub(crate) async fn add_label_values(
    app: &App,
    name: &str,
    query: &LabelQuery,
    values: &mut Vec<String>,
) -> Result<(), ApiError> {
    if let Some(cells) = cells(app).await? {
        let more = view_label_values(&*cells, name, &view_query(query)).await?;
        join(values, more, query.limit);
    }
    Ok(())
}

/// Two sorted lists as one, each text once.
fn join(texts: &mut Vec<String>, more: Vec<String>, limit: Option<usize>) {
    texts.extend(more);
    texts.sort_unstable();
    texts.dedup();
    texts.truncate(limit.unwrap_or(usize::MAX));
}

/// Adds type and help of metrics of events; what was sent about a name counts more.
pub(crate) async fn add_metadata(
    app: &App,
    family: Option<&str>,
    families: &mut Vec<(String, Metadata)>,
) -> Result<(), ApiError> {
    let registry = app.all_events()?.registry().await?;
    let known: std::collections::HashSet<String> =
        families.iter().map(|(name, _)| name.clone()).collect();
    let more = view_metadata(&registry, family);
    families.extend(more.into_iter().filter(|(name, _)| !known.contains(name)));
    Ok(())
}

/// Exemplars of events that match.
pub(crate) async fn exemplars(
    app: &App,
    selectors: Vec<Vec<icecore_model::Matcher>>,
    start_ms: i64,
    end_ms: i64,
) -> Result<Vec<(Labels, Vec<Exemplar>)>, ApiError> {
    let Some(cells) = cells(app).await? else {
        return Ok(Vec::new());
    };
    let query = ViewQuery {
        selectors,
        start_ms,
        end_ms,
        memory: Some(app.queries.memory()),
    };
    Ok(series_exemplars(&*cells, &query).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_joined_in_order() {
        let mut texts = vec!["a".to_owned(), "c".to_owned()];
        join(&mut texts, vec!["b".into(), "c".into()], None);
        assert_eq!(texts, ["a", "b", "c"]);
        join(&mut texts, vec!["0".into()], Some(2));
        assert_eq!(texts, ["0", "a"]);
    }
}
