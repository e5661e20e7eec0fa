//! Input that makes no sense: refused with a reason, and the rest of the request is stored.

use icecore_model::{MAX_TIMESTAMP_MS, NumberForm, RawLabels, Sample, SampleSink, SeriesStream};
use proptest::prelude::*;

use super::*;
use crate::requests::pairs;
use crate::support::*;

#[test]
fn labels_that_name_no_series() {
    let (_world, process) = with(|_| ());
    let cases = [
        (vec![], "metric name"),
        (vec![("a", "1")], "metric name"),
        (vec![("__name__", "")], "metric name"),
        (vec![("__name__", "m"), ("", "1")], "empty name"),
        (vec![("__name__", "m"), ("a", "1"), ("a", "1")], "twice"),
        (vec![("a", "2"), ("__name__", "m"), ("a", "")], "twice"),
        (vec![("__name__", "m"), ("__name__", "n")], "twice"),
    ];
    for (labels, word) in cases {
        let outcome = send(
            &process,
            vec![
                Entry::float("", T0, 1.0).labelled(pairs(&labels)),
                Entry::float("good", T0, 2.0),
            ],
        )
        .unwrap();
        let rejected = rejection(&outcome, word);
        assert_eq!(
            (rejected.count, rejected.retryable),
            (1, false),
            "{labels:?}"
        );
        assert_eq!(outcome.samples, 1);
    }
    assert_eq!(content(&process), expected(&[("good", T0, 2.0)]));
    assert_eq!(process.db.gauges().series, 1);
}

#[test]
fn bytes_that_are_no_labels() {
    let (_world, process) = with(|_| ());
    // A label whose value is not UTF-8, and bytes that are cut off.
    let not_text = [
        0x0a, 0x0d, 0x0a, 8, b'_', b'_', b'n', b'a', b'm', b'e', b'_', b'_', 0x12, 1, 0xff,
    ];
    let outcome = process
        .run(process.db.write(move |batch| {
            let sample = Sample {
                timestamp_ms: T0,
                value: 1.0,
                start_timestamp_ms: 0,
            };
            // Before any series.
            batch.sample(sample);
            batch.series(RawLabels(&not_text));
            batch.sample(sample);
            batch.series(RawLabels(&not_text[..9]));
            batch.sample(sample);
            batch.reject("the decoder says no".into());
            batch.series(RawLabels(&raw("m", "good")));
            batch.sample(sample);
            Ok::<(), ()>(())
        }))
        .unwrap();
    assert_eq!(outcome.samples, 1);
    let reasons: Vec<&str> = outcome.rejected.iter().map(|r| r.reason.as_str()).collect();
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    for word in ["before any series", "UTF-8", "malformed", "says no"] {
        assert!(
            reasons.iter().any(|r| r.contains(word)),
            "{word}: {reasons:?}"
        );
    }
}

#[test]
fn timestamps_that_no_bucket_holds() {
    let (world, process) = with(|options| {
        options.limits.future_max = std::time::Duration::MAX;
    });
    let outside = [
        i64::MIN,
        i64::MIN + 1,
        -1,
        MAX_TIMESTAMP_MS,
        i64::MAX - 1,
        i64::MAX,
    ];
    for time in outside {
        let outcome = send(
            &process,
            vec![
                Entry::float("a", time, 1.0),
                Entry::histogram("a", time, 2),
                Entry::exemplar("a", time, "x"),
            ],
        )
        .unwrap();
        let rejected = rejection(&outcome, "outside");
        assert_eq!((rejected.count, rejected.retryable), (3, false));
    }
    let inside = [
        ("a", 0, 1.0),
        ("a", 1, 2.0),
        ("a", MAX_TIMESTAMP_MS - 1, 3.0),
    ];
    process.run(write(&process.db, &inside));
    assert_eq!(content(&process), expected(&inside));
    process.crash();
    let process = world.start();
    assert_eq!(content(&process), expected(&inside));
    process.run(process.db.flush()).unwrap();
    assert_eq!(
        content(&process),
        expected(&inside),
        "from the first and the last bucket"
    );
}

#[test]
fn start_timestamps_may_be_anything() {
    let (world, process) = with(|_| ());
    let starts = [i64::MIN, -1, 1, T0, T0 + HOUR, i64::MAX];
    let entries = starts.iter().enumerate();
    let entries: Vec<Entry> = entries
        .map(|(i, start)| Entry::float("a", T0 + i as i64, 1.0).starting(*start))
        .collect();
    send(&process, entries).unwrap();
    let wanted: Vec<(i64, i64)> = (0..).map(|i| T0 + i).zip(starts).collect();
    let found = |process: &Process| {
        process.run(async {
            let mut stream = process.db.select(everything()).await.unwrap();
            let batch = stream.next_batch().await.unwrap().unwrap();
            batch[0].start_timestamps.clone()
        })
    };
    assert_eq!(found(&process), wanted);
    process.crash();
    let process = world.start();
    assert_eq!(found(&process), wanted);
    process.close();
    let process = world.start();
    assert_eq!(found(&process), wanted);
}

#[test]
fn forms_of_numbers_are_start_timestamps_to_those_who_ask_for_them() {
    let (world, process) = with(|_| ());
    let forms = [NumberForm::FLOAT, NumberForm::of_integer(5).1];
    let starts = [forms[0].as_start(), T0, forms[1].as_start()];
    let entries = starts.iter().enumerate();
    let entries: Vec<Entry> = entries
        .map(|(i, start)| Entry::float("a", T0 + i as i64, 5.0).starting(*start))
        .collect();
    send(&process, entries).unwrap();
    let all: Vec<(i64, i64)> = (0..).map(|i| T0 + i).zip(starts).collect();
    let found = |process: &Process, forms: bool| {
        let mut selection = everything();
        selection.hints.forms = forms;
        process.run(async {
            let mut stream = process.db.select(selection).await.unwrap();
            let batch = stream.next_batch().await.unwrap().unwrap();
            batch[0].start_timestamps.clone()
        })
    };
    let check = |process: &Process| {
        assert_eq!(found(process, true), all);
        assert_eq!(found(process, false), [all[1]]);
    };
    check(&process);
    process.close();
    check(&world.start());
}

#[test]
fn a_request_that_cannot_be_decoded_leaves_nothing() {
    let (_world, process) = with(|_| ());
    let failed = process.run(process.db.write(|batch| {
        batch.series(RawLabels(&raw("m", "a")));
        batch.sample(Sample {
            timestamp_ms: T0,
            value: 1.0,
            start_timestamp_ms: 0,
        });
        Err("cut off")
    }));
    assert!(matches!(failed, Err(WriteError::Decode("cut off"))));
    assert_eq!(content(&process), Content::new());
    assert_eq!(process.db.gauges().series, 0);
    assert_eq!(send(&process, Vec::new()).unwrap(), WriteOutcome::default());
}

#[test]
fn a_decoder_that_panics_fails_its_request_only() {
    let (_world, process) = with(|_| ());
    let failed = process.run(process.db.write(|batch| -> Result<(), ()> {
        batch.series(RawLabels(&raw("m", "a")));
        panic!("a bug in a decoder")
    }));
    assert!(matches!(failed, Err(WriteError::Storage(_))));
    process.run(write(&process.db, &[("a", T0, 1.0)]));
    assert_eq!(content(&process), expected(&[("a", T0, 1.0)]));
}

#[test]
fn many_reasons_are_summed_up() {
    let (_world, process) = with(|options| options.limits.label_value_bytes_max = 4);
    let entries = (0..20)
        .map(|i| {
            let name = format!("label_{i}");
            let sent = pairs(&[("__name__", "m"), (&name, "too long")]);
            Entry::float("", T0, 1.0).labelled(sent)
        })
        .collect();
    let outcome = send(&process, entries).unwrap();
    assert_eq!(outcome.rejected.len(), 8);
    assert_eq!(outcome.rejected.iter().map(|r| r.count).sum::<u64>(), 20);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    /// Any bytes as labels, any timestamps: an answer, and a database that still works.
    #[test]
    fn arbitrary_bytes_never_panic(
        requests in prop::collection::vec(
            prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..40), any::<i64>(), any::<u64>(), any::<i64>()),
                1..20,
            ),
            1..20,
        )
    ) {
        let (world, process) = with(|_| ());
        for entries in requests {
            process.run(process.db.write(move |batch| {
                for (labels, time, bits, start) in entries {
                    if batch.guess_series(&labels).is_none() {
                        batch.series(RawLabels(&labels));
                    }
                    batch.sample(Sample {
                        timestamp_ms: time,
                        value: f64::from_bits(bits),
                        start_timestamp_ms: start,
                    });
                }
                Ok::<(), ()>(())
            })).unwrap();
        }
        process.run(write(&process.db, &[("a", T0, 1.0)]));
        process.crash();
        let process = world.start();
        prop_assert_eq!(content(&process), expected(&[("a", T0, 1.0)]));
    }
}
