//! A retention policy, for people.

use serde_json::Value;

use crate::output::{Output, Table};
use crate::utc;

pub(super) fn status(status: &Value, output: &mut Output) -> anyhow::Result<()> {
    let policy = &status["policy"];
    if let Some(retain) = status["pending"]["retain"].as_str() {
        let pending = &status["pending"];
        let oldest = pending["oldestMs"].as_i64().map(utc::format_ms);
        let buckets = &pending["buckets"];
        output.line(&format!(
            "storage.tsdb.retention.time {retain} waits for icecore policy apply: there are {buckets} \
             older buckets, since {}.",
            oldest.unwrap_or_default()
        ))?;
    }
    if policy.is_null() {
        output.line("No retention policy: nothing is rolled up or deleted.")?;
        return Ok(());
    }
    let rows = rows(policy);
    // A server says since when; a file cannot.
    if rows.iter().any(|row| !row.since.is_empty()) {
        let mut table = Table::new(5, ["series", "level", "kept for", "columns", "since"]);
        for row in rows {
            table.row([row.series, row.level, row.kept_for, row.columns, row.since]);
        }
        table.print(output)?;
    } else {
        let mut table = Table::new(4, ["series", "level", "kept for", "columns"]);
        for row in rows {
            table.row([row.series, row.level, row.kept_for, row.columns]);
        }
        table.print(output)?;
    }
    output.line("")?;
    output.line(&rules(policy))?;
    Ok(())
}

/// How long the series of one line keep one level.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Empty where it is that of the line above.
    pub(super) series: String,
    pub(super) level: String,
    pub(super) kept_for: String,
    pub(super) columns: String,
    pub(super) since: String,
}

/// The overrides in their order, of which the first that matches counts, then all other series.
pub(super) fn rows(policy: &Value) -> Vec<Row> {
    let overrides = list(&policy["overrides"]);
    let others = if overrides.is_empty() {
        "all"
    } else {
        "all others"
    };
    let mut rows = Vec::new();
    for exception in overrides {
        rows.extend(class(text(&exception["match"]), &exception["levels"]));
    }
    rows.extend(class(others, &policy["levels"]));
    rows
}

fn class<'a>(series: &'a str, levels: &'a Value) -> impl Iterator<Item = Row> + 'a {
    let levels = list(levels).iter().enumerate();
    levels.map(move |(index, level)| {
        let since = level["keptSinceMs"].as_i64().map(utc::format_ms);
        let series = if index == 0 { series } else { "" };
        Row {
            series: series.to_owned(),
            level: text(&level["resolution"]).to_owned(),
            kept_for: match text(&level["retain"]) {
                "0" => "not kept".into(),
                "inf" => "forever".into(),
                retain => retain.into(),
            },
            columns: text(&level["columns"]).to_owned(),
            since: since.unwrap_or_default(),
        }
    })
}

/// When levels are made, and what happens to samples that come too late.
pub(super) fn rules(policy: &Value) -> String {
    let late = match text(&policy["lateData"]) {
        "merge" => "are added to the windows",
        _ => "are refused",
    };
    let late = format!("Late samples of hours whose raw samples are gone {late}.");
    match list(&policy["levels"]).len() {
        0 | 1 => late,
        _ => {
            let delay = text(&policy["rollupDelay"]);
            format!("Buckets are rolled up {delay} after their last hour has closed. {late}")
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_have_overrides_first_and_since_when() {
        let policy = json!({
            "levels": [
                {"resolution": "raw", "retain": "21d", "keptSinceMs": 1_700_006_400_000_i64},
                {"resolution": "1h", "retain": "inf", "columns": "full"},
            ],
            "rollupDelay": "2h",
            "lateData": "merge",
            "overrides": [{
                "match": "{a=\"b\"}",
                "levels": [{"resolution": "raw", "retain": "3d"}, {"resolution": "1h", "retain": "0"}],
            }],
        });
        let row = |cells: [&str; 5]| {
            let [series, level, kept_for, columns, since] = cells.map(str::to_owned);
            Row {
                series,
                level,
                kept_for,
                columns,
                since,
            }
        };
        assert_eq!(
            rows(&policy),
            [
                row(["{a=\"b\"}", "raw", "3d", "", ""]),
                row(["", "1h", "not kept", "", ""]),
                row(["all others", "raw", "21d", "", "2023-11-15T00:00:00Z"]),
                row(["", "1h", "forever", "full", ""]),
            ]
        );
        assert_eq!(
            rules(&policy),
            "Buckets are rolled up 2h after their last hour has closed. \
             Late samples of hours whose raw samples are gone are added to the windows."
        );
        // A server of another version may say less.
        assert!(rows(&json!({})).is_empty());
    }
}
