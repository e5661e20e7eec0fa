//! Times as people and Prometheus' clients read them.

use chrono::{DateTime, SecondsFormat, Utc};

/// What Go prints for a time that was never set.
pub(crate) const NEVER: &str = "0001-01-01T00:00:00Z";

/// `2026-01-02T03:04:05.678Z`.
pub(crate) fn format(ms: i64) -> String {
    let limit = if ms < 0 {
        DateTime::<Utc>::MIN_UTC
    } else {
        DateTime::<Utc>::MAX_UTC
    };
    let time = DateTime::from_timestamp_millis(ms).unwrap_or(limit);
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_767_323_045_678, "2026-01-02T03:04:05.678Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(format(ms), text);
        }
    }
}
