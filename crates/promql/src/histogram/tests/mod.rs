//! Tests with histograms in the syntax of test scripts.

mod properties;
mod scripted;

use icecore_model::{CounterResetHint, Span};

use super::FloatHistogram;

/// Reads `schema:0 sum:5 count:4 buckets:[1 2 1]`, the text in double braces of a script.
fn histogram(text: &str) -> FloatHistogram {
    let mut histogram = FloatHistogram::default();
    let (mut offset, mut negative_offset) = (0, 0);
    for (name, value) in properties_of(text) {
        let number = || value.parse::<f64>().unwrap();
        match name {
            "schema" => histogram.schema = value.parse().unwrap(),
            "sum" => histogram.sum = number(),
            "count" => histogram.count = number(),
            "z_bucket" => histogram.zero_count = number(),
            "z_bucket_w" => histogram.zero_threshold = number(),
            "offset" => offset = value.parse().unwrap(),
            "n_offset" => negative_offset = value.parse().unwrap(),
            "buckets" => histogram.positive = list(value),
            "n_buckets" => histogram.negative = list(value),
            "custom_values" => histogram.custom_bounds = list(value).into(),
            "hint" => {
                histogram.reset_hint = match value {
                    "gauge" => CounterResetHint::Gauge,
                    "reset" => CounterResetHint::Reset,
                    _ => CounterResetHint::NotReset,
                }
            }
            _ => panic!("unknown property {name}"),
        }
    }
    histogram.positive_spans = span(offset, &histogram.positive);
    histogram.negative_spans = span(negative_offset, &histogram.negative);
    histogram
}

fn properties_of(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text.trim();
    std::iter::from_fn(move || {
        let (name, after) = rest.split_once(':')?;
        let end = if after.starts_with('[') {
            after.find(']').unwrap() + 1
        } else {
            after.find(' ').unwrap_or(after.len())
        };
        rest = after[end..].trim_start();
        Some((name, &after[..end]))
    })
}

fn list(text: &str) -> Vec<f64> {
    let numbers = text.trim_matches(['[', ']']).split_whitespace();
    numbers.map(|number| number.parse().unwrap()).collect()
}

fn span(offset: i32, counts: &[f64]) -> Vec<Span> {
    let length = counts.len() as u32;
    (length > 0)
        .then_some(Span { offset, length })
        .into_iter()
        .collect()
}

/// The two agree within a relative 1e-6, as scripts compare.
#[track_caller]
fn assert_near(found: f64, expected: f64) {
    let near = (found.is_nan() && expected.is_nan())
        || found == expected
        || (found - expected).abs() <= 1e-6 * found.abs().max(expected.abs());
    assert!(near, "found {found}, expected {expected}");
}

/// The same for histograms without their empty buckets.
#[track_caller]
fn assert_same(found: &FloatHistogram, expected: &str) {
    let mut found = found.clone();
    let mut expected = histogram(expected);
    found.compact(0);
    expected.compact(0);
    let context = format!("{} and {}", found.script_text(), expected.script_text());
    assert_eq!(found.schema, expected.schema, "{context}");
    assert_eq!(found.positive_spans, expected.positive_spans, "{context}");
    assert_eq!(found.negative_spans, expected.negative_spans, "{context}");
    assert_eq!(found.custom_bounds, expected.custom_bounds, "{context}");
    assert_near(found.zero_threshold, expected.zero_threshold);
    for (found, expected) in numbers(&found).zip(numbers(&expected)) {
        assert_near(found, expected);
    }
}

fn numbers(histogram: &FloatHistogram) -> impl Iterator<Item = f64> + '_ {
    let totals = [histogram.count, histogram.sum, histogram.zero_count];
    let buckets = histogram.positive.iter().chain(&histogram.negative);
    totals.into_iter().chain(buckets.copied())
}
