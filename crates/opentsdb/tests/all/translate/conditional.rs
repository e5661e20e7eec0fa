//! Data that meets the conditions: every translation gives the same numbers.

use std::collections::BTreeMap;

use icecore_opentsdb::translate::{Condition, Counted, translate_text};
use proptest::prelude::*;

use super::both::{Both, Series, difference, options};
use super::{B, FILTERS, HOUR_MS, Query, query};

const AGGREGATORS: [&str; 20] = [
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
    "none",
    "p50",
    "p99",
    "ep90r3",
];

/// An odd number of series in each data centre, and of all.
const DATA_CENTRES: [usize; 5] = [0, 0, 0, 1, 2];

/// Every series has the same number of points in every interval of four hours.
fn data(query: &Query, values: &[i64], per_interval: i64) -> Vec<Series> {
    let (interval, per_interval) = match query.downsample {
        Some((0, ..)) => (300_000, per_interval),
        Some((interval, ..)) => (interval, per_interval),
        // Points at the same times, a minute apart.
        None => (60_000, 1),
    };
    let is_monotone = query.rate.is_some_and(|rate| rate.contains("drop"))
        || (query.rate.is_some() && query.downsample.is_none());
    let first = B * 1000 / interval * interval;
    let count = 4 * HOUR_MS / interval + 1;
    let mut value = values.iter().cycle();
    let series = DATA_CENTRES.iter().enumerate().map(|(host, dc)| {
        let mut points = BTreeMap::new();
        let mut total = 0.0;
        for i in 0..count * per_interval {
            let part = interval / per_interval;
            let time = first
                + i * part
                + if query.downsample.is_some() {
                    part / 3
                } else {
                    0
                };
            // Not an integer, and neither is a sum of some of them.
            let change = *value.next().unwrap() as f64 + 0.3;
            total += change.abs();
            points.insert(time, if is_monotone { total } else { change });
        }
        Series {
            metric: "m",
            host,
            dc: *dc,
            points,
        }
    });
    series.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn numbers_are_the_same_where_conditions_hold(
        query in query(
            &AGGREGATORS,
            &[0, 60_000, 300_000, 420_000, 2_160_000, HOUR_MS],
            &["none", "none", "nan", "zero"],
        ),
        values in prop::collection::vec(-200i64..200, 20..60),
        per_interval in prop::sample::select(vec![1i64, 3]),
        window in (0..2 * HOUR_MS, 1..2 * HOUR_MS),
        filters in 0..FILTERS.len(),
    ) {
        // With other filters the number of series may be even.
        let filters = if query.aggregator == "median" { filters % 3 } else { filters };
        let text = query.text(FILTERS[filters]);
        let start = B * 1000 + window.0;
        let window = (start, start + window.1);
        let translation = match translate_text(&text, &options(window, false)) {
            Err(refusal) => {
                prop_assert!(!query.has_translation(), "{text}: {refusal}");
                return Ok(());
            }
            Ok(translation) => translation,
        };
        prop_assert!(query.has_translation(), "{text}");
        // Values that rise may be spread less and less: then rates of that are dropped.
        let may_fall = query.downsample.is_some_and(|(_, f, _)| ["dev", "diff"].contains(&f));
        if translation.conditions.contains(&Condition::NoResets) && may_fall {
            return Ok(());
        }
        // Of the whole time there are any number of points.
        let depends_on_count = |condition: &Condition| {
            use Condition::{AtMost, OddCount};
            matches!(condition, AtMost(_, Counted::Points) | OddCount(Counted::Points))
        };
        let is_whole = query.downsample.is_some_and(|(interval, ..)| interval == 0);
        if is_whole && translation.conditions.iter().any(depends_on_count) {
            return Ok(());
        }
        let both = Both::new(&data(&query, &values, per_interval));
        let difference = difference(&both, &text, window, &translation);
        prop_assert!(difference.is_none(), "{}", difference.unwrap_or_default());
    }

    /// All data lies within the hours that are read, and gaps are shorter than the bridge.
    #[test]
    fn gaps_are_bridged(
        aggregator in prop::sample::select(vec![
            "sum", "min", "max", "avg", "dev", "count", "pfsum", "p50", "none",
        ]),
        (interval, function) in prop::sample::select(vec![
            (420_000, "avg"), (600_000, "sum"), (900_000, "last"), (600_000, "diff"),
        ]),
        group in prop::sample::select(vec!["{dc=*}", "", "{host=*}"]),
        rate in any::<bool>(),
        points in prop::collection::vec(
            prop::collection::btree_map(0..3 * HOUR_MS, -100i64..100, 1..20), 5),
    ) {
        let series = points.into_iter().enumerate().map(|(host, points)| {
            let points = points.into_iter();
            Series {
                metric: "m",
                host,
                dc: DATA_CENTRES[host],
                points: points.map(|(t, v)| (B * 1000 + t, v as f64 / 4.0)).collect(),
            }
        });
        let both = Both::new(&series.collect::<Vec<_>>());
        // Only series of their own have rates over gaps.
        let rate = if rate && aggregator == "none" { "rate:" } else { "" };
        let text = format!("{aggregator}:{interval}ms-{function}:{rate}m{group}");
        // All three hours are read, and none before.
        let window = (B * 1000 + 60_000, B * 1000 + 3 * HOUR_MS - 60_000);
        let mut options = options(window, false);
        options.bridge_ms = Some(4 * HOUR_MS);
        let translation = translate_text(&text, &options).unwrap();
        let is_bridged = translation.conditions == [Condition::GapsUpTo(4 * HOUR_MS)];
        prop_assert!(is_bridged || (aggregator == "none" && rate.is_empty()), "{text}");
        let difference = difference(&both, &text, window, &translation);
        prop_assert!(difference.is_none(), "{}", difference.unwrap_or_default());
    }
}
