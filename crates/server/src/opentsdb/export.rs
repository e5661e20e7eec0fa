//! `/api/v1/export/opentsdb`: points as lines of OpenTSDB's text format, or everything that it has
//! as cells of its tables.
//!
//! Holds always:
//! - The client's pace is the pace of reading: the next chunk is made when the last one is gone.
//! - An error before the first chunk is an error answer. After it the connection breaks off without
//!   the end that a complete answer has.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, Uri, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use icecore_opentsdb::Error;
use icecore_opentsdb::transfer::{ExportFormat, PointExport, TableExport};
use tokio::sync::OwnedSemaphorePermit;

use super::import::api_error;
use super::tables::layout;
use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::params::Params;
use crate::read::resolution::RolledUpTime;

/// The path of exports.
pub(crate) const PATH: &str = "/api/v1/export/opentsdb";

const ASSIGN_UIDS: &str = "assign_uids";

/// Returns `true` if a request wants UIDs for names that have none, which changes the store. The
/// address says so, because access is decided before a body is read.
pub(crate) fn assigns_uids(method: &Method, uri: &Uri) -> bool {
    let asks = || Params::of_url(uri).switch(ASSIGN_UIDS).unwrap_or(false);
    *method == Method::POST && asks()
}

pub(crate) async fn export(
    State(app): State<Arc<App>>,
    method: Method,
    uri: Uri,
    params: Params,
) -> Result<Response, ApiError> {
    let assigns_uids = assigns_uids(&method, &uri);
    if params.switch(ASSIGN_UIDS)? && !assigns_uids {
        let problem = "it stands in the address of a POST, because it needs the role admin";
        return Err(ApiError::of_parameter(ASSIGN_UIDS, problem));
    }
    let tsd = app.opentsdb()?;
    let format = match params.first("format") {
        None | Some("text") => ExportFormat::Text,
        Some("cells") => ExportFormat::Cells,
        Some(_) => return Err(ApiError::of_parameter("format", "text or cells")),
    };
    let (points, tables) = match (params.first("part"), format) {
        (None, ExportFormat::Cells) => (true, true),
        (None | Some("points"), _) => (true, false),
        (Some("tables"), ExportFormat::Cells) => (false, true),
        (Some(_), _) => {
            let problem = "points or, of cells, tables";
            return Err(ApiError::of_parameter("part", problem));
        }
    };
    let layout = layout(&params, tsd.uid_widths())?;
    // The width of UIDs is that of the answers of this server.
    if layout.widths != tsd.uid_widths() {
        let problem = "cells are written with the widths of this server";
        return Err(ApiError::of_parameter("uid_widths", problem));
    }
    let range = params.range()?;
    let range_ms = (range.start_ms, range.end_ms);
    let slot = app.limits.read_slot().await?;
    let mut rolled = RolledUpTime::default();
    if points {
        rolled.add(&app.database()?.levels(range.start_ms, range.end_ms));
    }
    let points = if points {
        let selectors = params.some_selectors()?;
        let (tsd, hints) = (Arc::clone(tsd), app.queries.hints());
        let points = PointExport::new(tsd, format, layout.clone(), selectors, range_ms, hints);
        Some(if assigns_uids {
            points.assigning_uids()
        } else {
            points
        })
    } else {
        None
    };
    let export = Export {
        points,
        tables: tables.then(|| TableExport::new(Arc::clone(tsd), layout, range_ms)),
        writes_report: params.switch("report")?,
        is_done: false,
        _slot: slot,
    };
    let (first, export) = next_chunk(&app, export).await?;
    let state = (first, export, app);
    let chunks = stream::try_unfold(state, |(ready, export, app)| async move {
        let (chunk, export) = match ready {
            Some(first) => (Some(first), export),
            None => next_chunk(&app, export).await.map_err(broken_off)?,
        };
        Ok::<_, std::io::Error>(chunk.map(|chunk| (chunk, (None, export, app))))
    });
    let content_type = match format {
        ExportFormat::Text => "text/plain; charset=utf-8",
        ExportFormat::Cells => "application/x-ndjson",
    };
    let body = Body::from_stream(chunks);
    let response = ([(header::CONTENT_TYPE, content_type)], body).into_response();
    Ok(rolled.announce(response))
}

/// What is still to come.
struct Export {
    points: Option<PointExport>,
    tables: Option<TableExport>,
    /// A last line says what was written and what was not.
    writes_report: bool,
    is_done: bool,
    _slot: OwnedSemaphorePermit,
}

/// The next chunk, made where queries compute; `None` at the end.
async fn next_chunk(app: &App, mut export: Export) -> Result<(Option<Bytes>, Export), ApiError> {
    let timeout = app.config().server.request_timeout;
    let made = app.queries.on_pool(async move {
        let chunk = export.next_chunk().await;
        (chunk, export)
    });
    let late = || ApiError::timeout("the store took too long for the next series");
    let made = tokio::time::timeout(timeout, made).await;
    let (chunk, export) = made.map_err(|_| late())??;
    Ok((chunk.map_err(api_error)?, export))
}

impl Export {
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        if self.is_done {
            return Ok(None);
        }
        if let Some(points) = &mut self.points {
            while let Some(chunk) = points.next_chunk().await? {
                if !chunk.is_empty() {
                    return Ok(Some(chunk.into()));
                }
            }
        }
        if let Some(tables) = &mut self.tables {
            while let Some(chunk) = tables.next_chunk().await? {
                if !chunk.is_empty() {
                    return Ok(Some(chunk.into()));
                }
            }
        }
        self.is_done = true;
        if !self.writes_report {
            return Ok(None);
        }
        let points = self.points.as_ref().map(PointExport::report);
        let tables = self.tables.as_ref().map(TableExport::report);
        let mut report = points.cloned().unwrap_or_default();
        if let Some(tables) = tables {
            report.lines += tables.lines;
            report.names += tables.names;
            report.records += tables.records;
        }
        let mut line = vec![b'#'];
        report.write(&mut line);
        line.push(b'\n');
        Ok(Some(line.into()))
    }
}

/// An error that aborts the connection. The client learns no more than that, so the reason is
/// logged.
fn broken_off(error: ApiError) -> std::io::Error {
    let reason = error.to_string();
    tracing::error!(reason, "export of OpenTSDB's data aborted");
    std::io::Error::other(reason)
}
