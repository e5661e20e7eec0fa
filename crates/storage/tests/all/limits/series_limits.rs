//! How many series there may be and what their labels may be.

use std::time::Duration;

use icecore_storage::testing::Hooks;

use super::*;
use crate::requests::pairs;
use crate::support::*;

#[test]
fn series_max_refuses_new_series_and_stores_the_rest() {
    let (world, process) = with(|options| {
        options.limits.series_max = 2;
        options.head.series_idle_max = Duration::from_secs(60);
    });
    let outcome = send(
        &process,
        vec![
            Entry::float("a", T0, 1.0),
            Entry::float("b", T0, 2.0),
            Entry::float("c", T0, 3.0),
            Entry::histogram("c", T0 + 1, 4),
            Entry::exemplar("c", T0, "x"),
            Entry::float("a", T0 + 1, 5.0).starting(T0),
        ],
    )
    .unwrap();
    assert_eq!(
        (outcome.samples, outcome.histograms, outcome.exemplars),
        (3, 0, 0)
    );
    let rejected = rejection(&outcome, "limits.series_max");
    assert_eq!((rejected.count, rejected.retryable), (3, true));
    let stored = [("a", T0, 1.0), ("b", T0, 2.0), ("a", T0 + 1, 5.0)];
    assert_eq!(content(&process), expected(&stored));
    // Known series are never refused, and what was accepted survives a crash.
    send(&process, vec![Entry::float("b", T0 + 9, 6.0)]).unwrap();
    let stored = [stored.as_slice(), &[("b", T0 + 9, 6.0)]].concat();
    process.crash();
    let process = world.start();
    assert_eq!(content(&process), expected(&stored));
    // Once idle series are forgotten there is room again.
    process.run(process.db.flush_buckets()).unwrap();
    world.clock.advance(120_000);
    process.run(process.db.tick()).unwrap();
    assert_eq!(process.db.gauges().series, 0);
    let outcome = send(&process, vec![Entry::float("c", T0, 7.0)]).unwrap();
    assert_eq!(outcome.rejected, []);
    let stored = [stored.as_slice(), &[("c", T0, 7.0)]].concat();
    assert_eq!(content(&process), expected(&stored));
}

/// Labels take memory that no flush gives back: they have a limit of their own, and what is written
/// to series that are known goes on as before.
#[test]
fn series_bytes_max_refuses_new_series_and_nothing_else() {
    let (world, process) = with(|options| {
        options.head.series_bytes_max = Some(1 << 20);
        options.head.flush_bytes = Some(256 << 10);
        options.head.bytes_max = Some(512 << 10);
        options.head.series_idle_max = Duration::from_secs(60);
    });
    let now = T0 + 24 * HOUR;
    let names: Vec<String> = (0..20_000).map(|i| format!("s{i:05}")).collect();
    let mut known = 0;
    for names in names.chunks(500) {
        let entries = names.iter().map(|name| Entry::float(name, now, 1.0));
        let outcome = send(&process, entries.collect()).unwrap();
        known += outcome.samples as usize;
        if outcome.samples < names.len() as u64 {
            let rejected = rejection(&outcome, "head.series_bytes_max");
            assert!(rejected.retryable);
            break;
        }
        // Each of them takes a chunk of its own; they are not what is looked at here.
        process.run(process.db.flush_buckets()).unwrap();
    }
    assert!(known > 1000 && known < 15_000, "{known} series");
    process.run(process.db.flush_buckets()).unwrap();
    let gauges = process.db.gauges();
    assert_eq!(gauges.series, known);
    assert!(gauges.head_series_bytes >= 1 << 20);
    assert_eq!(gauges.head_sample_bytes, 0);
    // The open hour stays open.
    let flushed = process.db.metrics().flushed_hours.get();
    for i in 1..5 {
        let outcome = send(&process, vec![Entry::float("s00001", now + i, 1.0)]).unwrap();
        assert_eq!((outcome.samples, outcome.rejected.len()), (1, 0));
        process.run(process.db.tick()).unwrap();
    }
    assert_eq!(process.db.metrics().flushed_hours.get(), flushed);
    assert_eq!(process.db.gauges().open_hours, 1);
    let outcome = send(&process, vec![Entry::float("new", now, 1.0)]).unwrap();
    rejection(&outcome, "head.series_bytes_max");
    // Once series are idle there is room.
    process.run(process.db.flush_buckets()).unwrap();
    world.clock.advance(120_000);
    process.run(process.db.tick()).unwrap();
    let outcome = send(&process, vec![Entry::float("new", now, 1.0)]).unwrap();
    assert_eq!(outcome.rejected, []);
}

#[test]
fn new_series_per_request_max_counts_new_ones_only() {
    let (_world, process) = with(|options| options.limits.new_series_per_request_max = 2);
    for (request, refused) in [
        (["a", "b", "c"], 1),
        (["a", "c", "d"], 0),
        (["e", "f", "g"], 1),
    ] {
        let entries = request.map(|series| Entry::float(series, T0, 1.0)).to_vec();
        let outcome = send(&process, entries).unwrap();
        assert_eq!(outcome.samples, 3 - refused);
        if refused > 0 {
            let rejected = rejection(&outcome, "limits.new_series_per_request_max");
            assert_eq!((rejected.count, rejected.retryable), (refused, true));
        }
    }
    assert_eq!(content(&process).len(), 6);
}

#[test]
fn labels_that_are_too_many_or_too_long() {
    let (_world, process) = with(|options| {
        options.limits.labels_per_series_max = 3;
        options.limits.label_name_bytes_max = 10;
        options.limits.label_value_bytes_max = 20;
    });
    let long_name = "n".repeat(11);
    let long_value = "v".repeat(21);
    let cases = [
        (
            vec![("a", "1"), ("b", "2"), ("c", "3")],
            "limits.labels_per_series_max",
        ),
        (
            vec![(long_name.as_str(), "1")],
            "limits.label_name_bytes_max",
        ),
        (
            vec![("a", long_value.as_str())],
            "limits.label_value_bytes_max",
        ),
    ];
    for (labels, limit) in cases {
        let sent = pairs(&[vec![("__name__", "m")], labels].concat());
        let outcome = send(
            &process,
            vec![
                Entry::float("", T0, 1.0).labelled(sent.clone()),
                Entry::histogram("", T0, 1).labelled(sent.clone()),
                Entry::exemplar("", T0, "x").labelled(sent),
                Entry::float("good", T0, 2.0),
            ],
        )
        .unwrap();
        let rejected = rejection(&outcome, limit);
        assert_eq!((rejected.count, rejected.retryable), (3, false));
        assert_eq!(outcome.samples, 1);
    }
    // Up to the limit all is well; empty values are no labels.
    let (name, value) = ("n".repeat(10), "v".repeat(20));
    let sent = pairs(&[
        ("__name__", "m"),
        ("series", "edge"),
        (&name, &value),
        ("x", ""),
        ("y", ""),
    ]);
    let outcome = send(&process, vec![Entry::float("", T0, 3.0).labelled(sent)]).unwrap();
    assert_eq!(outcome.rejected, []);
    let stored = [("good", T0, 2.0), ("edge", T0, 3.0)];
    assert_eq!(content(&process), expected(&stored));
}

/// Keys have room for 32 KiB of a label, whatever the limits say.
#[test]
fn configured_limits_cannot_go_beyond_what_a_key_holds() {
    let (world, process) = with(|options| {
        options.limits.label_name_bytes_max = 1 << 20;
        options.limits.label_value_bytes_max = 1 << 20;
        options.limits.help_bytes_max = 1 << 20;
    });
    let huge = "x".repeat(40 << 10);
    for labels in [[("a", huge.as_str())], [(huge.as_str(), "a")]] {
        let sent = pairs(&[vec![("__name__", "m")], labels.to_vec()].concat());
        let outcome = send(&process, vec![Entry::float("", T0, 1.0).labelled(sent)]).unwrap();
        assert_eq!(rejection(&outcome, "exceed").count, 1);
    }
    let outcome = send(&process, vec![Entry::metadata(&huge, "help")]).unwrap();
    assert_eq!(rejection(&outcome, "too long").count, 1);
    // A large one that fits, with a unit that is too long for the record of a series.
    let fits = "\u{1}".repeat(15 << 10);
    let sent = pairs(&[("__name__", "m"), ("series", "s"), (&fits, "v")]);
    let unit = icecore_model::Metadata {
        unit: "u".repeat(100 << 10),
        help: huge.clone(),
        ..Default::default()
    };
    let metadata = Entry::Metadata {
        family: "m".into(),
        metadata: unit,
    };
    let outcome = send(
        &process,
        vec![metadata, Entry::float("", T0, 1.0).labelled(sent)],
    );
    assert_eq!(outcome.unwrap().rejected, []);
    process.run(process.db.flush_buckets()).unwrap();
    assert_eq!(content(&process), expected(&[("s", T0, 1.0)]));
    process.close();
    let process = world.start();
    assert_eq!(content(&process), expected(&[("s", T0, 1.0)]));
    assert_eq!(process.db.metadata(Some("m"))[0].1.help, huge);
}
