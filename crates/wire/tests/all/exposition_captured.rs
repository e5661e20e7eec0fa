//! What exporters expose that nobody here wrote, see `testdata/wire/README.md`.

use std::collections::BTreeSet;

use icecore_model::{Labels, MetricType};
use icecore_wire::exposition::{Entry, Format, Parser, ParserOptions, SeriesValue};

const TEXT: &[u8] = include_bytes!("../../../../testdata/wire/node-exporter-1.5.txt");
const PROTOBUF: &[u8] = include_bytes!("../../../../testdata/wire/node-exporter-1.5.protobuf");
const OPENMETRICS: &[u8] = include_bytes!("../../../../testdata/wire/python-client.openmetrics");

/// What a body holds.
#[derive(Default)]
struct Content {
    types: Vec<(String, MetricType)>,
    helps: usize,
    units: Vec<(String, String)>,
    series: Vec<(Labels, f64, Option<i64>)>,
    label_pairs: usize,
    exemplars: usize,
    histograms: Vec<Labels>,
}

impl Content {
    fn read(body: &[u8], format: Format, options: ParserOptions) -> Self {
        let mut content = Self::default();
        let mut parser = Parser::with_options(body, format, options);
        while let Some(entry) = parser.next().expect("the capture is valid") {
            match entry {
                Entry::Type {
                    family,
                    metric_type,
                } => content.types.push((family.into(), metric_type)),
                Entry::Help { .. } => content.helps += 1,
                Entry::Unit { family, unit } => content.units.push((family.into(), unit.into())),
                Entry::Series(series) => {
                    let mut pairs = Vec::new();
                    series.labels(&mut pairs).expect("the capture is valid");
                    content.label_pairs += pairs.len() - 1;
                    let labels = Labels::from_pairs(pairs);
                    content.exemplars += series.exemplars().filter(Result::is_ok).count();
                    match series.value {
                        SeriesValue::Float(value) => {
                            content.series.push((labels, value, series.created_ms))
                        }
                        SeriesValue::Histogram(_) => content.histograms.push(labels),
                    }
                }
            }
        }
        content
    }

    fn value(&self, series: &str) -> f64 {
        let found = self
            .series
            .iter()
            .find(|(labels, ..)| labels.to_string() == series);
        found.unwrap_or_else(|| panic!("{series} is not there")).1
    }
}

#[test]
fn node_exporter_in_text() {
    let content = Content::read(TEXT, Format::Text004, ParserOptions::default());
    let counts = (
        content.types.len(),
        content.helps,
        content.series.len(),
        content.label_pairs,
    );
    assert_eq!(counts, (283, 283, 507, 401));
    assert!(content.value("go_memstats_alloc_bytes") > 1e5);
    assert!(content.value("go_gc_duration_seconds{quantile=\"0.0\"}") >= 0.0);
    assert!(
        content
            .types
            .contains(&("node_load1".into(), MetricType::Gauge))
    );
}

#[test]
fn node_exporter_says_the_same_in_protobuf() {
    let text = Content::read(TEXT, Format::Text004, ParserOptions::default());
    let protobuf = Content::read(PROTOBUF, Format::Protobuf, ParserOptions::default());
    assert_eq!(text.types, protobuf.types);
    let names = |content: &Content| -> BTreeSet<Labels> {
        content
            .series
            .iter()
            .map(|(labels, ..)| labels.clone())
            .collect()
    };
    assert_eq!(names(&text), names(&protobuf));
    assert_eq!(
        text.value("node_memory_MemTotal_bytes"),
        protobuf.value("node_memory_MemTotal_bytes")
    );
}

#[test]
fn the_python_client_in_openmetrics() {
    let content = Content::read(OPENMETRICS, Format::OpenMetrics, ParserOptions::default());
    let counts = (
        content.types.len(),
        content.series.len(),
        content.label_pairs,
        content.exemplars,
    );
    assert_eq!(counts, (8, 131, 229, 30));
    let kinds: BTreeSet<MetricType> = content.types.iter().map(|(_, kind)| *kind).collect();
    assert_eq!(kinds.len(), 7, "every type but unknown");
    assert!(
        content
            .units
            .contains(&("answer_bytes".into(), "bytes".into()))
    );
    assert_eq!(content.value("temperature_celsius"), -3.25);
    assert_eq!(
        content.value("requests_total{method=\"GET\", path=\"/p/7\\n\\\"x\\\\\"}"),
        7.0
    );
}

#[test]
fn created_lines_of_the_python_client() {
    let options = ParserOptions {
        created_timestamps: true,
        ..ParserOptions::default()
    };
    let content = Content::read(OPENMETRICS, Format::OpenMetrics, options);
    assert_eq!(content.series.len(), 131 - 27);
    let with_created = content
        .series
        .iter()
        .filter(|(_, _, created)| created.is_some());
    // All but the gauge, the info, and the series of the enum, the state set and the gauge
    // histogram.
    assert_eq!(with_created.count(), 131 - 27 - 1 - 1 - 2 - 2 - 4);

    let options = ParserOptions {
        classic_to_custom_bounds: true,
        ..options
    };
    let content = Content::read(OPENMETRICS, Format::OpenMetrics, options);
    let names: Vec<String> = content.histograms.iter().map(Labels::to_string).collect();
    assert_eq!(
        names,
        (0..4)
            .map(|i| format!("rpc_seconds{{service=\"s{i}\"}}"))
            .collect::<Vec<_>>()
    );
    assert_eq!(content.exemplars, 30);
}
