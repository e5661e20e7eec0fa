//! `POST /api/v1/write`: Prometheus remote write 1.0 and 2.0.
//!
//! ```text
//! negotiate ─► body into memory ─► place ─► Database::write ─► 204
//!    415          413, 503         503         └─ on a CPU thread: snappy, protobuf, head
//! ```
//!
//! Holds always:
//! - A success is answered after the object store holds the request.
//! - Of a request that is refused in part, the good part is stored: 400 when something in it must
//!   not be sent again, 429 when all that was refused may be.
//! - What a body takes in memory is reserved before it is taken, and given back when it is decoded,
//!   not when it is durable.
//! - A 2.0 answer says how many samples, histograms and exemplars were written, whatever its
//!   status.

use std::cell::RefCell;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use icecore_model::WriteOutcome;
use icecore_storage::WriteBatch;
use icecore_wire::WireError;
use icecore_wire::prometheus::{
    ContentError, RemoteWriteVersion, check_content_encoding, decode_v1, decode_v2, snappy,
};

use crate::app::App;
use crate::middleware::body::{collect, read_to_the_end};
use crate::middleware::error::ApiError;

const SAMPLES_WRITTEN: HeaderName =
    HeaderName::from_static("x-prometheus-remote-write-samples-written");
const HISTOGRAMS_WRITTEN: HeaderName =
    HeaderName::from_static("x-prometheus-remote-write-histograms-written");
const EXEMPLARS_WRITTEN: HeaderName =
    HeaderName::from_static("x-prometheus-remote-write-exemplars-written");

/// A decompression buffer that has grown beyond this is not kept: usual requests are far smaller,
/// and each CPU thread has one.
const KEPT_BUFFER_BYTES_MAX: usize = 8 << 20;

thread_local! {
    static DECOMPRESSED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The path of remote write.
pub(crate) const PATH: &str = "/api/v1/write";

pub(crate) async fn write(State(app): State<Arc<App>>, request: Request) -> Response {
    let (head, mut body) = request.into_parts();
    let version = negotiate(&head.headers);
    let stored = match &version {
        Ok(version) => store(&app, *version, &mut body).await,
        Err(error) => Err(ApiError::unsupported_content(error)),
    };
    let (written, mut response) = match stored {
        Ok(outcome) => {
            let response = answer(&outcome);
            (outcome, response)
        }
        Err(error) => {
            read_to_the_end(&mut body, &head.headers).await;
            (WriteOutcome::default(), error.into_text())
        }
    };
    if version == Ok(RemoteWriteVersion::V2) {
        let headers = response.headers_mut();
        headers.insert(SAMPLES_WRITTEN, written.samples.into());
        headers.insert(HISTOGRAMS_WRITTEN, written.histograms.into());
        headers.insert(EXEMPLARS_WRITTEN, written.exemplars.into());
    }
    response
}

fn negotiate(headers: &HeaderMap) -> Result<RemoteWriteVersion, ContentError> {
    // A value that is not text is as unknown as any other.
    let text = |name| {
        headers
            .get(name)
            .map(|value| value.to_str().unwrap_or("not ASCII"))
    };
    check_content_encoding(text(header::CONTENT_ENCODING))?;
    RemoteWriteVersion::from_content_type(text(header::CONTENT_TYPE))
}

async fn store(
    app: &App,
    version: RemoteWriteVersion,
    body: &mut Body,
) -> Result<WriteOutcome, ApiError> {
    let database = app.database()?;
    let mut memory = app.limits.write_memory();
    let options = &app.config().server;
    let body_max = options.write_body_bytes_max;
    let body = collect(body, body_max, "server.write_body_bytes_max", |bytes| {
        memory.grow(bytes)
    })
    .await?;
    // Now that it is here: a client that takes its time must not keep others from writing.
    let _slot = app.limits.write_slot()?;
    let decompressed_max = options.write_decompressed_bytes_max;
    // A length that cannot be read or is too large is refused by the decoder, before it takes
    // memory.
    let decompressed = snap::raw::decompress_len(&body).unwrap_or(0);
    if decompressed <= decompressed_max {
        memory.grow(decompressed)?;
    }
    let decode = move |batch: &mut WriteBatch<'_>| {
        let decoded = decode(version, &body, decompressed_max, batch);
        drop((body, memory));
        decoded
    };
    Ok(database.write(decode).await?)
}

fn decode(
    version: RemoteWriteVersion,
    body: &[u8],
    decompressed_max: usize,
    batch: &mut WriteBatch<'_>,
) -> Result<(), WireError> {
    DECOMPRESSED.with_borrow_mut(|buffer| {
        let message = snappy::decompress(body, buffer, decompressed_max)?;
        let decoded = match version {
            RemoteWriteVersion::V1 => decode_v1(message, batch),
            RemoteWriteVersion::V2 => decode_v2(message, batch),
        };
        if buffer.capacity() > KEPT_BUFFER_BYTES_MAX {
            *buffer = Vec::new();
        }
        decoded
    })
}

fn answer(outcome: &WriteOutcome) -> Response {
    if outcome.rejected.is_empty() {
        return StatusCode::NO_CONTENT.into_response();
    }
    let message = reasons(outcome);
    if outcome.rejected.iter().all(|rejection| rejection.retryable) {
        ApiError::quota(message).into_text()
    } else {
        ApiError::bad_data(message).into_text()
    }
}

/// One line, because clients log the first one.
fn reasons(outcome: &WriteOutcome) -> String {
    let refused = outcome.rejected_count();
    let stored = outcome.samples + outcome.histograms + outcome.exemplars;
    let reasons = outcome.rejection_reasons();
    format!("{refused} refused, {stored} stored: {reasons}")
}

#[cfg(test)]
mod tests {
    use icecore_model::Rejection;

    use super::*;

    fn rejection(reason: &str, count: u64, retryable: bool) -> Rejection {
        Rejection {
            reason: reason.into(),
            count,
            retryable,
        }
    }

    fn outcome(rejected: Vec<Rejection>) -> WriteOutcome {
        WriteOutcome {
            samples: 5,
            rejected,
            ..WriteOutcome::default()
        }
    }

    #[test]
    fn one_reason_that_stays_makes_it_a_400() {
        let status = |rejected| answer(&outcome(rejected)).status().as_u16();
        assert_eq!(status(vec![]), 204);
        assert_eq!(status(vec![rejection("full", 1, true)]), 429);
        assert_eq!(status(vec![rejection("bad", 1, false)]), 400);
        let both = vec![rejection("full", 1, true), rejection("bad", 1, false)];
        assert_eq!(status(both), 400);
    }

    #[test]
    fn an_answer_counts_what_was_refused_and_what_was_stored() {
        let text = reasons(&outcome(vec![rejection("bad", 2, false)]));
        assert_eq!(text, "2 refused, 5 stored: bad (×2)");
    }
}
