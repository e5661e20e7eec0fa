//! The labels of an answer: delayed removal of names, order, text.

use std::cmp::Ordering;

use icecore_model::Labels;

use super::label_key::{is_metric_label, without_name};
use crate::annotations::shortened;
use crate::exec::Row;

/// Removes the metric names that functions dropped, at the end of the evaluation.
pub(crate) fn drop_names(rows: &mut [Row]) {
    for row in rows.iter_mut().filter(|row| row.drop_name) {
        if row.labels.iter().any(|(name, _)| is_metric_label(name)) {
            row.labels = without_name(&row.labels);
        }
        row.drop_name = false;
    }
}

/// The order of an answer's series: label by label, as Prometheus compares them.
pub(crate) fn answer_order(a: &Labels, b: &Labels) -> Ordering {
    a.iter().cmp(b.iter())
}

/// Most labels of a set that an error shows. Texts of labels are cut, too.
const SHOWN_LABELS_MAX: usize = 64;

/// The labels of a set as Prometheus' errors write them: the metric name among the others.
pub(super) fn text_of(labels: &Labels) -> String {
    let mut pairs: Vec<String> = labels
        .iter()
        .take(SHOWN_LABELS_MAX)
        .map(|(name, value)| format!("{}={:?}", shortened(name), shortened(value)))
        .collect();
    if labels.len() > SHOWN_LABELS_MAX {
        pairs.push("…".to_owned());
    }
    format!("{{{}}}", pairs.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_in_errors_have_an_end() {
        let labels = Labels::from_pairs([("__name__", "m"), ("a", "\"1\"")]);
        assert_eq!(text_of(&labels), r#"{__name__="m", a="\"1\""}"#);
        let value = "\u{1}".repeat(30_000);
        let pairs = (0..100).map(|i| (format!("label{i}"), value.as_str()));
        let text = text_of(&Labels::from_pairs(pairs));
        assert!(
            text.len() < 500_000 && text.ends_with(", …}"),
            "{}",
            text.len()
        );
    }
}
