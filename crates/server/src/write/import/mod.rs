//! `POST /api/v1/import`: what an export wrote, and lines of JSON from elsewhere.
//! `POST /api/v1/import/prometheus`: expositions in text.
//!
//! ```text
//! body ─► feed (pieces) ─► reader (a thread) ─► batch ─► store (Database::write) ─► counts
//!            └────────── back pressure: a batch is read while the one before is stored ┘
//! ```
//!
//! Holds always:
//! - In memory are a few pieces of the body and two batches, however long the body or a line is.
//!   (The values of a line that wait for their timestamps are accounted for like write bodies.)
//! - What the answer counts is durable, whether the answer is a success or not.
//! - There is no limit to how long an import takes, but one to how long a client may pause, and to
//!   how slowly it may send while others wait for its place.

mod batch;
mod feed;
mod reader;
mod store;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use icecore_wire::exposition::ImportOptions as ExpositionOptions;
use icecore_wire::prometheus::import::BatchLimits;
use tokio::sync::mpsc;

use crate::app::App;
use crate::middleware::body::read_to_the_end;
use crate::middleware::decompress::Encoding;
use crate::middleware::error::ApiError;
use crate::middleware::json::small_success_with;
use crate::middleware::params::Params;
use feed::{Buffer, pieces, pump};
use reader::{BatchReader, ReadError};
use store::Store;

/// Samples and bytes of a batch: enough that a commit to a remote store, five of which fit into a
/// second, is not what an import waits for.
const BATCH: BatchLimits = BatchLimits {
    samples: 200_000,
    bytes: 8 << 20,
};

/// What an import may take in memory beside values that wait: pieces, a buffer, two batches and
/// what becomes of one of them in the store.
const IMPORT_BYTES: usize = 32 << 20;

/// How an import is to be read.
struct ImportOptions {
    format: Format,
    /// Continues after lines that cannot be parsed.
    skip_errors: bool,
    /// A part of a native stream, which ends without its final frame.
    partial: bool,
}

enum Format {
    Json,
    Native,
    /// One of the two above, which the first byte says.
    FoundOut,
    Exposition(ExpositionOptions),
}

impl ImportOptions {
    fn new(params: &Params) -> Result<Self, ApiError> {
        let format = match params.first("format") {
            None => Format::FoundOut,
            Some("json") => Format::Json,
            Some("native") => Format::Native,
            Some(_) => return Err(ApiError::of_parameter("format", "json or native")),
        };
        Ok(Self {
            format,
            skip_errors: params.switch("skip_errors")?,
            partial: params.switch("partial")?,
        })
    }

    /// Of an exposition in text.
    fn of_exposition(params: &Params, headers: &HeaderMap, now_ms: i64) -> Result<Self, ApiError> {
        let content_type = headers.get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|v| v.to_str().ok()).unwrap_or("");
        let openmetrics = match params.first("format") {
            None => content_type.contains("openmetrics"),
            Some("text") => false,
            Some("openmetrics") => true,
            Some(_) => return Err(ApiError::of_parameter("format", "text or openmetrics")),
        };
        let extra_labels = params.all("extra_label").map(|text| {
            let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
            let (name, value) =
                pair.ok_or_else(|| ApiError::of_parameter("extra_label", "expected name=value"))?;
            Ok((name.to_owned(), value.to_owned()))
        });
        let exposition = ExpositionOptions {
            openmetrics,
            default_timestamp_ms: params.number("timestamp")?.unwrap_or(now_ms),
            extra_labels: extra_labels.collect::<Result<_, ApiError>>()?,
        };
        Ok(Self {
            format: Format::Exposition(exposition),
            skip_errors: params.switch("skip_errors")?,
            partial: false,
        })
    }
}

/// `POST /api/v1/import`.
pub(crate) async fn import(State(app): State<Arc<App>>, request: Request) -> Response {
    let options = ImportOptions::new(&Params::of_url(request.uri()));
    answer(&app, options, request).await
}

/// `POST /api/v1/import/prometheus`.
pub(crate) async fn import_exposition(State(app): State<Arc<App>>, request: Request) -> Response {
    let params = Params::of_url(request.uri());
    let options = ImportOptions::of_exposition(&params, request.headers(), app.clock().now_ms());
    answer(&app, options, request).await
}

async fn answer(app: &App, options: Result<ImportOptions, ApiError>, request: Request) -> Response {
    let (head, mut body) = request.into_parts();
    let imported = match options {
        Ok(options) => run(app, options, &head.headers, &mut body).await,
        Err(error) => Err(error),
    };
    match imported {
        Ok(store) => {
            let warnings = store.totals.warnings();
            small_success_with(&warnings, |out| store.totals.write(out))
        }
        Err(error) => {
            read_to_the_end(&mut body, &head.headers).await;
            error.into_response()
        }
    }
}

async fn run(
    app: &App,
    options: ImportOptions,
    headers: &HeaderMap,
    body: &mut Body,
) -> Result<Store, ApiError> {
    let database = app.database()?.clone();
    let encoding = Encoding::from_header(headers)?;
    let _slot = app.limits.import_slot()?;
    let mut memory = app.limits.write_memory();
    memory.grow(IMPORT_BYTES.min(app.limits.write_bytes_max()))?;
    let samples_max = database.limits().samples_per_request_max;
    let limits = BatchLimits {
        samples: BATCH.samples.min(samples_max).max(1),
        ..BATCH
    };
    let (pieces_in, pieces) = pieces();
    let (batches, mut ready) = mpsc::channel(1);
    let reading = BatchReader {
        options,
        limits,
        batches,
        memory,
        meter: pieces.meter(),
    };
    let reading = tokio::task::spawn_blocking(move || {
        let buffer = Buffer::new(pieces.decompressed(encoding)?);
        reading.run(buffer)
    });
    let mut store = Store::new(database);
    let storing = async {
        // What is dropped here ends the reading.
        let mut ready = std::mem::replace(&mut ready, mpsc::channel(1).1);
        while let Some(batch) = ready.recv().await {
            store.store(batch).await?;
        }
        Ok(())
    };
    let is_wanted = |within| app.limits.imports_were_wanted(within);
    let pumping = pump(body, pieces_in, is_wanted);
    let (pumped, stored): (_, Result<(), ApiError>) = tokio::join!(pumping, storing);
    let read = reading.await;
    let read = read.map_err(|error| ApiError::internal(error.to_string()))?;
    let read = match read {
        Ok(()) | Err(ReadError::Cancelled) => Ok(()),
        Err(ReadError::Failed(error)) => Err(error),
    };
    // What the store says comes first: it is why the others stopped. A body that broke off is why
    // the reader did.
    match stored.and(pumped).and(read) {
        Ok(()) => Ok(store),
        Err(error) => {
            let mut counted = Vec::new();
            store.totals.write(&mut counted);
            Err(error.with_data(counted))
        }
    }
}
