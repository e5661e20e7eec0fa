//! A remote write request as plain values, and the events it must become.

use icecore_model::{
    Exemplar, Histogram, HistogramCounts, Labels, Metadata, MetricType, Sample, Span,
};

use crate::sink::Event;

#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) series: Vec<Series>,
    /// Version 1.0 only; in 2.0 metadata belongs to a series.
    pub(crate) metadata: Vec<(String, Metadata)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) exemplars: Vec<SentExemplar>,
    pub(crate) histograms: Vec<SentHistogram>,
    /// Version 2.0 only.
    pub(crate) metadata: Metadata,
    /// Version 2.0 only.
    pub(crate) created_timestamp_ms: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct SentExemplar {
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) timestamp_ms: i64,
    pub(crate) value: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct SentHistogram {
    pub(crate) timestamp_ms: i64,
    pub(crate) start_timestamp_ms: i64,
    pub(crate) histogram: Histogram,
}

impl Request {
    /// What 1.0 makes of it: it has no start timestamps and no metadata per series.
    pub(crate) fn events_v1(&self) -> Vec<Event> {
        let series = self.series.iter().flat_map(|series| series.events(|_| 0));
        let metadata = self
            .metadata
            .iter()
            .map(|(family, metadata)| Event::Metadata(family.clone(), metadata.clone()));
        series.chain(metadata).collect()
    }

    /// What 2.0 makes of it.
    pub(crate) fn events_v2(&self) -> Vec<Event> {
        let mut events = Vec::new();
        let mut last = None;
        for series in &self.series {
            let created = series.created_timestamp_ms;
            events.extend(series.events(|start| if start == 0 { created } else { start }));
            let name = series.labels.iter().find(|(name, _)| name == "__name__");
            if let Some((_, family)) = name
                && series.metadata != Metadata::default()
            {
                let metadata = Event::Metadata(family.clone(), series.metadata.clone());
                if last.as_ref() != Some(&metadata) {
                    events.push(metadata.clone());
                    last = Some(metadata);
                }
            }
        }
        events
    }
}

impl Series {
    fn events(&self, start_of: impl Fn(i64) -> i64) -> Vec<Event> {
        let mut events = vec![Event::Series(self.labels.clone())];
        for sample in &self.samples {
            let start = start_of(sample.start_timestamp_ms);
            events.push(Event::sample(sample.timestamp_ms, start, sample.value));
        }
        for sent in &self.exemplars {
            events.push(Event::Exemplar(Exemplar {
                labels: Labels::from_pairs(sent.labels.iter().map(|(n, v)| (n, v))),
                timestamp_ms: sent.timestamp_ms,
                value: sent.value,
            }));
        }
        for sent in &self.histograms {
            let start = start_of(sent.start_timestamp_ms);
            events.push(Event::histogram(sent.timestamp_ms, start, &sent.histogram));
        }
        events
    }
}

pub(crate) fn pairs(labels: &[(&str, &str)]) -> Vec<(String, String)> {
    labels
        .iter()
        .map(|(n, v)| (n.to_string(), v.to_string()))
        .collect()
}

pub(crate) fn sample(timestamp_ms: i64, value: f64) -> Sample {
    Sample {
        timestamp_ms,
        value,
        start_timestamp_ms: 0,
    }
}

pub(crate) fn metadata(metric_type: MetricType, help: &str, unit: &str) -> Metadata {
    Metadata {
        metric_type,
        unit: unit.into(),
        help: help.into(),
        ..Metadata::default()
    }
}

pub(crate) fn integer_histogram() -> Histogram {
    Histogram {
        schema: 3,
        reset_hint: icecore_model::CounterResetHint::NotReset,
        zero_threshold: 1e-128,
        sum: 18.4,
        counts: HistogramCounts::Integer {
            count: 12,
            zero_count: 2,
            positive_deltas: vec![1, 1, -1, 0],
            negative_deltas: vec![3, -1],
        },
        positive_spans: vec![
            Span {
                offset: -2,
                length: 2,
            },
            Span {
                offset: 1,
                length: 2,
            },
        ],
        negative_spans: vec![Span {
            offset: 0,
            length: 2,
        }],
        custom_bounds: [].into(),
    }
}

pub(crate) fn float_histogram() -> Histogram {
    Histogram {
        schema: -53,
        reset_hint: icecore_model::CounterResetHint::Gauge,
        zero_threshold: 0.0,
        sum: -4.25,
        counts: HistogramCounts::Float {
            count: 3.5,
            zero_count: 0.0,
            positive: vec![1.25, 2.25],
            negative: vec![],
        },
        positive_spans: vec![Span {
            offset: 1,
            length: 2,
        }],
        negative_spans: vec![],
        custom_bounds: [0.5, 1.0, 2.0].into(),
    }
}
