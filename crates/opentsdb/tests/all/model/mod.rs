//! Random points and queries, compared with a model that is slow and follows the words of the
//! specification.

mod real;
mod reference;

use futures::executor::block_on;
use icecore_model::rollup::{Resolution, WindowFields};
use icecore_opentsdb::testing::KeptTime;
use proptest::prelude::*;

use real::real_results;
use reference::{Number, Points, Query, Series, results_of};

/// A whole hour.
const B: i64 = 1_500_001_200;

const HOUR_MS: i64 = 3_600_000;

const AGGREGATORS: [&str; 25] = [
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
    "p75",
    "p99",
    "p999",
    "ep50r3",
    "ep90r3",
    "ep50r7",
    "ep90r7",
];

fn is_near(a: Number, b: Number) -> bool {
    match (a, b) {
        (Number::Integer(a), Number::Integer(b)) => a == b,
        (Number::Float(a), Number::Float(b)) => {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * (1.0 + a.abs())
        }
        _ => false,
    }
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        3 => (-100i64..100).prop_map(Number::Integer),
        1 => (-4000i64..4000).prop_map(|n| Number::Float(n as f64 / 16.0)),
    ]
}

fn series() -> impl Strategy<Value = Series> {
    let time = prop_oneof![
        4 => (0i64..720).prop_map(|n| n * 15_000),
        1 => 0i64..10_800_000,
    ];
    let points = prop::collection::btree_map(time, number(), 1..25);
    let floats = prop::bool::weighted(0.3);
    (0usize..2, points, floats).prop_map(|(dc, points, floats)| {
        let value = |value: Number| {
            if floats {
                Number::Float(value.to_f64() + 0.5)
            } else {
                value
            }
        };
        let points = points.into_iter().map(|(t, v)| (B * 1000 + t, value(v)));
        Series {
            dc,
            points: points.collect(),
        }
    })
}

fn query() -> impl Strategy<Value = Query> {
    let function = prop::sample::select(AGGREGATORS.to_vec());
    let interval = prop::sample::select(vec![
        500,
        15_000,
        60_000,
        420_000,
        2_160_000,
        HOUR_MS,
        2 * HOUR_MS,
    ]);
    let fill = prop::sample::select(vec!["none", "none", "nan", "null", "zero"]);
    let downsample = (interval, function.clone(), fill)
        .prop_filter("not a downsampling function", |(_, function, _)| {
            *function != "none"
        })
        // Millions of intervals would be filled.
        .prop_filter("too many", |(interval, _, fill)| {
            *interval > 500 || *fill == "none"
        });
    let rate = (any::<bool>(), 1i64..500, 0i64..3, any::<bool>());
    let window = (0i64..10_800_000, 1i64..7_200_000);
    (
        function,
        prop::option::of(downsample),
        prop::option::weighted(0.4, rate),
        window,
        any::<bool>(),
    )
        .prop_map(
            |(aggregator, downsample, rate, (start, length), group_by_dc)| Query {
                aggregator,
                downsample,
                rate,
                start_ms: B * 1000 + start,
                end_ms: B * 1000 + start + length,
                group_by_dc,
            },
        )
}

/// Functions that windows answer without rounding.
const EXACT: [&str; 7] = ["min", "max", "mimmin", "mimmax", "count", "first", "last"];

/// Compares an answer with that of the model.
fn check(series: &[Series], query: &Query, kept: &[KeptTime]) -> Result<(), TestCaseError> {
    let expected = results_of(series, query);
    let infinite = |value: &Number| value.to_f64().is_infinite();
    let is_infinite = expected.iter().any(|points| points.values().any(infinite));
    let found = match block_on(real_results(series, query, kept)) {
        Err(text) => {
            prop_assert!(is_infinite, "{}: {text}", query.text());
            return Ok(());
        }
        Ok(found) => found,
    };
    prop_assert_eq!(found.len(), expected.len(), "{}", query.text());
    let function = query.downsample.map_or("sum", |d| d.1);
    // Aggregators that interpolate on a line round.
    let is_exact = query.rate.is_none()
        && EXACT.contains(&function)
        && ["none", "mimmin", "mimmax", "first", "last"].contains(&query.aggregator);
    for (found, expected) in found.iter().zip(&expected) {
        let times = |points: &Points| points.keys().copied().collect::<Vec<_>>();
        prop_assert_eq!(times(found), times(expected), "{}", query.text());
        for (time, value) in expected {
            let (is, expected) = (found[time].to_f64(), value.to_f64());
            let is_same = is == expected || (is.is_nan() && expected.is_nan());
            let near = is_near(found[time], *value) && (is_same || !is_exact);
            prop_assert!(
                near,
                "{}: {time} is {:?}, not {value:?}",
                query.text(),
                found[time]
            );
        }
    }
    Ok(())
}

/// Windows of 5 minutes and of an hour.
const FIVE: (Resolution, WindowFields) = (Resolution::FIVE_MINUTES, WindowFields::ALL);
const HOUR: (Resolution, WindowFields) = (Resolution::HOUR, WindowFields::ALL);
const RAW: (Resolution, WindowFields) = (Resolution::RAW, WindowFields::NONE);

/// A query that windows of 5 minutes answer, and of which time there are which levels.
fn rolled_query() -> impl Strategy<Value = (Query, Vec<KeptTime>)> {
    const MINUTE: i64 = 60_000;
    let interval = [5 * MINUTE, 15 * MINUTE, HOUR_MS, 2 * HOUR_MS];
    let derived = |name: &&str| {
        !["median", "mult", "none"].contains(name) && !name.contains(|c: char| c.is_ascii_digit())
    };
    let functions: Vec<&str> = AGGREGATORS.into_iter().filter(derived).collect();
    let levels = prop::sample::select(vec![
        vec![HOUR],
        vec![FIVE],
        vec![FIVE, HOUR],
        vec![RAW, FIVE, HOUR],
        vec![RAW, HOUR],
        vec![RAW],
    ]);
    let kept = prop::collection::vec((1..3_i64, levels), 1..4);
    let interval = prop::sample::select(interval.to_vec());
    (query(), interval, prop::sample::select(functions), kept).prop_map(
        |(query, interval, function, parts)| {
            let fill = query.downsample.map_or("none", |downsample| downsample.2);
            let mut start_ms = B * 1000 - HOUR_MS;
            let kept = parts.into_iter().map(|(hours, mut levels)| {
                if interval < HOUR_MS && levels[0] == HOUR {
                    levels.insert(0, FIVE);
                }
                let part = KeptTime {
                    start_ms,
                    end_ms: start_ms + hours * HOUR_MS,
                    levels,
                };
                start_ms = part.end_ms;
                part
            });
            let kept = kept.collect();
            let downsample = Some((interval, function, fill));
            (
                Query {
                    downsample,
                    ..query
                },
                kept,
            )
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn answers_are_those_of_the_model(
        series in prop::collection::vec(series(), 1..6),
        query in query(),
    ) {
        check(&series, &query, &[])?;
    }

    /// On the grid of windows nobody can tell whether points are still there.
    #[test]
    fn windows_answer_as_their_points_did(
        series in prop::collection::vec(series(), 1..6),
        (query, kept) in rolled_query(),
    ) {
        check(&series, &query, &kept)?;
    }

    /// Whatever the interval is, each point counts once.
    #[test]
    fn no_point_is_lost_off_the_grid(
        series in series(),
        query in query(),
        minutes in 1..150_i64,
        levels in prop::sample::select(vec![vec![HOUR], vec![FIVE], vec![FIVE, HOUR]]),
        hours in 1..4_i64,
    ) {
        let interval_ms = minutes * 60_000;
        let query = Query {
            aggregator: "sum",
            downsample: Some((interval_ms, "count", "none")),
            rate: None,
            start_ms: 0,
            end_ms: (B + 86_400) * 1000,
            ..query
        };
        let start_ms = B * 1000;
        let kept = [KeptTime { start_ms, end_ms: start_ms + hours * HOUR_MS, levels }];
        let series = [series];
        let found = block_on(real_results(&series, &query, &kept)).unwrap();
        let count: f64 = found.iter().flat_map(|p| p.values()).map(|v| v.to_f64()).sum();
        prop_assert_eq!(count, series[0].points.len() as f64);
    }
}
