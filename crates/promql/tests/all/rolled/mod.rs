//! Queries over rolled-up time, compared with the same over samples.

mod differential;
mod examples;
mod histogram_properties;
mod histograms;
mod notes;
mod properties;

use std::sync::atomic::AtomicBool;

use futures::executor::block_on;
use icecore_model::rollup::Resolution;
use icecore_model::{Labels, SeriesSource};
use icecore_promql::script::{LoadedSample, LoadedValue};
use icecore_promql::testing::{KeptTime, RolledSource};
use icecore_promql::{
    Answer, Engine, Error, MemorySource, QueryTime, QueryValue, Request, SampleValue,
};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;

fn labels(name: &str) -> Labels {
    Labels::from_pairs([("__name__", name)])
}

fn add(source: &mut MemorySource, labels: &Labels, samples: &[(i64, f64)]) {
    for (timestamp_ms, value) in samples {
        let sample = LoadedSample {
            timestamp_ms: *timestamp_ms,
            value: LoadedValue::Float(*value),
            start_ms: None,
        };
        source.add(labels, sample);
    }
}

/// One series `x`.
fn memory(samples: &[(i64, f64)]) -> MemorySource {
    let mut source = MemorySource::default();
    add(&mut source, &labels("x"), samples);
    source
}

/// Everything up to `until_ms` at one level, samples after that.
fn rolled(samples: &MemorySource, resolution: Resolution, until_ms: i64) -> RolledSource {
    RolledSource {
        reads_before_ms: 0,
        samples: samples.clone(),
        kept: vec![
            KeptTime::at(-1000 * HOUR_MS, until_ms, resolution),
            KeptTime::at(until_ms, 100_000 * HOUR_MS, Resolution::RAW),
        ],
    }
}

fn request(query: &str, time: QueryTime) -> Request {
    Request {
        query: query.to_string(),
        time,
        lookback_ms: None,
        limit: None,
        timeout: None,
        counts_touched: false,
        max_source_resolution: None,
        rollup_strict: false,
    }
}

fn execute(source: &dyn SeriesSource, request: &Request) -> Result<Answer, Error> {
    block_on(Engine::default().execute(source, request, &AtomicBool::new(false)))
}

fn answer(source: &dyn SeriesSource, query: &str, time_ms: i64) -> Answer {
    let request = request(query, QueryTime::Instant { time_ms });
    execute(source, &request).unwrap_or_else(|error| panic!("{query}: {error}"))
}

/// The value of the only series, if there is one.
fn value(source: &dyn SeriesSource, query: &str, time_ms: i64) -> Option<f64> {
    let QueryValue::Vector(samples) = answer(source, query, time_ms).value else {
        panic!("not a vector: {query}");
    };
    match samples.as_slice() {
        [] => None,
        [sample] => match sample.value {
            SampleValue::Float(value) => Some(value),
            SampleValue::Histogram(_) => panic!("a histogram: {query}"),
        },
        more => panic!("{} series: {query}", more.len()),
    }
}

/// All values of a range query, by series and time.
fn matrix(source: &dyn SeriesSource, request: &Request) -> Vec<(Labels, Vec<(i64, f64)>)> {
    let answer = execute(source, request).unwrap_or_else(|e| panic!("{}: {e}", request.query));
    let QueryValue::Matrix(series) = answer.value else {
        panic!("not a matrix: {}", request.query);
    };
    let of_series =
        |series: &icecore_promql::MatrixSeries| (series.labels.clone(), series.floats().collect());
    series.iter().map(of_series).collect()
}

fn is_close(a: f64, b: f64) -> bool {
    if a.is_nan() || b.is_nan() {
        return a.is_nan() && b.is_nan();
    }
    a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}
