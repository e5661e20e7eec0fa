//! A page of metrics, from a target or from this process itself.
//!
//! Holds always:
//! - Nothing takes longer than the target's time-out, or more memory than the job's limit on
//!   bodies.
//! - Words of errors are Prometheus' where it has them.

use std::cell::RefCell;
use std::error::Error as _;
use std::sync::Arc;

use icecore_wire::exposition::Format;
use icecore_wire::prometheus::text::TEXT_CONTENT_TYPE;
use reqwest::header;

use super::append::BodyError;
use super::body::{self, Buffers, Encoding};
use super::http_client::HttpClient;
use super::job::Job;
use super::metrics::Failure;
use super::source::{SelfMetricsPage, Source};
use super::target::Target;

const TIMEOUT_HEADER: &str = "X-Prometheus-Scrape-Timeout-Seconds";

/// A decompression buffer that has grown beyond this is not kept: each CPU thread has one.
const KEPT_BUFFER_BYTES_MAX: usize = 8 << 20;

thread_local! {
    static DECOMPRESSED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Why there is no page.
#[derive(Debug)]
pub(super) struct FetchError {
    pub(super) failure: Failure,
    pub(super) reason: String,
}

impl FetchError {
    fn new(failure: Failure, reason: impl Into<String>) -> Self {
        Self {
            failure,
            reason: reason.into(),
        }
    }
}

/// A page as it was sent.
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    pub(super) format: Format,
    encoding: Encoding,
}

impl Body {
    /// Reads the page as text, and says how many bytes it has; −1 if too many.
    pub(super) fn decompressed(
        &self,
        limit: u64,
        read: impl FnOnce(&[u8]) -> Result<(), BodyError>,
    ) -> (i64, Result<(), BodyError>) {
        let length = |bytes: &[u8]| i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        if self.encoding == Encoding::Identity {
            return (length(&self.bytes), read(&self.bytes));
        }
        DECOMPRESSED.with_borrow_mut(|buffer| {
            buffer.clear();
            let result = match body::decompress(self.encoding, &self.bytes, limit, buffer) {
                Ok(()) => (length(buffer), read(buffer)),
                Err(reason) if reason == body::TOO_LARGE => (-1, Err(BodyError::Limit(reason))),
                Err(reason) => (0, Err(BodyError::Malformed(reason))),
            };
            if buffer.capacity() > KEPT_BUFFER_BYTES_MAX {
                *buffer = Vec::new();
            }
            result
        })
    }
}

pub(super) async fn fetch(
    job: &Job,
    target: &Target,
    buffers: &Buffers,
) -> Result<Body, FetchError> {
    let client = match &job.source {
        Source::Http(client) => client,
        Source::Own(page) => return own(page).await,
    };
    let asked = request(client, job, target, buffers);
    match tokio::time::timeout(target.spec.timeout, asked).await {
        Ok(fetched) => fetched,
        Err(_) => {
            let reason = format!("Get {:?}: context deadline exceeded", target.spec.url.shown);
            Err(FetchError::new(Failure::Timeout, reason))
        }
    }
}

async fn own(page: &SelfMetricsPage) -> Result<Body, FetchError> {
    let page = Arc::clone(page);
    let written = tokio::task::spawn_blocking(move || page()).await;
    let bytes = written
        .ok()
        .flatten()
        .ok_or_else(|| FetchError::new(Failure::Connection, "the process is about to end"))?;
    let format = Format::from_content_type(Some(TEXT_CONTENT_TYPE), None);
    Ok(Body {
        bytes,
        format: format.map_err(|error| FetchError::new(Failure::Body, error.to_string()))?,
        encoding: Encoding::Identity,
    })
}

async fn request(
    client: &HttpClient,
    job: &Job,
    target: &Target,
    buffers: &Buffers,
) -> Result<Body, FetchError> {
    let url = &target.spec.url;
    let failed = |reason: String| {
        let reason = format!("Get {:?}: {reason}", url.shown);
        FetchError::new(Failure::Connection, reason)
    };
    let config = job.config();
    let encoding = if config.enable_compression {
        "zstd,gzip"
    } else {
        "identity"
    };
    let request = client
        .get_over(target.spec.unix_socket.as_ref(), url.parsed.clone())
        .await
        .map_err(failed)?
        .header(header::ACCEPT, job.accept.as_str())
        .header(header::ACCEPT_ENCODING, encoding)
        .header(
            TIMEOUT_HEADER,
            target.spec.timeout.as_secs_f64().to_string(),
        );
    let mut response = request
        .send()
        .await
        .map_err(|error| failed(causes(error)))?;
    let status = response.status();
    if status.as_u16() != 200 {
        let reason = format!("server returned HTTP status {status}");
        return Err(FetchError::new(Failure::Status, reason));
    }
    let text = |name| {
        let value = response.headers().get(name)?;
        value.to_str().ok()
    };
    let format = Format::from_content_type(text(header::CONTENT_TYPE), job.fallback)
        .map_err(|error| FetchError::new(Failure::Body, error.to_string()))?;
    let encoding = match text(header::CONTENT_ENCODING) {
        None | Some("" | "identity") => Encoding::Identity,
        Some("gzip") => Encoding::Gzip,
        Some("zstd") => Encoding::Zstd,
        Some(other) => {
            let reason = format!("unsupported Content-Encoding {other:?}");
            return Err(FetchError::new(Failure::Body, reason));
        }
    };
    // Compressed bytes are bounded by what they may become: nothing worth compressing grows by it.
    let limit = body::limit_of(config.body_size_limit);
    let mut bytes = buffers.take();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| failed(causes(error)))?
    {
        if (bytes.len() + chunk.len()) as u64 > limit {
            buffers.recycle(bytes);
            return Err(FetchError::new(Failure::Body, body::TOO_LARGE));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Body {
        bytes,
        format,
        encoding,
    })
}

/// An error with its causes; the URL is already in front.
fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
