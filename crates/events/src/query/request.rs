//! The body of a question about a metric: which one, over which time, by which dimensions.

use std::sync::Arc;

use icecore_model::event::EventWindow;
use serde_json::{Map, Value};

use super::cells::PageScan;
use super::groups::Grouping;
use super::interval::{Interval, Intervals};
use super::links::Links;
use super::{CellSource, replaced, window_choice::WindowChoice};
use crate::time_text::parse_time;
use crate::{EventType, Metric, MetricKind, Problem, Registry, Service};

/// Intervals of a page, unless the request says otherwise.
pub(crate) const DEFAULT_LIMIT: usize = 1_000;
/// The most intervals of a page.
pub(crate) const MAX_LIMIT: usize = 11_000;

const HOUR_NS: i64 = 3_600_000_000_000;

/// Times that keys of cells can name.
const TIMES_NS: std::ops::RangeInclusive<i64> = 0..=9_000_000_000_000_000_000;

/// How an answer lays out its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerFormat {
    Row,
    Columnar,
}

impl AnswerFormat {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::Columnar => "columnar",
        }
    }
}

/// The fields of a body, with errors that name them.
pub(crate) struct Body {
    fields: Map<String, Value>,
}

impl Body {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Problem> {
        let value = serde_json::from_slice(body)
            .map_err(|cause| Problem::new(400, "query.invalid-json", cause.to_string()))?;
        match value {
            Value::Object(fields) => Ok(Self { fields }),
            _ => Err(Problem::new(
                400,
                "query.invalid-body",
                "the body must be a JSON object",
            )),
        }
    }

    /// A field that is there and not null.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(invalid_field(name, "must be a string")),
        }
    }

    pub(crate) fn required(&self, name: &str) -> Result<&str, Problem> {
        let text = self.text(name)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| {
            let detail = format!("{name} is required");
            Problem::new(400, "query.required-field-missing", detail)
        })
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(invalid_field(name, "must be true or false")),
        }
    }

    /// A list of texts, or one of them.
    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, Problem> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let texts = texts_of(value);
        let texts = texts.ok_or_else(|| invalid_field(name, "must be a list of values"))?;
        Ok(Some(texts))
    }

    /// Offset and limit.
    pub(crate) fn page(&self, default: usize, max: usize) -> Result<(usize, usize), Problem> {
        let limits = match self.get("limits") {
            None => &Map::new(),
            Some(Value::Object(limits)) => limits,
            Some(_) => return Err(invalid_field("limits", "must be an object")),
        };
        let number = |name: &str| match limits.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let number = value.as_u64().and_then(|n| usize::try_from(n).ok());
                let reason = "must be a whole number, not negative";
                number
                    .ok_or_else(|| invalid_field(&format!("limits.{name}"), reason))
                    .map(Some)
            }
        };
        let limit = number("limit")?.unwrap_or(default);
        if limit == 0 {
            return Err(invalid_field("limits.limit", "must be at least 1"));
        }
        Ok((number("offset")?.unwrap_or(0), limit.min(max)))
    }

    pub(crate) fn format(&self) -> Result<AnswerFormat, Problem> {
        match self.text("format")? {
            None | Some("row") => Ok(AnswerFormat::Row),
            Some("columnar") => Ok(AnswerFormat::Columnar),
            Some(_) => Err(invalid_field("format", "must be row or columnar")),
        }
    }

    pub(crate) fn interval(&self) -> Result<Interval, Problem> {
        match self.text("interval")? {
            Some(text) => Interval::parse(text),
            None => Err(Problem::new(
                400,
                "query.interval-invalid",
                "interval is required",
            )),
        }
    }

    /// Start and end in nanoseconds; the hour before now if nothing is said.
    pub(crate) fn range_ns(&self, now_ms: i64) -> Result<(i64, i64), Problem> {
        let end_ns = match self.time_ns("end")? {
            Some(end_ns) => end_ns,
            None => now_ms.saturating_mul(1_000_000),
        };
        let start_ns = self.time_ns("start")?.unwrap_or(end_ns - HOUR_NS).max(0);
        if end_ns <= start_ns {
            let detail = "end must be later than start";
            return Err(Problem::new(400, "query.invalid-time-range", detail));
        }
        Ok((start_ns, end_ns))
    }

    fn time_ns(&self, name: &str) -> Result<Option<i64>, Problem> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let time = parse_time(text).filter(|time| TIMES_NS.contains(time));
        let time = time.ok_or_else(|| {
            let detail = format!("{name} {text:?} is no time as in 2026-11-09T10:00:00Z");
            Problem::new(400, "query.invalid-timestamp", detail)
        })?;
        Ok(Some(time))
    }

    /// The body of another page of the same range.
    pub(crate) fn into_fields(self) -> Map<String, Value> {
        self.fields
    }

    pub(crate) fn service<'r>(&self, registry: &'r Registry) -> Result<&'r Arc<Service>, Problem> {
        let service = self.required("serviceKey")?;
        let found = registry.services.get(service);
        found.ok_or_else(|| unknown("query.unknown-service", "service", service))
    }
}

pub(crate) fn invalid_field(name: &str, reason: &str) -> Problem {
    Problem::new(400, "query.invalid-field", format!("{name} {reason}"))
}

pub(crate) fn unknown(code: &'static str, what: &str, name: &str) -> Problem {
    Problem::new(404, code, format!("there is no {what} {name:?}"))
}

/// A value, or a list of values, as texts of dimensions.
pub(crate) fn texts_of(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(values) => values.iter().map(text_of).collect(),
        value => Some(vec![text_of(value)?]),
    }
}

/// A scalar as dimensions have it.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Some(integer.to_string()),
            (None, Some(float)) => Some(float.to_string()),
            _ => None,
        },
        _ => None,
    }
}

/// Links to the pages of a range.
pub(crate) fn links_of(
    body: Body,
    intervals: &Intervals,
    limit: usize,
    href: &'static str,
) -> Links {
    let mut body = body.into_fields();
    // Otherwise a range up to now would be another one for the next page.
    for (name, at_s) in [("start", intervals.start_s), ("end", intervals.end_s())] {
        body.insert(name.into(), Value::String(super::json::time_text(at_s)));
    }
    Links {
        href,
        body,
        offset: intervals.offset,
        limit,
        total: intervals.total,
    }
}

/// What kind of metric a question is about.
#[derive(Clone, Copy)]
pub(crate) enum Asked {
    Counter,
    Histogram,
    Gauge,
}

impl Asked {
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Counter => ("counterName", "query.unknown-counter", "counter"),
            Self::Histogram => ("histogramName", "query.unknown-histogram", "histogram"),
            Self::Gauge => ("gaugeName", "query.unknown-gauge", "gauge"),
        }
    }

    fn is(self, kind: &MetricKind) -> bool {
        match self {
            Self::Counter => matches!(kind, MetricKind::Counter { .. }),
            Self::Histogram => matches!(kind, MetricKind::Histogram { .. }),
            Self::Gauge => matches!(kind, MetricKind::Gauge { .. }),
        }
    }
}

/// A question about one metric, checked.
pub(crate) struct MetricRequest {
    pub(crate) event_type: Arc<EventType>,
    pub(crate) metric: Arc<Metric>,
    /// Metrics of the same name that are read along, each from a window.
    pub(crate) others: Vec<(Arc<Metric>, EventWindow)>,
    pub(crate) intervals: Intervals,
    pub(crate) choice: WindowChoice,
    pub(crate) grouping: Grouping,
    pub(crate) format: AnswerFormat,
    pub(crate) limit: usize,
    pub(crate) body: Body,
}

impl MetricRequest {
    /// Also finds the metrics that this one was put in place of, as far as the range has them.
    pub(crate) async fn read(
        source: &dyn CellSource,
        asked: Asked,
        body: &[u8],
    ) -> Result<Self, Problem> {
        let mut request = Self::parse(source, asked, body)?;
        replaced::gather(source, &mut request).await?;
        Ok(request)
    }

    fn parse(source: &dyn CellSource, asked: Asked, body: &[u8]) -> Result<Self, Problem> {
        let body = Body::parse(body)?;
        let (name_field, unknown_code, word) = asked.words();
        let service = body.service(source.registry())?;
        let event_type = body.required("eventType")?;
        let name = body.required(name_field)?;
        let event_type = service
            .types
            .get(event_type)
            .ok_or_else(|| unknown("query.unknown-type", "event type", event_type))?;
        // Those in use come first; of a name that has gone elsewhere the newest one is left.
        let retired = event_type.retired.iter().rev();
        let mut metrics = event_type.metrics.iter().chain(retired);
        let metric = metrics
            .find(|metric| metric.name == name && asked.is(&metric.kind))
            .ok_or_else(|| unknown(unknown_code, word, name))?;
        let interval = body.interval()?;
        if interval.seconds() < metric.base.seconds() {
            let detail = format!("{name} is kept in windows of {}", metric.base.code());
            return Err(Problem::new(400, "query.interval-too-fine", detail));
        }
        let range_ns = body.range_ns(source.now_ms())?;
        let page = body.page(DEFAULT_LIMIT, MAX_LIMIT)?;
        let intervals = Intervals::over(interval, range_ns, page);
        let choice = WindowChoice::of(metric, interval, intervals.start_s, source.guarded_ms())?;
        Ok(Self {
            event_type: Arc::clone(event_type),
            metric: Arc::clone(metric),
            others: Vec::new(),
            intervals,
            choice,
            grouping: Grouping::parse(metric, body.get("key"), body.texts("groupBy")?)?,
            format: body.format()?,
            limit: page.1,
            body,
        })
    }

    /// The cells of the page.
    pub(crate) fn scan(&self) -> PageScan<'_> {
        let others = self
            .others
            .iter()
            .map(|(other, window)| (&**other, *window));
        let metrics = [(&*self.metric, self.choice.window)].into_iter();
        PageScan {
            metrics: metrics.chain(others).collect(),
            intervals: &self.intervals,
            grouping: &self.grouping,
        }
    }

    /// Links to the pages of this range.
    pub(crate) fn links(self, href: &'static str) -> Links {
        links_of(self.body, &self.intervals, self.limit, href)
    }
}
