//! Tests of the generator.

use super::*;
use crate::parse::{Expr, ValueType, parse};

fn vocabulary() -> Vocabulary {
    let texts = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
    let metric = |name: &str, kind| (name.to_string(), kind);
    Vocabulary {
        metrics: vec![
            metric("requests_total", MetricKind::Counter),
            metric("temperature", MetricKind::Gauge),
            metric("latency_bucket", MetricKind::Buckets),
            metric("latency", MetricKind::NativeHistogram),
        ],
        labels: vec![
            ("job".to_string(), texts(&["api", "web"])),
            ("instance".to_string(), texts(&["a", "b", "c"])),
        ],
        times: texts(&["1700000000.5"]),
    }
}

fn generator(seed: u64, language: Language, hostile: bool) -> QueryGenerator {
    let options = Options {
        language,
        depth: 4,
        hostile,
    };
    QueryGenerator::new(seed, vocabulary(), options)
}

#[test]
fn every_query_parses() {
    for language in [Language::Prometheus2, Language::Everything] {
        for hostile in [false, true] {
            let mut generator = generator(1, language, hostile);
            for _ in 0..3000 {
                let query = generator.query();
                let expr = parse(&query).unwrap_or_else(|error| panic!("{query}\n{error}"));
                assert!(
                    matches!(expr.value_type(), ValueType::Scalar | ValueType::Vector),
                    "{query}"
                );
                let query = generator.range_query();
                let expr = parse(&query).unwrap_or_else(|error| panic!("{query}\n{error}"));
                assert_eq!(expr.value_type(), ValueType::Matrix, "{query}");
            }
        }
    }
}

#[test]
fn a_seed_decides_the_queries() {
    let queries = |seed| {
        let mut generator = generator(seed, Language::Everything, false);
        std::array::from_fn::<String, 20, _>(|_| generator.query())
    };
    assert_eq!(queries(7), queries(7));
    assert_ne!(queries(7), queries(8));
}

#[test]
fn usual_shapes_are_frequent() {
    let mut generator = generator(3, Language::Prometheus2, false);
    let queries: Vec<String> = (0..1000).map(|_| generator.query()).collect();
    for shape in [
        "sum by (",
        "(rate(",
        " on (",
        "ignoring",
        "group_left",
        "s:",
        " offset ",
        " @ ",
        "histogram_quantile(",
        "topk",
        " bool ",
        " unless",
        " or ",
        "label_replace(",
        "absent",
    ] {
        let count = queries.iter().filter(|query| query.contains(shape)).count();
        assert!(count >= 20, "{shape} is in {count} of 1000 queries");
    }
}

#[test]
fn older_language_has_no_newer_words() {
    let mut generator = generator(4, Language::Prometheus2, false);
    for _ in 0..3000 {
        let query = generator.query();
        for word in [
            "fill", "smoothed", "anchored", "limit", "info(", "mad_", "_of(",
        ] {
            assert!(!query.contains(word), "{query}");
        }
    }
}

#[test]
fn depth_is_bounded() {
    let mut generator = generator(5, Language::Everything, true);
    for _ in 0..3000 {
        let query = generator.query();
        assert!(query.len() < 20_000, "{} bytes", query.len());
        // What parses has a limited height; this looks at an expression only to say so.
        assert!(!matches!(parse(&query), Ok(Expr::String(_))));
    }
}
