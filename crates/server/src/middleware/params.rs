//! Parameters of the API: from the URL, and from a form in the body of a POST.
//!
//! As in Prometheus, both count; of a parameter that is given once, the body's wins; an empty one
//! is as good as none.

use std::num::{IntErrorKind, ParseIntError};

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, Method, Uri, header};
use icecore_model::{MAX_TIMESTAMP_MS, Matcher};
use icecore_promql::parse;
use icecore_wire::prometheus::{
    ParamError, SelectorError, parse_query_time_ms, parse_selector, parse_selectors, parse_time_ms,
};

use crate::middleware::body::collect;
use crate::middleware::error::ApiError;
use crate::middleware::limits::FORM_BYTES_MAX;

const FORM: &str = "application/x-www-form-urlencoded";

/// Name and value, those of the body first.
pub(crate) struct Params(Vec<(String, String)>);

/// A time range in ms, both ends included, within what can be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeRange {
    pub(crate) start_ms: i64,
    pub(crate) end_ms: i64,
}

impl<S: Send + Sync> FromRequest<S> for Params {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, mut body) = request.into_parts();
        let mut params = Self(Vec::new());
        if matches!(parts.method, Method::POST | Method::PUT) {
            let form =
                collect(&mut body, FORM_BYTES_MAX, "the limit for forms", |_| Ok(())).await?;
            if !form.is_empty() {
                check_form(&parts.headers)?;
            }
            params.add(&form);
        }
        params.add(parts.uri.query().unwrap_or_default().as_bytes());
        Ok(params)
    }
}

fn check_form(headers: &HeaderMap) -> Result<(), ApiError> {
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|v| v.to_str().ok()).unwrap_or("");
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case(FORM) {
        return Ok(());
    }
    Err(ApiError::bad_data(format!(
        "parameters in a body must be of content type {FORM}, found {content_type:?}"
    )))
}

impl Params {
    /// Those of the URL alone, where the body is no form.
    pub(crate) fn of_url(uri: &Uri) -> Self {
        let mut params = Self(Vec::new());
        params.add(uri.query().unwrap_or_default().as_bytes());
        params
    }

    fn add(&mut self, encoded: &[u8]) {
        self.0.extend(form_urlencoded::parse(encoded).into_owned());
    }

    pub(crate) fn first(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(n, _)| n == name);
        found.map(|(_, v)| v.as_str()).filter(|v| !v.is_empty())
    }

    /// Every value of a parameter that may be repeated.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let given = self.0.iter().filter(move |(n, _)| n == name);
        given.map(|(_, value)| value.as_str())
    }

    /// All of `match[]`, parsed.
    pub(crate) fn selectors(&self) -> Result<Vec<Vec<Matcher>>, ApiError> {
        let parsed = parse_selectors(self.all("match[]"));
        parsed.map_err(|error| {
            ApiError::of_parameter("match[]", problem_of(self.all("match[]"), &error))
        })
    }

    /// The selectors of `match[]`, with errors that do not name the parameter: Prometheus leaves
    /// the name out for lists of labels, rules and searches.
    pub(crate) fn list_selectors(&self) -> Result<Vec<Vec<Matcher>>, ApiError> {
        let parsed = parse_selectors(self.all("match[]"));
        parsed.map_err(|error| ApiError::bad_data(problem_of(self.all("match[]"), &error)))
    }

    /// `match_target`: which targets are asked for; all where it is missing.
    pub(crate) fn target_matchers(&self) -> Result<Vec<Matcher>, ApiError> {
        match self.first("match_target") {
            Some(text) => parse_selector(text).map_err(|error| {
                ApiError::of_parameter("match_target", problem_of([text].into_iter(), &error))
            }),
            None => Ok(Vec::new()),
        }
    }

    /// The same where at least one is needed.
    pub(crate) fn some_selectors(&self) -> Result<Vec<Vec<Matcher>>, ApiError> {
        let selectors = self.selectors()?;
        if selectors.is_empty() {
            return Err(ApiError::bad_data("no match[] parameter provided"));
        }
        Ok(selectors)
    }

    /// `start` and `end`; without them, all of time.
    pub(crate) fn range(&self) -> Result<TimeRange, ApiError> {
        let start_ms = self.time("start")?.unwrap_or(0);
        let end_ms = self.time("end")?.unwrap_or(MAX_TIMESTAMP_MS);
        if end_ms < start_ms {
            return Err(ApiError::of_parameter(
                "end",
                "end timestamp must not be before start time",
            ));
        }
        Ok(TimeRange {
            start_ms: start_ms.max(0),
            end_ms: end_ms.min(MAX_TIMESTAMP_MS),
        })
    }

    pub(crate) fn time(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let parsed = self.parsed_time(name);
        parsed.map_err(|error| of_time(name, &error))
    }

    /// Returns an optional time, or the reason why it is none, for callers with words of their own.
    pub(crate) fn parsed_time(&self, name: &str) -> Result<Option<i64>, ParamError> {
        self.first(name).map(parse_time_ms).transpose()
    }

    /// The time of a query, which wraps around where it is beyond all times.
    pub(crate) fn query_time(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let parsed = self.first(name).map(parse_query_time_ms).transpose();
        parsed.map_err(|error| of_time(name, &error))
    }

    /// A count of results; 0 and nothing mean no limit.
    pub(crate) fn limit(&self) -> Result<Option<usize>, ApiError> {
        let Some(text) = self.first("limit") else {
            return Ok(None);
        };
        match text.parse::<i64>() {
            Ok(0) => Ok(None),
            Ok(limit) if limit > 0 => Ok(Some(usize::try_from(limit).unwrap_or(usize::MAX))),
            Ok(_) => Err(ApiError::of_parameter(
                "limit",
                "limit must be non-negative",
            )),
            Err(error) => {
                let reason = go_reason(&error);
                let problem = format!("strconv.Atoi: parsing {text:?}: {reason}");
                Err(ApiError::of_parameter("limit", problem))
            }
        }
    }

    /// Yes or no; nothing means no.
    pub(crate) fn switch(&self, name: &str) -> Result<bool, ApiError> {
        self.switch_or(name, false)
    }

    /// Yes or no.
    pub(crate) fn switch_or(&self, name: &str, default: bool) -> Result<bool, ApiError> {
        match self.first(name) {
            None => Ok(default),
            Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(_) => Err(ApiError::of_parameter(name, "true or false")),
        }
    }

    /// A number, where Prometheus takes negative ones for "no limit".
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let parsed = self.first(name).map(str::parse).transpose();
        parsed.map_err(|_| ApiError::bad_data(format!("{name} must be a number")))
    }
}

/// The reason of Go for a text that is no number.
pub(crate) fn go_reason(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

/// The reason against one of these selectors. The parser of queries has the words of Prometheus;
/// that of selectors bounds the patterns of all of them together.
fn problem_of<'t>(mut texts: impl Iterator<Item = &'t str>, error: &SelectorError) -> String {
    let said = match error {
        SelectorError::Syntax { .. } => texts.find_map(|text| parse::parse_selector(text).err()),
        SelectorError::MatchesEverything => None,
    };
    said.map_or_else(|| error.to_string(), |said| said.to_string())
}

/// An error in the words of Prometheus, which has the name of an optional time twice.
fn of_time(name: &str, error: &ParamError) -> ApiError {
    ApiError::of_parameter(name, format!("invalid time value for '{name}': {error}"))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    async fn post(query: &str, content_type: &str, body: &'static str) -> Result<Params, ApiError> {
        let request = Request::post(format!("/x?{query}"))
            .header("content-type", content_type)
            .body(Body::from(body))
            .unwrap();
        Params::from_request(request, &()).await
    }

    async fn get(query: &str) -> Params {
        let request = Request::get(format!("/x?{query}")).body(Body::empty());
        Params::from_request(request.unwrap(), &()).await.unwrap()
    }

    #[tokio::test]
    async fn body_and_url_count_together() {
        let form = "match[]=b&limit=7&end=";
        let params = post("match%5B%5D=a&limit=3&end=5", FORM, form)
            .await
            .unwrap();
        assert_eq!(params.selectors().unwrap().len(), 2);
        assert_eq!(params.limit().unwrap(), Some(7));
        assert_eq!(params.first("end"), None);
    }

    #[tokio::test]
    async fn only_forms_are_read() {
        assert!(post("", "application/json", "{}").await.is_err());
        assert!(post("", "", "a=b").await.is_err());
        assert!(post("", "text/plain", "").await.is_ok());
        let with_charset = "application/x-www-form-urlencoded; charset=UTF-8";
        assert!(post("", with_charset, "a=b").await.is_ok());
    }

    #[tokio::test]
    async fn ranges() {
        let everything = TimeRange {
            start_ms: 0,
            end_ms: MAX_TIMESTAMP_MS,
        };
        assert_eq!(get("").await.range().unwrap(), everything);
        assert_eq!(
            get("start=-1e9&end=1e15").await.range().unwrap(),
            everything
        );
        let range = get("start=1.5&end=1970-01-01T00:00:02Z").await.range();
        let expected = TimeRange {
            start_ms: 1500,
            end_ms: 2000,
        };
        assert_eq!(range.unwrap(), expected);
        assert!(get("start=2&end=1").await.range().is_err());
        assert!(get("start=yesterday").await.range().is_err());
        assert!(get("end=NaN").await.range().is_err());
    }

    #[tokio::test]
    async fn limits() {
        assert_eq!(get("limit=0").await.limit().unwrap(), None);
        assert_eq!(get("limit=5").await.limit().unwrap(), Some(5));
        assert!(get("limit=-1").await.limit().is_err());
        assert!(get("limit=many").await.limit().is_err());
        assert_eq!(get("limit=-1").await.number("limit").unwrap(), Some(-1));
    }
}
