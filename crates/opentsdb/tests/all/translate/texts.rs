//! The texts of translations, and what is refused.

use icecore_opentsdb::translate::{
    Condition, DashboardOptions, Steps, TranslateOptions, Translation, translate_body,
    translate_dashboard, translate_text,
};

use proptest::prelude::*;

use super::B;

fn translated(text: &str) -> Translation {
    translate_text(text, &TranslateOptions::default()).unwrap()
}

fn refused(text: &str) -> String {
    translate_text(text, &TranslateOptions::default())
        .unwrap_err()
        .to_string()
}

#[test]
fn queries_have_readable_texts() {
    for (query, expr) in [
        (
            "sum:1m-avg:rate:sys.cpu.user{host=*}",
            r#"sum by (host) ((avg_over_time({"sys.cpu.user",host!=""}[1m] offset -59s999ms) - avg_over_time({"sys.cpu.user",host!=""}[1m] offset 1ms)) / 60)"#,
        ),
        (
            "zimsum:10s-max:sys.cpu.user{}{dc=lga|sjc}",
            r#"sum(max_over_time({"sys.cpu.user",dc=~"lga|sjc"}[10s] offset -9s999ms))"#,
        ),
        (
            "none:1h-last:m",
            r#"last_over_time({"m"}[1h] offset -59m59s999ms)"#,
        ),
        (
            "mimmax:1dc-dev-nan:m{host=web*}",
            r#"max by (host) (stddev_over_time({"m",host=~"(?i:web.*)"}[1d] offset -23h59m59s999ms))"#,
        ),
        ("sum:m{host=*}", r#"sum by (host) ({"m",host!=""})"#),
        ("avg:rate{counter}:m", r#"avg(irate({"m"}[5m]))"#),
        (
            "squareSum:1m-diff:m",
            r#"sum((last_over_time({"m"}[1m] offset -59s999ms) - first_over_time({"m"}[1m] offset -59s999ms)) ^ 2)"#,
        ),
        (
            "max:5m-p99:m{host=$host,dc=[[dc]]-${x:pipe}}",
            r#"max by (host, dc) (max_over_time({"m",host=~"$host",host!="",dc=~"[[dc]]-${x:pipe}",dc!=""}[5m] offset -4m59s999ms))"#,
        ),
        (
            "zimsum:$interval-sum:m",
            r#"sum(sum_over_time({"m"}[$interval] offset -($interval - 1ms)))"#,
        ),
    ] {
        assert_eq!(translated(query).expr, expr);
    }
}

#[test]
fn conditions_say_when_numbers_are_the_same() {
    use icecore_opentsdb::translate::Counted::{Points, Series};
    for (query, conditions) in [
        ("zimsum:1m-avg:m", vec![]),
        ("sum:1m-avg-nan:m", vec![]),
        ("sum:1m-avg:m", vec![Condition::NoGaps]),
        ("sum:1m-avg-zero:m", vec![Condition::NoGapsOfZeros]),
        (
            "none:1m-avg-nan:rate{dropcounter}:m",
            vec![Condition::NotTheFirstRate, Condition::NoNegatives],
        ),
        (
            "sum:1m-count:rate{dropcounter}:m",
            vec![
                Condition::NotTheFirstRate,
                Condition::NoResets,
                Condition::NoGapsOfRates,
            ],
        ),
        (
            "median:1m-p95-nan:m",
            vec![Condition::OddCount(Series), Condition::AtMost(19, Points)],
        ),
        (
            "avg:m",
            vec![Condition::PointsAtSteps, Condition::NoIntegers],
        ),
        (
            "zimsum:explicit_tags:1m-sum:m{host=*}",
            vec![Condition::NoOtherTags(vec!["host".into()])],
        ),
    ] {
        assert_eq!(translated(query).conditions, conditions, "{query}");
        let strict = TranslateOptions {
            strict: true,
            ..TranslateOptions::default()
        };
        let strict = translate_text(query, &strict);
        assert_eq!(strict.is_ok(), conditions.is_empty(), "{query}");
    }
}

#[test]
fn what_promql_cannot_say_is_refused_with_the_reason() {
    for (query, reason) in [
        ("mult:1m-sum:m", "no product over the series"),
        ("sum:1m-mult:m", "no product over the points"),
        ("first:1m-sum:m", "first depends on the order of series"),
        ("diff:1m-sum:m", "diff depends on the order of series"),
        ("sum:1nc-sum:m", "intervals of the calendar"),
        ("sum:7ms-sum:m", "divide an hour"),
        ("sum:0all-sum:m", "give --start and --end"),
        ("sum:1m-sum-scalar:m", "fill policy scalar"),
        ("sum:percentiles[99]:m", "histogram_quantile interpolates"),
        ("sum:pre-agg:m", "pre-aggregates"),
        ("foo:m", "there is no aggregator foo"),
        (
            "sum:1m-foo:m",
            "OpenTSDB refuses it: No such downsampling function: foo",
        ),
        ("m", "not enough :-separated parts"),
        ("", "The query string was empty"),
        ("foo(sum:m)", "Function foo has not been implemented"),
        ("highestMax(sum:1m-avg:m,2)", "topk at each step"),
        ("movingAverage(sum:m,2)", "needs a downsampler"),
        ("sumSeries(sum:1m-sum:m,sum:2m-sum:m)", "the same interval"),
        (
            "sumSeries(sum:1m-sum:m{host=*},sum:1m-sum:m)",
            "the same tags",
        ),
        (
            "timeShift(sum:7m-sum:m,'1hour')",
            "no multiple of the interval",
        ),
    ] {
        let found = refused(query);
        assert!(found.contains(reason), "{query}: {found}");
    }
    let body = r#"{"start": "1h-ago", "queries": [{"aggregator": "sum", "tsuids": ["0101"]}]}"#;
    let now = TranslateOptions {
        now_ms: B * 1000,
        ..TranslateOptions::default()
    };
    let parts = translate_body(body, &now).unwrap();
    let reason = parts[0].translation.clone().unwrap_err().to_string();
    assert!(
        reason.starts_with("TSUIDs name series by numbers"),
        "{reason}"
    );
    for body in ["", "[]", "{}", r#"{"queries": []}"#, r#"{"queries": {}}"#] {
        assert!(
            translate_body(body, &TranslateOptions::default()).is_err(),
            "{body}"
        );
    }
}

#[test]
fn intervals_longer_than_the_time_may_have_no_step() {
    for (downsample, start, has_step) in [
        ("6hc-avg", 3600, false),
        ("1dc-avg", 3600, false),
        ("6h-avg", 3600, false),
        // Hours 5 and 6 of a day: an interval begins within.
        ("6hc-avg", 5 * 3600, true),
    ] {
        let midnight = B - B.rem_euclid(86_400);
        let options = TranslateOptions {
            start: (midnight + start).to_string(),
            end: (midnight + start + 7200).to_string(),
            ..TranslateOptions::default()
        };
        let translation = translate_text(&format!("sum:{downsample}:m"), &options).unwrap();
        let range = translation.steps.first_and_last_ms();
        assert_eq!(range.is_some(), has_step, "{downsample}");
        let says = |note: &String| note.starts_with("no interval begins in the time");
        assert_eq!(
            translation.notes.iter().any(says),
            !has_step,
            "{downsample}"
        );
    }
}

#[test]
fn what_would_double_with_each_query_is_refused_before_it_is_made() {
    let queries = vec!["sum:1m-avg:a"; 26].join(",");
    for function in ["sum", "multiply", "difference"] {
        let text = format!("{function}({queries})");
        assert!(
            refused(&text).contains("has more than 65536 bytes"),
            "{text}"
        );
        let nested = format!("{function}({text},{queries})");
        assert!(refused(&nested).contains("has more than"), "{nested}");
    }
}

#[test]
fn bodies_say_at_which_steps() {
    let body = format!(
        r#"{{"start": {B}, "end": {}, "queries": [
            {{"aggregator": "zimsum", "metric": "m", "downsample": "1m-sum", "rate": true}},
            {{"aggregator": "sum", "metric": "m", "downsample": "0all-max"}},
            {{"aggregator": "avg", "metric": "m", "downsample": "1m-sum-zero",
              "filters": [{{"type": "literal_or", "tagk": "host", "filter": "a", "groupBy": true}}]}}
        ]}}"#,
        B + 630
    );
    let parts = translate_body(&body, &TranslateOptions::default()).unwrap();
    let found: Vec<Translation> = parts
        .into_iter()
        .map(|part| part.translation.unwrap())
        .collect();
    let steps = |step_ms, start, end| Steps {
        step_ms: Some(step_ms),
        range_ms: Some(((B + start) * 1000, (B + end) * 1000)),
        is_instant: false,
    };
    // The interval before the first lies in another hour.
    assert_eq!(found[0].steps, steps(60_000, 60, 600));
    assert_eq!(found[1].steps, steps(630_000, 0, 0));
    assert_eq!(
        found[1].expr,
        r#"sum(max_over_time({"m"}[10m30s] offset -10m29s999ms))"#
    );
    assert!(found[1].conditions.is_empty());
    assert_eq!(
        found[2].expr,
        r#"avg by (host) (sum_over_time({"m",host="a"}[1m] offset -59s999ms) or 0 * last_over_time({"m",host="a"}[1h] @ 1500004799.999))"#
    );
    let relative = r#"{"start": "2h-ago", "queries": [
        {"aggregator": "max", "metric": "m", "downsample": "1m-sum-zero"}]}"#;
    let options = TranslateOptions {
        now_ms: B * 1000,
        ..TranslateOptions::default()
    };
    let parts = translate_body(relative, &options).unwrap();
    let found = parts[0].translation.clone().unwrap();
    assert_eq!(
        found.expr,
        r#"max(sum_over_time({"m"}[1m] offset -59s999ms) or 0 * last_over_time({"m"}[2h] @ end()))"#
    );
    assert_eq!(found.conditions, [Condition::SeriesOfTheRange]);
}

proptest! {
    #[test]
    fn any_text_is_translated_or_refused(
        text in "(sum:|[0-9]{1,19}[a-z]{1,2}-|rate|avg|scale\\(|timeShift\\(|'[0-9]{1,10}week'|\\$h|[a:,=*' ä(){}$\\[\\]-]){0,12}",
        start in "|[0-9]{1,13}|1h-ago",
    ) {
        let options = TranslateOptions {
            start,
            now_ms: B * 1000,
            bridge_ms: Some(i64::MAX),
            ..TranslateOptions::default()
        };
        let _ = translate_text(&text, &options);
        let _ = translate_text(&format!("sum:{text}:m"), &options);
        let _ = translate_text(&format!("timeShift(timeShift(sum:1m-avg:m,{text}),{text})"), &options);
        let quoted = serde_json::Value::from(text.as_str());
        let body = format!(r#"{{"queries": [{{"aggregator": "sum", "metric": {quoted}}}]}}"#);
        let _ = translate_body(&body, &options);
        let target = format!(r#"{{"metric": {quoted}, "aggregator": "sum", "alias": {quoted},
            "downsampleInterval": {quoted}, "tags": {{"a": {quoted}}}}}"#);
        let dashboard = format!(r#"{{"panels": [{{"targets": [{target}]}}],
            "templating": {{"list": [{{"query": {quoted}}}]}}}}"#);
        let options = DashboardOptions { options, datasource_uid: "x".into() };
        let _ = translate_dashboard(&dashboard, &options);
    }
}
