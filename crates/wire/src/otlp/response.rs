//! What is answered: `ExportMetricsServiceResponse`, `ExportLogsServiceResponse`, and
//! `google.rpc.Status` for errors, as protobuf and as JSON.

use crate::prometheus::api_json::write_string;
use crate::prometheus::message::{put_bytes, put_message, put_number};
use crate::prometheus::number::push_signed;

/// What of a request was not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialSuccess {
    /// Data points, or records of a log.
    pub rejected: i64,
    /// The reasons, as a message.
    pub message: String,
}

/// `ExportMetricsServiceResponse { ExportMetricsPartialSuccess partial_success = 1; }` with
/// `{ int64 rejected_data_points = 1; string error_message = 2; }`. That of logs has the same
/// fields.
pub fn write_response(partial: Option<&PartialSuccess>) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(partial) = partial {
        put_message(&mut out, 1, |out| {
            put_number(out, 1, partial.rejected as u64);
            put_bytes(out, 2, partial.message.as_bytes());
        });
    }
    out
}

pub fn write_response_json(partial: Option<&PartialSuccess>) -> Vec<u8> {
    write_json(partial, "rejectedDataPoints")
}

/// The same for logs.
pub fn write_logs_response_json(partial: Option<&PartialSuccess>) -> Vec<u8> {
    write_json(partial, "rejectedLogRecords")
}

fn write_json(partial: Option<&PartialSuccess>, rejected: &str) -> Vec<u8> {
    let Some(partial) = partial else {
        return b"{}".into();
    };
    let mut out = b"{\"partialSuccess\":{".to_vec();
    write_string(&mut out, rejected);
    // Numbers of 64 bits are strings in protobuf's JSON.
    out.extend_from_slice(b":\"");
    push_signed(&mut out, partial.rejected);
    out.extend_from_slice(b"\",\"errorMessage\":");
    write_string(&mut out, &partial.message);
    out.extend_from_slice(b"}}");
    out
}

/// `google.rpc.Status { int32 code = 1; string message = 2; }`. `code` is one of gRPC's.
pub fn write_status(code: i32, message: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, 1, code as u64);
    put_bytes(&mut out, 2, message.as_bytes());
    out
}

pub fn write_status_json(code: i32, message: &str) -> Vec<u8> {
    let mut out = b"{\"code\":".to_vec();
    push_signed(&mut out, code.into());
    out.extend_from_slice(b",\"message\":");
    write_string(&mut out, message);
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_refused_is_an_empty_message() {
        assert_eq!(write_response(None), b"");
        assert_eq!(write_response_json(None), b"{}");
    }

    #[test]
    fn what_was_refused_is_counted_and_explained() {
        let partial = PartialSuccess {
            rejected: 300,
            message: "no \"name\"".into(),
        };
        let expected = b"\x0a\x0e\x08\xac\x02\x12\x09no \"name\"";
        assert_eq!(write_response(Some(&partial)), expected);
        let json =
            br#"{"partialSuccess":{"rejectedDataPoints":"300","errorMessage":"no \"name\""}}"#;
        assert_eq!(write_response_json(Some(&partial)), json);
        let json =
            br#"{"partialSuccess":{"rejectedLogRecords":"300","errorMessage":"no \"name\""}}"#;
        assert_eq!(write_logs_response_json(Some(&partial)), json);
    }

    #[test]
    fn errors_are_statuses() {
        assert_eq!(write_status(3, "bad"), b"\x08\x03\x12\x03bad");
        assert_eq!(
            write_status_json(3, "bad"),
            br#"{"code":3,"message":"bad"}"#
        );
    }
}
