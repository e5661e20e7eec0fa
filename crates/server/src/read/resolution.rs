//! `X-Icecore-Resolution`: which time of an answer was rolled up.
//!
//! Export, remote read and federation give samples. Of rolled-up time they give those that are left
//! of windows, all of them real; this header says where, so that nobody takes them for all that
//! there were. It comes before the body, so it says what the selections read, not what they found.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use icecore_model::Levels;
use icecore_model::rollup::Resolution;

use crate::middleware::rfc3339;

const HEADER: HeaderName = HeaderName::from_static("x-icecore-resolution");

/// The levels that an answer is read from, each with the time from its first to its last use.
#[derive(Debug, Default)]
pub(crate) struct RolledUpTime(BTreeMap<Resolution, (i64, i64)>);

impl RolledUpTime {
    /// Notes what a selection reads.
    pub(crate) fn add(&mut self, levels: &[Arc<Levels>]) {
        let segments = levels.iter().flat_map(|levels| &levels.segments);
        for segment in segments.filter(|segment| !segment.resolution.is_raw()) {
            let (start_ms, end_ms) = (segment.start_ms, segment.end_ms);
            let known = self.0.entry(segment.resolution);
            let known = known.or_insert((start_ms, end_ms));
            *known = (known.0.min(start_ms), known.1.max(end_ms));
        }
    }

    /// Says it in an answer, if there is something to say.
    pub(crate) fn announce(&self, mut response: Response) -> Response {
        if let Some(value) = self.value() {
            response.headers_mut().insert(HEADER, value);
        }
        response
    }

    /// `1h 2026-08-01T00:00:00Z/2026-09-01T00:00:00Z, 5m …`: oldest first.
    fn value(&self) -> Option<HeaderValue> {
        let mut levels: Vec<_> = self.0.iter().collect();
        levels.sort_by_key(|(_, range)| **range);
        let levels: Vec<String> = levels
            .into_iter()
            .map(|(resolution, (start_ms, end_ms))| {
                format!("{resolution} {}/{}", time(*start_ms), time(*end_ms))
            })
            .collect();
        let value = levels.join(", ");
        let value = (!value.is_empty()).then(|| HeaderValue::from_str(&value));
        value.and_then(Result::ok)
    }
}

/// Levels begin and end on the hour.
fn time(ms: i64) -> String {
    rfc3339::format(ms).replace(".000Z", "Z")
}

#[cfg(test)]
mod tests {
    use icecore_model::rollup::Segment;

    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    fn levels(segments: &[(i64, i64, Resolution)]) -> Arc<Levels> {
        let segment = |(start, end, resolution): &(i64, i64, Resolution)| Segment {
            start_ms: start * HOUR_MS,
            end_ms: end * HOUR_MS,
            resolution: *resolution,
        };
        Arc::new(Levels {
            segments: segments.iter().map(segment).collect(),
            excluded: None,
        })
    }

    #[test]
    fn levels_are_named_oldest_first() {
        let (five, hour) = (Resolution::FIVE_MINUTES, Resolution::HOUR);
        let mut rolled = RolledUpTime::default();
        rolled.add(&[levels(&[]), levels(&[(0, 9, Resolution::RAW)])]);
        assert_eq!(rolled.value(), None);
        rolled.add(&[
            levels(&[(0, 2, hour), (2, 3, five), (3, 4, Resolution::RAW)]),
            levels(&[(0, 1, hour), (3, 5, five)]),
        ]);
        let expected = "1h 1970-01-01T00:00:00Z/1970-01-01T02:00:00Z, \
                        5m 1970-01-01T02:00:00Z/1970-01-01T05:00:00Z";
        assert_eq!(rolled.value().unwrap(), expected);
    }
}
