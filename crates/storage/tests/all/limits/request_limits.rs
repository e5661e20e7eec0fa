//! What one request may hold.

use std::time::Duration;

use icecore_model::{Metadata, RawLabels, Sample, SampleSink, push_raw_label};
use icecore_storage::Error;

use super::*;
use crate::requests::exemplar;
use crate::support::*;

#[test]
fn too_many_samples_in_one_request_refuse_it_as_a_whole() {
    let (_world, process) = with(|options| options.limits.samples_per_request_max = 3);
    let mut entries: Vec<Entry> = (0..2).map(|i| Entry::float("a", T0 + i, 1.0)).collect();
    entries.push(Entry::histogram("a", T0 + 7, 1));
    entries.push(Entry::exemplar("a", T0 + 7, "x"));
    match send(&process, entries.clone()) {
        Err(WriteError::Storage(Error::Invalid(reason))) => {
            assert!(
                reason
                    .to_string()
                    .contains("limits.samples_per_request_max"),
                "{reason}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(process.db.gauges().series, 0, "nothing of it is stored");
    entries.pop();
    let outcome = send(&process, entries).unwrap();
    assert_eq!((outcome.samples, outcome.histograms), (2, 1));
}

#[test]
fn timestamps_ahead_of_the_clock() {
    let (world, process) = with(|options| options.limits.future_max = Duration::from_secs(600));
    use icecore_storage::Clock;
    let latest = world.clock.now_ms() + 600_000;
    let outcome = send(
        &process,
        vec![
            Entry::float("a", latest, 1.0),
            Entry::float("a", latest + 1, 2.0),
            Entry::histogram("a", latest + HOUR, 2),
            Entry::exemplar("a", latest + HOUR, "x"),
            Entry::float("a", latest - 1, 3.0),
        ],
    )
    .unwrap();
    let rejected = rejection(&outcome, "limits.future_max");
    assert_eq!((rejected.count, rejected.retryable), (3, false));
    let stored = [("a", latest, 1.0), ("a", latest - 1, 3.0)];
    assert_eq!(content(&process), expected(&stored));
}

#[test]
fn buckets_per_request_max_refuses_the_request() {
    let (_world, process) = with(|options| options.limits.buckets_per_request_max = 3);
    let hours = |n: i64| {
        (0..n)
            .map(|i| Entry::float("a", T0 + i * HOUR, 1.0))
            .collect()
    };
    match send(&process, hours(4)) {
        Err(WriteError::Storage(Error::Invalid(reason))) => {
            assert!(
                reason
                    .to_string()
                    .contains("limits.buckets_per_request_max"),
                "{reason}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(process.db.gauges().open_hours, 0);
    send(&process, hours(3)).unwrap();
    assert_eq!(process.db.gauges().open_hours, 3);
}

#[test]
fn exemplars_per_series_and_hour() {
    let (world, process) = with(|options| options.limits.exemplars_per_series_max = 2);
    let outcome = send(
        &process,
        vec![
            Entry::exemplar("a", T0, "1"),
            Entry::exemplar("a", T0, "1"),
            Entry::exemplar("a", T0, "2"),
            Entry::exemplar("a", T0, "3"),
            Entry::exemplar("a", T0 + HOUR, "3"),
            Entry::exemplar("b", T0, "3"),
        ],
    )
    .unwrap();
    assert_eq!(outcome.exemplars, 5);
    let rejected = rejection(&outcome, "exemplars");
    assert_eq!((rejected.count, rejected.retryable), (1, false));
    process.crash();
    let process = world.start();
    assert_eq!(process.db.metrics().replayed_samples.get(), 5);
}

/// A limit of nothing must not leave empty hours behind that nobody flushes.
#[test]
fn no_exemplars_at_all() {
    let (world, process) = with(|options| {
        options.limits.exemplars_per_series_max = 0;
        options.head.series_idle_max = Duration::from_secs(60);
    });
    let outcome = send(&process, vec![Entry::exemplar("a", T0, "1")]).unwrap();
    assert_eq!(rejection(&outcome, "exemplars").count, 1);
    assert_eq!(process.db.gauges().open_hours, 0);
    world.clock.advance(120_000);
    process
        .run(icecore_storage::testing::Hooks::tick(&process.db))
        .unwrap();
    assert_eq!(process.db.gauges().series, 0, "the series is forgotten");
}

#[test]
fn labels_of_exemplars_are_limited() {
    let (_world, process) = with(|options| options.limits.label_value_bytes_max = 50);
    let entries = vec![
        Entry::exemplar("a", T0, &"t".repeat(42)),
        Entry::exemplar("a", T0, &"t".repeat(43)),
    ];
    let outcome = send(&process, entries).unwrap();
    assert_eq!(outcome.exemplars, 1);
    let rejected = rejection(&outcome, "exemplar with");
    assert_eq!((rejected.count, rejected.retryable), (1, false));
}

#[test]
fn metadata_max_and_help_bytes_max() {
    let (world, process) = with(|options| {
        options.limits.metadata_max = 2;
        options.limits.help_bytes_max = 5;
    });
    let outcome = send(
        &process,
        vec![
            Entry::metadata("a", "12345"),
            Entry::metadata("b", "éééé"),
            Entry::metadata("c", "no room"),
            Entry::metadata("", "no name"),
            Entry::metadata("a", "new"),
        ],
    )
    .unwrap();
    let reasons: Vec<(bool, u64)> = outcome
        .rejected
        .iter()
        .map(|r| (r.retryable, r.count))
        .collect();
    assert_eq!(reasons, [(false, 1), (true, 1)], "{outcome:?}");
    // Two characters of two bytes: a third would be cut in the middle.
    let wanted = [("a", "new"), ("b", "éé")];
    let wanted = wanted.map(|(family, help)| (family.to_string(), help.to_string()));
    let known = |process: &Process| {
        let known = process.db.metadata(None).into_iter();
        known
            .map(|(family, m)| (family, m.help))
            .collect::<Vec<_>>()
    };
    assert_eq!(known(&process), wanted);
    process.crash();
    let process = world.start();
    assert_eq!(known(&process), wanted, "after a crash");
    process.close();
    let process = world.start();
    assert_eq!(known(&process), wanted, "from the catalog");
}

/// A table of symbols makes much text of few bytes; what a request may spell out is bounded.
#[test]
fn text_of_one_request_is_bounded() {
    let (world, process) = with(|_| ());
    let long = "v".repeat(4000);
    let labels: Vec<(String, String)> = (0..60)
        .map(|i| (format!("l{i:02}"), long.clone()))
        .collect();
    let mut bytes = Vec::new();
    push_raw_label(&mut bytes, "__name__", "m");
    for (name, value) in &labels {
        push_raw_label(&mut bytes, name, value);
    }
    push_raw_label(&mut bytes, "series", "a");
    let outcome = process
        .run(process.db.write(move |batch| {
            for i in 0..1000 {
                // As a decoder does it: a guess first.
                if batch.guess_series(&bytes).is_none() {
                    batch.series(RawLabels(&bytes));
                }
                batch.sample(Sample {
                    timestamp_ms: T0 + i,
                    value: 1.0,
                    start_timestamp_ms: 0,
                });
                batch.exemplar(exemplar(T0, "x"));
            }
            batch.metadata("m", Metadata::default());
            Ok::<(), ()>(())
        }))
        .unwrap();
    // 128 MiB are 557 times these labels.
    assert!((500..600).contains(&outcome.samples), "{}", outcome.samples);
    let rejected = rejection(&outcome, "split it");
    assert_eq!(rejected.count, 2 * (1000 - outcome.samples));
    assert!(!rejected.retryable);
    process.crash();
    let process = world.start();
    assert_eq!(content(&process)["a"].len() as u64, outcome.samples);
}
