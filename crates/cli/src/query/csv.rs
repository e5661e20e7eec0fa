//! Comma-separated values as RFC 4180 has them. By hand: quoting is four lines, and the `csv` crate
//! would need a writer and a buffer of its own for each line.

use std::collections::BTreeSet;

use super::answer::Series;
use crate::utc;

/// One line per point: its labels, the time, the value. Labels are columns, the metric name first.
pub(super) fn of_series(all: &[Series], mut line: impl FnMut(&str) -> bool) {
    let has_metric = all.iter().any(|series| !series.metric.is_empty());
    let names = label_names(all.iter().map(|series| &series.labels[..]));
    let mut head: Vec<&str> = has_metric.then_some("__name__").into_iter().collect();
    head.extend(&names);
    head.extend(["timestamp", "value"]);
    if !line(&row(head)) {
        return;
    }
    for series in all {
        let cells = label_cells(has_metric.then_some(&series.metric), &series.labels, &names);
        for point in &series.points {
            let time = utc::format_ms(point.time_ms);
            let cells = cells.iter().copied().chain([time.as_str(), &point.text]);
            if !line(&row(cells)) {
                return;
            }
        }
    }
}

/// One line per label set.
pub(super) fn of_label_sets(
    all: &[(String, Vec<(String, String)>)],
    mut line: impl FnMut(&str) -> bool,
) {
    let names = label_names(all.iter().map(|(_, labels)| &labels[..]));
    let head = ["__name__"].into_iter().chain(names.iter().copied());
    let mut go_on = line(&row(head));
    for (metric, labels) in all {
        go_on = go_on && line(&row(label_cells(Some(metric), labels, &names)));
    }
}

fn label_names<'a>(all: impl Iterator<Item = &'a [(String, String)]>) -> Vec<&'a str> {
    let names: BTreeSet<&str> = all.flatten().map(|(name, _)| name.as_str()).collect();
    names.into_iter().collect()
}

fn label_cells<'a>(
    metric: Option<&'a String>,
    labels: &'a [(String, String)],
    names: &[&str],
) -> Vec<&'a str> {
    let value = |wanted: &&str| {
        let found = labels.iter().find(|(name, _)| name == *wanted);
        found.map_or("", |(_, value)| value.as_str())
    };
    let metric = metric.map(String::as_str).into_iter();
    metric.chain(names.iter().map(value)).collect()
}

/// Cells that need quotes get them.
pub(super) fn row<'a>(cells: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = |cell: &str| {
        if cell.contains(['"', ',', '\n', '\r']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell.to_owned()
        }
    };
    let cells: Vec<String> = cells.into_iter().map(quoted).collect();
    cells.join(",")
}
