//! What a translation needs to know besides the query.

use jiff::tz::TimeZone;

use super::refusal::Refusal;
use crate::query::{QueryRequest, Window};

/// What a translation needs to know besides the query.
#[derive(Clone, Debug, Default)]
pub struct TranslateOptions {
    /// As `start` of a query; empty where it is not known.
    pub start: String,
    /// As `end` of a query; now, where it is empty.
    pub end: String,
    pub now_ms: i64,
    /// Only what gives the same numbers whatever the data is.
    pub strict: bool,
    /// Gaps up to this many milliseconds are interpolated as OpenTSDB does.
    pub bridge_ms: Option<i64>,
}

/// What is known of the time of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryTime {
    Unknown,
    /// It is given in moments.
    Absolute(Window),
    /// It moves along with the clock; this is what it is now.
    Relative(Window),
    /// That of a dashboard.
    Dashboard,
}

impl QueryTime {
    /// The time of a query that says so itself.
    pub(super) fn of(request: &QueryRequest, now_ms: i64) -> Result<Self, Refusal> {
        if request.start.is_empty() {
            return Ok(Self::Unknown);
        }
        let window = request.window(None, now_ms)?;
        let moves = |text: &str| {
            let lower = text.to_lowercase();
            lower.is_empty() || lower == "now" || lower.ends_with("-ago")
        };
        if moves(&request.start) || moves(&request.end) {
            return Ok(Self::Relative(window));
        }
        Ok(Self::Absolute(window))
    }

    pub(super) fn window(self) -> Option<Window> {
        match self {
            Self::Absolute(window) | Self::Relative(window) => Some(window),
            Self::Unknown | Self::Dashboard => None,
        }
    }
}

impl TranslateOptions {
    /// A request without queries, for the time that the options give.
    pub(super) fn request(&self) -> QueryRequest {
        QueryRequest {
            start: self.start.clone(),
            end: self.end.clone(),
            ..QueryRequest::default()
        }
    }
}

/// The zone of a request.
pub(super) fn zone(request: &QueryRequest) -> Result<TimeZone, Refusal> {
    let name = request.timezone.as_deref().filter(|name| !name.is_empty());
    match name {
        None => Ok(TimeZone::UTC),
        Some(name) => crate::time::find_zone(name)
            .ok_or_else(|| Refusal::new(format!("there is no time zone {name}"))),
    }
}
