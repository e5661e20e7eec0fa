//! A dashboard of Grafana: its text, what is said about it, and the numbers of its panels.

use icecore_opentsdb::translate::{
    Condition, DashboardOptions, Steps, TranslateOptions, Translation, translate_dashboard,
};
use serde_json::Value;

use super::both::{Both, Series, difference};
use super::{B, HOUR_MS};

const DASHBOARD: &str = include_str!("dashboard.json");
const TRANSLATED: &str = include_str!("dashboard.translated.json");

fn options() -> DashboardOptions {
    DashboardOptions {
        options: TranslateOptions::default(),
        datasource_uid: "icecore".into(),
    }
}

#[test]
fn queries_are_replaced_and_everything_else_stays() {
    let found = translate_dashboard(DASHBOARD, &options()).unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/all/translate/dashboard.translated.json"
        );
        std::fs::write(path, &found.json).unwrap();
    }
    assert_eq!(found.json, TRANSLATED);
    // What is translated is left alone from then on.
    let again = translate_dashboard(TRANSLATED, &options()).unwrap();
    assert_eq!(again.json, TRANSLATED);
    // As Grafana's API has it.
    let wrapped = format!(r#"{{"meta": {{}}, "dashboard": {DASHBOARD}}}"#);
    let wrapped = translate_dashboard(&wrapped, &options()).unwrap();
    let inner: Value = serde_json::from_str(&wrapped.json).unwrap();
    let expected: Value = serde_json::from_str(TRANSLATED).unwrap();
    assert_eq!(inner["dashboard"], expected);
}

#[test]
fn what_is_not_translated_is_said() {
    let found = translate_dashboard(DASHBOARD, &options()).unwrap();
    let refused: Vec<(&str, String)> = found
        .report
        .iter()
        .filter_map(|line| {
            let reason = line.outcome.as_ref().err()?.to_string();
            let start = reason.split([':', ',']).next().unwrap().to_owned();
            Some((line.place.as_str(), start))
        })
        .collect();
    let expected = [
        (
            "panel \"Of an older Grafana\" (5), query B",
            "PromQL has no product over the series of a group",
        ),
        (
            "panel \"Of an older Grafana\" (5), query C",
            "the aggregator is a variable",
        ),
        ("variable \"dc\"", "one of its values is *"),
        (
            "variable \"any\"",
            "Prometheus lists the values of one label",
        ),
        (
            "annotation \"deploys\"",
            "annotations of OpenTSDB are no series",
        ),
    ];
    assert_eq!(
        refused,
        expected.map(|(place, start)| (place, start.to_owned()))
    );
    for text in ["", "[]", "{}", "{\"panels\": 1} x"] {
        assert!(translate_dashboard(text, &options()).is_err(), "{text}");
    }
}

/// Every panel's numbers, with the values that Grafana would put in place of its variables.
#[test]
fn panels_show_the_same_numbers() {
    let series = (0..4).map(|host| {
        let points = (0..360).map(|i| {
            let time = B * 1000 - 2 * HOUR_MS + i * 60_000 + host as i64 * 1000;
            (time, ((i * 7 + host as i64 * 11) % 50) as f64 + 0.5)
        });
        Series {
            metric: "m",
            host,
            dc: host % 2,
            points: points.collect(),
        }
    });
    let both = Both::new(&series.collect::<Vec<_>>());
    let window = (B * 1000, B * 1000 + HOUR_MS);
    let document: Value = serde_json::from_str(TRANSLATED).unwrap();
    let expr = |panel: &Value, target: usize| {
        let expr = panel["targets"][target]["expr"].as_str().unwrap();
        expr.replace("$__interval", "1m")
            .replace("$interval", "5m")
            .replace("$__range", "1h")
            .replace("$host", "(h0|h2)")
            .replace("${host:pipe}", "h0|h2")
            .replace("[[prefix]]", "h")
    };
    let panels = &document["panels"];
    let translation = |expr: String, step_ms, first| Translation {
        expr,
        legend: None,
        steps: Steps {
            step_ms: Some(step_ms),
            range_ms: Some((first, window.1)),
            is_instant: false,
        },
        conditions: vec![Condition::NotTheFirstRate],
        notes: Vec::new(),
    };
    for (query, expr, step_ms) in [
        (
            "sum:1m-avg:rate{counter,300}:m{host=h0|h2}{dc=wildcard(d*)}",
            expr(&panels[0], 0),
            60_000,
        ),
        (
            "zimsum:5m-max-nan:rate:m{dc=*}",
            expr(&panels[0], 1),
            300_000,
        ),
        (
            "avg:1m-sum-zero:m{}{host=regexp(^h)}",
            expr(&panels[1]["panels"][0], 0),
            60_000,
        ),
        ("none:5m-last:m{host=h0|h2}", expr(&panels[2], 0), 300_000),
    ] {
        let translation = translation(expr, step_ms, window.0);
        let difference = difference(&both, query, window, &translation);
        assert!(difference.is_none(), "{}", difference.unwrap());
    }
    // One value for the whole time, at its end.
    let found = both.promql(&expr(&panels[3], 0), window.1, window.1, 1);
    let expected = both.opentsdb("max:0all-max:m", window).unwrap();
    let values = |answers: super::both::Answers| -> Vec<f64> {
        answers
            .into_values()
            .flat_map(|points| points.into_values())
            .collect()
    };
    assert_eq!(values(found), values(expected));
}
