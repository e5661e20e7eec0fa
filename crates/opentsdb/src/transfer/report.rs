//! What was moved, and what was not.

use icecore_model::WriteOutcome;
use icecore_wire::prometheus::api_json::{write_list, write_string};

/// Reasons that are told apart; further ones are counted together.
const REASONS_MAX: usize = 32;

const OTHER_REASONS: &str = "other reasons";

/// Something that was not moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub reason: String,
    pub count: u64,
    /// The first line that this happened in, counted from 1.
    pub line: Option<u64>,
    /// What was wrong there; may be empty.
    pub example: String,
}

/// What became of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub lines: u64,
    pub samples: u64,
    pub histograms: u64,
    /// UIDs that are new here.
    pub names: u64,
    /// Meta data, annotations, and what trees have.
    pub records: u64,
    pub skipped: Vec<Skipped>,
}

impl Report {
    /// Counts something that is passed over.
    pub(super) fn skip(&mut self, skipped: Skipped) {
        let known = self.skipped.iter_mut();
        if let Some(known) = { known }.find(|known| known.reason == skipped.reason) {
            known.count += skipped.count;
        } else if self.skipped.len() < REASONS_MAX {
            self.skipped.push(skipped);
        } else if let Some(last) = self.skipped.last_mut() {
            OTHER_REASONS.clone_into(&mut last.reason);
            last.count += skipped.count;
        }
    }

    /// Counts what a store has taken.
    pub(super) fn stored(&mut self, outcome: WriteOutcome) {
        self.samples += outcome.samples;
        self.histograms += outcome.histograms;
        for rejection in outcome.rejected {
            self.skip(Skipped {
                reason: rejection.reason,
                count: rejection.count,
                line: None,
                example: String::new(),
            });
        }
    }

    /// As a JSON object.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (name, count) in [
            ("lines", self.lines),
            ("samples", self.samples),
            ("histograms", self.histograms),
            ("names", self.names),
            ("records", self.records),
        ] {
            out.extend_from_slice(format!("\"{name}\":{count},").as_bytes());
        }
        out.extend_from_slice(b"\"rejected\":");
        write_list(out, &self.skipped, |out, skipped| {
            out.extend_from_slice(b"{\"reason\":");
            write_string(out, &skipped.reason);
            out.extend_from_slice(format!(",\"count\":{}", skipped.count).as_bytes());
            if let Some(line) = skipped.line {
                out.extend_from_slice(format!(",\"line\":{line}").as_bytes());
            }
            if !skipped.example.is_empty() {
                out.extend_from_slice(b",\"example\":");
                write_string(out, &skipped.example);
            }
            out.push(b'}');
        });
        out.push(b'}');
    }
}

impl Skipped {
    /// One thing of a line.
    pub(super) fn one(reason: &str, line: u64, example: impl Into<String>) -> Self {
        Self {
            reason: reason.to_owned(),
            count: 1,
            line: Some(line),
            example: example.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_and_the_first_line_is_kept() {
        let mut report = Report::default();
        for line in [7, 9] {
            report.skip(Skipped::one("unknown metric", line, format!("m{line}")));
        }
        let mut json = Vec::new();
        report.write(&mut json);
        let expected = "{\"lines\":0,\"samples\":0,\"histograms\":0,\"names\":0,\"records\":0,\
                        \"rejected\":[{\"reason\":\"unknown metric\",\"count\":2,\"line\":7,\
                        \"example\":\"m7\"}]}";
        assert_eq!(String::from_utf8(json).unwrap(), expected);
        for line in 0..100 {
            report.skip(Skipped::one(&line.to_string(), line, ""));
        }
        assert_eq!(report.skipped.len(), REASONS_MAX);
        let total: u64 = report.skipped.iter().map(|skipped| skipped.count).sum();
        assert_eq!(total, 102);
        assert_eq!(report.skipped.last().unwrap().reason, OTHER_REASONS);
    }
}
