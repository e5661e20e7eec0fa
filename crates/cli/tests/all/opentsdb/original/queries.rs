//! Random queries, as documents and in URLs.

use serde_json::{Value as Json, json};

use super::points::{DAYS, Names, START_S};
use crate::http::escape;
use crate::random::Random;

/// A request.
#[derive(Debug)]
pub(super) enum Asked {
    Get(String),
    Post(String, String),
}

const AGGREGATORS: &[&str] = &[
    "sum",
    "min",
    "max",
    "avg",
    "none",
    "median",
    "mult",
    "dev",
    "diff",
    "count",
    "zimsum",
    "mimmin",
    "mimmax",
    "first",
    "last",
    "pfsum",
    "squareSum",
    "p50",
    "p90",
    "p999",
    "ep50r3",
    "ep75r7",
    "ep99r3",
    "nosuch",
];

const INTERVALS: &[&str] = &[
    "10s", "30s", "1m", "7m", "15m", "1h", "6h", "1d", "2d", "1w", "500ms", "0all", "1hc", "6hc",
    "1dc", "1wc", "1nc", "0s", "x",
];

const FILLS: &[&str] = &["", "-none", "-nan", "-null", "-zero", "-scalar", "-other"];

const ZONES: &[&str] = &["UTC", "America/New_York", "Asia/Kathmandu", "Europe/Berlin"];

pub(super) fn ask(names: &Names, random: &mut Random) -> Asked {
    match random.below(10) {
        0..5 => document(names, random),
        5..8 => url(names, random),
        8 => gexp(names, random),
        _ => exp(names, random),
    }
}

fn window(random: &mut Random) -> (i64, i64) {
    let whole = DAYS * 86_400;
    let start = START_S + random.within(-3600..whole);
    (start, start + random.pick(&[1, 600, 3600, 20_000, whole]))
}

fn metric<'a>(names: &'a Names, random: &mut Random) -> &'a str {
    &names.metrics[random.below(names.metrics.len())]
}

fn downsample(random: &mut Random) -> String {
    // Most are right, so that there is something to compare.
    let interval = &INTERVALS[..if random.one_in(20) {
        INTERVALS.len()
    } else {
        17
    }];
    let fill = &FILLS[..if random.one_in(20) { FILLS.len() } else { 5 }];
    let (interval, function) = (random.pick(interval), aggregator(random));
    // A fill policy over days in steps of half a second is a large answer, and no other.
    let fill = if interval == "500ms" {
        ""
    } else {
        random.pick(fill)
    };
    format!("{interval}-{function}{fill}")
}

fn aggregator(random: &mut Random) -> &'static str {
    let most = if random.one_in(30) {
        AGGREGATORS.len()
    } else {
        AGGREGATORS.len() - 1
    };
    random.pick(&AGGREGATORS[..most])
}

fn document(names: &Names, random: &mut Random) -> Asked {
    let (start, end) = window(random);
    let scale = random.pick(&[1, 1000]);
    let count = 1 + random.below(2);
    let queries: Vec<Json> = (0..count).map(|_| sub_query(names, random)).collect();
    let mut query = json!({"start": start * scale, "end": end * scale, "queries": queries});
    if random.one_in(2) {
        query["msResolution"] = true.into();
    }
    if random.one_in(4) {
        query["timezone"] = random.pick(ZONES).into();
    }
    if random.one_in(6) {
        query["useCalendar"] = true.into();
    }
    let path = if random.one_in(4) {
        "/api/query?arrays=true"
    } else {
        "/api/query"
    };
    Asked::Post(path.into(), query.to_string())
}

fn sub_query(names: &Names, random: &mut Random) -> Json {
    let mut query = json!({"metric": metric(names, random), "aggregator": aggregator(random)});
    if random.one_in(2) {
        query["downsample"] = downsample(random).into();
    }
    if random.one_in(3) {
        query["rate"] = true.into();
        if random.one_in(2) {
            query["rateOptions"] = json!({
                "counter": random.one_in(2),
                "counterMax": random.pick(&[100, 1000, i64::MAX]),
                "resetValue": random.pick(&[0, 1, 50]),
                "dropResets": random.one_in(3),
            });
        }
    }
    if random.one_in(8) {
        query["explicitTags"] = true.into();
    }
    let filters = (0..random.below(3))
        .map(|_| filter(names, random))
        .collect::<Vec<_>>();
    if !filters.is_empty() || random.one_in(2) {
        query["filters"] = filters.into();
    }
    query
}

/// A filter's type and text.
fn filter_text(values: &[String], random: &mut Random) -> (&'static str, String) {
    let value = || values[0].as_str();
    let several = values[..1 + random.below(values.len())].join("|");
    match random.below(9) {
        0 => ("literal_or", several),
        1 => ("iliteral_or", several.to_uppercase()),
        2 => ("not_literal_or", several),
        3 => ("not_iliteral_or", several.to_uppercase()),
        4 => ("wildcard", "*".into()),
        5 => ("wildcard", format!("{}*", &value()[..3])),
        6 => ("iwildcard", "w*".into()),
        7 => ("regexp", format!("^({}|W).*", &value()[..2])),
        _ => ("regexp", "[02]".into()),
    }
}

fn filter(names: &Names, random: &mut Random) -> Json {
    let (key, values) = &names.tags[random.below(names.tags.len())];
    let (kind, text) = filter_text(values, random);
    json!({"type": kind, "tagk": key, "filter": text, "groupBy": random.one_in(2)})
}

/// `sum:1m-avg:rate:metric{host=*}{dc=wildcard(a*)}`
fn metric_text(names: &Names, random: &mut Random) -> String {
    let mut text = aggregator(random).to_owned();
    if random.one_in(2) {
        text.push_str(&format!(":{}", downsample(random)));
    }
    if random.one_in(3) {
        let options = [
            "",
            "{counter}",
            "{counter,100}",
            "{counter,1000,50}",
            "{dropcounter}",
        ];
        text.push_str(&format!(":rate{}", random.pick(&options)));
    }
    text.push_str(&format!(":{}", metric(names, random)));
    for _ in 0..random.below(3) {
        let (key, values) = &names.tags[random.below(names.tags.len())];
        let (kind, filter) = filter_text(values, random);
        let filter = if random.one_in(3) {
            "*".into()
        } else {
            format!("{kind}({filter})")
        };
        text.push_str(&format!("{{{key}={filter}}}"));
    }
    text
}

fn url(names: &Names, random: &mut Random) -> Asked {
    let (start, end) = window(random);
    let m = escape(&metric_text(names, random));
    let ms = if random.one_in(2) { "&ms" } else { "" };
    Asked::Get(format!("/api/query?start={start}&end={end}&m={m}{ms}"))
}

fn gexp(names: &Names, random: &mut Random) -> Asked {
    let (start, end) = window(random);
    let series = metric_text(names, random);
    // highestMax and highestCurrent are left out: the original takes one series for another where
    // they begin or end at different times.
    let function = match random.below(3) {
        0 => format!("scale({series},{})", random.within(-5..5)),
        1 => format!("absolute({series})"),
        _ => format!("movingAverage({series},{})", random.within(1..5)),
    };
    let function = escape(&function);
    Asked::Get(format!(
        "/api/query/gexp?start={start}&end={end}&exp={function}"
    ))
}

fn exp(names: &Names, random: &mut Random) -> Asked {
    let (start, end) = window(random);
    let host = &names.tags[0].0;
    let filter = json!({"tagk": host, "type": "wildcard", "filter": "*", "groupBy": true});
    let operator = random.pick(&["+", "-", "*", "/"]);
    let expressions = json!([
        {"id": "e", "expr": format!("a {operator} b"),
         "join": {"operator": random.pick(&["union", "intersection"]), "useQueryTags": random.one_in(2)}},
    ]);
    let fill = || json!({"policy": "zero"});
    let mut query = json!({
        "time": {"start": start.to_string(), "end": end.to_string(), "aggregator": "sum",
                 "downsampler": {"interval": "15m", "aggregator": random.pick(&["avg", "sum", "max"])}},
        "filters": [{"id": "f", "tags": [filter]}],
        "metrics": [
            {"id": "a", "metric": names.metrics[0], "filter": "f", "fillPolicy": fill()},
            {"id": "b", "metric": names.metrics[1], "filter": "f", "fillPolicy": fill()},
        ],
        "outputs": [{"id": "a"}, {"id": "b"}],
    });
    if random.one_in(4) {
        // Of metrics the original shows points before the start and behind the end.
        query["time"]["start"] = (START_S - 7200).to_string().into();
        query["time"]["end"] = (START_S + DAYS * 86_400 + 7200).to_string().into();
    } else {
        query["expressions"] = expressions;
        query["outputs"] = json!([{"id": "e"}]);
    }
    Asked::Post("/api/query/exp".into(), query.to_string())
}
