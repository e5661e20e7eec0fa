//! Histograms as scripts write them: `{{schema:1 sum:3 count:2 buckets:[1 1] offset:-3}}`.
//!
//! Sums of histograms (for `{{…}}+{{…}}x5`) and comparisons work on maps of buckets, independently
//! of the engine's arithmetic, so that a bug there does not hide itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use icecore_model::{CUSTOM_BUCKETS_SCHEMA, CounterResetHint, Span};

use super::compare::almost_equal;
use super::cursor::Cursor;
use crate::histogram::FloatHistogram;

/// A histogram of a script.
#[derive(Clone, Debug)]
pub(crate) struct ScriptHistogram {
    pub(crate) histogram: FloatHistogram,
    /// The script has a counter reset hint, which must match.
    pub(crate) hint_written: bool,
}

/// Reads a histogram; the cursor stands before `{{`.
pub(crate) fn parse_histogram(cursor: &mut Cursor<'_>) -> Result<ScriptHistogram, String> {
    cursor.expect("{{")?;
    let mut histogram = FloatHistogram::default();
    let (mut offset, mut negative_offset) = (0, 0);
    let mut seen = BTreeSet::new();
    loop {
        cursor.skip_blanks();
        if cursor.take("}}") {
            break;
        }
        let before = *cursor;
        let property = cursor.take_while(|c| c.is_ascii_lowercase() || c == '_');
        if !seen.insert(property) {
            return Err(format!("duplicate key {property:?} in histogram"));
        }
        cursor.expect(":")?;
        match property {
            "schema" => histogram.schema = integer(cursor)?,
            "sum" => histogram.sum = cursor.number()?,
            "count" => histogram.count = cursor.number()?,
            "z_bucket" => histogram.zero_count = cursor.number()?,
            "z_bucket_w" => histogram.zero_threshold = cursor.number()?,
            "custom_values" => histogram.custom_bounds = list(cursor)?.into(),
            "buckets" => histogram.positive = list(cursor)?,
            "offset" => offset = integer(cursor)?,
            "n_buckets" => histogram.negative = list(cursor)?,
            "n_offset" => negative_offset = integer(cursor)?,
            "counter_reset_hint" => histogram.reset_hint = hint(cursor)?,
            _ => return Err(before.unexpected("a property of a histogram")),
        }
    }
    histogram.positive_spans = one_span(offset, histogram.positive.len());
    histogram.negative_spans = one_span(negative_offset, histogram.negative.len());
    Ok(ScriptHistogram {
        histogram,
        hint_written: seen.contains("counter_reset_hint"),
    })
}

fn one_span(offset: i32, buckets: usize) -> Vec<Span> {
    match u32::try_from(buckets) {
        Ok(length) if length > 0 => vec![Span { offset, length }],
        _ => Vec::new(),
    }
}

fn integer<T: TryFrom<i64>>(cursor: &mut Cursor<'_>) -> Result<T, String> {
    let before = *cursor;
    let number = cursor.number()?;
    let whole = number as i64;
    match T::try_from(whole) {
        Ok(integer) if whole as f64 == number => Ok(integer),
        _ => Err(before.unexpected("a small whole number")),
    }
}

fn list(cursor: &mut Cursor<'_>) -> Result<Vec<f64>, String> {
    cursor.expect("[")?;
    let mut numbers = Vec::new();
    loop {
        cursor.skip_blanks();
        if cursor.take("]") {
            return Ok(numbers);
        }
        numbers.push(cursor.number()?);
    }
}

const HINTS: [(&str, CounterResetHint); 4] = [
    ("unknown", CounterResetHint::Unknown),
    ("reset", CounterResetHint::Reset),
    ("not_reset", CounterResetHint::NotReset),
    ("gauge", CounterResetHint::Gauge),
];

fn hint(cursor: &mut Cursor<'_>) -> Result<CounterResetHint, String> {
    let before = *cursor;
    let word = cursor.take_while(|c| c.is_ascii_lowercase() || c == '_');
    let found = HINTS.iter().find(|(name, _)| *name == word);
    found
        .map(|(_, hint)| *hint)
        .ok_or_else(|| before.unexpected("a counter reset hint"))
}

/// The buckets of one side by their index, without empty ones.
type Buckets = BTreeMap<i64, f64>;

pub(crate) fn buckets(spans: &[Span], counts: &[f64]) -> Buckets {
    let mut buckets = Buckets::new();
    let mut counts = counts.iter();
    let mut index = 0;
    for span in spans {
        index += i64::from(span.offset);
        // The counts end the loop if a span is longer.
        for count in counts.by_ref().take(span.length as usize) {
            if *count != 0.0 {
                buckets.insert(index, *count);
            }
            index += 1;
        }
    }
    buckets
}

fn spans_of(buckets: &Buckets) -> Result<(Vec<Span>, Vec<f64>), String> {
    let mut spans: Vec<Span> = Vec::new();
    let mut end = 0;
    for index in buckets.keys() {
        match spans.last_mut() {
            Some(span) if *index == end => span.length += 1,
            _ => spans.push(Span {
                offset: i32::try_from(index - end).map_err(|_| "a bucket index is too large")?,
                length: 1,
            }),
        }
        end = index + 1;
    }
    Ok((spans, buckets.values().copied().collect()))
}

/// `sum + sign × increment`, in the resolution of `sum`.
pub(crate) fn combine(
    sum: &FloatHistogram,
    increment: &FloatHistogram,
    sign: f64,
) -> Result<FloatHistogram, String> {
    if sum.schema > increment.schema {
        return Err(format!(
            "cannot add a histogram of schema {} to one of schema {}",
            increment.schema, sum.schema
        ));
    }
    let custom = [sum, increment].map(|h| h.schema == CUSTOM_BUCKETS_SCHEMA);
    if custom[0] != custom[1] || sum.custom_bounds != increment.custom_bounds {
        return Err("the histograms have different bounds".to_owned());
    }
    let (mut total, mut added) = (BucketMaps::new(sum), BucketMaps::new(increment));
    added.reduce(i32::from(increment.schema) - i32::from(sum.schema));
    if !custom[0] {
        total.join_zero_buckets(&mut added, sum.schema);
    }
    for (side, more) in [
        (&mut total.positive, added.positive),
        (&mut total.negative, added.negative),
    ] {
        for (index, count) in more {
            *side.entry(index).or_default() += sign * count;
        }
    }
    let (positive_spans, positive) = spans_of(&total.positive)?;
    let (negative_spans, negative) = spans_of(&total.negative)?;
    Ok(FloatHistogram {
        reset_hint: combined_hint(sum.reset_hint, increment.reset_hint),
        schema: sum.schema,
        zero_threshold: total.zero_threshold,
        zero_count: total.zero_count + sign * added.zero_count,
        count: sum.count + sign * increment.count,
        sum: sum.sum + sign * increment.sum,
        positive_spans,
        negative_spans,
        positive,
        negative,
        custom_bounds: Arc::clone(&sum.custom_bounds),
    })
}

fn combined_hint(one: CounterResetHint, other: CounterResetHint) -> CounterResetHint {
    use CounterResetHint::{Gauge, Unknown};
    match (one, other) {
        _ if one == other => one,
        (Gauge, _) | (_, Gauge) => Gauge,
        _ => Unknown,
    }
}

/// All buckets of a histogram.
struct BucketMaps {
    positive: Buckets,
    negative: Buckets,
    zero_count: f64,
    zero_threshold: f64,
}

impl BucketMaps {
    fn new(histogram: &FloatHistogram) -> Self {
        Self {
            positive: buckets(&histogram.positive_spans, &histogram.positive),
            negative: buckets(&histogram.negative_spans, &histogram.negative),
            zero_count: histogram.zero_count,
            zero_threshold: histogram.zero_threshold,
        }
    }

    /// Merges buckets to a resolution `schemas` lower.
    fn reduce(&mut self, schemas: i32) {
        if schemas <= 0 {
            return;
        }
        for side in [&mut self.positive, &mut self.negative] {
            let mut joined = Buckets::new();
            for (index, count) in &*side {
                *joined
                    .entry(((index - 1) >> schemas.min(63)) + 1)
                    .or_default() += count;
            }
            *side = joined;
        }
    }

    /// Widens the narrower zero bucket until both are of one width.
    fn join_zero_buckets(&mut self, other: &mut Self, schema: i8) {
        while self.zero_threshold != other.zero_threshold {
            if self.zero_threshold < other.zero_threshold {
                self.widen_zero_bucket(other.zero_threshold, schema);
            } else {
                other.widen_zero_bucket(self.zero_threshold, schema);
            }
            if self.zero_threshold.is_nan() || other.zero_threshold.is_nan() {
                return;
            }
        }
    }

    /// Merges all buckets that start below `threshold` into the zero bucket, which then reaches to
    /// the end of the last of them.
    fn widen_zero_bucket(&mut self, threshold: f64, schema: i8) {
        self.zero_threshold = threshold;
        let bound = |index: i64| (index as f64 * (-f64::from(schema)).exp2()).exp2();
        for side in [&mut self.positive, &mut self.negative] {
            while let Some(first) = side.first_entry() {
                if bound(first.key() - 1) >= self.zero_threshold {
                    break;
                }
                let end = bound(*first.key());
                self.zero_threshold = self.zero_threshold.max(end.min(f64::MAX));
                self.zero_count += first.remove();
            }
        }
    }
}

/// Whether an answer's histogram is the expected one: fields nearly equal, empty buckets ignored.
pub(crate) fn matches(expected: &ScriptHistogram, actual: &FloatHistogram) -> bool {
    let want = &expected.histogram;
    let custom = want.schema == CUSTOM_BUCKETS_SCHEMA;
    want.schema == actual.schema
        && almost_equal(want.count, actual.count)
        && almost_equal(want.sum, actual.sum)
        && (!custom || want.custom_bounds == actual.custom_bounds)
        && want.zero_threshold == actual.zero_threshold
        && almost_equal(want.zero_count, actual.zero_count)
        && buckets_match(
            &buckets(&want.negative_spans, &want.negative),
            &buckets(&actual.negative_spans, &actual.negative),
        )
        && buckets_match(
            &buckets(&want.positive_spans, &want.positive),
            &buckets(&actual.positive_spans, &actual.positive),
        )
        && (!expected.hint_written || want.reset_hint == actual.reset_hint)
}

fn buckets_match(want: &Buckets, actual: &Buckets) -> bool {
    want.len() == actual.len()
        && want
            .iter()
            .zip(actual)
            .all(|((i, a), (j, b))| i == j && almost_equal(*a, *b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> ScriptHistogram {
        let mut cursor = Cursor::new(text);
        let written = parse_histogram(&mut cursor).unwrap();
        assert!(cursor.is_at_end(), "{text}");
        written
    }

    #[test]
    fn all_properties() {
        let written = parse(
            "{{schema:1 sum:-0.3 count:3.1 z_bucket:7.1 z_bucket_w:0.05 buckets:[5.1 10 7] offset:-3 \
             n_buckets:[4.1 5] n_offset:-5 counter_reset_hint:gauge}}",
        );
        let histogram = &written.histogram;
        assert!(written.hint_written);
        assert_eq!(histogram.reset_hint, CounterResetHint::Gauge);
        assert_eq!(
            (histogram.schema, histogram.sum, histogram.count),
            (1, -0.3, 3.1)
        );
        assert_eq!(
            (histogram.zero_count, histogram.zero_threshold),
            (7.1, 0.05)
        );
        assert_eq!(histogram.positive, [5.1, 10.0, 7.0]);
        assert_eq!(
            histogram.positive_spans,
            [Span {
                offset: -3,
                length: 3
            }]
        );
        assert_eq!(
            histogram.negative_spans,
            [Span {
                offset: -5,
                length: 2
            }]
        );
        assert_eq!(
            histogram.script_text(),
            "{{schema:1 count:3.1 sum:-0.3 z_bucket:7.1 z_bucket_w:0.05 counter_reset_hint:gauge \
             offset:-3 buckets:[5.1 10 7] n_offset:-5 n_buckets:[4.1 5]}}"
        );
        let custom = parse("{{schema:-53 sum:1 count:1 custom_values:[5 10] buckets:[1]}}");
        assert_eq!(&*custom.histogram.custom_bounds, [5.0, 10.0]);
        assert!(!custom.hint_written);
        assert_eq!(parse("{{}}").histogram.count, 0.0);
    }

    #[test]
    fn what_is_no_histogram() {
        for text in [
            "{{",
            "{{sum}}",
            "{{sum:1 sum:2}}",
            "{{color:1}}",
            "{{schema:1.5}}",
            "{{schema:300}}",
            "{{buckets:[1}}",
            "{{counter_reset_hint:maybe}}",
            "{{offset:99999999999}}",
            "{{sum:1",
        ] {
            assert!(parse_histogram(&mut Cursor::new(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn sums() {
        let add = |a: &str, b: &str, sign| {
            combine(&parse(a).histogram, &parse(b).histogram, sign).map(|h| h.script_text())
        };
        assert_eq!(
            add(
                "{{sum:4 count:4 buckets:[1 2 1]}}",
                "{{sum:2 count:1 buckets:[1] offset:3}}",
                1.0
            ),
            Ok("{{count:5 sum:6 buckets:[1 2 1 1]}}".to_owned())
        );
        // Buckets 1 and 2 of schema 0 are bucket 1 of schema −1.
        assert_eq!(
            add(
                "{{schema:-1 count:1 buckets:[1] offset:1}}",
                "{{count:4 buckets:[2 2] offset:1}}",
                1.0
            ),
            Ok("{{schema:-1 count:5 offset:1 buckets:[5]}}".to_owned())
        );
        assert_eq!(
            add("{{count:5 buckets:[5]}}", "{{count:2 buckets:[2]}}", -1.0),
            Ok("{{count:3 buckets:[3]}}".to_owned())
        );
        // The bucket (0.5, 1] lies within the other's zero bucket.
        assert_eq!(
            add(
                "{{count:3 buckets:[1 2]}}",
                "{{count:1 z_bucket:1 z_bucket_w:1}}",
                1.0
            ),
            Ok("{{count:4 z_bucket:2 z_bucket_w:1 offset:1 buckets:[2]}}".to_owned())
        );
        assert!(add("{{schema:1}}", "{{schema:0}}", 1.0).is_err());
        assert!(add("{{schema:-53 custom_values:[1]}}", "{{}}", 1.0).is_err());
    }

    #[test]
    fn comparison_ignores_empty_buckets() {
        let same = |a: &str, b: &str| matches(&parse(a), &parse(b).histogram);
        assert!(same(
            "{{count:3 buckets:[1 0 2 0]}}",
            "{{count:3 buckets:[0 1 0 2] offset:-1}}"
        ));
        assert!(same(
            "{{sum:1}}",
            "{{sum:1.0000001 counter_reset_hint:gauge}}"
        ));
        assert!(!same(
            "{{counter_reset_hint:unknown}}",
            "{{counter_reset_hint:gauge}}"
        ));
        assert!(!same(
            "{{count:3 buckets:[1 2]}}",
            "{{count:3 buckets:[2 1]}}"
        ));
        assert!(!same("{{sum:1}}", "{{sum:1.001}}"));
        assert!(same("{{sum:NaN}}", "{{sum:NaN}}"));
    }
}
