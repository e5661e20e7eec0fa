//! The rules of accumulation: what continues, what is a duplicate, what starts anew.

use std::time::Duration;

use icecore_model::{
    CUSTOM_BUCKETS_SCHEMA, CounterResetHint, Histogram, HistogramCounts, RawLabels, STALE_NAN_BITS,
    Sample, SampleSink, Span,
};
use icecore_storage::testing::Hooks;

use super::*;
use crate::process::World;

fn totals(process: &Process) -> Vec<(i64, f64)> {
    let series = only_series(process);
    let times = series.floats.timestamps.iter().copied();
    times.zip(series.floats.values).collect()
}

#[test]
fn points_add_up_and_keep_the_start_of_the_first() {
    let process = World::new().start();
    let outcome = send(
        &process,
        &[
            delta("a", T0, T0 + 10, 5.0),
            delta("a", T0 + 10, T0 + 20, 2.5),
            // A gap, an overlap, and one that does not say where it begins.
            delta("a", T0 + 40, T0 + 50, 1.0),
            delta("a", T0 + 45, T0 + 60, 1.0),
            delta("a", 0, T0 + 70, -4.0),
        ],
    );
    assert_eq!((outcome.samples, outcome.duplicates), (5, 0));
    assert_eq!(outcome.rejected, []);
    let expected = [
        (T0 + 10, 5.0),
        (T0 + 20, 7.5),
        (T0 + 50, 8.5),
        (T0 + 60, 9.5),
        (T0 + 70, 5.5),
    ];
    assert_eq!(totals(&process), expected);
    let starts = only_series(&process).start_timestamps;
    assert_eq!(starts, expected.map(|(time, _)| (time, T0)));
    let metrics = process.db.metrics();
    assert_eq!(metrics.delta_overlaps.get(), 1);
    assert_eq!(metrics.delta_restarts.get(), 0);
    assert_eq!(process.db.gauges().delta_series, 1);
}

#[test]
fn a_resend_is_told_and_not_added() {
    let process = World::new().start();
    let points = [
        delta("a", T0, T0 + 10, 5.0),
        delta("a", T0 + 10, T0 + 20, 1.0),
    ];
    assert_eq!(send(&process, &points).duplicates, 0);
    let again = send(&process, &points);
    assert_eq!((again.samples, again.duplicates), (0, 2));
    assert_eq!(again.rejected, []);
    let late = send(&process, &[delta("a", T0 + 12, T0 + 15, 9.0)]);
    assert_eq!(late.duplicates, 1);
    assert_eq!(totals(&process), [(T0 + 10, 5.0), (T0 + 20, 6.0)]);
    assert_eq!(process.db.metrics().delta_duplicates.get(), 3);
}

#[test]
fn a_point_from_before_its_total_is_refused() {
    let process = World::new().start();
    send(&process, &[delta("a", T0, T0 + 10, 5.0)]);
    let outcome = send(&process, &[delta("a", T0 - 1, T0 + 20, 9.0)]);
    assert_eq!(outcome.rejected.len(), 1);
    assert!(outcome.rejected[0].reason.contains("more than one writer"));
    assert!(!outcome.rejected[0].retryable);
    assert_eq!(totals(&process), [(T0 + 10, 5.0)]);
}

#[test]
fn what_is_not_a_number_is_refused_and_a_stale_marker_is_stored() {
    let process = World::new().start();
    send(&process, &[delta("a", T0, T0 + 10, 5.0)]);
    let outcome = send(&process, &[delta("a", T0 + 10, T0 + 20, f64::NAN)]);
    assert!(outcome.rejected[0].reason.contains("not a number"));
    let stale = f64::from_bits(STALE_NAN_BITS);
    send(&process, &[delta("a", T0 + 10, T0 + 20, stale)]);
    send(&process, &[delta("a", T0 + 10, T0 + 30, 1.0)]);
    let found = totals(&process);
    assert_eq!(found[1].1.to_bits(), STALE_NAN_BITS);
    assert_eq!(found[2], (T0 + 30, 6.0));
}

#[test]
fn opposite_infinities_start_a_new_total() {
    let process = World::new().start();
    send(
        &process,
        &[
            delta("a", T0, T0 + 10, f64::INFINITY),
            delta("a", T0 + 10, T0 + 20, 1.0),
            delta("a", T0 + 20, T0 + 30, f64::NEG_INFINITY),
            delta("a", 0, T0 + 40, 2.0),
        ],
    );
    let values: Vec<f64> = totals(&process).into_iter().map(|(_, v)| v).collect();
    let infinity = f64::INFINITY;
    assert_eq!(values, [infinity, infinity, -infinity, -infinity]);
    assert_eq!(
        only_series(&process).start_timestamps[3],
        (T0 + 40, T0 + 20)
    );
}

/// A clock that was a year ahead for a moment.
#[test]
fn a_wrong_clock_forgets_no_totals() {
    let mut world = World::new();
    world.options.limits.delta_series_max = 3;
    let process = world.start();
    let known = [
        delta("a", T0, T0 + 10, 5.0),
        delta("a", T0 + 10, T0 + 20, 2.0),
    ];
    send(&process, &known);
    process.run(process.db.flush()).unwrap();
    world.clock.jump(365 * 24 * HOUR);
    send(
        &process,
        &[delta("b", T0, T0 + 10, 1.0), delta("c", T0, T0 + 10, 1.0)],
    );
    let beyond = send(&process, &[delta("d", T0, T0 + 10, 1.0)]);
    assert!(beyond.rejected[0].reason.contains("delta_series_max"));
    process.run(process.db.flush()).unwrap();
    world.clock.jump(-365 * 24 * HOUR);
    assert_eq!(send(&process, &known).duplicates, 2);
    process.close();
    // Totals that are replayed have the same time.
    let process = world.start();
    send(&process, &[delta("b", T0 + 10, T0 + 20, 1.0)]);
    process.crash();
    world.clock.jump(365 * 24 * HOUR);
    let process = world.start();
    world.clock.jump(-365 * 24 * HOUR);
    assert_eq!(send(&process, &known).duplicates, 2);
    assert_eq!(process.db.gauges().delta_series, 3);
    // They become idle as time passes.
    world.clock.advance(7 * HOUR);
    send(&process, &[delta("d", T0, T0 + 10, 1.0)]);
    process.run(process.db.flush()).unwrap();
    assert_eq!(process.db.gauges().delta_series, 1);
}

/// After a long stop the guarded clock passes ten times as fast as time.
#[test]
fn a_clock_that_catches_up_forgets_no_totals() {
    let world = World::new();
    let process = world.start();
    send(&process, &[delta("a", T0, T0 + 10, 5.0)]);
    process.close();
    world.clock.advance(30 * 24 * HOUR);
    let process = world.start();
    let point = [delta("a", T0 + 10, T0 + 20, 2.0)];
    send(&process, &point);
    process.run(process.db.flush()).unwrap();
    world.clock.advance(HOUR);
    send(&process, &[delta("b", T0, T0 + 10, 1.0)]);
    process.run(process.db.flush()).unwrap();
    assert_eq!(send(&process, &point).duplicates, 1);
    assert_eq!(process.db.gauges().delta_series, 2);
}

fn histogram(schema: i8, counts: &[i64], bounds: &[f64]) -> Histogram {
    let mut before = 0;
    let deltas = counts.iter().map(|count| {
        let delta = count - before;
        before = *count;
        delta
    });
    Histogram {
        schema,
        reset_hint: CounterResetHint::Gauge,
        zero_threshold: 0.0,
        sum: 1.5,
        counts: HistogramCounts::Integer {
            count: counts.iter().sum::<i64>() as u64,
            zero_count: 0,
            positive_deltas: deltas.collect(),
            negative_deltas: vec![],
        },
        positive_spans: vec![Span {
            offset: 0,
            length: counts.len() as u32,
        }],
        negative_spans: vec![],
        custom_bounds: bounds.into(),
    }
}

fn of(start: i64, end: i64, histogram: Histogram) -> Delta {
    Delta {
        series: "h".into(),
        start,
        end,
        change: Change::Histogram(histogram),
    }
}

#[test]
fn histograms_add_up_and_start_anew_where_their_bounds_change() {
    let world = World::new();
    let process = world.start();
    let custom = |bounds: &[f64]| histogram(CUSTOM_BUCKETS_SCHEMA, &[1, 2], bounds);
    let outcome = send(
        &process,
        &[
            of(T0, T0 + 10, histogram(1, &[1, 2, 4], &[])),
            of(T0 + 10, T0 + 20, histogram(1, &[1, 0, 0], &[])),
            of(T0 + 20, T0 + 30, histogram(0, &[8], &[])),
            of(T0 + 20, T0 + 30, histogram(0, &[8], &[])),
            of(T0 + 30, T0 + 40, custom(&[1.0, 2.0])),
            of(T0 + 40, T0 + 50, custom(&[1.0, 2.0])),
            of(T0 + 50, T0 + 60, custom(&[1.0, 3.0])),
            delta("h", T0 + 60, T0 + 70, 3.0),
        ],
    );
    // The float is appended before the histograms of its request, and later times are duplicates.
    assert_eq!((outcome.samples, outcome.histograms), (1, 0));
    assert_eq!(outcome.duplicates, 7);
    process.close();

    let world = World::new();
    let process = world.start();
    for point in [
        of(T0, T0 + 10, histogram(1, &[1, 2, 4], &[])),
        of(T0 + 10, T0 + 20, histogram(1, &[1, 0, 0], &[])),
        of(T0 + 20, T0 + 30, histogram(0, &[8], &[])),
        of(T0 + 20, T0 + 30, histogram(0, &[8], &[])),
        of(T0 + 30, T0 + 40, custom(&[1.0, 2.0])),
        of(T0 + 40, T0 + 50, custom(&[1.0, 2.0])),
        of(T0 + 50, T0 + 60, custom(&[1.0, 3.0])),
        delta("h", T0 + 60, T0 + 70, 3.0),
    ] {
        send(&process, &[point]);
    }
    let check = |process: &Process| {
        let found = only_series(process);
        let counts: Vec<u64> = found
            .histograms
            .iter()
            .map(|sample| match sample.histogram.counts {
                HistogramCounts::Integer { count, .. } => count,
                HistogramCounts::Float { .. } => panic!("integers stay integers"),
            })
            .collect();
        assert_eq!(counts, [7, 8, 16, 3, 6, 3]);
        let schemas: Vec<i8> = found
            .histograms
            .iter()
            .map(|s| s.histogram.schema)
            .collect();
        assert_eq!(schemas[..3], [1, 1, 0]);
        let hints: Vec<_> = found
            .histograms
            .iter()
            .map(|s| s.histogram.reset_hint)
            .collect();
        use CounterResetHint::{Reset, Unknown};
        assert_eq!(hints, [Unknown, Unknown, Unknown, Reset, Unknown, Reset]);
        assert_eq!(found.floats.values, [3.0]);
        let starts: Vec<i64> = found
            .start_timestamps
            .iter()
            .map(|(_, start)| *start - T0)
            .collect();
        assert_eq!(starts, [0, 0, 0, 30, 30, 50, 60]);
    };
    check(&process);
    assert_eq!(process.db.metrics().delta_restarts.get(), 3);
    process.crash();
    check(&world.start());
}

#[test]
fn the_number_of_totals_is_bounded_and_idle_ones_make_room() {
    let mut world = World::new();
    world.options.limits.delta_series_max = 2;
    world.options.limits.delta_idle = Duration::from_secs(600);
    let process = world.start();
    let outcome = send(
        &process,
        &[
            delta("a", T0, T0 + 10, 1.0),
            delta("b", T0, T0 + 10, 1.0),
            delta("c", T0, T0 + 10, 1.0),
            delta("a", T0 + 10, T0 + 20, 1.0),
        ],
    );
    assert_eq!(outcome.samples, 3);
    let rejected = &outcome.rejected[0];
    assert!(rejected.reason.contains("limits.delta_series_max"));
    assert_eq!((rejected.count, rejected.retryable), (1, true));
    // Other samples of such a series are no business of totals.
    process.run(write(&process.db, &[("c", T0 + 11, 1.0)]));
    world.clock.advance(500_000);
    send(&process, &[delta("a", T0 + 20, T0 + 30, 1.0)]);
    world.clock.advance(200_000);
    assert_eq!(
        send(&process, &[delta("c", T0 + 20, T0 + 30, 7.0)]).rejected,
        []
    );
    assert_eq!(process.db.gauges().delta_series, 2, "b was idle");
    let outcome = send(&process, &[delta("b", T0 + 10, T0 + 20, 1.0)]);
    assert_eq!(outcome.rejected.len(), 1, "a and c are not");
}

#[test]
fn a_forgotten_total_starts_anew() {
    let mut world = World::new();
    world.options.limits.delta_idle = Duration::from_secs(600);
    let process = world.start();
    send(&process, &[delta("a", T0, T0 + 10, 5.0)]);
    process.run(process.db.flush_buckets()).unwrap();
    process.crash();
    let process = world.start();
    assert_eq!(process.db.gauges().delta_series, 1, "it was saved");
    world.clock.advance(700_000);
    // Something has to be saved for a look at what is idle.
    send(&process, &[delta("b", T0, T0 + 10, 5.0)]);
    process.run(process.db.flush_buckets()).unwrap();
    assert_eq!(process.db.gauges().delta_series, 1);
    process.crash();
    let process = world.start();
    assert_eq!(process.db.gauges().delta_series, 1, "also in the store");
    send(&process, &[delta("a", T0 + 20, T0 + 30, 2.0)]);
    let found = process.run(read(&process.db, everything()));
    assert_eq!(found["a"][&(T0 + 30)], 2f64.to_bits());
}

#[test]
fn series_that_the_head_forgets_keep_their_totals() {
    let mut world = World::new();
    world.options.head.series_idle_max = Duration::from_secs(60);
    let process = world.start();
    send(
        &process,
        &[delta("a", T0, T0 + 10, 5.0), delta("b", T0, T0 + 10, 50.0)],
    );
    process.run(process.db.flush_buckets()).unwrap();
    world.clock.advance(120_000);
    process.run(process.db.tick()).unwrap();
    assert_eq!(process.db.gauges().series, 0);
    assert_eq!(process.db.gauges().delta_series, 2);
    // The references now stand for other series.
    process.run(write(&process.db, &[("x", T0, 1.0), ("y", T0, 1.0)]));
    send(
        &process,
        &[
            delta("b", T0 + 10, T0 + 20, 1.0),
            delta("a", T0 + 10, T0 + 20, 1.0),
        ],
    );
    let found = process.run(read(&process.db, everything()));
    assert_eq!(found["a"][&(T0 + 20)], 6f64.to_bits());
    assert_eq!(found["b"][&(T0 + 20)], 51f64.to_bits());
}

#[test]
fn totals_come_behind_the_plain_samples_of_a_request() {
    let world = World::new();
    let process = world.start();
    let fill = |batch: &mut icecore_storage::WriteBatch<'_>| {
        batch.series(RawLabels(&raw("m", "a")));
        for (end, value) in [(10, 1.0), (20, 2.0)] {
            batch.delta(Sample {
                timestamp_ms: T0 + end,
                value,
                start_timestamp_ms: T0,
            });
            batch.series(RawLabels(&raw("m", "plain")));
            batch.sample(Sample {
                timestamp_ms: T0 + end,
                value: 100.0 * value,
                start_timestamp_ms: 0,
            });
            batch.series(RawLabels(&raw("m", "a")));
        }
        Ok::<(), ()>(())
    };
    process.run(process.db.write(fill)).unwrap();
    process.crash();
    let process = world.start();
    send(&process, &[delta("a", T0 + 20, T0 + 30, 4.0)]);
    assert_eq!(
        process.db.gauges().delta_series,
        1,
        "plain series have no total"
    );
    let found = process.run(read(&process.db, everything()));
    let plain = [("plain", T0 + 10, 100.0), ("plain", T0 + 20, 200.0)];
    let totals = [
        ("a", T0 + 10, 1.0),
        ("a", T0 + 20, 3.0),
        ("a", T0 + 30, 7.0),
    ];
    assert_eq!(found, expected(&[plain.as_slice(), &totals].concat()));
}
