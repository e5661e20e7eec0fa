//! Requests by route, status and duration.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::http::StatusCode;
use icecore_model::MetricType;
use icecore_storage::{DURATION_BOUNDS, Durations};
use icecore_wire::prometheus::TextWriter;

/// What is counted for a request whose client went away before there was an answer (nginx' number).
const CLIENT_GONE: u16 = 499;

/// The requests of one process.
#[derive(Default)]
pub(crate) struct HttpMetrics(Arc<Requests>);

#[derive(Default)]
struct Requests {
    in_flight: AtomicU64,
    /// Locked for a moment per request, which is nothing beside what a request costs.
    routes: Mutex<BTreeMap<&'static str, RouteRequests>>,
}

#[derive(Default)]
struct RouteRequests {
    by_code: BTreeMap<u16, u64>,
    seconds: Durations,
}

impl HttpMetrics {
    /// Counts a request from now until the timer is dropped.
    pub(crate) fn begin(&self, route: &'static str) -> RequestTimer {
        self.0.in_flight.fetch_add(1, Relaxed);
        RequestTimer {
            requests: Arc::clone(&self.0),
            route,
            code: CLIENT_GONE,
            began: Instant::now(),
        }
    }

    pub(crate) fn write(&self, text: &mut TextWriter) {
        let name = "icecore_http_requests_in_flight";
        text.family(name, "HTTP requests under way.", MetricType::Gauge);
        text.sample(name, &[], self.0.in_flight.load(Relaxed) as f64);
        let routes = self.0.routes();
        let name = "icecore_http_requests_total";
        let help = "HTTP requests answered, by route and status; 499 when the client went away.";
        text.family(name, help, MetricType::Counter);
        for (route, requests) in routes.iter() {
            for (code, count) in &requests.by_code {
                let labels = [("route", *route), ("code", &code.to_string())];
                text.sample(name, &labels, *count as f64);
            }
        }
        let name = "icecore_http_request_duration_seconds";
        let help = "Time from the head of a request to the end of its answer, by route.";
        text.family(name, help, MetricType::Histogram);
        for (route, requests) in routes.iter() {
            let (counts, sum) = requests.seconds.get();
            text.histogram(name, &[("route", *route)], &DURATION_BOUNDS, &counts, sum);
        }
    }
}

impl Requests {
    fn routes(&self) -> MutexGuard<'_, BTreeMap<&'static str, RouteRequests>> {
        // Counters are right after any panic of their holder: nothing in between can panic halfway.
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request under way.
pub(crate) struct RequestTimer {
    requests: Arc<Requests>,
    route: &'static str,
    code: u16,
    began: Instant,
}

impl RequestTimer {
    /// Notes the status of the answer, whose body may still be on its way.
    pub(crate) fn answered(mut self, status: StatusCode) -> Self {
        self.code = status.as_u16();
        self
    }
}

impl Drop for RequestTimer {
    fn drop(&mut self) {
        self.requests.in_flight.fetch_sub(1, Relaxed);
        let mut routes = self.requests.routes();
        let route = routes.entry(self.route).or_default();
        *route.by_code.entry(self.code).or_default() += 1;
        route.seconds.observe(self.began.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_when_they_end() {
        let metrics = HttpMetrics::default();
        let written = || {
            let mut text = TextWriter::new();
            metrics.write(&mut text);
            String::from_utf8(text.into_bytes()).unwrap()
        };
        let answered = metrics.begin("/a").answered(StatusCode::OK);
        let gone = metrics.begin("/a");
        assert!(written().contains("icecore_http_requests_in_flight 2\n"));
        drop((answered, gone));
        let text = written();
        for line in [
            "icecore_http_requests_in_flight 0\n",
            "icecore_http_requests_total{route=\"/a\",code=\"200\"} 1\n",
            "icecore_http_requests_total{route=\"/a\",code=\"499\"} 1\n",
            "icecore_http_request_duration_seconds_count{route=\"/a\"} 2\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
