//! What is refused, or was there before, counts once for each point of the sender.

use icecore_model::{Exemplar, Labels, RawLabels, Sample, SampleSink};
use icecore_storage::WriteBatch;

use super::*;
use crate::process::World;

const PARTS: [&str; 3] = ["one", "two", "three"];

fn sample(end: i64, value: f64) -> Sample {
    Sample {
        timestamp_ms: end,
        value,
        start_timestamp_ms: T0,
    }
}

/// A point that becomes samples of three series.
fn point(batch: &mut WriteBatch<'_>, end: i64, as_delta: bool) {
    batch.point();
    for part in PARTS {
        batch.series(RawLabels(&raw("m", part)));
        if as_delta {
            batch.delta(sample(end, 1.0))
        } else {
            batch.sample(sample(end, 1.0))
        }
    }
}

fn fill(process: &Process, fill: fn(&mut WriteBatch<'_>)) -> WriteOutcome {
    let write = process.db.write(move |batch| {
        fill(batch);
        Ok::<(), ()>(())
    });
    process.run(write).expect("stored")
}

fn counts(outcome: &WriteOutcome) -> Vec<u64> {
    outcome.rejected.iter().map(|r| r.count).collect()
}

#[test]
fn duplicates_count_once_per_point() {
    let process = World::new().start();
    let twice = |batch: &mut WriteBatch<'_>| {
        point(batch, T0 + 10, true);
        point(batch, T0 + 20, true);
    };
    assert_eq!(fill(&process, twice).duplicates, 0);
    assert_eq!(fill(&process, twice).duplicates, 2);
}

#[test]
fn refusals_while_decoding_count_once_per_point() {
    let process = World::new().start();
    let outcome = fill(&process, |batch| {
        point(batch, i64::MAX, false);
        point(batch, T0, false);
        point(batch, i64::MAX, true);
        batch.point();
        batch.reject("the decoder says no".into());
        batch.reject("and once more".into());
    });
    assert_eq!(counts(&outcome), [2, 1]);
    assert_eq!(outcome.samples, 3);
    let refused = outcome.refused_points.iter();
    let refused: Vec<_> = refused.map(|of| (of.point, of.reason)).collect();
    assert_eq!(refused, [(0, 0), (2, 0), (3, 1)]);
}

#[test]
fn without_points_each_sample_counts() {
    let process = World::new().start();
    let outcome = fill(&process, |batch| {
        for part in PARTS {
            batch.series(RawLabels(&raw("m", part)));
            batch.sample(sample(i64::MAX, 1.0));
        }
    });
    assert_eq!(counts(&outcome), [3]);
}

#[test]
fn refusals_at_the_append_count_once_per_point() {
    for as_delta in [false, true] {
        let mut world = World::new();
        world.options.limits.series_max = 1;
        let process = world.start();
        let outcome = if as_delta {
            fill(&process, |batch| {
                point(batch, T0 + 10, true);
                point(batch, T0 + 20, true);
            })
        } else {
            fill(&process, |batch| {
                point(batch, T0 + 10, false);
                point(batch, T0 + 20, false);
            })
        };
        assert_eq!(
            counts(&outcome),
            [2],
            "two of the three series have no room"
        );
        assert_eq!(outcome.samples, 2);
    }
    let mut world = World::new();
    world.options.limits.delta_series_max = 1;
    let process = world.start();
    let outcome = fill(&process, |batch| {
        point(batch, T0 + 10, true);
        point(batch, T0 + 20, true);
    });
    assert_eq!(counts(&outcome), [2]);
    assert_eq!(outcome.samples, 2);
}

#[test]
fn entries_that_move_up_stay_with_their_points() {
    let mut world = World::new();
    world.options.limits.series_max = 1;
    world.options.limits.exemplars_per_series_max = 1;
    let process = world.start();
    let outcome = fill(&process, |batch| {
        let exemplar = |end: i64| Exemplar {
            labels: Labels::from_pairs([("trace_id", "x")]),
            timestamp_ms: end,
            value: 1.0,
        };
        for end in [T0 + 10, T0 + 20] {
            batch.point();
            for part in ["one", "two"] {
                batch.series(RawLabels(&raw("m", part)));
                batch.sample(sample(end, 1.0));
                batch.exemplar(exemplar(end));
            }
        }
        // Refused for its exemplar alone.
        batch.point();
        batch.series(RawLabels(&raw("m", "one")));
        batch.sample(sample(T0 + 30, 1.0));
        batch.exemplar(exemplar(T0 + 30));
    });
    assert_eq!(counts(&outcome), [2, 1]);
    assert_eq!((outcome.samples, outcome.exemplars), (3, 1));
}
