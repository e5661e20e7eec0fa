//! Text with timestamps into a sink, however it is cut into chunks.

use icecore_model::{Exemplar, Labels, Metadata, MetricType};
use icecore_wire::exposition::{ImportCounts, ImportOptions, LINE_BYTES_MAX, import_text};
use proptest::prelude::*;

use crate::sink::{Event, Recorder};

fn options() -> ImportOptions {
    ImportOptions {
        openmetrics: false,
        default_timestamp_ms: 99,
        extra_labels: Vec::new(),
    }
}

fn imported(chunks: &[&[u8]], options: ImportOptions) -> (Vec<Event>, ImportCounts) {
    let mut sink = Recorder::default();
    let imported = import_text(chunks, options, &mut sink);
    (sink.events, imported)
}

fn series(pairs: &[(&str, &str)]) -> Event {
    Event::Series(
        pairs
            .iter()
            .map(|(n, v)| (n.to_string(), v.to_string()))
            .collect(),
    )
}

fn metadata(family: &str, metric_type: MetricType, help: &str) -> Event {
    let metadata = Metadata {
        metric_type,
        help: help.into(),
        ..Metadata::default()
    };
    Event::Metadata(family.into(), metadata)
}

const BODY: &str = "# HELP up Whether.\n# TYPE up gauge\nup{job=\"a\",empty=\"\"} 1 1000\nup{job=\"a\",empty=\"\"} 0 2000\n\
                    \nthis is no sample\nup{job=\"b\"} 1\n# TYPE x nonsense\nup{job=\"b\" 2\n# HELP last Said.\nlast 5 7";

fn expected() -> Vec<Event> {
    vec![
        metadata("up", MetricType::Gauge, "Whether."),
        series(&[("__name__", "up"), ("job", "a")]),
        Event::sample(1000, 0, 1.0),
        Event::sample(2000, 0, 0.0),
        Event::reject("line 6: expected a number, got \"is\""),
        series(&[("__name__", "up"), ("job", "b")]),
        Event::sample(99, 0, 1.0),
        Event::reject("line 8: invalid metric type \"nonsense\""),
        Event::reject("line 9: expected a comma"),
        metadata("last", MetricType::Unknown, "Said."),
        series(&[("__name__", "last")]),
        Event::sample(7, 0, 5.0),
    ]
}

#[test]
fn bad_lines_are_told_and_skipped() {
    let (mut events, imported) = imported(&[BODY.as_bytes()], options());
    let mut expected = expected();
    // The words of that reason are the parser's.
    assert!(matches!(&events[8], Event::Reject(reason) if reason.starts_with("line 9: ")));
    events.remove(8);
    expected.remove(8);
    assert_eq!(events, expected);
    let refused_lines = 3;
    assert_eq!(
        imported,
        ImportCounts {
            samples: 4,
            refused_lines
        }
    );
}

#[test]
fn extra_labels_replace_those_of_the_same_name() {
    let options = ImportOptions {
        extra_labels: vec![("job".into(), "new".into()), ("zone".into(), "z".into())],
        ..options()
    };
    let (events, _) = imported(&[b"up{job=\"a\",b=\"c\"} 1 5\n"], options);
    assert_eq!(
        events[0],
        series(&[
            ("__name__", "up"),
            ("b", "c"),
            ("job", "new"),
            ("zone", "z")
        ])
    );
}

#[test]
fn openmetrics_has_seconds_and_exemplars() {
    let options = ImportOptions {
        openmetrics: true,
        ..options()
    };
    let body = b"# TYPE a counter\na_total 1 1.5 # {id=\"x\"} 2\n bad 1\na_total 2 2.5\n# EOF\na_total 3\n";
    let (events, imported) = imported(&[body], options);
    let exemplar = Exemplar {
        labels: Labels::from_pairs([("id", "x")]),
        timestamp_ms: 1500,
        value: 2.0,
    };
    assert_eq!(
        events,
        [
            metadata("a", MetricType::Counter, ""),
            series(&[("__name__", "a_total")]),
            Event::sample(1500, 0, 1.0),
            Event::Exemplar(exemplar),
            Event::reject("line 3: expected value after metric, got \"bad\""),
            Event::sample(2500, 0, 2.0),
            Event::sample(99, 0, 3.0),
        ]
    );
    assert_eq!(imported.samples, 3);
}

#[test]
fn a_sample_without_a_series_is_refused() {
    let options = ImportOptions {
        openmetrics: true,
        ..options()
    };
    let (events, _) = imported(&[b" 1 5\n"], options);
    assert!(matches!(&events[..], [Event::Reject(_)]), "{events:?}");
}

#[test]
fn a_line_that_never_ends_is_skipped() {
    let long = "x".repeat(LINE_BYTES_MAX / 2);
    let chunks = [
        b"a 1\nb".as_slice(),
        long.as_bytes(),
        long.as_bytes(),
        long.as_bytes(),
        b" 1\nc 2\nd 3",
    ];
    let (events, imported) = imported(&chunks, options());
    let rejects: Vec<_> = events
        .iter()
        .filter(|e| matches!(e, Event::Reject(_)))
        .collect();
    assert_eq!(rejects, [&Event::reject("line 2: it is longer than 1 MiB")]);
    assert_eq!(
        imported,
        ImportCounts {
            samples: 3,
            refused_lines: 1
        }
    );
    // The same line in one piece.
    assert_eq!(
        self::imported(&[&chunks.concat()], options()),
        (events, imported)
    );
}

proptest! {
    #[test]
    fn where_chunks_are_cut_changes_nothing(cuts in prop::collection::vec(0..=BODY.len(), 0..12), openmetrics: bool) {
        let options = ImportOptions { openmetrics, ..options() };
        let mut cuts = cuts;
        cuts.extend([0, BODY.len()]);
        cuts.sort_unstable();
        let body = BODY.as_bytes();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &body[cut[0]..cut[1]]).collect();
        prop_assert_eq!(imported(&chunks, options.clone()), imported(&[body], options));
    }
}
