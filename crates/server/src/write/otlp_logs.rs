//! OTLP logs as events, over HTTP or gRPC.
//!
//! ```text
//! request ─► decoded on a thread that may be busy ─► envelopes ─► Events::publish_batch ─► Partial
//! ```
//!
//! Holds always:
//! - A success is answered after the object store holds the events.
//! - Records that are no events are refused and counted, with the reason.
//! - A request that is sent again is recognised, also if only a part of it was stored.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::Bytes;
use icecore_events::NotRegistered;
use icecore_wire::otlp::{PartialSuccess, decode_logs, logs_json_to_protobuf};

use super::otlp::{Partial, Request};
use crate::app::App;
use crate::config::OtlpLogs;
use crate::events::LogEnvelopes;
use crate::middleware::decompress::Encoding;
use crate::middleware::error::{ApiError, OtlpFormat};
use crate::middleware::limits::WriteMemory;

/// Reasons that an answer names; there may be as many as records.
const REASONS_SHOWN: usize = 5;

/// Publishes the events of an `ExportLogsServiceRequest`. `memory` has the bytes of `body` reserved
/// already; the caller holds a place for the write.
pub(super) async fn store_logs(
    app: &App,
    body: Bytes,
    memory: WriteMemory,
    encoding: Encoding,
    format: OtlpFormat,
) -> Result<Partial, ApiError> {
    let config = app.config();
    if config.events.otlp_logs == OtlpLogs::Off {
        return Err(ApiError::no_such(
            "records of logs are not taken: events.otlp_logs is off",
        ));
    }
    let events = app.events()?;
    let mut request = Request {
        body,
        memory,
        encoding,
        format,
        decompressed_max: config.server.write_decompressed_bytes_max,
    };
    let decode = move || {
        let mut envelopes = LogEnvelopes::default();
        request.decode(logs_json_to_protobuf, |message| {
            decode_logs(message, |record| envelopes.add(record))
        })?;
        // What the request takes in memory goes back when its events are stored.
        Ok::<_, ApiError>((envelopes, request.memory))
    };
    let decoded = tokio::task::spawn_blocking(decode).await;
    let decoded = decoded.map_err(|error| ApiError::internal(error.to_string()))?;
    let (mut envelopes, mut memory) = decoded?;
    let mut refused = Refused::default();
    refused.add("no event name", envelopes.without_name);
    refused.add("a value is nested too deep", envelopes.too_deep);
    let records = refused.records + envelopes.len() as u64;
    for (batch, _) in std::mem::take(&mut envelopes.batches) {
        memory.grow(batch.len())?;
        let outcome = events.publish_batch(batch.into(), false).await?;
        refused.unconfigured += outcome.unconfigured as u64;
        if let Some(unknown) = outcome.not_registered.into_iter().next() {
            refused.not_registered.get_or_insert(unknown);
        }
        for rejected in &outcome.rejected {
            refused.add(&rejected.problem.detail, 1);
        }
    }
    refused.answer(records)
}

/// What was not stored.
#[derive(Default)]
struct Refused {
    records: u64,
    /// Events that are in quarantine.
    unconfigured: u64,
    /// One of their types.
    not_registered: Option<NotRegistered>,
    reasons: BTreeMap<String, u64>,
}

impl Refused {
    fn add(&mut self, reason: &str, records: u64) {
        if records > 0 {
            self.records += records;
            *self.reasons.entry(reason.to_owned()).or_default() += records;
        }
    }

    fn answer(&self, records: u64) -> Result<Partial, ApiError> {
        if self.records == 0 && self.unconfigured == 0 {
            return Ok(None);
        }
        let mut message = String::new();
        if self.records > 0 {
            let _ = write!(message, "{} of {records} records refused:", self.records);
            for (i, (reason, count)) in self.reasons.iter().take(REASONS_SHOWN).enumerate() {
                let separator = if i > 0 { ";" } else { "" };
                let _ = write!(message, "{separator} {reason} (×{count})");
            }
        }
        if self.unconfigured > 0 {
            let separator = if message.is_empty() { "" } else { "; " };
            let count = self.unconfigured;
            let _ = write!(
                message,
                "{separator}{count} events of types that are not registered"
            );
            if let Some(unknown) = &self.not_registered {
                let _ = write!(message, ": {} ({})", unknown.detail(), unknown.hint());
            }
        }
        // Clients show errors and overlook remarks.
        if self.records >= records {
            return Err(ApiError::bad_data(message));
        }
        Ok(Some(PartialSuccess {
            rejected: i64::try_from(self.records).unwrap_or(i64::MAX),
            message,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_counted_with_reasons() {
        let mut refused = Refused::default();
        assert_eq!(refused.answer(3).unwrap(), None);
        refused.unconfigured = 1;
        let partial = refused.answer(3).unwrap().unwrap();
        assert_eq!(partial.rejected, 0);
        assert_eq!(partial.message, "1 events of types that are not registered");
        refused.not_registered = Some(NotRegistered {
            service: "shop".into(),
            event_type: "order".into(),
            is_content_kept: false,
        });
        let message = refused.answer(3).unwrap().unwrap().message;
        assert!(message.contains("events.keep_payload"), "{message}");
        refused.not_registered = None;
        refused.add("no event name", 2);
        let partial = refused.answer(3).unwrap().unwrap();
        assert_eq!(partial.rejected, 2);
        let expected =
            "2 of 3 records refused: no event name (×2); 1 events of types that are not registered";
        assert_eq!(partial.message, expected);
        assert_eq!(refused.answer(2).unwrap_err().status().as_u16(), 400);
    }
}
