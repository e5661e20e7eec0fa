//! Histograms as text: as Prometheus prints them, and as its test scripts write them.

use std::fmt;

use crate::CounterResetHint;

use super::buckets::IndexedCounts;
use super::layout::Entry;
use super::{Bucket, FloatHistogram};
use crate::go_float;

/// Longest run of empty buckets that is written one by one.
const WRITTEN_GAP_MAX: i64 = 1000;

/// As Prometheus prints it: `{count:3, sum:4.5, [-0.1,0.1]:1, (1,2]:2}`, without empty buckets.
impl fmt::Display for FloatHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, sum) = (go_float(self.count), go_float(self.sum));
        write!(f, "{{count:{count}, sum:{sum}")?;
        let zero = std::iter::once(self.zero_bucket());
        let buckets = self.negative_buckets().rev().chain(zero);
        for bucket in buckets.chain(self.positive_buckets()) {
            if bucket.count != 0.0 {
                write!(f, ", {bucket}")?;
            }
        }
        f.write_str("}")
    }
}

/// With square brackets for bounds that belong to the bucket: `(1,2]:3`.
impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = if self.lower_inclusive { '[' } else { '(' };
        let close = if self.upper_inclusive { ']' } else { ')' };
        let (lower, upper) = (go_float(self.lower), go_float(self.upper));
        write!(f, "{open}{lower},{upper}{close}:{}", go_float(self.count))
    }
}

impl FloatHistogram {
    /// As test scripts write it: `{{schema:1 count:3 sum:4.5 buckets:[1 2]}}`, without what is 0.
    pub fn script_text(&self) -> String {
        let mut properties = Vec::new();
        if self.schema != 0 {
            properties.push(format!("schema:{}", self.schema));
        }
        for (name, value) in [
            ("count", self.count),
            ("sum", self.sum),
            ("z_bucket", self.zero_count),
            ("z_bucket_w", self.zero_threshold),
        ] {
            if value != 0.0 {
                properties.push(format!("{name}:{}", go_float(value)));
            }
        }
        if self.uses_custom_buckets() {
            let bounds = self.custom_bounds.iter().map(|bound| go_float(*bound));
            let bounds = bounds.collect::<Vec<_>>().join(" ");
            properties.push(format!("custom_values:[{bounds}]"));
        }
        properties.extend(hint_text(self.reset_hint));
        let positive = IndexedCounts::new(&self.positive_spans, &self.positive);
        let negative = IndexedCounts::new(&self.negative_spans, &self.negative);
        properties.extend(side_text("offset", "buckets", positive));
        properties.extend(side_text("n_offset", "n_buckets", negative));
        format!("{{{{{}}}}}", properties.join(" "))
    }
}

fn hint_text(hint: CounterResetHint) -> Option<String> {
    let word = match hint {
        CounterResetHint::Unknown => return None,
        CounterResetHint::Reset => "reset",
        CounterResetHint::NotReset => "not_reset",
        CounterResetHint::Gauge => "gauge",
    };
    Some(format!("counter_reset_hint:{word}"))
}

/// The counts from the first to the last that is not 0, and where they begin. A very long gap,
/// which scripts cannot write, becomes `_x` with its length.
fn side_text(
    offset_name: &str,
    buckets_name: &str,
    counts: impl Iterator<Item = Entry<f64>>,
) -> Vec<String> {
    let mut properties = Vec::new();
    let mut words = Vec::new();
    let mut end = None;
    for (index, count) in counts.filter(|(_, count)| *count != 0.0) {
        match end.map(|end: i64| index - end) {
            None if index != 0 => properties.push(format!("{offset_name}:{index}")),
            None => {}
            Some(gap) if gap <= WRITTEN_GAP_MAX => words.extend((0..gap).map(|_| "0".to_string())),
            Some(gap) => words.push(format!("_x{gap}")),
        }
        words.push(go_float(count));
        end = Some(index + 1);
    }
    if !words.is_empty() {
        properties.push(format!("{buckets_name}:[{}]", words.join(" ")));
    }
    properties
}
