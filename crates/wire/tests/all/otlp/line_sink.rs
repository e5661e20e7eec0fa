//! A sink that records each call as a readable line.

use icecore_model::{
    Exemplar, Histogram, HistogramCounts, Metadata, RawLabels, STALE_NAN_BITS, Sample, SampleSink,
    Span, Temporality,
};
use icecore_wire::otlp::{Translation, decode_metrics};

#[derive(Default)]
pub(crate) struct LineSink {
    pub(crate) lines: Vec<String>,
    pub(crate) samples: usize,
    pub(crate) refused: usize,
    pub(crate) guesses: usize,
    only_counting: bool,
    series: String,
    /// Label bytes of the series that is announced, which a guess is compared with.
    known: Vec<Vec<u8>>,
    pub(crate) announced: Vec<Vec<u8>>,
}

impl LineSink {
    pub(crate) fn counting() -> Self {
        Self {
            only_counting: true,
            ..Self::default()
        }
    }

    /// Guesses as a head does: the series that followed in an earlier request.
    pub(crate) fn knowing(known: Vec<Vec<u8>>) -> Self {
        Self {
            known,
            ..Self::default()
        }
    }

    fn push(&mut self, line: String) {
        if !self.only_counting {
            self.lines.push(line);
        }
    }

    fn announce(&mut self, bytes: &[u8]) {
        let mut pairs = Vec::new();
        RawLabels(bytes)
            .parse(&mut pairs)
            .expect("the decoder writes valid labels");
        assert!(pairs.is_sorted_by(|a, b| a.0 < b.0), "{pairs:?}");
        assert!(
            pairs.iter().all(|(_, value)| !value.is_empty()),
            "{pairs:?}"
        );
        let name = pairs
            .iter()
            .find(|(name, _)| *name == "__name__")
            .expect("a name");
        let labels = pairs.iter().filter(|(name, _)| *name != "__name__");
        let labels: Vec<_> = labels
            .map(|(name, value)| format!("{name}={value:?}"))
            .collect();
        self.series = format!("{}{{{}}}", name.1, labels.join(","));
        self.announced.push(bytes.to_vec());
    }

    fn value(&mut self, kind: &str, value: String, timestamp_ms: i64, start_ms: i64) {
        let since = match start_ms {
            0 => String::new(),
            start_ms => format!(" since {start_ms}"),
        };
        self.samples += 1;
        let series = &self.series;
        self.push(format!("{series} {kind}{value} @{timestamp_ms}{since}"));
    }
}

impl SampleSink for LineSink {
    fn guess_series(&mut self, bytes: &[u8]) -> Option<usize> {
        let known = self.known.get(self.announced.len())?;
        if !bytes.starts_with(known) {
            return None;
        }
        self.guesses += 1;
        let length = known.len();
        if length == bytes.len() {
            self.announce(bytes);
        }
        Some(length)
    }

    fn series(&mut self, labels: RawLabels<'_>) {
        self.announce(labels.0);
    }

    fn sample(&mut self, sample: Sample) {
        let value = match sample.value.to_bits() {
            STALE_NAN_BITS => "stale".into(),
            _ => sample.value.to_string(),
        };
        self.value("", value, sample.timestamp_ms, sample.start_timestamp_ms);
    }

    fn delta(&mut self, change: Sample) {
        let value = change.value.to_string();
        self.value(
            "delta ",
            value,
            change.timestamp_ms,
            change.start_timestamp_ms,
        );
    }

    fn histogram(&mut self, timestamp_ms: i64, start_ms: i64, histogram: Histogram) {
        self.value("histogram ", described(&histogram), timestamp_ms, start_ms);
    }

    fn delta_histogram(&mut self, timestamp_ms: i64, start_ms: i64, change: Histogram) {
        self.value(
            "delta histogram ",
            described(&change),
            timestamp_ms,
            start_ms,
        );
    }

    fn exemplar(&mut self, exemplar: Exemplar) {
        let labels = exemplar.labels.iter();
        let labels: Vec<_> = labels
            .map(|(name, value)| format!("{name}={value:?}"))
            .collect();
        let Exemplar {
            timestamp_ms,
            value,
            ..
        } = exemplar;
        let series = &self.series;
        self.push(format!(
            "{series} exemplar {{{}}} {value} @{timestamp_ms}",
            labels.join(",")
        ));
    }

    fn point(&mut self) {
        self.push("point".into());
    }

    fn metadata(&mut self, family: &str, metadata: Metadata) {
        let Metadata {
            metric_type,
            unit,
            temporality,
            monotonic,
            ..
        } = metadata;
        let monotonic = if monotonic { " monotonic" } else { "" };
        let temporality: Temporality = temporality;
        self.push(format!(
            "meta {family} {metric_type} unit={unit} {temporality:?}{monotonic}"
        ));
    }

    fn reject(&mut self, reason: String) {
        self.refused += 1;
        self.push(format!("refused {reason}"));
    }
}

fn described(histogram: &Histogram) -> String {
    let HistogramCounts::Integer {
        count,
        zero_count,
        positive_deltas,
        negative_deltas,
    } = &histogram.counts
    else {
        panic!("OTLP has whole counts");
    };
    let spans = |spans: &[Span]| {
        let spans: Vec<_> = spans
            .iter()
            .map(|s| format!("{}:{}", s.offset, s.length))
            .collect();
        spans.join(",")
    };
    let numbers = |numbers: &[i64]| {
        let numbers: Vec<_> = numbers.iter().map(i64::to_string).collect();
        numbers.join(",")
    };
    let zero_threshold = match histogram.zero_threshold {
        0.0 => "0".into(),
        threshold => format!("{threshold:e}"),
    };
    format!(
        "schema={} sum={} count={count} zero={zero_count}/{zero_threshold} +[{}][{}] -[{}][{}] bounds={:?}",
        histogram.schema,
        histogram.sum,
        spans(&histogram.positive_spans),
        numbers(positive_deltas),
        spans(&histogram.negative_spans),
        numbers(negative_deltas),
        histogram.custom_bounds,
    )
}

pub(crate) fn lines(body: &[u8]) -> Vec<String> {
    lines_with(body, &Translation::default())
}

/// What a sink is sink, first when it knows nothing and then when it has seen the request before.
#[track_caller]
pub(crate) fn lines_with(body: &[u8], translation: &Translation) -> Vec<String> {
    let mut sink = LineSink::default();
    let decoded = decode_metrics(body, translation, &mut sink).expect("the request is valid");
    let points = sink.lines.iter().filter(|line| *line == "point").count();
    assert_eq!(decoded.points, points as u64);
    let mut knowing = LineSink::knowing(sink.announced.clone());
    decode_metrics(body, translation, &mut knowing).expect("the request is valid");
    assert_eq!(knowing.lines, sink.lines);
    assert_eq!(knowing.guesses, sink.announced.len());
    sink.lines
}
