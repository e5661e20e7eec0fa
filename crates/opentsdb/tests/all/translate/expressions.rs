//! Functions of `gexp` and documents of `exp`: both engines answer alike.

use std::collections::BTreeMap;

use icecore_opentsdb::translate::{TranslateOptions, translate_body, translate_text};
use serde_json::json;

use super::both::{Both, Series, compare, difference, options};
use super::{B, HOUR_MS};

/// Two metrics with points in every minute; `n` has no series of host 2.
fn dense() -> Both {
    let mut all = Vec::new();
    for (metric, hosts) in [("m", 3), ("n", 2)] {
        for host in 0..hosts {
            let points = (0..300).map(|i| {
                let value = (i * 7 + host as i64 * 31 + metric.len() as i64) % 40 - 13;
                let value = if metric == "n" { value % 4 } else { value };
                (B * 1000 - HOUR_MS + i * 60_000 + 7000, value as f64)
            });
            let points: BTreeMap<i64, f64> = points.collect();
            let dc = host % 2;
            all.push(Series {
                metric,
                host,
                dc,
                points,
            });
        }
    }
    Both::new(&all)
}

const WINDOW: (i64, i64) = (B * 1000 + 90_000, B * 1000 + HOUR_MS);

#[test]
fn functions_give_the_same_numbers() {
    let both = dense();
    for call in [
        "scale(none:1m-avg:m,-2.5)",
        "absolute(sum:1m-avg:m{host=*})",
        "alias(sum:1m-avg:m,cpu)",
        "sumSeries(none:1m-avg:m,none:1m-avg:n)",
        "diffSeries(sum:1m-avg:m{host=*},sum:1m-avg:n{host=*})",
        "multiplySeries(none:1m-last:m,none:1m-last:n)",
        "divideSeries(none:1m-sum:m,none:1m-sum:n,none:1m-sum:n)",
        "divide(sum:1m-avg:m{host=h0},scale(sum:1m-avg:n{host=h0},0))",
        "movingAverage(sum:1m-avg:m{host=*},5)",
        "movingAverage(sum:1m-avg:m{host=*},'10min')",
        "timeShift(sum:1m-avg:m{host=*},'30min')",
        "timeShift(scale(sum:1m-avg:rate:m{host=*},2),'5min')",
        "highestMax(none:1m-avg:m,1)",
        "highestCurrent(none:7m-avg:m,2)",
    ] {
        let translation = translate_text(call, &options(WINDOW, false)).unwrap();
        let difference = difference(&both, call, WINDOW, &translation);
        assert!(difference.is_none(), "{}", difference.unwrap());
    }
}

#[test]
fn intervals_of_the_calendar_and_named_tags_give_the_same_numbers() {
    let both = dense();
    for query in [
        "none:1hc-sum:m",
        "zimsum:15mc-avg:m{host=*}",
        "squareSum:1dc-count:m",
        "sum:10m-avg:explicit_tags:m{host=*}{dc=*}",
        "max:5m-last-zero:rate:m{}{dc=d0}",
    ] {
        let translation = translate_text(query, &options(WINDOW, false)).unwrap();
        let difference = difference(&both, query, WINDOW, &translation);
        assert!(difference.is_none(), "{}", difference.unwrap());
    }
}

#[test]
fn functions_have_readable_texts() {
    let text = |call: &str| translate_text(call, &TranslateOptions::default()).unwrap();
    assert_eq!(
        text("scale(none:1m-avg:m,2)").expr,
        r#"avg_over_time({"m"}[1m] offset -59s999ms) * 2"#
    );
    let alias = text("alias(zimsum:1m-avg:m{host=*},cpu-@host)");
    assert_eq!(alias.legend.as_deref(), Some("cpu-{{host}}"));
    assert_eq!(
        alias.expr,
        r#"abs(sum by (host) (avg_over_time({"m",host!=""}[1m] offset -59s999ms)))"#
    );
    assert_eq!(
        text("diffSeries(none:1m-sum:a,none:1m-sum:b)").expr,
        r#"sum_over_time({"a"}[1m] offset -59s999ms) - sum_over_time({"b"}[1m] offset -59s999ms) or sum_over_time({"a"}[1m] offset -59s999ms) or -sum_over_time({"b"}[1m] offset -59s999ms)"#
    );
}

fn document(expression: &str, join: &str) -> serde_json::Value {
    let tags = json!([{"type": "wildcard", "tagk": "host", "filter": "*", "groupBy": true}]);
    json!({
        "time": {"start": WINDOW.0.to_string(), "end": WINDOW.1.to_string(), "aggregator": "sum",
                 "downsampler": {"interval": "1m", "aggregator": "avg"}},
        "filters": [{"id": "f", "tags": tags}],
        "metrics": [{"id": "a", "metric": "m", "filter": "f"},
                    {"id": "b", "metric": "n", "filter": "f"}],
        "expressions": [
            {"id": "e", "expr": expression,
             "join": {"operator": join, "useQueryTags": true, "includeAggTags": false}},
            {"id": "twice", "expr": "e * 2 - 7 / 2", "join": {"operator": "union"}}],
        "outputs": [{"id": "e", "alias": "x"}, {"id": "a"}, {"id": "twice"}],
    })
}

#[test]
fn arithmetic_gives_the_same_numbers() {
    let both = dense();
    for expression in [
        "a + b",
        "a - b * 2",
        "-a / b",
        "a + 3 / b",
        "a % b",
        "a / 0 + b",
        "(a > b) + (a <= 3) * 2",
        "(a == b) + (a != b) * 3 + (a >= b) * 5 + (a < b) * 7",
        "a && b || !b",
    ] {
        for join in ["union", "intersection"] {
            let document = document(expression, join);
            let parts = translate_body(&document.to_string(), &options(WINDOW, false)).unwrap();
            for (i, part) in parts.iter().enumerate() {
                let translation = part.translation.clone().unwrap();
                let expected = both.exp(&document, i);
                let about = format!("{expression} {join} {}", part.name);
                let difference = compare(&both, expected, &translation, &about);
                assert!(difference.is_none(), "{}", difference.unwrap());
            }
        }
    }
    let choice = document("a > b ? a : b", "union").to_string();
    let parts = translate_body(&choice, &options(WINDOW, false)).unwrap();
    let refusal = parts[0].translation.clone().unwrap_err().to_string();
    assert!(
        refusal.contains("no choice between two values"),
        "{refusal}"
    );
}
