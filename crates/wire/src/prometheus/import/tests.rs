use proptest::prelude::*;

use super::*;
use crate::SeriesContent;
use crate::prometheus::export::write_export_line;
use crate::testing::{ExportedSeries, RecordingSink, SinkCall, expected, exported};

const NO_LIMITS: BatchLimits = BatchLimits {
    samples: usize::MAX,
    bytes: usize::MAX,
};

/// What became of a text: the calls of a sink, and the lines that were bad.
#[derive(Debug, Default)]
struct Outcome {
    sink: RecordingSink,
    bad: Vec<(u64, String)>,
    lines: u64,
    largest_batch: usize,
    held_max: usize,
}

impl std::fmt::Debug for RecordingSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.calls.fmt(f)
    }
}

/// Reads pieces as they come, as the server does.
fn import<'a>(pieces: impl Iterator<Item = &'a [u8]>, limits: BatchLimits) -> Outcome {
    let mut outcome = Outcome::default();
    let mut reader = LineReader::new(limits);
    let mut batch = SampleBatch::default();
    let mut pieces = pieces.peekable();
    let mut buffer = Vec::new();
    let store = |batch: &mut SampleBatch, outcome: &mut Outcome| {
        outcome.largest_batch = outcome.largest_batch.max(batch.len());
        let batch = std::mem::take(batch);
        batch.replay(&mut outcome.sink);
    };
    loop {
        let at_end = pieces.peek().is_none();
        let (taken, step) = reader.advance(&buffer, at_end, &mut batch);
        buffer.drain(..taken);
        outcome.held_max = outcome.held_max.max(reader.pending_bytes());
        match step {
            Step::More { .. } => buffer.extend_from_slice(pieces.next().unwrap()),
            Step::Full => store(&mut batch, &mut outcome),
            Step::Bad { line, reason } => outcome.bad.push((line, reason)),
            Step::End => break,
        }
    }
    store(&mut batch, &mut outcome);
    outcome.lines = reader.lines_read();
    outcome
}

fn import_text(text: &str) -> Outcome {
    import([text.as_bytes()].into_iter(), NO_LIMITS)
}

fn lines(all: &[ExportedSeries], samples_max: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for exported in all {
        let content = SeriesContent::new(&exported.series, &exported.exemplars);
        let mut metadata = exported.metadata.as_ref();
        for part in content.parts(samples_max) {
            let metadata = metadata.take().map(|(family, m)| (family.as_str(), m));
            write_export_line(&mut out, part, metadata);
        }
    }
    out
}

proptest! {
    #[test]
    fn what_was_exported_is_imported(all in prop::collection::vec(exported(), 0..4)) {
        let text = lines(&all, usize::MAX);
        let outcome = import([&text[..]].into_iter(), NO_LIMITS);
        prop_assert_eq!(outcome.bad, vec![]);
        prop_assert_eq!(outcome.lines, all.len() as u64);
        prop_assert_eq!(outcome.sink.sorted(), expected(&all));
    }

    #[test]
    fn pieces_and_batches_change_nothing(
        all in prop::collection::vec(exported(), 0..3),
        piece in 1usize..50,
        samples in 1usize..20,
    ) {
        let text = lines(&all, usize::MAX);
        let limits = BatchLimits { samples, bytes: usize::MAX };
        let outcome = import(text.chunks(piece), limits);
        prop_assert_eq!(outcome.bad, vec![]);
        prop_assert!(outcome.largest_batch <= samples);
        prop_assert_eq!(outcome.sink.sorted(), expected(&all));
    }

    #[test]
    fn lines_that_are_split_mean_the_same(exported in exported(), samples in 1usize..20) {
        let text = lines(std::slice::from_ref(&exported), samples);
        let outcome = import([&text[..]].into_iter(), NO_LIMITS);
        prop_assert_eq!(outcome.bad, vec![]);
        let by_kind = |mut calls: Vec<SinkCall>| {
            calls.sort_by_key(|call| match call {
                SinkCall::Sample(..) => 0,
                SinkCall::Histogram(..) => 1,
                SinkCall::Exemplar(..) => 2,
                _ => 3,
            });
            calls
        };
        prop_assert_eq!(by_kind(outcome.sink.calls), by_kind(expected(&[exported])));
    }

    #[test]
    fn damage_is_reported_with_its_line_and_other_lines_are_read(
        before in exported(),
        damaged in exported(),
        after in exported(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        piece in 1usize..200,
    ) {
        let mut text = lines(std::slice::from_ref(&before), usize::MAX);
        let mut line = lines(std::slice::from_ref(&damaged), usize::MAX);
        let end = line.len() - 1;
        let at = at.index(end);
        line[at] = if byte == b'\n' { b'x' } else { byte };
        text.extend_from_slice(&line);
        text.extend(lines(std::slice::from_ref(&after), usize::MAX));
        let outcome = import(text.chunks(piece), NO_LIMITS);
        prop_assert!(outcome.bad.iter().all(|(line, _)| *line == 2), "{:?}", outcome.bad);
        if !outcome.bad.is_empty() {
            prop_assert_eq!(outcome.lines, 2);
            prop_assert_eq!(outcome.sink.sorted(), expected(&[before, after]));
        }
    }

    #[test]
    fn no_bytes_panic(mut text in prop::collection::vec(any::<u8>(), 0..60), piece in 1usize..9) {
        import(text.chunks(piece), NO_LIMITS);
        let prefix = b"{\"metric\":{\"a\":\"b\"},\"values\":[1";
        text.splice(..0, prefix.iter().copied());
        import(text.chunks(piece), NO_LIMITS);
    }
}

fn sample(series: &str, time: i64, value: f64) -> SinkCall {
    SinkCall::Sample(series.into(), time, value.to_bits(), 0)
}

#[test]
fn lines_of_victoria_metrics() {
    let text = concat!(
        r#"{"metric":{"__name__":"foo","job":"x"},"values":[1,null,"Infinity",-2.5e3],"timestamps":[1549891472010,1549891487724,1549891503438,5]}"#,
        "\r\n\n",
        r#" { "timestamps" : [ 7 ] , "metric" : { "__name__" : "bar" } , "values" : [ 1 ] } "#,
        "\n",
        r#"{"metric":{"__name__":"\u0062\ud83d\ude31\/"},"timestamps":[7],"other":{"a":[1,{"b":"]"}]},"values":["1e2"]}"#,
    );
    let outcome = import_text(text);
    let nan = f64::from_bits(crate::prometheus::export::NORMAL_NAN_BITS);
    let foo = r#"foo{job="x"}"#;
    assert_eq!(outcome.bad, [(3, "timestamps before metric".to_owned())]);
    assert_eq!(
        outcome.sink.calls,
        [
            sample(foo, 1_549_891_472_010, 1.0),
            sample(foo, 1_549_891_487_724, nan),
            sample(foo, 1_549_891_503_438, f64::INFINITY),
            sample(foo, 5, -2500.0),
            sample("b😱/", 7, 100.0),
        ]
    );
}

#[test]
fn what_is_wrong_with_a_line() {
    let metric = r#""metric":{"__name__":"m"}"#;
    for (line, reason) in [
        ("7".to_owned(), "expected an object"),
        ("{}".into(), "no metric"),
        (
            format!("{{{metric},\"value\":[1,\"2\"]}}"),
            "no samples: expected values and timestamps, or histograms",
        ),
        (
            format!("{{{metric},\"start_timestamps\":[]}}"),
            "no samples: expected values and timestamps, or histograms",
        ),
        (r#"{"values":[1]}"#.into(), "values before metric"),
        (format!("{{{metric},{metric}}}"), "duplicate key metric"),
        (
            format!("{{{metric},\"values\":[1],\"timestamps\":[]}}"),
            "1 more values than timestamps",
        ),
        (
            format!("{{{metric},\"values\":[],\"timestamps\":[1]}}"),
            "more timestamps than values",
        ),
        (
            format!("{{{metric},\"timestamps\":[1,2],\"values\":[1]}}"),
            "1 more timestamps than values",
        ),
        (
            format!("{{{metric},\"values\":[x],\"timestamps\":[1]}}"),
            "\"x\" is not a value",
        ),
        (
            format!("{{{metric},\"values\":[1],\"timestamps\":[1.5]}}"),
            "\"1.5\" is not a timestamp in whole milliseconds",
        ),
        (
            format!("{{{metric},\"values\":[1 2]}}"),
            "expected a comma or the end of the list",
        ),
        (
            format!("{{{metric},\"values\":[1,]}}"),
            "a value is missing",
        ),
        (
            format!("{{{metric},\"values\":[1]"),
            "the line ends within the object",
        ),
        (
            format!("{{{metric},\"values\":[1"),
            "the line ends within a list",
        ),
        (
            format!("{{{metric}}} x"),
            "unexpected text after the object",
        ),
        (
            format!("{{{metric},\"histograms\":[{{\"schema\":0}}]}}"),
            "the count is not a whole number",
        ),
        (
            format!("{{{metric},\"exemplars\":[{{\"value\":0}}]}}"),
            "exemplar without a timestamp",
        ),
        (
            format!("{{{metric},\"metadata\":{{\"type\":\"gauge\"}}}}"),
            "metadata without a family",
        ),
        (
            format!("{{{metric},\"values\":[1],\"timestamps\":[1],\"start_timestamps\":[[1,2]]}}"),
            "start_timestamps must stand before values and timestamps",
        ),
        (
            "{\"metric\":{\"a\":\"b".into(),
            "the line ends within a string",
        ),
        (
            format!("{{{metric},\"x\":{}", "[".repeat(100)),
            "values nest too deep",
        ),
    ] {
        let good = format!("{{{metric},\"values\":[1],\"timestamps\":[1]}}");
        let outcome = import_text(&format!("{line}\n{good}\n"));
        assert_eq!(outcome.bad, [(1, reason.to_owned())], "{line}");
        assert_eq!(outcome.sink.calls, [sample("m", 1, 1.0)], "{line}");
        // The same without a line end is the end of the text in most cases.
        let outcome = import_text(&line);
        assert_eq!((outcome.bad.len(), outcome.lines), (1, 0), "{line}");
    }
}

#[test]
fn a_histogram_that_contradicts_itself_is_refused_alone() {
    let outcome = import_text(concat!(
        r#"{"metric":{"__name__":"m"},"histograms":[{"timestamp":1,"schema":0,"sum":1,"count":3,"#,
        r#""positive_spans":[[0,5]],"positive_deltas":[1]}],"values":[2],"timestamps":[2]}"#,
    ));
    assert_eq!(outcome.bad, []);
    assert_eq!(outcome.sink.calls, [sample("m", 2, 2.0)]);
}

/// The text is generated as it is read.
#[test]
fn ten_million_values_go_through_small_batches() {
    const VALUES: usize = 10_000_000;
    const PIECE: usize = 10_000;
    let values: Vec<u8> = b"1.5,".repeat(PIECE);
    let times: Vec<u8> = b"1700000000000,".repeat(PIECE);
    let mut reader = LineReader::new(BatchLimits {
        samples: 50_000,
        bytes: 1 << 20,
    });
    let begin: &[u8] = b"{\"metric\":{\"__name__\":\"m\"},\"values\":[";
    let middle: &[u8] = b"1.5],\"timestamps\":[";
    let end: &[u8] = b"1700000000000]}";
    let pieces = std::iter::once(begin)
        .chain(std::iter::repeat_n(&values[..], VALUES / PIECE))
        .chain([middle])
        .chain(std::iter::repeat_n(&times[..], VALUES / PIECE))
        .chain([end]);
    let mut pieces = pieces.peekable();
    let (mut batch, mut buffer) = (SampleBatch::default(), Vec::new());
    let (mut stored, mut buffer_max, mut batch_max) = (0, 0, 0);
    loop {
        let at_end = pieces.peek().is_none();
        let (taken, step) = reader.advance(&buffer, at_end, &mut batch);
        buffer.drain(..taken);
        batch_max = batch_max.max(batch.bytes());
        match step {
            Step::More { .. } => buffer.extend_from_slice(pieces.next().unwrap()),
            Step::Full => stored += std::mem::take(&mut batch).len(),
            Step::End => break,
            Step::Bad { .. } => panic!("{step:?}"),
        }
        buffer_max = buffer_max.max(buffer.len());
    }
    assert_eq!(stored + batch.len(), VALUES + 1);
    assert!(buffer_max <= times.len() + 64, "{buffer_max}");
    assert!(batch_max <= (1 << 20) + 1024, "{batch_max}");
    assert_eq!(reader.pending_bytes(), "__name__m".len() + 6);
}

#[test]
fn a_line_that_holds_too_much_is_refused() {
    let mut reader = LineReader::new(NO_LIMITS);
    let mut batch = SampleBatch::default();
    let begin = b"{\"metric\":{\"__name__\":\"m\"},\"values\":[0 ";
    assert!(matches!(
        reader.advance(begin, false, &mut batch).1,
        Step::More { .. }
    ));
    let piece = b",0".repeat(1 << 20);
    let mut steps = (0..17).map(|_| reader.advance(&piece, false, &mut batch).1);
    assert!(steps.any(|step| matches!(step, Step::Bad { line: 1, .. })));
    assert!(reader.pending_bytes() < 64);
    let long = vec![b'x'; ELEMENT_BYTES_MAX + 1];
    let text = [&b"{\"metric\":{\"__name__\":\""[..], &long].concat();
    let mut reader = LineReader::new(NO_LIMITS);
    assert!(matches!(
        reader.advance(&text, false, &mut batch).1,
        Step::Bad { line: 1, .. }
    ));
}
