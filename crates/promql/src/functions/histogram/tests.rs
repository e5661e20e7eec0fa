//! Values and annotations of `histograms.test` and `native_histograms.test`.

use std::sync::Arc;

use icecore_model::{LabelsBuilder, Span};

use super::super::testing::{Setup, check_floats, labels};
use super::*;

const INF: f64 = f64::INFINITY;

/// A row per bucket; each `(le, floats)`.
fn classic(series: &str, buckets: &[(&str, &[f64])]) -> Vec<Row> {
    let row = |(le, floats): &(&str, &[f64])| {
        let mut row = Setup::row(series, floats);
        let mut labels = LabelsBuilder::from_labels(&row.labels);
        labels.set("le", le);
        row.labels = labels.build();
        row
    };
    buckets.iter().map(row).collect()
}

/// `{{schema:0 …}}` with buckets from (0.5, 1] on.
fn native(count: f64, sum: f64, buckets: &[f64]) -> Arc<FloatHistogram> {
    Arc::new(FloatHistogram {
        count,
        sum,
        positive_spans: vec![Span {
            offset: 0,
            length: buckets.len() as u32,
        }],
        positive: buckets.to_vec(),
        ..Default::default()
    })
}

fn native_row(series: &str, steps: usize, histograms: &[(usize, &Arc<FloatHistogram>)]) -> Row {
    let mut row = Setup::row(series, &vec![ABSENT; steps]);
    for (step, histogram) in histograms {
        row.values.set_histogram(*step, Arc::clone(histogram));
    }
    row
}

fn test_histogram() -> Vec<Row> {
    let mut rows = classic(
        "testhistogram_bucket{start=positive}",
        &[
            ("+Inf", &[120.0]),
            ("0.1", &[50.0]),
            (".2", &[70.0]),
            ("1e0", &[110.0]),
        ],
    );
    rows.extend(classic(
        "testhistogram_bucket{start=negative}",
        &[
            ("-.2", &[10.0]),
            ("-0.1", &[20.0]),
            ("0.3", &[20.0]),
            ("+Inf", &[30.0]),
        ],
    ));
    rows
}

#[track_caller]
fn check_rows(found: &[Row], expected: &[(&str, &[f64])]) {
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (row, (series, floats)) in found.iter().zip(expected) {
        assert_eq!(row.labels, labels(series));
        assert!(row.drop_name && !row.values.has_histograms());
        check_floats(&row.values.floats, floats);
    }
}

#[test]
fn quantiles_of_classic_histograms() {
    for (q, positive, negative) in [
        (0.0, 0.0, -0.2),
        (0.25, 0.06, -0.2),
        (0.5, 0.15, -0.15),
        (0.75, 0.6, 0.3),
        (1.0, 1.0, 0.3),
        (-0.1, -INF, -INF),
        (1.01, INF, INF),
        (f64::NAN, f64::NAN, f64::NAN),
    ] {
        let setup = Setup::new(1).scalars(&[q]).series();
        let found = setup
            .vector("histogram_quantile", test_histogram())
            .unwrap();
        assert_eq!(found.len(), 2);
        let values: Vec<f64> = found.iter().map(|row| row.values.floats[0]).collect();
        let close = |(found, expected): (&f64, f64)| {
            *found == expected
                || (found - expected).abs() < 1e-9
                || (found.is_nan() && expected.is_nan())
        };
        assert!(
            values.iter().zip([positive, negative]).all(close),
            "{q}: {values:?}"
        );
        assert_eq!(
            setup.annotations().len(),
            usize::from(!(0.0..=1.0).contains(&q))
        );
    }
}

#[test]
fn fractions_of_classic_histograms() {
    let setup = Setup::new(1).scalars(&[0.0, 0.2]).series();
    let found = setup
        .vector("histogram_fraction", test_histogram())
        .unwrap();
    let values: Vec<f64> = found.iter().map(|row| row.values.floats[0]).collect();
    assert!((values[0] - 70.0 / 120.0).abs() < 1e-12);
    assert!(values[1].abs() < 1e-12);
    assert!(setup.annotations().is_empty());
}

#[test]
fn buckets_of_each_step() {
    let rows = classic(
        "b",
        &[
            ("1", &[2.0, 2.0, ABSENT, ABSENT]),
            ("2", &[4.0, ABSENT, ABSENT, 1.0]),
            ("+Inf", &[4.0, 4.0, ABSENT, ABSENT]),
        ],
    );
    let setup = Setup::new(4).scalars(&[0.75]).series();
    let found = setup.vector("histogram_quantile", rows).unwrap();
    check_rows(&found, &[("b", &[1.5, 1.0, ABSENT, f64::NAN])]);
}

#[test]
fn the_quantile_of_each_step() {
    let rows = classic(
        "b",
        &[("1", &[2.0; 3]), ("2", &[4.0; 3]), ("+Inf", &[4.0; 3])],
    );
    let setup = Setup::new(3)
        .scalar(ScalarColumn::PerStep(vec![0.5, 7.0, 1.0]))
        .series();
    let found = setup.vector("histogram_quantile", rows).unwrap();
    check_rows(&found, &[("b", &[1.0, INF, 2.0])]);
    assert_eq!(
        setup.annotations(),
        ["PromQL warning: quantile value should be between 0 and 1, got 7 (1:11)"]
    );
}

#[test]
fn names_tell_histograms_apart_until_the_end() {
    let buckets: &[(&str, &[f64])] = &[("1", &[1.0]), ("+Inf", &[1.0])];
    let mut rows = classic("a{job=x}", buckets);
    rows.extend(classic("b{job=x}", buckets));
    let setup = Setup::new(1).scalars(&[1.0]).series();
    let found = setup.vector("histogram_quantile", rows).unwrap();
    check_rows(&found, &[("a{job=x}", &[1.0]), ("b{job=x}", &[1.0])]);
}

#[test]
fn counts_that_fall_are_noted() {
    let rows = || {
        classic(
            "nonmonotonic_bucket",
            &[
                ("0.1", &[20.0]),
                ("1", &[10.0]),
                ("10", &[50.0]),
                ("100", &[40.0]),
                ("1000", &[90.0]),
                ("+Inf", &[80.0]),
            ],
        )
    };
    let setup = Setup::new(1).scalars(&[0.5]).series();
    let found = setup.vector("histogram_quantile", rows()).unwrap();
    check_rows(&found, &[("nonmonotonic_bucket", &[8.5])]);
    let annotation = |place| {
        format!(
            "PromQL info: input to histogram_quantile needed to be fixed for monotonicity (see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile) for metric name \"nonmonotonic_bucket\", from buckets 1 to +Inf, with a max diff of 10, over 1 samples from 1970-01-01T00:00:00Z to 1970-01-01T00:00:00Z ({place})"
        )
    };
    assert_eq!(setup.annotations(), [annotation("1:21")]);
    let setup = Setup::new(1)
        .series()
        .texts(&["q"])
        .scalars(&[0.01, 0.5, 0.99]);
    let found = setup.vector("histogram_quantiles", rows()).unwrap();
    let expected: [(&str, &[f64]); 3] = [
        ("nonmonotonic_bucket{q=0.01}", &[0.0045]),
        ("nonmonotonic_bucket{q=0.5}", &[8.5]),
        ("nonmonotonic_bucket{q=0.99}", &[979.75]),
    ];
    check_rows(&found, &expected);
    assert_eq!(setup.annotations(), [annotation("1:11")]);
}

#[test]
fn labels_that_bound_nothing_are_noted() {
    let rows = vec![
        Setup::row("series{ale=0.1}", &[2.0]),
        Setup::row("series{le=Hello World}", &[2.0]),
        Setup::row("gone{le=x}", &[ABSENT]),
    ];
    let setup = Setup::new(1).scalars(&[0.5]).series();
    let found = setup.vector("histogram_quantile", rows).unwrap();
    assert!(found.is_empty());
    let annotation = |value| {
        format!(
            "PromQL warning: bucket label \"le\" is missing or has a malformed value of {value:?} for metric name \"series\" (1:21)"
        )
    };
    assert_eq!(
        setup.annotations(),
        [annotation(""), annotation("Hello World")]
    );
}

#[test]
fn classic_and_native_at_once_give_nothing() {
    let histogram = native(4.0, 5.0, &[1.0, 2.0, 1.0]);
    let mut rows = classic(
        "series{host=a}",
        &[("1", &[3.0, ABSENT]), ("+Inf", &[9.0, ABSENT])],
    );
    rows.push(native_row(
        "series{host=a}",
        2,
        &[(0, &histogram), (1, &histogram)],
    ));
    rows.push(native_row("series{host=b}", 2, &[(0, &histogram)]));
    let annotation = |place| {
        format!(
            "PromQL warning: vector contains a mix of classic and native histograms for metric name \"series\" ({place})"
        )
    };
    let setup = Setup::new(2).scalars(&[-INF, 1.0]).series();
    let found = setup.vector("histogram_fraction", rows.clone()).unwrap();
    let expected: [(&str, &[f64]); 2] = [
        ("series{host=a}", &[ABSENT, 0.25]),
        ("series{host=b}", &[0.25, ABSENT]),
    ];
    check_rows(&found, &expected);
    assert_eq!(setup.annotations(), [annotation("1:31")]);
    let setup = Setup::new(2).scalars(&[1.0]).series();
    let found = setup.vector("histogram_quantile", rows).unwrap();
    let expected: [(&str, &[f64]); 2] = [
        ("series{host=a}", &[ABSENT, 4.0]),
        ("series{host=b}", &[4.0, ABSENT]),
    ];
    check_rows(&found, &expected);
    assert_eq!(setup.annotations(), [annotation("1:21")]);
}

#[test]
fn observations_that_are_nan_are_noted() {
    let histogram = native(15.0, f64::NAN, &[12.0]);
    let row = || vec![native_row("histogram_nan", 1, &[(0, &histogram)])];
    let quantile = |q: f64| {
        let setup = Setup::new(1).scalars(&[q]).series();
        let found = setup.vector("histogram_quantile", row()).unwrap();
        (found[0].values.floats[0], setup.annotations())
    };
    let (value, annotations) = quantile(1.0);
    assert!(value.is_nan());
    let words = "PromQL info: input to histogram_quantile has NaN observations, result is";
    let metric = "for metric name \"histogram_nan\" (1:21)";
    assert_eq!(annotations, [format!("{words} NaN {metric}")]);
    let (value, annotations) = quantile(0.8);
    check_floats(&[value], &[1.0]);
    assert_eq!(annotations, [format!("{words} skewed higher {metric}")]);
    let setup = Setup::new(1).scalars(&[-INF, 1.0]).series();
    let found = setup.vector("histogram_fraction", row()).unwrap();
    check_rows(&found, &[("histogram_nan", &[0.8])]);
    assert_eq!(
        setup.annotations(),
        [
            "PromQL info: input to histogram_fraction has NaN observations, which are excluded from all fractions for metric name \"histogram_nan\" (1:31)"
        ]
    );
}

#[test]
fn quantiles_have_labels() {
    let rows = || {
        classic(
            "b{job=x}",
            &[("1", &[2.0; 3]), ("2", &[4.0; 3]), ("+Inf", &[4.0; 3])],
        )
    };
    let changing = ScalarColumn::PerStep(vec![0.5, 0.75, 0.5]);
    let setup = Setup::new(3)
        .series()
        .texts(&["q"])
        .scalar(changing.clone())
        .scalars(&[1.0]);
    let found = setup.vector("histogram_quantiles", rows()).unwrap();
    let expected: [(&str, &[f64]); 3] = [
        ("b{job=x,q=0.5}", &[1.0, ABSENT, 1.0]),
        ("b{job=x,q=0.75}", &[ABSENT, 1.5, ABSENT]),
        ("b{job=x,q=1.0}", &[2.0, 2.0, 2.0]),
    ];
    check_rows(&found, &expected);
    // The same quantile twice at a step is the same series twice.
    let setup = Setup::new(3)
        .series()
        .texts(&["q"])
        .scalar(changing)
        .scalars(&[0.5]);
    let error = setup.vector("histogram_quantiles", rows()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "vector cannot contain metrics with the same labelset"
    );
    let setup = Setup::new(3)
        .series()
        .texts(&["q"])
        .scalars(&[f64::NAN, 2.0]);
    assert!(
        setup
            .vector("histogram_quantiles", Vec::new())
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        setup.annotations(),
        [
            "PromQL warning: quantile value should be between 0 and 1, got NaN (1:31)",
            "PromQL warning: quantile value should be between 0 and 1, got 2 (1:41)"
        ]
    );
}

#[test]
fn floats_of_native_histograms() {
    let histogram = native(4.0, 10.0, &[4.0]);
    for (name, expected) in [
        ("histogram_count", 4.0),
        ("histogram_sum", 10.0),
        ("histogram_avg", 2.5),
        ("histogram_stdvar", (0.5f64.sqrt() - 2.5).powi(2)),
        ("histogram_stddev", 2.5 - 0.5f64.sqrt()),
    ] {
        let mut row = native_row("h", 3, &[(1, &histogram)]);
        row.values.floats[2] = 7.0;
        let row = Setup::new(3).series().map(name, row);
        check_floats(&row.values.floats, &[ABSENT, expected, ABSENT]);
        assert!(row.drop_name && !row.values.has_histograms());
        let floats = Setup::new(1).series().map(name, Setup::row("f", &[1.0]));
        assert!(floats.values.is_empty());
    }
}
