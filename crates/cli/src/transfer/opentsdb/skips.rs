//! What a server did not take, all requests together.

use icecore_opentsdb::transfer::Skipped;
use serde_json::{Value, json};

/// Reasons that are told apart.
const REASONS_MAX: usize = 50;

struct Skip {
    reason: String,
    count: u64,
    /// Where it happened first, and what was wrong there.
    first: String,
}

#[derive(Default)]
pub(super) struct Skips(Vec<Skip>);

impl Skips {
    /// Adds what a report lists; `place` says where a line of it is.
    pub(super) fn add(&mut self, report: &Value, place: impl Fn(u64) -> String) {
        for skipped in report["rejected"].as_array().into_iter().flatten() {
            let reason = skipped["reason"].as_str().unwrap_or_default();
            let count = skipped["count"].as_u64().unwrap_or(0);
            if let Some(known) = self.0.iter_mut().find(|known| known.reason == reason) {
                known.count += count;
                continue;
            }
            if self.0.len() >= REASONS_MAX
                && let Some(last) = self.0.last_mut()
            {
                "other reasons".clone_into(&mut last.reason);
                last.count += count;
                continue;
            }
            let line = skipped["line"].as_u64().map(&place);
            let example = skipped["example"].as_str().map(str::to_owned);
            let first: Vec<String> = line.into_iter().chain(example).collect();
            self.0.push(Skip {
                reason: reason.to_owned(),
                count,
                first: first.join(": "),
            });
        }
    }

    /// Adds something that was not sent.
    pub(super) fn add_one(&mut self, skipped: &Skipped, place: &str) {
        let Skipped {
            reason,
            count,
            example,
            ..
        } = skipped;
        let entry = json!({"reason": reason, "count": count, "line": 0, "example": example});
        self.add(&json!({"rejected": [entry]}), |_| place.to_owned());
    }

    /// One line for each reason.
    pub(super) fn print(&self, what: &str) {
        for line in self.lines(what) {
            eprintln!("icecore: warning: {line}");
        }
    }

    fn lines(&self, what: &str) -> Vec<String> {
        let line = |skip: &Skip| {
            let Skip {
                reason,
                count,
                first,
            } = skip;
            let first = if first.is_empty() {
                String::new()
            } else {
                format!(" (first: {first})")
            };
            format!("{count} {what}: {reason}{first}")
        };
        self.0.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reasons_are_counted_over_all_requests() {
        let mut skips = Skips::default();
        let report = json!({"rejected": [
            {"reason": "no cell", "count": 2, "line": 3, "example": "row is missing"},
            {"reason": "late", "count": 1},
        ]});
        for before in [10, 20] {
            skips.add(&report, |line| format!("a.json line {}", before + line));
        }
        assert_eq!(
            skips.lines("skipped"),
            [
                "4 skipped: no cell (first: a.json line 13: row is missing)",
                "2 skipped: late",
            ]
        );
    }
}
