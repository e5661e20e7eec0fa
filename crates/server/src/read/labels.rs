//! `/api/v1/series`, `/api/v1/labels` and `/api/v1/label/{name}/values`: what there is, without
//! samples.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use icecore_model::{Labels, Matcher};
use icecore_storage::{LabelQuery, SeriesList};
use icecore_wire::prometheus::api_json::{
    write_labels, write_string_list, write_success_end, write_success_start,
};
use icecore_wire::prometheus::escaping::unescape_name;
use tokio::sync::oneshot;

use crate::app::App;
use crate::events::series as event_series;
use crate::middleware::error::ApiError;
use crate::middleware::json::success;
use crate::middleware::params::Params;
use crate::query::answer::{AnswerSender, ClientGone};

/// Label sets that are made before they are written.
const MADE_AT_ONCE: usize = 1024;

/// The words of Prometheus.
const TRUNCATED: &str = "results truncated due to limit";

pub(crate) async fn series(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let database = app.database()?;
    let slot = app.limits.read_slot().await?;
    let (query, limit) = label_query(&app, &params, params.some_selectors()?)?;
    let series = database.series(&query).await?;
    let views = event_series::label_sets(&app, &query).await?;
    let listed = ListedSeries {
        series,
        views,
        limit: limit.unwrap_or(usize::MAX),
    };
    let (head, answered) = oneshot::channel();
    let outgoing = AnswerSender::new(head);
    tokio::task::spawn_blocking(move || {
        // A client that has gone away needs no more.
        let _ = listed.send(outgoing);
        drop(slot);
    });
    answered.await.map_err(|_| {
        ApiError::internal("the request ended without an answer; the log has the cause")
    })
}

/// Label sets of an answer, both lists in label order.
struct ListedSeries {
    series: SeriesList,
    /// Those of events.
    views: Vec<Labels>,
    limit: usize,
}

impl ListedSeries {
    /// Writes label sets as fast as the client takes them; many are made on the way.
    fn send(self, mut outgoing: AnswerSender) -> Result<(), ClientGone> {
        let mut out = Vec::new();
        write_success_start(&mut out);
        out.push(b'[');
        let mut views = self.views.into_iter().peekable();
        let mut count = 0;
        let mut put = |labels: &Labels, outgoing: &mut AnswerSender| -> Result<bool, ClientGone> {
            count += 1;
            if count > self.limit {
                return Ok(false);
            }
            if count > 1 {
                out.push(b',');
            }
            write_labels(&mut out, labels);
            outgoing.flow(&mut out)?;
            Ok(true)
        };
        let mut goes_on = true;
        'made: for first in (0..self.series.len()).step_by(MADE_AT_ONCE) {
            for labels in &self.series.part(first..first + MADE_AT_ONCE) {
                while let Some(view) = views.next_if(|view| view < labels) {
                    goes_on = goes_on && put(&view, &mut outgoing)?;
                }
                // A view hides a series with the same labels.
                views.next_if(|view| view == labels);
                goes_on = goes_on && put(labels, &mut outgoing)?;
                if !goes_on {
                    break 'made;
                }
            }
        }
        for view in views {
            goes_on = goes_on && put(&view, &mut outgoing)?;
        }
        out.push(b']');
        let mut warnings = Vec::new();
        if !goes_on {
            warnings.push(TRUNCATED.into());
        }
        write_success_end(&mut out, &warnings);
        outgoing.finish(out)
    }
}

pub(crate) async fn label_names(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let database = app.database()?;
    let slot = app.limits.read_slot().await?;
    let (query, limit) = label_query(&app, &params, params.list_selectors()?)?;
    let mut names = database.label_names(&query).await?;
    event_series::add_label_names(&app, &query, &mut names).await?;
    let warnings = truncate(&mut names, limit);
    success(slot, warnings, move |out| write_string_list(out, &names)).await
}

pub(crate) async fn label_values(
    State(app): State<Arc<App>>,
    name: Result<Path<String>, PathRejection>,
    params: Params,
) -> Result<Response, ApiError> {
    let database = app.database()?;
    let Path(name) =
        name.map_err(|error| ApiError::bad_data(format!("invalid label name: {error}")))?;
    let name = unescape_name(&name);
    if name.is_empty() {
        return Err(ApiError::bad_data("invalid label name: \"\""));
    }
    let slot = app.limits.read_slot().await?;
    let (query, limit) = label_query(&app, &params, params.list_selectors()?)?;
    let mut values = database.label_values(&name, &query).await?;
    event_series::add_label_values(&app, &name, &query, &mut values).await?;
    let warnings = truncate(&mut values, limit);
    success(slot, warnings, move |out| write_string_list(out, &values)).await
}

/// The query and the limit that its results are to be cut to. The query itself asks for one more,
/// which tells whether something is cut.
fn label_query(
    app: &App,
    params: &Params,
    selectors: Vec<Vec<Matcher>>,
) -> Result<(LabelQuery, Option<usize>), ApiError> {
    let range = params.range()?;
    let limit = params.limit()?;
    let query = LabelQuery {
        selectors,
        start_ms: range.start_ms,
        end_ms: range.end_ms,
        limit: limit.map(|limit| limit.saturating_add(1)),
        memory: Some(app.queries.memory()),
    };
    Ok((query, limit))
}

/// Cuts results to their limit, with a warning when there were more.
fn truncate<T>(results: &mut Vec<T>, limit: Option<usize>) -> Vec<String> {
    let limit = limit.unwrap_or(usize::MAX);
    if results.len() <= limit {
        return Vec::new();
    }
    results.truncate(limit);
    vec![TRUNCATED.into()]
}
