//! One table per rule. What Prometheus accepts and refuses was learned from its documentation and
//! tests.

mod openmetrics;
mod openmetrics2;
mod protobuf;
mod text;

use super::*;

/// A body as a list of short words: what tests compare.
pub(super) fn read(
    body: &[u8],
    format: Format,
    options: ParserOptions,
) -> Result<Vec<String>, String> {
    let mut parser = Parser::with_options(body, format, options);
    let mut words = Vec::new();
    while let Some(entry) = parser.next().map_err(|e| e.to_string())? {
        words.push(match entry {
            Entry::Type {
                family,
                metric_type,
            } => format!("type {family} {metric_type}"),
            Entry::Help { family, text } => format!("help {family} {text}"),
            Entry::Unit { family, unit } => format!("unit {family} {unit}"),
            Entry::Series(series) => series_word(&series)?,
        });
    }
    assert_eq!(parser.next(), Ok(None), "the end is the end");
    Ok(words)
}

fn series_word(series: &Series<'_>) -> Result<String, String> {
    let mut pairs = Vec::new();
    series.labels(&mut pairs).map_err(|e| e.to_string())?;
    let mut word = String::new();
    for (name, value) in &pairs {
        word += &format!("{name}={value} ");
    }
    match &series.value {
        SeriesValue::Float(value) => word += &format!("→ {value}"),
        SeriesValue::Histogram(histogram) => word += &format!("→ {}", histogram_word(histogram)),
    }
    if let Some(timestamp) = series.timestamp_ms {
        word += &format!(" @{timestamp}");
    }
    if let Some(created) = series.created_ms {
        word += &format!(" from {created}");
    }
    for exemplar in series.exemplars() {
        let exemplar = exemplar?;
        word += &format!(" # {} {}", exemplar.labels, exemplar.value);
        if let Some(timestamp) = exemplar.timestamp_ms {
            word += &format!(" @{timestamp}");
        }
    }
    Ok(word)
}

fn histogram_word(histogram: &Histogram) -> String {
    let spans = |spans: &[icecore_model::Span]| {
        let spans: Vec<_> = spans
            .iter()
            .map(|s| format!("{}+{}", s.offset, s.length))
            .collect();
        spans.join(",")
    };
    let mut word = format!(
        "schema {} hint {:?} zero {} sum {} {:?}",
        histogram.schema,
        histogram.reset_hint,
        histogram.zero_threshold,
        histogram.sum,
        histogram.counts
    );
    word += &format!(
        " +[{}] -[{}]",
        spans(&histogram.positive_spans),
        spans(&histogram.negative_spans)
    );
    if !histogram.custom_bounds.is_empty() {
        word += &format!(" bounds {:?}", histogram.custom_bounds);
    }
    word
}
