//! Functions of labels alone: `label_replace` and `label_join`.
//!
//! Holds always: values are unchanged. Series that get equal labels are merged; it is an error if
//! two of them have a value at the same step. Labels are bounded by [`LabelMaker`].

use icecore_model::{AnchoredRegex, METRIC_NAME};

use super::{CallContext, VectorFunction};
use crate::error::{Error, Result};
use crate::exec::{LabelMaker, Row, is_absent, merge_equal_labels};
use crate::parse::Expr;

pub(super) fn function(name: &str) -> Option<VectorFunction> {
    match name {
        "label_join" => Some(label_join),
        "label_replace" => Some(label_replace),
        _ => None,
    }
}

/// Longest pattern of `label_replace`: a parsed regex takes hundreds of bytes for each of its own.
const PATTERN_BYTES_MAX: usize = 64 << 10;

/// `label_replace(v, dst, replacement, src, regex)`
fn label_replace(
    ctx: &CallContext<'_>,
    labels: &LabelMaker<'_>,
    mut rows: Vec<Row>,
) -> Result<Vec<Row>> {
    let (dst, replacement) = (ctx.text(1), ctx.text(2));
    let (src, pattern) = (ctx.text(3), ctx.text(4));
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(Error::LimitReached(format!(
            "the regular expression of label_replace() is longer than {PATTERN_BYTES_MAX} bytes"
        )));
    }
    let Ok(regex) = AnchoredRegex::new(pattern) else {
        return Err(Error::Execution(format!(
            "invalid regular expression in label_replace(): {pattern}"
        )));
    };
    check_name(ctx, 1, "destination label name in label_replace()")?;
    labels.grow(regex.unshared_bytes())?;
    for (place, row) in rows.iter_mut().enumerate() {
        labels.check_at(place)?;
        let value = row.labels.get(src).unwrap_or_default();
        let replaced = regex.expand_within(value, replacement, labels.value_bytes_max());
        let too_long = |_| labels.value_too_long("label_replace", dst);
        if let Some(replaced) = replaced.map_err(too_long)? {
            set_label(labels, row, dst, &replaced)?;
        }
    }
    merge_equal_labels(rows)
}

/// `label_join(v, dst, separator, src…)`
fn label_join(
    ctx: &CallContext<'_>,
    labels: &LabelMaker<'_>,
    mut rows: Vec<Row>,
) -> Result<Vec<Row>> {
    let (dst, separator) = (ctx.text(1), ctx.text(2));
    for index in 3..ctx.args.len() {
        check_name(ctx, index, "source label name in label_join()")?;
    }
    check_name(ctx, 1, "destination label name in label_join()")?;
    let sources: Vec<&str> = (3..ctx.args.len()).map(|index| ctx.text(index)).collect();
    for (place, row) in rows.iter_mut().enumerate() {
        labels.check_at(place)?;
        let values = sources.iter().map(|src| row.labels.get(src));
        let values: Vec<&str> = values.map(Option::unwrap_or_default).collect();
        let separators = separator.len() * values.len().saturating_sub(1);
        let bytes = separators + values.iter().map(|value| value.len()).sum::<usize>();
        labels.check_value("label_join", dst, bytes)?;
        let joined = values.join(separator);
        set_label(labels, row, dst, &joined)?;
    }
    merge_equal_labels(rows)
}

/// Any UTF-8 text but the empty one is a label name.
fn check_name(ctx: &CallContext<'_>, index: usize, what: &str) -> Result<()> {
    let name = ctx.text(index);
    let argument = ctx.call.args.get(index).map(Expr::unwrapped);
    let is_text = !matches!(argument, Some(Expr::String(literal)) if literal.not_utf8.is_some());
    if is_text && !name.is_empty() {
        Ok(())
    } else {
        Err(Error::Execution(format!("invalid {what}: {name}")))
    }
}

fn set_label(labels: &LabelMaker<'_>, row: &mut Row, name: &str, value: &str) -> Result<()> {
    if row.labels.get(name).unwrap_or_default() != value {
        row.labels = labels.with_label(&row.labels, name, value)?;
    }
    // A name that the query sets is kept.
    if name == METRIC_NAME {
        row.drop_name = false;
    }
    Ok(())
}

/// The vector as a scalar: the float at each step with exactly one, else NaN.
pub(crate) fn scalar_of(rows: &[Row], steps: usize) -> Vec<f64> {
    let mut values = vec![f64::NAN; steps];
    let mut seen = vec![false; steps];
    for row in rows {
        for ((value, seen), float) in values.iter_mut().zip(&mut seen).zip(&row.values.floats) {
            if !is_absent(*float) {
                *value = if *seen { f64::NAN } else { *float };
                *seen = true;
            }
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use icecore_model::Labels;

    use super::super::testing::{Setup, check_floats, labels};
    use super::*;
    use crate::exec::ABSENT;

    fn apply(name: &str, texts: &[&str], rows: &[Row]) -> Result<Vec<Row>> {
        let steps = rows.first().map_or(1, |row| row.values.floats.len());
        let setup = Setup::new(steps).series().texts(texts);
        setup.vector(name, rows.to_vec())
    }

    #[track_caller]
    fn check(name: &str, texts: &[&str], series: &[&str], expected: &[&str]) {
        let rows: Vec<Row> = series.iter().map(|s| Setup::row(s, &[1.0])).collect();
        let found = apply(name, texts, &rows).unwrap();
        let found: Vec<Labels> = found.into_iter().map(|row| row.labels).collect();
        let expected: Vec<Labels> = expected.iter().map(|series| labels(series)).collect();
        assert_eq!(found, expected);
    }

    #[track_caller]
    fn check_error(name: &str, texts: &[&str], series: &[&str], expected: &str) {
        let rows: Vec<Row> = series.iter().map(|s| Setup::row(s, &[1.0])).collect();
        let error = apply(name, texts, &rows).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    const SERIES: [&str; 2] = [
        "testmetric{src=source-value-10,dst=original-destination-value}",
        "testmetric{src=source-value-20,dst=original-destination-value}",
    ];

    #[test]
    fn replacements_of_the_scripts() {
        let check = |texts: &[&str; 4], expected: [&str; 2]| {
            let expected = expected.map(|rest| format!("testmetric{{src=source-value-{rest}}}"));
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            check("label_replace", texts, &SERIES, &expected);
        };
        let unchanged = [
            "10,dst=original-destination-value",
            "20,dst=original-destination-value",
        ];
        check(
            &["dst", "destination-value-$1", "src", "source-value-(.*)"],
            ["10,dst=destination-value-10", "20,dst=destination-value-20"],
        );
        check(&["dst", "x-$1", "src", "value-(.*)"], unchanged);
        check(
            &["dst", "$1-value-$2", "src", "(.*)-value-(.*)"],
            ["10,dst=source-value-10", "20,dst=source-value-20"],
        );
        check(
            &["dst", "value-$1", "nonexistent-src", "source-value-(.*)"],
            unchanged,
        );
        check(
            &["dst", "value-$1", "nonexistent-src", "(.*)"],
            ["10,dst=value-", "20,dst=value-"],
        );
        check(&["dst", "", "dst", ".*"], ["10", "20"]);
        check(
            &["http.code", "200", "", ""],
            [
                "10,dst=original-destination-value,http.code=200",
                "20,dst=original-destination-value,http.code=200",
            ],
        );
    }

    #[test]
    fn errors_of_label_replace() {
        check_error(
            "label_replace",
            &["dst", "value-$1", "src", "(.*"],
            &[],
            "invalid regular expression in label_replace(): (.*",
        );
        check_error(
            "label_replace",
            &["", "", "src", "(.*)"],
            &SERIES,
            "invalid destination label name in label_replace(): ",
        );
        check_error(
            "label_replace",
            &["src", "", "", ""],
            &SERIES,
            "vector cannot contain metrics with the same labelset",
        );
    }

    #[test]
    fn names_are_utf8() {
        let mut setup = Setup::new(1)
            .series()
            .texts(&["\u{fffd}", "", "src", "(.*)"]);
        assert!(setup.vector("label_replace", Vec::new()).is_ok());
        if let Expr::String(literal) = &mut setup.call.args[1] {
            literal.not_utf8 = Some(vec![0xff]);
        }
        let error = setup.vector("label_replace", Vec::new()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid destination label name in label_replace(): \u{fffd}"
        );
    }

    #[test]
    fn joins_of_the_scripts() {
        let series = ["m{src=a,src1=b,src2=c,dst=x}"];
        let check = |texts: &[&str], dst: &str| {
            let expected = format!("m{{src=a,src1=b,src2=c,dst={dst}}}");
            check("label_join", texts, &series, &[&expected]);
        };
        check(&["dst", "-", "src", "src1", "src2"], "a-b-c");
        check(&["dst", "-", "src", "src3", "src1"], "a--b");
        check(&["dst", "", "emptysrc", "emptysrc1"], "");
        check(&["dst", ", "], "");
        for (texts, message) in [
            (
                ["", "-", "src"],
                "invalid destination label name in label_join(): ",
            ),
            (
                ["dst", "-", ""],
                "invalid source label name in label_join(): ",
            ),
        ] {
            check_error("label_join", &texts, &series, message);
        }
    }

    #[test]
    fn values_are_no_longer_than_they_may_be() {
        let long = "x".repeat(20);
        let series = format!("m{{src={long}}}");
        let rows = [Setup::row(&series, &[1.0])];
        let error = |name: &str, texts: &[&str]| {
            let mut setup = Setup::new(1).series().texts(texts);
            setup.label_value_bytes_max = 41;
            setup
                .vector(name, rows.to_vec())
                .map_err(|error| error.to_string())
        };
        assert!(error("label_join", &["dst", "-", "src", "src"]).is_ok());
        assert!(error("label_replace", &["dst", "$1-$1", "src", "(.*)"]).is_ok());
        for (name, texts) in [
            ("label_join", &["dst", "--", "src", "src"][..]),
            ("label_join", &["dst", "", "src", "src", "src"]),
            ("label_replace", &["dst", "$1--$1", "src", "(.*)"]),
            ("label_replace", &["dst", "$1--$1", "src", "(x+)"]),
            ("label_replace", &["dst", &"y".repeat(42), "", ""]),
        ] {
            let text = error(name, texts).unwrap_err();
            assert_eq!(
                text,
                format!(
                    "{name}() makes a value of label \"dst\" with more than 41 bytes \
                     (query.label_value_bytes_max): join or repeat fewer labels, or raise the \
                     setting"
                )
            );
        }
    }

    #[test]
    fn made_labels_count_before_they_are_made() {
        let names: Vec<String> = (0..100).map(|i| format!("m{{i={i}}}")).collect();
        let rows: Vec<Row> = names.iter().map(|s| Setup::row(s, &[1.0])).collect();
        let value = "x".repeat(900);
        for (name, texts) in [
            ("label_replace", &["dst", &value, "", ""][..]),
            ("label_join", &["dst", &value, "i", "i"]),
        ] {
            let mut setup = Setup::new(1).series().texts(texts);
            setup.memory_max = 50_000;
            let refused = setup.vector(name, rows.clone()).unwrap_err().to_string();
            assert!(refused.contains("query.max_memory"), "{refused}");
            setup.memory_max = 200_000;
            assert!(setup.vector(name, rows.clone()).is_ok());
        }
    }

    #[test]
    fn a_large_regex_counts() {
        let rows = [Setup::row("m{src=x}", &[1.0])];
        let apply = |pattern: &str, memory_max: usize| {
            let mut setup = Setup::new(1).series().texts(&["dst", "$1", "src", pattern]);
            setup.memory_max = memory_max;
            setup
                .vector("label_replace", rows.to_vec())
                .map_err(|error| error.to_string())
        };
        assert!(apply("([a-z]+)", 50_000).is_ok());
        let large = r"(\pL{0,10})";
        let refused = apply(large, 50_000).unwrap_err();
        assert!(refused.contains("query.max_memory"), "{refused}");
        assert!(apply(large, 64 << 20).is_ok());
    }

    #[test]
    fn rows_that_stay_the_same_can_be_canceled() {
        let rows = [Setup::row("m{src=x}", &[1.0])];
        for (name, texts) in [
            ("label_replace", &["dst", "$1", "src", "(y)"][..]),
            ("label_replace", &["src", "$1", "src", "(.*)"]),
            ("label_join", &["src", "", "src"]),
        ] {
            let mut setup = Setup::new(1).series().texts(texts);
            assert!(setup.vector(name, rows.to_vec()).is_ok());
            setup.canceled = true;
            let ended = setup.vector(name, rows.to_vec()).unwrap_err();
            assert!(matches!(ended, Error::Canceled(_)), "{name}: {ended}");
        }
    }

    #[test]
    fn a_name_given_on_purpose_stays() {
        let mut row = Setup::row("metric_total{env=1}", &[0.2]);
        row.drop_name = true;
        let rename = ["__name__", "rate_$1", "__name__", "(.+)"];
        let found = apply("label_replace", &rename, &[row.clone()]).unwrap();
        assert_eq!(found[0].labels, labels("rate_metric_total{env=1}"));
        assert!(!found[0].drop_name);
        let same = ["__name__", "$1", "__name__", "(.+)"];
        assert!(!apply("label_replace", &same, &[row.clone()]).unwrap()[0].drop_name);
        let no_match = ["__name__", "$1", "__name__", "x"];
        assert!(apply("label_replace", &no_match, &[row.clone()]).unwrap()[0].drop_name);
        let join = ["my_name", "_", "__name__"];
        assert!(apply("label_join", &join, &[row.clone()]).unwrap()[0].drop_name);
        let join = ["__name__", "_", "__name__", "env"];
        let found = apply("label_join", &join, &[row]).unwrap();
        assert_eq!(found[0].labels.metric_name(), "metric_total_1");
        assert!(!found[0].drop_name);
    }

    #[test]
    fn series_that_never_meet_become_one() {
        let mut second = Setup::row("series{idx=2}", &[ABSENT, ABSENT, 3.0]);
        second.values.set_histogram(1, Default::default());
        let rows = [Setup::row("series{idx=1}", &[1.0, ABSENT, ABSENT]), second];
        let texts = ["idx", "replaced", "idx", ".*"];
        let found = apply("label_replace", &texts, &rows).unwrap();
        assert_eq!(found.len(), 1);
        check_floats(&found[0].values.floats, &[1.0, ABSENT, 3.0]);
        assert!(found[0].values.histogram(1).is_some());
    }

    #[test]
    fn a_scalar_is_the_only_float() {
        let mut histogram = Setup::row("c", &[ABSENT; 4]);
        histogram.values.set_histogram(0, Default::default());
        let rows = [
            Setup::row("a", &[1.0, 2.0, ABSENT, ABSENT]),
            Setup::row("b", &[ABSENT, 2.0, f64::NAN, ABSENT]),
            histogram,
        ];
        let nan = f64::NAN;
        check_floats(&scalar_of(&rows, 4), &[1.0, nan, nan, nan]);
        check_floats(&scalar_of(&[], 2), &[nan, nan]);
        let three = [&rows[1], &rows[1], &rows[1]].map(Clone::clone);
        check_floats(&scalar_of(&three, 4), &[nan, nan, nan, nan]);
    }
}
