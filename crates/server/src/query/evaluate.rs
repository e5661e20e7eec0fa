//! `/api/v1/query` and `/api/v1/query_range`: PromQL.
//!
//! ```text
//! parameters ─► Request ─► slot ─► query pool: execute, write ─► JSON or columns ─► client
//! ```
//!
//! Holds always:
//! - A client that goes away cancels its query, wherever that is.
//! - Words of errors, and the order in which parameters are checked, are those of Prometheus.
//!
//! Elsewhere: limits and threads (`queries`), the pieces (`query_answer`), statuses (`error`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use icecore_promql::{QueryTime, Request};
use icecore_wire::prometheus::{parse_duration_ms, parse_query_time_ms};

use crate::app::App;
use crate::events::series::source;
use crate::metrics::QueryKind;
use crate::middleware::error::ApiError;
use crate::middleware::params::Params;
use crate::queries::CancelOnDrop;
use crate::query::answer::{AnswerOptions, QueryAnswer};
use crate::usage::CountingSource;

/// Steps between the ends of a range: sixty seconds for a week, an hour for a year.
const STEPS_MAX: u64 = 11_000;

pub(crate) async fn instant(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let timer = app.queries.metrics.begin(QueryKind::Instant);
    let answered = match instant_request(&params, app.clock().now_ms()) {
        Ok(request) => {
            let shown = AnswerOptions::from_params(&params);
            run(&app, request, shown, deprecated_stats(&params)).await
        }
        Err(error) => Err(error),
    };
    timer.ended(answered.as_ref().err().map(ApiError::type_name));
    answered
}

pub(crate) async fn range(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    let timer = app.queries.metrics.begin(QueryKind::Range);
    let shown = AnswerOptions::from_params(&params).in_form(&headers);
    let answered = match range_request(&params) {
        Ok(request) => run(&app, request, shown, deprecated_stats(&params)).await,
        Err(error) => Err(error),
    };
    timer.ended(answered.as_ref().err().map(ApiError::type_name));
    let mut response = answered?;
    let accept = HeaderValue::from_static("Accept");
    response.headers_mut().append(header::VARY, accept);
    Ok(response)
}

fn instant_request(params: &Params, now_ms: i64) -> Result<Request, ApiError> {
    let limit = params.limit()?;
    let time_ms = params.query_time("time")?.unwrap_or(now_ms);
    request(params, limit, QueryTime::Instant { time_ms })
}

fn range_request(params: &Params) -> Result<Request, ApiError> {
    let limit = params.limit()?;
    let time = |name| {
        let text = params.first(name).unwrap_or_default();
        parse_query_time_ms(text).map_err(|error| ApiError::from((name, error)))
    };
    let start_ms = time("start")?;
    let end_ms = time("end")?;
    if end_ms < start_ms {
        let problem = "end timestamp must not be before start time";
        return Err(ApiError::of_parameter("end", problem));
    }
    let step_ms = parse_duration_ms(params.first("step").unwrap_or_default())
        .map_err(|error| ApiError::from(("step", error)))?;
    let step = u64::try_from(step_ms).ok().filter(|step| *step > 0);
    let Some(step) = step else {
        let problem = "zero or negative query resolution step widths are not accepted. Try a positive integer";
        return Err(ApiError::of_parameter("step", problem));
    };
    if end_ms.abs_diff(start_ms) / step > STEPS_MAX {
        return Err(ApiError::bad_data(
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)",
        ));
    }
    let time = QueryTime::Range {
        start_ms,
        end_ms,
        step_ms,
    };
    request(params, limit, time)
}

/// What both kinds of query have in common.
fn request(params: &Params, limit: Option<usize>, time: QueryTime) -> Result<Request, ApiError> {
    let timeout = params.first("timeout").map(parse_duration_ms).transpose();
    let timeout = timeout.map_err(|error| ApiError::from(("timeout", error)))?;
    if timeout.is_some_and(|ms| ms <= 0) {
        // It is over before it begins: Prometheus' words, and one of its statuses (it has three, by
        // chance).
        return Err(ApiError::execution("context deadline exceeded"));
    }
    let lookback = params.first("lookback_delta").map(parse_duration_ms);
    let lookback = lookback.transpose().map_err(|error| {
        ApiError::bad_data(format!("error parsing lookback delta duration: {error}"))
    })?;
    let max_source_resolution = match params.first("max_source_resolution") {
        None | Some("auto" | "") => None,
        Some(text) => {
            let parsed = parse_duration_ms(text);
            let ms = parsed.map_err(|error| ApiError::from(("max_source_resolution", error)))?;
            Some(ms.max(0))
        }
    };
    Ok(Request {
        query: params.first("query").unwrap_or_default().to_owned(),
        time,
        lookback_ms: lookback.filter(|ms| *ms > 0),
        limit,
        timeout: timeout.map(|ms| Duration::from_millis(ms.unsigned_abs())),
        counts_touched: params.first("stats").is_some(),
        max_source_resolution,
        rollup_strict: params.first("rollup_strict") == Some("true"),
    })
}

/// Most characters of a parameter that a warning repeats.
const SHOWN_CHARS_MAX: usize = 100;

/// A warning about words of `stats` that Prometheus will not take any more.
fn deprecated_stats(params: &Params) -> Option<String> {
    let text = params.first("stats")?;
    if matches!(text, "true" | "all") {
        return None;
    }
    let shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    Some(format!(
        "value {shown:?} for parameter \"stats\" is deprecated and will be rejected in the next major release, use \"true\" or \"all\""
    ))
}

/// Runs a query and answers with its first piece; the rest follows as the client reads. A warning
/// about the request goes with the others.
async fn run(
    app: &Arc<App>,
    mut request: Request,
    shown: AnswerOptions,
    warning: Option<String>,
) -> Result<Response, ApiError> {
    app.database()?;
    let began = Instant::now();
    let timeout = app.queries.timeout_of(&request);
    let slot = app.queries.slot(timeout).await?;
    let queued = began.elapsed();
    request.timeout = Some(timeout.saturating_sub(queued));
    let waiting = CancelOnDrop::default();
    let canceled = waiting.flag();
    let shared = Arc::clone(app);
    let answered = app.queries.on_pool(async move {
        let queries = &shared.queries;
        let source = CountingSource {
            source: source(&shared).await?,
            usage: shown.counts.then(|| Arc::clone(&shared.usage)),
            clock: Arc::clone(shared.clock()),
        };
        let (mut answer, explain) = queries
            .execute(&source, &request, &canceled, shown.explain)
            .await?;
        answer.warnings.extend(warning);
        queries.metrics.read(&answer.stats);
        let answer = QueryAnswer {
            answer,
            explain,
            time: request.time,
            stats: shown.stats,
            columns: shown.columns,
            queued,
        };
        answer.respond(slot).await
    });
    answered.await?
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn params(query: &str) -> Params {
        use axum::extract::FromRequest as _;
        let request = axum::extract::Request::get(format!("/x?{query}")).body(Default::default());
        Params::from_request(request.unwrap(), &()).await.unwrap()
    }

    #[tokio::test]
    async fn instant_parameters() {
        let request = instant_request(&params("query=up").await, 7).unwrap();
        assert_eq!(request.time, QueryTime::Instant { time_ms: 7 });
        assert_eq!(request.query, "up");
        assert_eq!((request.limit, request.lookback_ms), (None, None));
        assert_eq!(request.timeout, None);
        let all = "query=up&time=1.5&limit=3&timeout=1m&lookback_delta=2.5";
        let request = instant_request(&params(all).await, 7).unwrap();
        assert_eq!(request.time, QueryTime::Instant { time_ms: 1500 });
        assert_eq!((request.limit, request.lookback_ms), (Some(3), Some(2500)));
        assert_eq!(request.timeout, Some(Duration::from_secs(60)));
        assert_eq!(
            (request.max_source_resolution, request.rollup_strict),
            (None, false)
        );
        let rolled = "query=up&max_source_resolution=5m&rollup_strict=true";
        let request = instant_request(&params(rolled).await, 7).unwrap();
        let asked = (request.max_source_resolution, request.rollup_strict);
        assert_eq!(asked, (Some(300_000), true));
        let auto = instant_request(&params("max_source_resolution=auto").await, 7).unwrap();
        assert_eq!(auto.max_source_resolution, None);
        assert!(instant_request(&params("max_source_resolution=x").await, 7).is_err());
        let odd = "lookback_delta=-5&time=1e30";
        let request = instant_request(&params(odd).await, 7).unwrap();
        assert_eq!(request.lookback_ms, None);
        assert_eq!(request.time, QueryTime::Instant { time_ms: 0 });
        for over in ["timeout=-1", "timeout=0", "timeout=0s"] {
            let error = instant_request(&params(over).await, 7).unwrap_err();
            assert_eq!(error.to_string(), "context deadline exceeded");
        }
    }

    #[tokio::test]
    async fn range_parameters() {
        let request = range_request(&params("start=0&end=1970-01-01T00:01:00Z&step=15s").await);
        let expected = QueryTime::Range {
            start_ms: 0,
            end_ms: 60_000,
            step_ms: 15_000,
        };
        assert_eq!(request.unwrap().time, expected);
        for (query, message) in [
            (
                "",
                "invalid parameter \"start\": cannot parse \"\" to a valid timestamp",
            ),
            (
                "start=0",
                "invalid parameter \"end\": cannot parse \"\" to a valid timestamp",
            ),
            (
                "start=0&end=1",
                "invalid parameter \"step\": cannot parse \"\" to a valid duration",
            ),
            (
                "start=2&end=1",
                "invalid parameter \"end\": end timestamp must not be before start time",
            ),
            (
                "start=0&end=1&step=0",
                "invalid parameter \"step\": zero or negative query resolution step widths are not accepted. Try a positive integer",
            ),
            (
                "start=0&end=11001&step=1",
                "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)",
            ),
            (
                "start=0&end=1&step=1&timeout=x",
                "invalid parameter \"timeout\": cannot parse \"x\" to a valid duration",
            ),
            (
                "start=0&end=1&step=1&lookback_delta=x",
                "error parsing lookback delta duration: cannot parse \"x\" to a valid duration",
            ),
        ] {
            let error = range_request(&params(query).await).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        assert!(range_request(&params("start=0&end=11000&step=1").await).is_ok());
        let everything =
            "start=-292273086-05-16T16:47:06Z&end=292277025-08-18T07:12:54.999999999Z&step=1";
        assert!(range_request(&params(everything).await).is_err());
    }
}
