//! Which format a scraper asks for, and which one it got.

use std::fmt::Write;

use thiserror::Error;

pub use crate::prometheus::federate::Escaping;

/// How a body is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text004,
    /// Names in quotes are read in both text formats, as Prometheus does.
    Text100,
    /// 0.0.1 and 1.0.0: the same to a reader.
    OpenMetrics,
    /// 2.0.0
    OpenMetrics2,
    Protobuf,
}

/// What a scraper can ask for: Prometheus' `scrape_protocols`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    PrometheusProto,
    OpenMetricsText001,
    OpenMetricsText100,
    OpenMetricsText200,
    PrometheusText004,
    PrometheusText100,
}

/// Why a body cannot be parsed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FormatError {
    #[error(
        "non-compliant scrape target sending blank Content-Type and no fallback_scrape_protocol specified for target"
    )]
    Blank,
    #[error(
        "received unsupported Content-Type {0:?} and no fallback_scrape_protocol specified for target"
    )]
    Unsupported(String),
}

impl Format {
    /// Reads a `Content-Type` header. The fallback counts where it is missing or unknown.
    pub fn from_content_type(
        content_type: Option<&str>,
        fallback: Option<Format>,
    ) -> Result<Self, FormatError> {
        let content_type = content_type.unwrap_or_default().trim();
        if content_type.is_empty() {
            return fallback.ok_or(FormatError::Blank);
        }
        let mut parts = content_type.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
        let version = parts
            .filter_map(|part| part.split_once('='))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("version"));
        let version = version.map(|(_, value)| value.trim().trim_matches('"'));
        match media_type.as_str() {
            "application/openmetrics-text" => Ok(match version {
                Some("2.0.0") => Self::OpenMetrics2,
                _ => Self::OpenMetrics,
            }),
            "application/vnd.google.protobuf" => Ok(Self::Protobuf),
            "text/plain" => Ok(match version {
                Some("1.0.0") => Self::Text100,
                _ => Self::Text004,
            }),
            _ => fallback.ok_or_else(|| {
                // The header has any length.
                FormatError::Unsupported(content_type.chars().take(200).collect())
            }),
        }
    }
}

impl Protocol {
    /// The format of a body sent with this protocol.
    pub fn format(self) -> Format {
        match self {
            Self::PrometheusProto => Format::Protobuf,
            Self::OpenMetricsText001 | Self::OpenMetricsText100 => Format::OpenMetrics,
            Self::OpenMetricsText200 => Format::OpenMetrics2,
            Self::PrometheusText004 => Format::Text004,
            Self::PrometheusText100 => Format::Text100,
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::PrometheusProto => {
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
            }
            Self::OpenMetricsText001 => "application/openmetrics-text;version=0.0.1",
            Self::OpenMetricsText100 => "application/openmetrics-text;version=1.0.0",
            Self::OpenMetricsText200 => "application/openmetrics-text;version=2.0.0",
            Self::PrometheusText004 => "text/plain;version=0.0.4",
            Self::PrometheusText100 => "text/plain;version=1.0.0",
        }
    }

    /// Only these know the word; names in OpenMetrics 2.0 need no escaping.
    fn has_escaping(self) -> bool {
        matches!(self, Self::OpenMetricsText100 | Self::PrometheusText100)
    }
}

/// The `Accept` header for protocols in the order of preference.
pub fn accept_header(protocols: &[Protocol], escaping: Escaping) -> String {
    let mut header = String::new();
    // Weights as Prometheus gives them: there are six protocols, so the first gets 0.7.
    let mut weight = 7u8;
    for protocol in protocols {
        header.push_str(protocol.media_type());
        if protocol.has_escaping() {
            header.push_str(";escaping=");
            header.push_str(escaping.name());
        }
        let _ = write!(header, ";q=0.{weight},");
        weight = weight.saturating_sub(1).max(1);
    }
    let _ = write!(header, "*/*;q=0.{weight}");
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types() {
        for (header, format) in [
            ("text/plain", Format::Text004),
            ("text/plain; version=0.0.4; charset=utf-8", Format::Text004),
            (
                "TEXT/PLAIN;version=1.0.0;escaping=allow-utf-8",
                Format::Text100,
            ),
            ("text/plain; Version = \"1.0.0\"", Format::Text100),
            (
                "application/openmetrics-text; version=0.0.1; charset=utf-8",
                Format::OpenMetrics,
            ),
            (
                "application/openmetrics-text;version=1.0.0",
                Format::OpenMetrics,
            ),
            (
                "application/openmetrics-text; version=2.0.0; charset=utf-8",
                Format::OpenMetrics2,
            ),
            (
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
                Format::Protobuf,
            ),
        ] {
            assert_eq!(Format::from_content_type(Some(header), None), Ok(format));
        }
    }

    #[test]
    fn the_fallback_is_for_what_is_missing_or_unknown() {
        let fallback = Some(Format::Protobuf);
        for header in [
            None,
            Some(""),
            Some(" "),
            Some("text/html; charset=utf-8"),
            Some("nonsense"),
        ] {
            assert_eq!(
                Format::from_content_type(header, fallback),
                Ok(Format::Protobuf)
            );
            assert!(Format::from_content_type(header, None).is_err());
        }
        assert_eq!(
            Format::from_content_type(Some("text/plain"), fallback),
            Ok(Format::Text004)
        );
        assert_eq!(
            Format::from_content_type(Some("text/html"), None)
                .unwrap_err()
                .to_string(),
            "received unsupported Content-Type \"text/html\" and no fallback_scrape_protocol specified for target"
        );
    }

    #[test]
    fn the_accept_header_of_prometheus_3() {
        let defaults = [
            Protocol::OpenMetricsText100,
            Protocol::OpenMetricsText001,
            Protocol::PrometheusText100,
            Protocol::PrometheusText004,
        ];
        assert_eq!(
            accept_header(&defaults, Escaping::AllowUtf8),
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.7,\
             application/openmetrics-text;version=0.0.1;q=0.6,\
             text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5,\
             text/plain;version=0.0.4;q=0.4,*/*;q=0.3"
        );
        assert_eq!(
            accept_header(&[Protocol::PrometheusProto], Escaping::Underscores),
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,*/*;q=0.6"
        );
        assert_eq!(
            accept_header(&[Protocol::OpenMetricsText200], Escaping::Underscores),
            "application/openmetrics-text;version=2.0.0;q=0.7,*/*;q=0.6"
        );
    }
}
