//! Names: which ones a document may give, and what they are called as series and labels.
//!
//! Holds always: what is made of a name is a name that PromQL reads without quotes.

use super::{Metric, MetricKind, STORED_EVENTS};

pub(super) const SERVICE_CHARS_MAX: usize = 128;
pub(super) const EVENT_CHARS_MAX: usize = 256;
const METRIC_CHARS_MAX: usize = 200;
const PATH_CHARS_MAX: usize = 512;

pub(super) const STATE_COUNT: &str = "state_count";
pub(super) const STATE_TRANSITIONS: &str = "state_transitions_total";

/// Every series has these.
const RESERVED_LABELS: [&str; 4] = ["service", "event_type", "le", "__name__"];

/// Why a text cannot name a service or an event.
pub(super) fn check_name(name: &str, chars_max: usize) -> Result<(), String> {
    if name.is_empty() {
        return Err("must not be empty".into());
    }
    if name.chars().count() > chars_max {
        return Err(format!("has more than {chars_max} characters"));
    }
    if name.chars().any(char::is_control) {
        return Err("has a control character".into());
    }
    if name.trim() != name {
        return Err("begins or ends with a blank".into());
    }
    Ok(())
}

/// Why a text cannot name a metric.
pub(super) fn check_metric_name(name: &str) -> Result<(), String> {
    check_name(name, METRIC_CHARS_MAX)?;
    if name.contains(':') {
        return Err("has a colon, which names of windows are set apart by".into());
    }
    Ok(())
}

/// Why a text cannot be the path of an attribute.
pub(super) fn check_path(path: &str) -> Result<(), String> {
    check_name(path, PATH_CHARS_MAX)?;
    if path.split('.').any(str::is_empty) {
        return Err("has a dot with no name before or behind it".into());
    }
    Ok(())
}

/// Why a text cannot be a label of a series.
pub(super) fn check_label(label: &str) -> Result<(), String> {
    if label.is_empty() || sanitized(label) != label {
        return Err(
            "is no label: letters, digits and underscores, not beginning with a digit".into(),
        );
    }
    if RESERVED_LABELS.contains(&label) {
        return Err(format!("makes the label {label}, which every series has"));
    }
    Ok(())
}

/// The label of a dimension that has no alias: `order_channel` of `order.channel`.
pub fn label_of(path: &str) -> String {
    sanitized(path)
}

/// The name of a metric's series, without a suffix of its kind.
pub fn series_of(name: &str) -> String {
    sanitized(name)
}

fn sanitized(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let first_is_digit = name.starts_with(|c: char| c.is_ascii_digit());
    let start = first_is_digit.then_some('_');
    let rest = name.chars().map(|c| if is_plain(c) { c } else { '_' });
    start.into_iter().chain(rest).collect()
}

impl Metric {
    /// The names of its series: `orders_total`; `latency_bucket`, `latency_sum`, `latency_count`;
    /// `stock_level`.
    pub fn series_names(&self) -> Vec<String> {
        let series = &self.series;
        match self.kind {
            MetricKind::Counter { .. } if series.ends_with("_total") => vec![series.clone()],
            MetricKind::Counter { .. } => vec![format!("{series}_total")],
            MetricKind::Histogram { .. } => {
                let suffixes = ["bucket", "sum", "count"];
                suffixes.map(|suffix| format!("{series}_{suffix}")).into()
            }
            MetricKind::Gauge { .. } => vec![series.clone()],
        }
    }
}

/// Whether a series is one that the registry makes itself.
pub(super) fn is_built_in(series: &str) -> bool {
    [STORED_EVENTS, STATE_COUNT, STATE_TRANSITIONS].contains(&series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_series_are_plain_names() {
        for (path, label) in [
            ("order.channel", "order_channel"),
            ("http.5xx", "http_5xx"),
            ("5xx", "_5xx"),
            ("größe", "gr__e"),
            ("a-b c", "a_b_c"),
        ] {
            assert_eq!(label_of(path), label);
            check_label(label).unwrap();
        }
        for label in ["service", "event_type", "le", "__name__", "", "a-b", "1a"] {
            assert!(check_label(label).is_err(), "{label}");
        }
    }

    #[test]
    fn names_that_could_be_misread_are_refused() {
        for name in ["", " a", "a ", "a\nb", "a\0b", "a:b", &"x".repeat(201)] {
            assert!(check_metric_name(name).is_err(), "{name:?}");
        }
        check_metric_name("Aufträge pro Tag").unwrap();
        // Nested events without a name are called so.
        check_name("order.placed:event", EVENT_CHARS_MAX).unwrap();
        for path in ["", ".", "a.", ".a", "a..b", "a\tb"] {
            assert!(check_path(path).is_err(), "{path:?}");
        }
    }
}
