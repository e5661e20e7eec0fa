//! The remote write message that a request declares.

use thiserror::Error;

const MEDIA_TYPE: &str = "application/x-protobuf";
const V1_MESSAGE: &str = "prometheus.WriteRequest";
const V2_MESSAGE: &str = "io.prometheus.write.v2.Request";

/// The message of a remote write request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteWriteVersion {
    V1,
    V2,
}

/// An unsupported content type or encoding; the server answers 415.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ContentError {
    #[error("content type {0:?} is not accepted, expected {MEDIA_TYPE}")]
    MediaType(String),
    #[error("content type parameter {0:?} is not of the form name=value")]
    Parameter(String),
    #[error("protobuf message {0:?} is not accepted, expected {V1_MESSAGE} or {V2_MESSAGE}")]
    Message(String),
    #[error("content encoding {0:?} is not accepted, expected snappy")]
    Encoding(String),
}

impl RemoteWriteVersion {
    /// Reads a `Content-Type` header. Without one, or without its `proto` parameter, the message is
    /// that of 1.0: clients older than the parameter send neither.
    pub fn from_content_type(header: Option<&str>) -> Result<Self, ContentError> {
        let header = header.map_or("", str::trim);
        if header.is_empty() {
            return Ok(Self::V1);
        }
        let mut parts = header.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        if !media_type.eq_ignore_ascii_case(MEDIA_TYPE) {
            return Err(ContentError::MediaType(header.into()));
        }
        for parameter in parts {
            let (name, value) = parameter
                .split_once('=')
                .ok_or_else(|| ContentError::Parameter(parameter.into()))?;
            if name.trim().eq_ignore_ascii_case("proto") {
                return Self::from_message_name(unquoted(value.trim()));
            }
        }
        Ok(Self::V1)
    }

    fn from_message_name(name: &str) -> Result<Self, ContentError> {
        match name {
            V1_MESSAGE => Ok(Self::V1),
            V2_MESSAGE => Ok(Self::V2),
            _ => Err(ContentError::Message(name.into())),
        }
    }
}

/// A parameter's value may be quoted (RFC 9110, section 5.6.6).
fn unquoted(value: &str) -> &str {
    value
        .strip_prefix('"')
        .and_then(|v| v.strip_suffix('"'))
        .unwrap_or(value)
}

/// Reads a `Content-Encoding` header. Without one the body is snappy all the same: remote write
/// knows no other form, and some clients leave the header out.
pub fn check_content_encoding(header: Option<&str>) -> Result<(), ContentError> {
    let header = header.map_or("", str::trim);
    if header.is_empty() || header.eq_ignore_ascii_case("snappy") {
        Ok(())
    } else {
        Err(ContentError::Encoding(header.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_content_types() {
        let version = |header| RemoteWriteVersion::from_content_type(header).unwrap();
        for header in [
            None,
            Some(""),
            Some("application/x-protobuf"),
            Some("application/x-protobuf;proto=prometheus.WriteRequest"),
            Some("application/x-protobuf; charset=utf-8"),
        ] {
            assert_eq!(version(header), RemoteWriteVersion::V1, "{header:?}");
        }
        for header in [
            "application/x-protobuf;proto=io.prometheus.write.v2.Request",
            " Application/X-Protobuf ; proto=\"io.prometheus.write.v2.Request\"",
            "application/x-protobuf;charset=utf-8;proto=io.prometheus.write.v2.Request",
        ] {
            assert_eq!(version(Some(header)), RemoteWriteVersion::V2, "{header:?}");
        }
    }

    #[test]
    fn refused_content_types() {
        for header in [
            "application/json",
            "application/x-protobuffer",
            "text/plain;proto=prometheus.WriteRequest",
            "application/x-protobuf;proto=io.prometheus.write.v3.Request",
            "application/x-protobuf;proto=prometheus.writerequest",
            "application/x-protobuf;proto",
        ] {
            assert!(
                RemoteWriteVersion::from_content_type(Some(header)).is_err(),
                "{header:?}"
            );
        }
    }

    #[test]
    fn encodings() {
        assert_eq!(check_content_encoding(None), Ok(()));
        assert_eq!(check_content_encoding(Some("Snappy")), Ok(()));
        for header in ["gzip", "zstd", "identity", "snappy, gzip"] {
            assert!(check_content_encoding(Some(header)).is_err(), "{header:?}");
        }
    }
}
