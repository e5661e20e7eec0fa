use std::convert::Infallible;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

fn up() -> Labels {
    Labels::from_pairs([("__name__", "up"), ("job", "a")])
}

fn bucket(lower: f64, upper: f64, inclusive: (bool, bool), count: f64) -> Bucket {
    Bucket {
        lower,
        upper,
        lower_inclusive: inclusive.0,
        upper_inclusive: inclusive.1,
        count,
    }
}

fn histogram(
    buckets: &[Bucket],
) -> HistogramPoint<std::iter::Copied<std::slice::Iter<'_, Bucket>>> {
    HistogramPoint {
        count: 12.0,
        sum: -0.5,
        buckets: buckets.iter().copied(),
    }
}

fn series(
    times: &TimeTexts,
    floats: &[(i64, f64)],
    histograms: &[(
        i64,
        HistogramPoint<std::iter::Copied<std::slice::Iter<'_, Bucket>>>,
    )],
) -> String {
    written(|out| {
        let floats = floats.iter().copied();
        let histograms = histograms.iter().cloned();
        let flow = |_: &mut Vec<u8>| Ok::<_, Infallible>(());
        write_matrix_series(out, times, &up(), floats, histograms, flow).unwrap();
    })
}

#[test]
fn vectors() {
    assert_eq!(
        written(|out| write_vector_float(out, &up(), 1_435_781_451_781, 0.5)),
        r#"{"metric":{"__name__":"up","job":"a"},"value":[1435781451.781,"0.5"]}"#
    );
    let buckets = [
        bucket(-2.0, -1.0, (true, false), 1.0),
        bucket(-0.001, 0.001, (true, true), 2.5),
        bucket(0.001, 1.0, (false, true), 0.0),
        bucket(1.0, f64::INFINITY, (false, true), 3.0),
        bucket(5.0, 6.0, (false, false), f64::NAN),
    ];
    assert_eq!(
        written(|out| write_vector_histogram(out, &up(), 2000, histogram(&buckets))),
        concat!(
            r#"{"metric":{"__name__":"up","job":"a"},"histogram":[2,{"count":"12","sum":"-0.5","#,
            r#""buckets":[[1,"-2","-1","1"],[3,"-0.001","0.001","2.5"],[0,"1","+Inf","3"],"#,
            r#"[2,"5","6","NaN"]]}]}"#
        )
    );
    assert_eq!(
        written(|out| write_vector_histogram(out, &Labels::empty(), 2000, histogram(&[]))),
        r#"{"metric":{},"histogram":[2,{"count":"12","sum":"-0.5"}]}"#
    );
}

#[test]
fn scalars_and_strings() {
    let scalar = written(|out| write_scalar(out, 1_500, 1e21));
    assert_eq!(scalar, r#"[1.5,"1000000000000000000000"]"#);
    assert_eq!(written(|out| write_text(out, 0, "a\"")), r#"[0,"a\""]"#);
}

#[test]
fn matrices() {
    let times = TimeTexts::new([1000, 1500, 2000].into_iter());
    assert_eq!(
        series(&times, &[(1000, 1.0), (1500, f64::NAN), (2000, -3.5)], &[]),
        concat!(
            r#"{"metric":{"__name__":"up","job":"a"},"#,
            r#""values":[[1,"1"],[1.500,"NaN"],[2,"-3.5"]]}"#
        )
    );
    let empty = [bucket(0.0, 1.0, (false, true), 1.0)];
    assert_eq!(
        series(
            &times,
            &[(2000, 1.0)],
            &[(1000, histogram(&empty)), (1500, histogram(&[]))]
        ),
        concat!(
            r#"{"metric":{"__name__":"up","job":"a"},"values":[[2,"1"]],"#,
            r#""histograms":[[1,{"count":"12","sum":"-0.5","buckets":[[0,"0","1","1"]]}],"#,
            r#"[1.500,{"count":"12","sum":"-0.5"}]]}"#
        )
    );
    assert_eq!(
        series(&times, &[], &[]),
        r#"{"metric":{"__name__":"up","job":"a"}}"#
    );
}

#[test]
fn long_series_come_in_pieces() {
    let points = 10 * POINTS_PER_PIECE as i64;
    let mut sent = Vec::new();
    let mut largest = 0;
    let mut out = Vec::new();
    write_matrix_series(
        &mut out,
        &TimeTexts::default(),
        &up(),
        (0..points).map(|t| (t, t as f64)),
        std::iter::empty::<(i64, HistogramPoint<std::iter::Empty<Bucket>>)>(),
        |out| {
            largest = largest.max(out.len());
            sent.append(out);
            Ok::<_, Infallible>(())
        },
    )
    .unwrap();
    sent.append(&mut out);
    assert!(
        largest < 2 * POINTS_PER_PIECE * POINT_BYTES_MAX,
        "{largest}"
    );
    let parsed: Value = serde_json::from_slice(&sent).unwrap();
    assert_eq!(parsed["values"].as_array().unwrap().len(), points as usize);
}

#[test]
fn a_flow_that_fails_ends_the_writing() {
    let mut out = Vec::new();
    let result = write_matrix_series(
        &mut out,
        &TimeTexts::default(),
        &up(),
        (0..).map(|t| (t, 0.0)),
        std::iter::empty::<(i64, HistogramPoint<std::iter::Empty<Bucket>>)>(),
        |_| Err("gone"),
    );
    assert_eq!(result, Err("gone"));
}

#[test]
fn envelopes() {
    let none = written(|out| {
        write_query_start(out, ResultType::Vector);
        out.extend_from_slice(b"[]");
        write_query_end(out, &QueryEnd::default());
    });
    let expected = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
    assert_eq!(none, expected);
    let stats = QueryStats {
        eval_total_seconds: 0.25,
        queue_seconds: 1e-7,
        samples_per_step: vec![(1500, 2), (2000, 3)],
        samples: 5,
        samples_read_per_step: vec![(1500, 1), (2000, 2)],
        samples_read: 3,
        samples_peak: 4,
        ..QueryStats::default()
    };
    let all = written(|out| {
        write_query_start(out, ResultType::Scalar);
        write_scalar(out, 0, 1.0);
        let end = QueryEnd {
            stats: Some(&stats),
            explain: Some("scan\n"),
            warnings: &["w".into()],
            infos: &["i".into(), "j".into()],
        };
        write_query_end(out, &end);
    });
    let parsed: Value = serde_json::from_str(&all).unwrap();
    let timings = json!({
        "evalTotalTime": 0.25, "resultSortTime": 0, "queryPreparationTime": 0,
        "innerEvalTime": 0, "execQueueTime": 1e-7, "execTotalTime": 0,
    });
    let samples = json!({
        "totalQueryableSamplesPerStep": [[1.5, 2], [2, 3]],
        "totalQueryableSamples": 5,
        "samplesReadPerStep": [[1.5, 1], [2, 2]], "samplesRead": 3, "peakSamples": 4,
    });
    let data = json!({
        "resultType": "scalar", "result": [0, "1"],
        "stats": {"timings": timings, "samples": samples}, "explain": "scan\n",
    });
    let expected = json!({
        "status": "success", "data": data, "warnings": ["w"], "infos": ["i", "j"],
    });
    assert_eq!(parsed, expected);
}

#[test]
fn exemplars() {
    let exemplar = Exemplar {
        labels: Labels::from_pairs([("trace_id", "x")]),
        timestamp_ms: 1_600_096_945_479,
        value: 6.0,
    };
    assert_eq!(
        written(|out| write_exemplar_series(out, &up(), &[exemplar])),
        concat!(
            r#"{"seriesLabels":{"__name__":"up","job":"a"},"exemplars":["#,
            r#"{"labels":{"trace_id":"x"},"value":"6","timestamp":1600096945.479}]}"#
        )
    );
}

proptest! {
    /// Points on and off the prepared steps are written alike.
    #[test]
    fn prepared_times_change_nothing(
        mut times in prop::collection::vec(-10_000i64..10_000, 0..20),
        mut prepared in prop::collection::vec(-10_000i64..10_000, 0..20),
    ) {
        times.sort_unstable();
        times.dedup();
        prepared.extend(times.iter().step_by(2));
        prepared.sort_unstable();
        prepared.dedup();
        let points: Vec<_> = times.iter().map(|t| (*t, *t as f64 / 8.0)).collect();
        let prepared = TimeTexts::new(prepared.into_iter());
        prop_assert_eq!(
            series(&prepared, &points, &[]),
            series(&TimeTexts::default(), &points, &[])
        );
    }
}
