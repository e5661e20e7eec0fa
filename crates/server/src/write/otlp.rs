//! OTLP metrics into the database, over HTTP or gRPC.
//!
//! ```text
//! http::otlp, gRPC ─► store_metrics ─► Database::write ─► Partial
//!                                         └─ on a CPU thread: decompression, JSON, protobuf, head
//! ```
//!
//! Holds always:
//! - A success is answered after the object store holds the request.
//! - Of a request that is refused in part, the good part is stored, and the answer counts the rest
//!   with reasons. If nothing of it was good, that is an error: clients show errors and overlook
//!   remarks.
//! - What a body takes in memory, compressed, decompressed and rewritten, is reserved before it is
//!   taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use icecore_model::WriteOutcome;
use icecore_storage::WriteBatch;
use icecore_wire::WireError;
use icecore_wire::otlp::{JsonError, PartialSuccess, decode_metrics, json_to_protobuf};

use crate::app::App;
use crate::middleware::decompress::{DecompressError, Encoding, decompress_reserving};
use crate::middleware::error::{ApiError, OtlpFormat};
use crate::middleware::limits::WriteMemory;

/// How many times longer JSON can become as protobuf: a digit and a comma are nine bytes.
const GROWTH_MAX: usize = 5;

/// Nothing was refused, or this.
pub(crate) type Partial = Option<PartialSuccess>;

/// Stores an `ExportMetricsServiceRequest`. `memory` has the bytes of `body` reserved already; the
/// caller holds a place for the write
/// ([`Limits::write_slot`](crate::middleware::limits::Limits::write_slot)).
pub(crate) async fn store_metrics(
    app: &App,
    body: Bytes,
    memory: WriteMemory,
    encoding: Encoding,
    format: OtlpFormat,
) -> Result<Partial, ApiError> {
    let database = app.database()?;
    let config = app.config();
    let decompressed_max = config.server.write_decompressed_bytes_max;
    let points = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&points);
    let fill = move |batch: &mut WriteBatch<'_>| -> Result<(), ApiError> {
        let mut request = Request {
            body,
            memory,
            encoding,
            format,
            decompressed_max,
        };
        let decoded = request.decode(json_to_protobuf, |message| {
            decode_metrics(message, &config.otlp, batch)
        })?;
        counted.store(decoded.points, Ordering::Relaxed);
        Ok(())
    };
    let outcome = database.write(fill).await?;
    answer(&outcome, points.load(Ordering::Relaxed))
}

/// A body that is decoded, and the memory it takes.
pub(super) struct Request {
    pub(super) body: Bytes,
    pub(super) memory: WriteMemory,
    pub(super) encoding: Encoding,
    pub(super) format: OtlpFormat,
    pub(super) decompressed_max: usize,
}

/// How JSON becomes protobuf of at most so many bytes.
type Transcode = fn(&[u8], usize) -> Result<Vec<u8>, WireError>;

impl Request {
    /// Hands over the request as protobuf, whatever it was sent as. Computes: not to be called on
    /// an async worker.
    pub(super) fn decode<T>(
        &mut self,
        transcode: Transcode,
        decode: impl FnOnce(&[u8]) -> Result<T, WireError>,
    ) -> Result<T, ApiError> {
        let max = self.decompressed_max;
        let mut decompressed = Vec::new();
        let message: &[u8] = match self.encoding {
            Encoding::Identity if self.body.len() > max => {
                return Err(DecompressError::TooLarge(max).into());
            }
            Encoding::Identity => &self.body,
            encoding => {
                let memory = &mut self.memory;
                decompress_reserving(encoding, &self.body, max, &mut decompressed, |bytes| {
                    memory.grow(bytes)
                })?;
                &decompressed
            }
        };
        if self.format == OtlpFormat::Protobuf {
            return Ok(decode(message)?);
        }
        let rewritten = rewrite(transcode, message, max, &mut self.memory)?;
        Ok(decode(&rewritten)?)
    }
}

/// JSON as protobuf. That is nearly always shorter; many small numbers in arrays can make it
/// longer, and then it is done once more with memory for that.
fn rewrite(
    transcode: Transcode,
    message: &[u8],
    max: usize,
    memory: &mut WriteMemory,
) -> Result<Vec<u8>, ApiError> {
    let expected = message.len().min(max);
    memory.grow(expected)?;
    match transcode(message, expected) {
        Err(WireError::Json(JsonError::TooLarge { .. })) if expected < max => {
            let most = message.len().saturating_mul(GROWTH_MAX).min(max);
            memory.grow(most - expected)?;
            Ok(transcode(message, most)?)
        }
        rewritten => Ok(rewritten?),
    }
}

fn answer(outcome: &WriteOutcome, points: u64) -> Result<Partial, ApiError> {
    let rejected = outcome.rejected_count();
    if rejected == 0 {
        return Ok(None);
    }
    let reasons = outcome.rejection_reasons();
    let message = format!("{rejected} of {points} data points refused: {reasons}");
    if rejected >= points {
        // Nothing of it is there, so sending all of it again does no harm.
        return Err(if outcome.rejected.iter().all(|r| r.retryable) {
            ApiError::quota(message)
        } else {
            ApiError::bad_data(message)
        });
    }
    Ok(Some(PartialSuccess {
        rejected: i64::try_from(rejected).unwrap_or(i64::MAX),
        message,
    }))
}

#[cfg(test)]
mod tests {
    use icecore_model::Rejection;

    use super::*;

    fn refused(points: u64, retryable: &[bool]) -> Result<Partial, ApiError> {
        let rejection = |retryable: &bool| Rejection {
            reason: format!("reason {retryable}"),
            count: 2,
            retryable: *retryable,
        };
        let outcome = WriteOutcome {
            rejected: retryable.iter().map(rejection).collect(),
            ..WriteOutcome::default()
        };
        answer(&outcome, points)
    }

    #[test]
    fn a_part_is_counted_and_all_of_it_is_an_error() {
        assert_eq!(refused(5, &[]).unwrap(), None);
        let partial = refused(5, &[true, false]).unwrap().unwrap();
        assert_eq!(partial.rejected, 4);
        assert_eq!(
            partial.message,
            "4 of 5 data points refused: reason true (×2); reason false (×2)"
        );
        let status = |refused: Result<Partial, ApiError>| refused.unwrap_err().status().as_u16();
        assert_eq!(status(refused(4, &[true, false])), 400);
        assert_eq!(status(refused(2, &[true])), 429);
    }
}
