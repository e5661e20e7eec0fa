use std::sync::Arc;

use super::*;
use crate::script::expect::TextPattern;
use crate::script::series::parse_series;

fn expected(lines: &[&str]) -> Expectation {
    let mut expected = Expectation::default();
    for line in lines {
        let (labels, points) = parse_series(line).unwrap();
        expected.add_series(labels, points);
    }
    expected
}

fn vector(lines: &[&str]) -> QueryValue {
    let samples = lines.iter().map(|line| {
        let (labels, points) = parse_series(line).unwrap();
        let value = match &points[0] {
            Point::Float(value) => SampleValue::Float(*value),
            Point::Histogram(h) => SampleValue::Histogram(Arc::new(h.histogram.clone())),
            Point::Missing => panic!("a vector has no missing values"),
        };
        VectorSample {
            labels,
            time_ms: 0,
            value,
        }
    });
    QueryValue::Vector(samples.collect())
}

/// A matrix with a step of one second.
fn matrix(lines: &[&str]) -> QueryValue {
    let series = lines.iter().map(|line| {
        let (labels, points) = parse_series(line).unwrap();
        let (mut floats, mut histograms) = (Vec::new(), Vec::new());
        for (i, point) in points.iter().enumerate() {
            let time = i as i64 * 1000;
            match point {
                Point::Missing => {}
                Point::Float(value) => floats.push((time, *value)),
                Point::Histogram(h) => histograms.push((time, Arc::new(h.histogram.clone()))),
            }
        }
        MatrixSeries::of_samples(labels, floats, histograms)
    });
    QueryValue::Matrix(series.collect())
}

const MOMENTS: TimeRange = TimeRange {
    start_ms: 0,
    end_ms: 2000,
    step_ms: 1000,
};

#[track_caller]
fn check(expected: &Expectation, value: &QueryValue, difference: &str) {
    match check_value(expected, Some(MOMENTS), value) {
        Ok(()) => assert_eq!("", difference),
        Err(found) => assert!(
            !difference.is_empty() && found.contains(difference),
            "found: {found}"
        ),
    }
}

#[test]
fn floats_as_go_compares_them() {
    let stale = f64::from_bits(icecore_model::STALE_NAN_BITS);
    for (a, b) in [
        (1.0, 1.0000019),
        (0.0, -0.0),
        (f64::NAN, -f64::NAN),
        (stale, stale),
        (f64::INFINITY, f64::INFINITY),
        (1e308, 1.0000001e308),
    ] {
        assert!(almost_equal(a, b), "{a} {b}");
    }
    for (a, b) in [
        (1.0, 1.000003),
        (0.0, 1e-300),
        (f64::NAN, 0.0),
        (stale, f64::NAN),
        (f64::INFINITY, f64::NEG_INFINITY),
        (f64::INFINITY, 1.0),
    ] {
        assert!(!almost_equal(a, b), "{a} {b}");
    }
}

#[test]
fn vectors() {
    let two = expected(&["m{a=\"1\"} 1", "m{a=\"2\"} {{count:3}}"]);
    check(
        &two,
        &vector(&["m{a=\"2\"} {{count:3}}", "m{a=\"1\"} 1"]),
        "",
    );
    check(
        &two,
        &vector(&["m{a=\"1\"} 1"]),
        "which is not in the result",
    );
    check(
        &two,
        &vector(&["m{a=\"1\"} 2"]),
        "expected m{a=\"1\"} 1, but got 2",
    );
    check(&two, &vector(&["m{a=\"1\"} {{}}"]), "but got {{}}");
    check(
        &two,
        &vector(&["m{a=\"2\"} {{count:4}}"]),
        "but got {{count:4}}",
    );
    check(&two, &vector(&["m{a=\"3\"} 1"]), "unexpected m{a=\"3\"}");
    check(
        &two,
        &vector(&["m{a=\"1\"} 1", "m{a=\"1\"} 1"]),
        "duplicate m",
    );
    check(&expected(&[]), &vector(&[]), "");
    let ordered = Expectation {
        ordered: true,
        ..two
    };
    check(
        &ordered,
        &vector(&["m{a=\"1\"} 1", "m{a=\"2\"} {{count:3}}"]),
        "",
    );
    check(
        &ordered,
        &vector(&["m{a=\"2\"} {{count:3}}", "m{a=\"1\"} 1"]),
        "at place",
    );
    check(&ordered, &matrix(&[]), "ordered");
}

#[test]
fn matrices() {
    let one = expected(&["m 1 _ {{count:2}}"]);
    check(&one, &matrix(&["m 1 _ {{count:2}}"]), "");
    check(
        &one,
        &matrix(&["m 1 {{count:2}}"]),
        "expected {{count:2}} at 2000",
    );
    check(&one, &matrix(&["m 1 2 {{count:2}}"]), "expected 1 floats");
    check(
        &one,
        &matrix(&["m 5 _ {{count:2}}"]),
        "expected 1 at 0, but got 5 at 0",
    );
    check(
        &one,
        &matrix(&["m _ 1 {{count:2}}"]),
        "expected 1 at 0, but got 1 at 1000",
    );
    check(&one, &matrix(&["n 1"]), "unexpected n");
    check(
        &expected(&["m 1x3"]),
        &matrix(&["m 1x3"]),
        "more than the time range has",
    );
    check(&one, &matrix(&["n 1", "m 1"]), "sorted by labels");
}

#[test]
fn scalars_and_strings() {
    let scalar = |value| QueryValue::Scalar { time_ms: 0, value };
    let text = |text: &str| QueryValue::Text {
        time_ms: 0,
        text: text.to_owned(),
    };
    let want = |value| Expectation {
        value,
        ..Expectation::default()
    };
    check(&want(ExpectedValue::Scalar(1.0)), &scalar(1.0), "");
    check(
        &want(ExpectedValue::Scalar(1.0)),
        &scalar(2.0),
        "expected the scalar 1",
    );
    check(
        &want(ExpectedValue::Scalar(1.0)),
        &vector(&[]),
        "but got a vector",
    );
    check(&want(ExpectedValue::Text("a".into())), &text("a"), "");
    check(
        &want(ExpectedValue::Text("a".into())),
        &text("b"),
        "but got the string \"b\"",
    );
    check(
        &expected(&[]),
        &scalar(1.0),
        "expected series, but got the scalar 1",
    );
}

#[test]
fn annotations() {
    let annotations = |patterns: Vec<TextPattern>, none| ExpectedAnnotations { patterns, none };
    let (a, b) = ("a (1:1)".to_owned(), "b (1:2)".to_owned());
    let exactly = |text: &str| TextPattern::Exactly(text.to_owned());
    let ok = |expected: &ExpectedAnnotations, found: &[String]| {
        check_annotations(expected, "warning", found).is_ok()
    };
    assert!(ok(&annotations(vec![], false), std::slice::from_ref(&a)));
    assert!(!ok(&annotations(vec![], true), std::slice::from_ref(&a)));
    assert!(ok(&annotations(vec![], true), &[]));
    assert!(ok(
        &annotations(vec![TextPattern::Any], false),
        std::slice::from_ref(&a)
    ));
    assert!(!ok(&annotations(vec![TextPattern::Any], false), &[]));
    assert!(ok(
        &annotations(vec![exactly(&a)], false),
        std::slice::from_ref(&a)
    ));
    assert!(!ok(
        &annotations(vec![exactly(&a)], false),
        &[a.clone(), b.clone()]
    ));
    assert!(ok(
        &annotations(vec![exactly(&a), exactly(&b)], false),
        &[a.clone(), b]
    ));
    assert!(!ok(&annotations(vec![exactly("a")], false), &[a]));
}
