//! Builds an exemplar of either remote write version.

use icecore_model::{Exemplar, LabelsBuilder};

/// Characters that the labels of one exemplar may have together, names and values: OpenMetrics'
/// limit, which Prometheus enforces, too.
const LABEL_CHARS_MAX: usize = 128;

/// An exemplar while its message is read.
#[derive(Default)]
pub(crate) struct ExemplarBuilder {
    labels: LabelsBuilder,
    label_chars: usize,
    problem: Option<&'static str>,
    pub(crate) value: f64,
    pub(crate) timestamp_ms: i64,
}

impl ExemplarBuilder {
    pub(crate) fn push_label(&mut self, name: &[u8], value: &[u8]) {
        let (Ok(name), Ok(value)) = (str::from_utf8(name), str::from_utf8(value)) else {
            self.refuse("label of an exemplar is not valid UTF-8");
            return;
        };
        self.label_chars += name.chars().count() + value.chars().count();
        if self.label_chars > LABEL_CHARS_MAX {
            self.refuse("labels of an exemplar have more than 128 characters");
        } else {
            self.labels.set(name, value);
        }
    }

    /// Refuses the exemplar; the first reason is reported.
    pub(crate) fn refuse(&mut self, reason: &'static str) {
        self.problem.get_or_insert(reason);
    }

    pub(crate) fn finish(self) -> Result<Exemplar, &'static str> {
        match self.problem {
            Some(reason) => Err(reason),
            None => Ok(Exemplar {
                labels: self.labels.build(),
                timestamp_ms: self.timestamp_ms,
                value: self.value,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exemplar(labels: &[(&str, &str)]) -> Result<Exemplar, &'static str> {
        let mut builder = ExemplarBuilder::default();
        for (name, value) in labels {
            builder.push_label(name.as_bytes(), value.as_bytes());
        }
        builder.finish()
    }

    #[test]
    fn characters_count_not_bytes() {
        let value = "é".repeat(120);
        assert!(exemplar(&[("trace_id", &value)]).is_ok());
        assert!(exemplar(&[("trace_idx", &value)]).is_err());
        assert!(exemplar(&[("trace_id", &value), ("a", "")]).is_err());
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused() {
        let mut builder = ExemplarBuilder::default();
        builder.push_label(b"trace_id", &[0xff]);
        assert_eq!(
            builder.finish(),
            Err("label of an exemplar is not valid UTF-8")
        );
    }
}
