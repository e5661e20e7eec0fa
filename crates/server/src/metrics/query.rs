//! Queries by kind, result and duration.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use icecore_model::MetricType;
use icecore_promql::Stats;
use icecore_storage::{Counter, DURATION_BOUNDS, Durations};
use icecore_wire::prometheus::TextWriter;

/// What kind of query was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryKind {
    Instant,
    Range,
    Exemplars,
}

impl QueryKind {
    const ALL: [Self; 3] = [Self::Instant, Self::Range, Self::Exemplars];

    fn name(self) -> &'static str {
        match self {
            Self::Instant => "instant",
            Self::Range => "range",
            Self::Exemplars => "exemplars",
        }
    }
}

/// The result of a query whose client did not wait for it.
const CANCELED: &str = "canceled";

/// The result of a query that has an answer; others have the name of their error.
const SUCCESS: &str = "success";

/// The queries of one process.
#[derive(Default)]
pub(crate) struct QueryMetrics(Arc<Counts>);

#[derive(Default)]
struct Counts {
    /// By kind and result. Locked for a moment per query, which is nothing beside what it costs.
    results: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    seconds: [Durations; QueryKind::ALL.len()],
    samples: Counter,
    series: Counter,
}

impl QueryMetrics {
    /// Counts a query from now until the timer is dropped.
    pub(crate) fn begin(&self, kind: QueryKind) -> QueryTimer {
        QueryTimer {
            counts: Arc::clone(&self.0),
            kind,
            result: CANCELED,
            began: Instant::now(),
        }
    }

    /// Adds what a query has read.
    pub(crate) fn read(&self, stats: &Stats) {
        self.0.samples.add(stats.samples_read);
        self.0.series.add(stats.series_read);
    }

    pub(crate) fn write(&self, text: &mut TextWriter) {
        let name = "icecore_queries_total";
        let help = "Queries by kind and result, success or the type of the error.";
        text.family(name, help, MetricType::Counter);
        for ((kind, result), count) in self.0.results().iter() {
            let labels = [("kind", *kind), ("result", *result)];
            text.sample(name, &labels, *count as f64);
        }
        let name = "icecore_query_duration_seconds";
        let help = "Time until the answer to a query is there, waiting for its turn included.";
        text.family(name, help, MetricType::Histogram);
        for (kind, seconds) in std::iter::zip(QueryKind::ALL, &self.0.seconds) {
            let (counts, sum) = seconds.get();
            let labels = [("kind", kind.name())];
            text.histogram(name, &labels, &DURATION_BOUNDS, &counts, sum);
        }
        for (name, help, count) in [
            (
                "icecore_query_samples_total",
                "Samples that queries read.",
                &self.0.samples,
            ),
            (
                "icecore_query_series_total",
                "Series that queries read.",
                &self.0.series,
            ),
        ] {
            super::counter(text, name, help, count.get());
        }
    }
}

impl Counts {
    fn results(&self) -> MutexGuard<'_, BTreeMap<(&'static str, &'static str), u64>> {
        // Counters are right after any panic of their holder: nothing in between can panic halfway.
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One query under way.
pub(crate) struct QueryTimer {
    counts: Arc<Counts>,
    kind: QueryKind,
    result: &'static str,
    began: Instant,
}

impl QueryTimer {
    /// Counts the query as answered, or by the type of its error.
    pub(crate) fn ended(mut self, error_type: Option<&'static str>) {
        self.result = error_type.unwrap_or(SUCCESS);
    }
}

impl Drop for QueryTimer {
    fn drop(&mut self) {
        let key = (self.kind.name(), self.result);
        *self.counts.results().entry(key).or_default() += 1;
        let at = QueryKind::ALL.iter().position(|kind| *kind == self.kind);
        if let Some(seconds) = at.and_then(|at| self.counts.seconds.get(at)) {
            seconds.observe(self.began.elapsed().as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_counted_when_they_end() {
        let metrics = QueryMetrics::default();
        metrics.begin(QueryKind::Range).ended(None);
        metrics.begin(QueryKind::Range).ended(Some("timeout"));
        drop(metrics.begin(QueryKind::Instant));
        metrics.read(&Stats {
            samples_read: 5,
            series_read: 2,
            ..Stats::default()
        });
        let mut text = TextWriter::new();
        metrics.write(&mut text);
        let text = String::from_utf8(text.into_bytes()).unwrap();
        for line in [
            "icecore_queries_total{kind=\"range\",result=\"success\"} 1\n",
            "icecore_queries_total{kind=\"range\",result=\"timeout\"} 1\n",
            "icecore_queries_total{kind=\"instant\",result=\"canceled\"} 1\n",
            "icecore_query_duration_seconds_count{kind=\"range\"} 2\n",
            "icecore_query_duration_seconds_count{kind=\"exemplars\"} 0\n",
            "icecore_query_samples_total 5\n",
            "icecore_query_series_total 2\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
