//! Translations to PromQL: the texts, and that both engines answer alike.

mod both;
mod conditional;
mod dashboard;
mod exact;
mod expressions;
mod texts;

use proptest::prelude::*;

/// A whole hour.
const B: i64 = 1_500_001_200;

const HOUR_MS: i64 = 3_600_000;

/// Filters, of which the first three group all series in different ways.
const FILTERS: [&str; 14] = [
    "{dc=*}",
    "",
    "{host=*}",
    "{dc=*,host=*}",
    "{}{host=*}",
    "{host=h0|h1}",
    "{dc=*}{host=wildcard(h*)}",
    "{}{host=regexp([0-2])}",
    "{dc=*}{host=not_literal_or(h0|h3)}",
    "{host=iliteral_or(H0|h2)}",
    "{dc=iwildcard(D*)}",
    "{host=H*}",
    "{dc=not_iliteral_or(D1)}",
    "{}{host=wildcard(*0)}",
];

/// A query without its filters, in parts. An interval of 0 is the whole time.
#[derive(Clone, Debug)]
struct Query {
    aggregator: &'static str,
    downsample: Option<(i64, &'static str, &'static str)>,
    rate: Option<&'static str>,
}

impl Query {
    fn text(&self, filters: &str) -> String {
        let mut text = self.aggregator.to_owned();
        if let Some((interval, function, fill)) = self.downsample {
            let interval = match interval {
                0 => "0all".to_owned(),
                ms => format!("{ms}ms"),
            };
            text += &format!(":{interval}-{function}-{fill}");
        }
        if let Some(rate) = self.rate {
            text += &format!(":{rate}");
        }
        format!("{text}:m{filters}")
    }

    /// Whether PromQL has what it takes.
    fn has_translation(&self) -> bool {
        let lacks = |(interval, function, _): (i64, &str, &str)| {
            function == "mult" || (interval == 0 && self.rate.is_some())
        };
        !["mult", "diff", "first", "last"].contains(&self.aggregator)
            && !self.downsample.is_some_and(lacks)
    }
}

fn query(
    aggregators: &'static [&'static str],
    intervals: &'static [i64],
    fills: &'static [&'static str],
) -> impl Strategy<Value = Query> {
    let functions = vec![
        "sum",
        "min",
        "max",
        "avg",
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
        "p99",
        "ep50r3",
        "ep90r7",
    ];
    let downsample = (
        prop::sample::select(intervals),
        prop::sample::select(functions),
        prop::sample::select(fills),
    );
    let rates = vec![
        "rate",
        "rate{counter}",
        "rate{counter,300}",
        "rate{counter,300,2}",
        "rate{dropcounter}",
    ];
    (
        prop::sample::select(aggregators),
        prop::option::weighted(0.9, downsample),
        prop::option::weighted(0.4, prop::sample::select(rates)),
    )
        .prop_map(|(aggregator, downsample, rate)| Query {
            aggregator,
            downsample,
            rate,
        })
}
