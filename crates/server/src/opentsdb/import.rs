//! `POST /api/v1/import/opentsdb`: lines of OpenTSDB's text format.
//! `POST /api/v1/import/opentsdb/cells`: cells of its tables.
//!
//! ```text
//! body into memory, decompressed ─► Import: part after part, each durable ─► counts
//! ```
//!
//! Holds always:
//! - What a body takes in memory is reserved before it is taken.
//! - What the answer counts is durable, whether the answer is a success or not.
//! - A store that is busy is asked again for [`PATIENCE`].

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use icecore_opentsdb::transfer::{Import, ImportOptions, PartLimits, TableLayout};
use icecore_opentsdb::{Error, Tsd};
use icecore_storage::Database;
use tokio::runtime::Handle;

use super::http::decompressed;
use super::tables::layout;
use crate::app::App;
use crate::middleware::body::{collect, read_to_the_end};
use crate::middleware::decompress::Encoding;
use crate::middleware::error::ApiError;
use crate::middleware::json::small_success;
use crate::middleware::limits::WriteMemory;
use crate::middleware::params::Params;

/// How long a part is tried when the store says that it is busy.
const PATIENCE: Duration = Duration::from_secs(300);

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Of the hours that may be open at once, an import takes a part with each write: the rest is for
/// what arrives meanwhile, and for hours that are being flushed.
const OPEN_HOURS_DIVISOR: usize = 4;

/// Points of one write.
const POINTS_MAX: usize = 200_000;

/// What becomes of a byte of a body while it is read: cells, and points of them.
const MEMORY_FACTOR: usize = 4;

/// What a body holds.
enum Content {
    Lines,
    Cells(TableLayout),
}

pub(crate) async fn import_lines(State(app): State<Arc<App>>, request: Request) -> Response {
    answer(&app, request, |_, _| Ok(Content::Lines)).await
}

pub(crate) async fn import_cells(State(app): State<Arc<App>>, request: Request) -> Response {
    let content = |params: &Params, tsd: &Tsd| layout(params, tsd.uid_widths()).map(Content::Cells);
    answer(&app, request, content).await
}

async fn answer(
    app: &Arc<App>,
    request: Request,
    content: impl FnOnce(&Params, &Tsd) -> Result<Content, ApiError>,
) -> Response {
    let (head, mut body) = request.into_parts();
    match import(app, &head, &mut body, content).await {
        Ok(report) => small_success(|out| out.extend_from_slice(&report)),
        Err(error) => {
            read_to_the_end(&mut body, &head.headers).await;
            error.into_response()
        }
    }
}

/// The report.
async fn import(
    app: &Arc<App>,
    head: &Parts,
    body: &mut Body,
    content: impl FnOnce(&Params, &Tsd) -> Result<Content, ApiError>,
) -> Result<Vec<u8>, ApiError> {
    let tsd = Arc::clone(app.opentsdb()?);
    let params = Params::of_url(&head.uri);
    let content = content(&params, &tsd)?;
    let options = ImportOptions {
        skips_errors: params.switch("skip_errors")?,
        creates_metrics: params.switch("auto_metric")?,
        limits: limits(app.database()?),
    };
    let (text, mut memory) = read_body(app, &head.headers, body).await?;
    // Not before the body is here: a client that sends slowly would keep the place of others.
    let slot = app.limits.import_slot()?;
    memory.grow(text.len().saturating_mul(MEMORY_FACTOR))?;
    // Reading millions of lines is no work for the threads that keep all connections going. What it
    // takes stays reserved for as long as that runs, also when the client has gone meanwhile.
    let store = move || {
        let stored = Handle::current().block_on(store(&tsd, &text, content, options));
        drop((memory, slot));
        stored
    };
    let stored = tokio::task::spawn_blocking(store).await;
    stored.map_err(|error| ApiError::internal(error.to_string()))?
}

async fn read_body(
    app: &App,
    headers: &HeaderMap,
    body: &mut Body,
) -> Result<(Bytes, WriteMemory), ApiError> {
    let mut memory = app.limits.write_memory();
    let server = &app.config().server;
    let encoding = Encoding::from_header(headers)?;
    // With what becomes of it, a text has to fit into what all bodies may take.
    let text_max = app.limits.write_bytes_max() / (MEMORY_FACTOR + 2);
    let max = server.write_body_bytes_max.min(text_max);
    let name = "server.write_body_bytes_max";
    let collected = collect(body, max, name, |bytes| memory.grow(bytes)).await?;
    match encoding {
        Encoding::Identity => Ok((collected, memory)),
        encoding => {
            let max = server.write_decompressed_bytes_max.min(text_max);
            decompressed(encoding, collected, max, memory).await
        }
    }
}

fn limits(database: &Database) -> PartLimits {
    let limits = database.limits();
    let open_max = limits.open_buckets_max / OPEN_HOURS_DIVISOR;
    let hours_max = limits.buckets_per_request_max.min(open_max).max(1);
    PartLimits {
        hours_max: i64::try_from(hours_max).unwrap_or(i64::MAX),
        points_max: POINTS_MAX.min(limits.samples_per_request_max).max(1),
    }
}

async fn store(
    tsd: &Tsd,
    text: &Bytes,
    content: Content,
    options: ImportOptions,
) -> Result<Vec<u8>, ApiError> {
    let mut import = match content {
        Content::Lines => Import::of_lines(text, options),
        Content::Cells(layout) => Import::of_cells(text, layout, options).map_err(api_error)?,
    };
    let stored = store_parts(tsd, &mut import).await;
    let mut report = Vec::new();
    import.report().write(&mut report);
    match stored {
        Ok(()) => Ok(report),
        Err(error) => Err(api_error(error).with_data(report)),
    }
}

async fn store_parts(tsd: &Tsd, import: &mut Import) -> Result<(), Error> {
    let (mut pause, mut waited) = (FIRST_PAUSE, Duration::ZERO);
    loop {
        match import.store_next(tsd).await {
            Ok(true) => (pause, waited) = (FIRST_PAUSE, Duration::ZERO),
            Ok(false) => return Ok(()),
            Err(error) if error.status != StatusCode::SERVICE_UNAVAILABLE => return Err(error),
            Err(error) if waited >= PATIENCE => return Err(error),
            Err(_) => {
                tokio::time::sleep(pause).await;
                waited += pause;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// The same error in the words of this API.
pub(super) fn api_error(error: Error) -> ApiError {
    match error.status {
        StatusCode::BAD_REQUEST => ApiError::bad_data(error.message),
        StatusCode::CONFLICT => ApiError::conflict(error.message),
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::execution(error.message),
        StatusCode::SERVICE_UNAVAILABLE => ApiError::unavailable(error.message),
        _ => ApiError::internal(error.message),
    }
}
