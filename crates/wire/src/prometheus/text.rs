//! The text exposition format (version 0.0.4), for Icecore's own metrics.
//!
//! Holds always: what is written parses, whatever label values and help texts contain. Names are
//! the program's own and are written as they are.

use icecore_model::MetricType;

use super::number::{push_text_number, push_unsigned};

/// The content type of what is written here.
pub const TEXT_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes families of metrics one after the other.
#[derive(Default)]
pub struct TextWriter {
    out: Vec<u8>,
}

impl TextWriter {
    pub fn new() -> Self {
        Self::default()
    }

    /// The text so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Begins a metric family.
    pub fn family(&mut self, name: &str, help: &str, metric_type: MetricType) {
        self.out.extend_from_slice(b"# HELP ");
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b' ');
        self.escaped(help, false);
        self.out.extend_from_slice(b"\n# TYPE ");
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b' ');
        self.out
            .extend_from_slice(type_name(metric_type).as_bytes());
        self.out.push(b'\n');
    }

    /// Writes one sample of the family begun last.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.series(name, "", labels, None);
        push_text_number(&mut self.out, value);
        self.out.push(b'\n');
    }

    /// Writes a whole classic histogram. `bounds` are the upper bounds without +Inf; `counts` are
    /// the observations of each bucket alone, with one more for those above the last bound.
    pub fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        bounds: &[f64],
        counts: &[u64],
        sum: f64,
    ) {
        debug_assert_eq!(
            counts.len(),
            bounds.len() + 1,
            "one bucket lies above the last bound"
        );
        let mut cumulative = 0u64;
        let bounds = bounds.iter().copied().chain([f64::INFINITY]);
        for (bound, count) in bounds.zip(counts) {
            cumulative = cumulative.saturating_add(*count);
            self.series(name, "_bucket", labels, Some(bound));
            push_unsigned(&mut self.out, cumulative);
            self.out.push(b'\n');
        }
        self.series(name, "_sum", labels, None);
        push_text_number(&mut self.out, sum);
        self.out.push(b'\n');
        self.series(name, "_count", labels, None);
        push_unsigned(&mut self.out, cumulative);
        self.out.push(b'\n');
    }

    /// Writes everything of a line that comes before the value.
    fn series(&mut self, name: &str, suffix: &str, labels: &[(&str, &str)], le: Option<f64>) {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(suffix.as_bytes());
        let mut separator = b'{';
        for (name, value) in labels {
            self.out.push(separator);
            separator = b',';
            self.out.extend_from_slice(name.as_bytes());
            self.out.extend_from_slice(b"=\"");
            self.escaped(value, true);
            self.out.push(b'"');
        }
        if let Some(bound) = le {
            self.out.push(separator);
            separator = b',';
            self.out.extend_from_slice(b"le=\"");
            push_text_number(&mut self.out, bound);
            self.out.push(b'"');
        }
        if separator == b',' {
            self.out.push(b'}');
        }
        self.out.push(b' ');
    }

    /// Help texts keep their quotes, label values do not.
    fn escaped(&mut self, text: &str, quotes: bool) {
        for byte in text.bytes() {
            match byte {
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                b'"' if quotes => self.out.extend_from_slice(b"\\\""),
                _ => self.out.push(byte),
            }
        }
    }
}

/// The format has five types; the others map as in OpenMetrics.
fn type_name(metric_type: MetricType) -> &'static str {
    match metric_type {
        MetricType::Counter => "counter",
        MetricType::Gauge | MetricType::Info | MetricType::StateSet => "gauge",
        MetricType::Histogram => "histogram",
        MetricType::Summary => "summary",
        MetricType::Unknown | MetricType::GaugeHistogram => "untyped",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut TextWriter)) -> String {
        let mut writer = TextWriter::new();
        write(&mut writer);
        String::from_utf8(writer.into_bytes()).unwrap()
    }

    #[test]
    fn families_and_samples() {
        let written = text(|writer| {
            writer.family(
                "icecore_samples_total",
                "Samples\nsaid \"in\" C:\\.",
                MetricType::Counter,
            );
            writer.sample("icecore_samples_total", &[], 1_700_000_000.0);
            let labels = [("kind", "a\"b\\c\nd"), ("other", "ü")];
            writer.sample("icecore_samples_total", &labels, 0.25);
            writer.sample("icecore_samples_total", &[("kind", "")], f64::NEG_INFINITY);
        });
        assert_eq!(
            written,
            concat!(
                "# HELP icecore_samples_total Samples\\nsaid \"in\" C:\\\\.\n",
                "# TYPE icecore_samples_total counter\n",
                "icecore_samples_total 1700000000\n",
                "icecore_samples_total{kind=\"a\\\"b\\\\c\\nd\",other=\"ü\"} 0.25\n",
                "icecore_samples_total{kind=\"\"} -Inf\n",
            )
        );
    }

    #[test]
    fn histograms_are_cumulative() {
        let written = text(|writer| {
            writer.family("flush_seconds", "How long.", MetricType::Histogram);
            writer.histogram("flush_seconds", &[], &[0.1, 1.0], &[2, 0, 1], 7.5);
            writer.histogram("flush_seconds", &[("store", "s3")], &[], &[4], 0.0);
        });
        assert_eq!(
            written,
            concat!(
                "# HELP flush_seconds How long.\n",
                "# TYPE flush_seconds histogram\n",
                "flush_seconds_bucket{le=\"0.1\"} 2\n",
                "flush_seconds_bucket{le=\"1\"} 2\n",
                "flush_seconds_bucket{le=\"+Inf\"} 3\n",
                "flush_seconds_sum 7.5\n",
                "flush_seconds_count 3\n",
                "flush_seconds_bucket{store=\"s3\",le=\"+Inf\"} 4\n",
                "flush_seconds_sum{store=\"s3\"} 0\n",
                "flush_seconds_count{store=\"s3\"} 4\n",
            )
        );
    }
}
