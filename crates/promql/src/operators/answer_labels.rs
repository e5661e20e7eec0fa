//! The labels of an answer: delayed removal of names, order, text.

use std::cmp::Ordering;

use icecore_model::Labels;

use super::label_key::{is_metric_label, without_name};
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

/// The labels of a set as Prometheus' errors write them: the metric name among the others.
pub(super) fn text_of(labels: &Labels) -> String {
    let pairs: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    format!("{{{}}}", pairs.join(", "))
}
