use proptest::prelude::*;

use super::*;
use crate::testing::{ExportedSeries, RecordingSink, SinkCall, expected, exported};

fn gather(into: &mut SampleBatch, exported: &ExportedSeries) {
    let mut raw = Vec::new();
    for (name, value) in exported.series.labels.iter() {
        icecore_model::push_raw_label(&mut raw, name, value);
    }
    into.series(RawLabels(&raw));
    for calls in expected(std::slice::from_ref(exported)) {
        match calls {
            SinkCall::Sample(_, timestamp_ms, bits, start_timestamp_ms) => into.sample(Sample {
                timestamp_ms,
                value: f64::from_bits(bits),
                start_timestamp_ms,
            }),
            SinkCall::Histogram(_, time, start, histogram) => {
                into.histogram(time, start, histogram)
            }
            SinkCall::Exemplar(_, exemplar) => into.exemplar(exemplar),
            SinkCall::Metadata(family, metadata) => into.metadata(&family, metadata),
            SinkCall::Rejected(reason) => into.reject(reason),
        }
    }
}

fn calls(gathered: &SampleBatch) -> Vec<SinkCall> {
    let mut sink = RecordingSink::default();
    gathered.replay(&mut sink);
    sink.sorted()
}

proptest! {
    #[test]
    fn what_was_added_is_replayed(all in prop::collection::vec(exported(), 0..4)) {
        let mut gathered = SampleBatch::default();
        all.iter().for_each(|exported| gather(&mut gathered, exported));
        prop_assert_eq!(calls(&gathered), expected(&all));
        prop_assert_eq!(calls(&gathered), expected(&all));
    }

    #[test]
    fn what_is_taken_back_is_gone(one in exported(), other in exported(), third in exported()) {
        let mut gathered = SampleBatch::default();
        gather(&mut gathered, &one);
        let (savepoint, bytes) = (gathered.savepoint(), gathered.bytes());
        gather(&mut gathered, &other);
        gathered.rollback(savepoint);
        prop_assert_eq!(gathered.bytes(), bytes);
        gather(&mut gathered, &third);
        prop_assert_eq!(calls(&gathered), expected(&[one, third]));
    }

    #[test]
    fn each_sample_is_in_one_window(
        exported in exported(),
        span_ms in 1i64..100_000_000,
        take in 1usize..30,
    ) {
        let mut gathered = SampleBatch::default();
        gather(&mut gathered, &exported);
        let mut sink = RecordingSink::default();
        let mut start = gathered.span().map_or(0, |(first, _)| first);
        let mut first = true;
        for _ in 0..1000 {
            let mut skip = 0;
            loop {
                let window = TimeWindow::new(&mut sink, start, start + span_ms, first);
                let mut window = window.part(skip, take);
                gathered.replay(&mut window);
                first = false;
                skip += take;
                if !window.has_more() {
                    start = window.next_ms();
                    break;
                }
            }
            if start == i64::MAX {
                break;
            }
        }
        let key = |calls: &SinkCall| format!("{calls:?}");
        let mut all = sink.calls;
        let mut expected = expected(&[exported]);
        all.sort_by_key(key);
        expected.sort_by_key(key);
        prop_assert_eq!(all, expected);
    }
}

#[test]
fn samples_without_a_series_and_times_that_nobody_stores() {
    let mut gathered = SampleBatch::default();
    let sample = |timestamp_ms| Sample {
        timestamp_ms,
        value: 1.0,
        start_timestamp_ms: 0,
    };
    gathered.sample(sample(1));
    assert!(gathered.is_empty());
    assert_eq!(gathered.take_rejected().len(), 1);
    gathered.series(RawLabels(&[]));
    for time in [i64::MIN, i64::MAX, 5] {
        gathered.sample(sample(time));
    }
    assert_eq!(gathered.span(), Some((5, 5)));
    // They go to the first window, so that the sink can say why not.
    for (first, count) in [(true, 3), (false, 1)] {
        let mut sink = RecordingSink::default();
        let mut window = TimeWindow::new(&mut sink, 0, 10, first);
        gathered.replay(&mut window);
        assert_eq!(window.next_ms(), i64::MAX);
        assert_eq!(sink.calls.len(), count);
    }
}
