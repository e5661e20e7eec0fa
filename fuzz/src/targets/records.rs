//! Targets for the stored keys and values. Beyond "no panic", what decodes must encode to something
//! that decodes to the same, and the merge operator must not care how operands are grouped.

use std::sync::Arc;

use bytes::Bytes;
use icecore_model::{
    BucketSize, BucketStart, CounterResetHint, Exemplar, Histogram, HistogramCounts, Labels,
    Metadata, MetricType, Span,
};
use icecore_records::delta_totals::{DeltaTotal, SeriesKey, TotalValue};
use icecore_records::epoch_summary::FlushUnit;
use icecore_records::{
    Bucket, BucketMeta, BucketState, ForwardRecord, HistogramEntry, MetricMeta, ParsedKey,
    SeriesId, bucket_list, bucket_meta, delta_totals, epoch_summary, exemplar_series, flush_cursor,
    forward_index, gorilla, histogram_series, inverted_index, journal, key, merge, metadata,
    series_dictionary, start_timestamps, watermark,
};

use crate::{MEMORY_BASE, Target};

pub fn targets() -> Vec<Target> {
    let target = |name, seeds, run| Target {
        name,
        seeds,
        run,
        memory_base: MEMORY_BASE,
    };
    vec![
        target("records/key", keys, |input| {
            key::segment_len(input);
            if let Ok(parsed) = ParsedKey::parse(input) {
                assert!(!parsed.to_string().is_empty());
            }
        }),
        target("records/bucket_list", bucket_lists, |input| {
            if let Ok(buckets) = bucket_list::decode(input) {
                assert_eq!(
                    bucket_list::decode(&bucket_list::encode(&buckets)),
                    Ok(buckets)
                );
            }
        }),
        target("records/series_dictionary", dictionaries, |input| {
            if let Ok(ids) = series_dictionary::decode(input) {
                assert_eq!(series_dictionary::encode(&ids), input);
            }
        }),
        target(
            "records/forward_index",
            forward_records,
            forward_index_round_trip,
        ),
        target("records/inverted_index", bitmaps, |input| {
            if let Ok(mut ids) = inverted_index::decode(input) {
                let expected = ids.clone();
                let again = inverted_index::decode(&inverted_index::encode(&mut ids));
                assert_eq!(again, Ok(expected));
            }
        }),
        target("records/time_series", streams, gorilla_round_trip),
        target("records/histogram_series", histograms, |input| {
            if let Ok(entries) = histogram_series::decode(input) {
                let once = histogram_series::encode(&entries);
                let again = histogram_series::decode(&once).expect("own bytes");
                assert_eq!(histogram_series::encode(&again), once);
            }
        }),
        target("records/exemplar_series", exemplars, |input| {
            if let Ok(all) = exemplar_series::decode(input) {
                assert_eq!(
                    exemplar_series::decode(&exemplar_series::encode(&all)),
                    Ok(all)
                );
            }
        }),
        target("records/start_timestamps", starts, |input| {
            if let Ok(all) = start_timestamps::decode(input) {
                assert_eq!(
                    start_timestamps::decode(&start_timestamps::encode(&all)),
                    Ok(all)
                );
            }
        }),
        target("records/bucket_meta", bucket_metas, |input| {
            if let Ok(meta) = bucket_meta::decode(input) {
                assert_eq!(bucket_meta::decode(&bucket_meta::encode(&meta)), Ok(meta));
            }
        }),
        target("records/maintenance", maintenance, |input| {
            if let Ok(seq) = flush_cursor::decode(input) {
                assert_eq!(flush_cursor::encode(seq), input);
            }
            if let Ok(mark) = watermark::decode(input) {
                assert_eq!(watermark::encode(mark), input);
            }
        }),
        target("records/epoch_summary", epoch_summaries, |input| {
            if let Ok(summary) = epoch_summary::decode(input) {
                let again = epoch_summary::decode(&epoch_summary::encode(&summary));
                assert_eq!(again, Ok(summary));
            }
        }),
        target("records/delta_totals", delta_total_records, |input| {
            if let Ok(mut totals) = delta_totals::decode(input) {
                let once = delta_totals::encode(&mut totals, 1_700_000_000);
                let mut again = delta_totals::decode(&once).expect("own bytes");
                assert_eq!(delta_totals::encode(&mut again, 1_700_000_000), once);
            }
        }),
        target("records/metadata", metadata_records, |input| {
            if let Ok(said) = metadata::decode(input) {
                assert_eq!(metadata::decode(&metadata::encode(&said)), Ok(said));
            }
        }),
        target("records/journal_record", journal_records, |input| {
            if let Ok(blocks) = journal::decode_record(input) {
                blocks.iter().for_each(|block| decode_both_ways(block));
            }
        }),
        target("records/journal_block", journal_blocks, |input| {
            // As the only block of a record, so that the fuzzer gets past the checksum.
            let record = journal::encode_record(&[input]);
            let blocks = journal::decode_record(&record).expect("own record");
            assert_eq!(blocks, [input]);
            decode_both_ways(blocks[0]);
        }),
        target("records/merge", operands, merge_is_associative),
    ]
}

/// Definitions as label sets and as pairs must be the same, and so must be whether a block is
/// readable.
fn decode_both_ways(block: &[u8]) {
    let mut pairs = Vec::new();
    let with_pairs = journal::decode_block_with(block, |number, labels| {
        pairs.push((number, Labels::from_sorted(labels.iter().copied())));
    });
    let sections = journal::decode_block(block);
    assert_eq!(
        with_pairs.as_ref().err(),
        sections.as_ref().err(),
        "both fail alike"
    );
    let Ok(sections) = sections else { return };
    let defined = sections.into_iter().filter_map(|section| match section {
        journal::Section::Definitions(entries) => Some(entries),
        _ => None,
    });
    assert_eq!(defined.flatten().collect::<Vec<_>>(), pairs);
}

fn forward_index_round_trip(input: &[u8]) {
    if let Ok(bindings) = forward_index::label_bindings(input) {
        drop(forward_index::decode_bindings(bindings));
    }
    if let Ok(record) = forward_index::decode(input) {
        assert_eq!(
            forward_index::encode(&record),
            input,
            "a record has one form"
        );
    }
}

fn gorilla_round_trip(input: &[u8]) {
    let (mut timestamps, mut values) = (Vec::new(), Vec::new());
    drop(gorilla::count(input));
    drop(gorilla::first_timestamp(input));
    drop(gorilla::decode_range_into(
        input,
        10,
        20,
        &mut timestamps,
        &mut values,
    ));
    timestamps.clear();
    values.clear();
    let Ok(count) = gorilla::decode_into(input, &mut timestamps, &mut values) else {
        assert!(timestamps.is_empty() && values.is_empty());
        return;
    };
    assert_eq!((count, count), (timestamps.len(), values.len()));
    assert_eq!(gorilla::count(input).map(|count| count as usize), Ok(count));
    let once = gorilla::encode(&timestamps, &values);
    let (mut timestamps_again, mut values_again) = (Vec::new(), Vec::new());
    gorilla::decode_into(&once, &mut timestamps_again, &mut values_again).expect("own stream");
    assert_eq!(timestamps_again, timestamps);
    assert!(
        values_again
            .iter()
            .map(|v| v.to_bits())
            .eq(values.iter().map(|v| v.to_bits()))
    );
}

/// The input is a selector of the key and then operands, each after a length byte.
fn merge_is_associative(input: &[u8]) {
    let Some((selector, mut rest)) = input.split_first() else {
        return;
    };
    let keys = merged_keys();
    let key = &keys[usize::from(*selector) % keys.len()];
    let mut operands: Vec<Bytes> = Vec::new();
    while let Some((len, tail)) = rest.split_first() {
        let (operand, tail) = tail.split_at(usize::from(*len).min(tail.len()));
        operands.push(Bytes::copy_from_slice(operand));
        rest = tail;
    }
    operands.truncate(6);
    if operands.is_empty() {
        return;
    }
    let all = merge::merge(key, None, &operands).expect("there are operands");
    merge::readable(key, &all);
    for cut in 1..operands.len() {
        let old = merge::merge(key, None, &operands[..cut]).expect("there are operands");
        let new = merge::merge(key, None, &operands[cut..]).expect("there are operands");
        let from_left = merge::merge(key, Some(&old), &operands[cut..]);
        assert_eq!(from_left.expect("there are operands"), all, "cut at {cut}");
        let of_halves = merge::merge(key, None, &[old, new]);
        assert_eq!(of_halves.expect("there are operands"), all, "cut at {cut}");
    }
}

fn hour() -> Bucket {
    Bucket::hour(BucketStart(28_333_320))
}

fn four_hours() -> Bucket {
    let size = BucketSize::from_exponent(3).expect("between 1 and 15");
    Bucket {
        size,
        start: BucketStart(28_333_200),
    }
}

fn merged_keys() -> Vec<Bytes> {
    let series = SeriesId(713);
    vec![
        key::bucket_list(),
        key::series_dictionary(hour(), 1),
        key::inverted_index(hour(), "status", "500"),
        key::time_series(hour(), series),
        key::time_series_starts(hour(), series),
        key::histogram_series(hour(), series),
        key::exemplar_series(hour(), series),
        key::time_series(four_hours(), series),
        key::bucket_meta(hour()),
        key::histogram_series(four_hours(), series),
    ]
}

fn keys() -> Vec<Vec<u8>> {
    let mut keys = merged_keys();
    keys.extend([
        key::inverted_index(hour(), "a\u{0}\u{1}b", "\u{1}"),
        key::forward_index(hour(), SeriesId(1)),
        key::journal(7, 9),
        key::flush_cursor(hour()),
        key::catalog_cursor(),
        key::time_column(four_hours(), 7),
        key::rollup_series(four_hours(), SeriesId(713)),
        key::rollup_histograms(four_hours(), SeriesId(713)),
        key::maintenance_job(),
        key::retired_bucket(hour()),
        key::tombstones(hour()),
        key::restore_mark(),
        key::retention_state(),
        key::epoch_summary(7),
        key::journal_watermark(),
        key::metric_metadata("up"),
    ]);
    keys.into_iter().map(Into::into).collect()
}

fn bucket_lists() -> Vec<Vec<u8>> {
    vec![bucket_list::encode(&[hour(), four_hours()].into_iter().collect()).into()]
}

fn dictionaries() -> Vec<Vec<u8>> {
    vec![
        series_dictionary::encode(&[SeriesId(713)]).into(),
        series_dictionary::encode(&[SeriesId(1), SeriesId(u32::MAX)]).into(),
    ]
}

fn labels() -> Labels {
    Labels::from_pairs([
        ("__name__", "http_requests_total"),
        ("status", "500"),
        ("ü", "ö"),
    ])
}

fn forward_records() -> Vec<Vec<u8>> {
    let meta = MetricMeta::from(MetricType::Counter);
    let record = ForwardRecord {
        unit: "By".into(),
        meta,
        labels: labels(),
    };
    vec![forward_index::encode(&record)]
}

fn bitmaps() -> Vec<Vec<u8>> {
    let sets: [Vec<u32>; 4] = [
        vec![1, 2, 3, 713, 70_000],
        (0..1000).collect(),
        (0..9000).map(|i| i * 5).collect(),
        vec![],
    ];
    let encode = |ids: Vec<u32>| inverted_index::encode(&mut ids.into_iter().collect()).into();
    sets.into_iter().map(encode).collect()
}

fn streams() -> Vec<Vec<u8>> {
    let timestamps: Vec<i64> = (0..50)
        .map(|i| 1_700_000_000_000 + 15_000 * i + i % 3)
        .collect();
    let constant = vec![1.0; 50];
    let counter: Vec<f64> = (0..50).map(|i| f64::from(i * i)).collect();
    let gauge: Vec<f64> = counter.iter().map(|v| v / 100.0).collect();
    let mut all: Vec<Vec<u8>> = [constant, counter, gauge]
        .iter()
        .map(|v| gorilla::encode(&timestamps, v))
        .collect();
    all.push(gorilla::encode(&[], &[]));
    all.push(gorilla::encode(
        &[i64::MIN, 0, i64::MAX],
        &[f64::NAN, -0.0, f64::INFINITY],
    ));
    all
}

pub(super) fn histogram(count: u64) -> Histogram {
    Histogram {
        schema: 3,
        reset_hint: CounterResetHint::NotReset,
        zero_threshold: 1e-128,
        sum: count as f64 * 1.5,
        counts: HistogramCounts::Integer {
            count,
            zero_count: 1,
            positive_deltas: vec![2, 1, 5],
            negative_deltas: vec![1],
        },
        positive_spans: vec![
            Span {
                offset: -2,
                length: 2,
            },
            Span {
                offset: 3,
                length: 1,
            },
        ],
        negative_spans: vec![Span {
            offset: 0,
            length: 1,
        }],
        custom_bounds: Arc::from([]),
    }
}

fn float_histogram() -> Histogram {
    Histogram {
        schema: -53,
        counts: HistogramCounts::Float {
            count: 3.0,
            zero_count: 0.0,
            positive: vec![1.0, 2.0],
            negative: vec![],
        },
        positive_spans: vec![Span {
            offset: 0,
            length: 2,
        }],
        negative_spans: vec![],
        custom_bounds: Arc::from([0.5, 5.0]),
        ..histogram(3)
    }
}

fn histograms() -> Vec<Vec<u8>> {
    let values = [
        Some(histogram(12)),
        Some(histogram(15)),
        None,
        Some(float_histogram()),
    ];
    let entries: Vec<HistogramEntry> = values
        .into_iter()
        .zip(0..)
        .map(|(value, timestamp_ms)| HistogramEntry {
            timestamp_ms,
            value: value.map(Arc::new),
        })
        .collect();
    vec![
        histogram_series::encode(&entries),
        histogram_series::encode(&[]),
    ]
}

fn exemplar(timestamp_ms: i64) -> Exemplar {
    let labels = Labels::from_pairs([("trace_id", "0af7651916cd43dd")]);
    Exemplar {
        labels,
        timestamp_ms,
        value: 0.25,
    }
}

fn exemplars() -> Vec<Vec<u8>> {
    vec![
        exemplar_series::encode(&[exemplar(1), exemplar(2)]),
        exemplar_series::encode(&[]),
    ]
}

fn starts() -> Vec<Vec<u8>> {
    vec![start_timestamps::encode(&[
        (1_700_000_000_000, 1_699_000_000_000),
        (i64::MAX, 0),
    ])]
}

fn bucket_metas() -> Vec<Vec<u8>> {
    let meta = BucketMeta {
        next_series_id: 714,
        run_starts: vec![SeriesId(0), SeriesId(500)],
        dirty_hours: vec![28_333_320],
        float_samples: 171_120,
        has_histograms: true,
        ..BucketMeta::default()
    };
    let rolled_up = BucketMeta {
        state: BucketState::RolledUp,
        resolution_ms: 300_000,
        rollup: bucket_meta::RollupMeta {
            windows: 8556,
            is_lean: true,
            sources_gone: true,
            ..Default::default()
        },
        ..meta.clone()
    };
    let mut noted = rolled_up.clone();
    noted.rollup.left_out = Some([7, u64::MAX].into());
    let mut standing_in = noted.clone();
    standing_in.rollup.stands_in = true;
    let all = [meta, rolled_up, noted, standing_in];
    all.iter().map(bucket_meta::encode).collect()
}

fn maintenance() -> Vec<Vec<u8>> {
    let mark = watermark::Watermark {
        next_seq: 258,
        next_epoch: 7,
    };
    vec![
        flush_cursor::encode(258).into(),
        watermark::encode(mark).into(),
    ]
}

fn epoch_summaries() -> Vec<Vec<u8>> {
    let hour = |minutes| FlushUnit::Hour(BucketStart(minutes));
    let units = [
        (hour(28_333_320), 700),
        (hour(28_333_380), 699),
        (FlushUnit::Events, 690),
        (FlushUnit::Catalog, 300),
    ];
    let summary = epoch_summary::EpochSummary {
        first_seq: 258,
        last_seq: 700,
        units: units.into(),
    };
    vec![
        epoch_summary::encode(&summary).into(),
        epoch_summary::encode(&epoch_summary::EpochSummary::default()).into(),
    ]
}

fn delta_total_records() -> Vec<Vec<u8>> {
    let total = |fingerprint, value| DeltaTotal {
        series: SeriesKey {
            fingerprint,
            check: 7,
        },
        end_ms: 1_700_000_000_000,
        start_ms: 1_699_990_000_000,
        written_s: 1_700_000_000,
        value,
    };
    let mut totals = vec![
        total(1, TotalValue::Float(12.5)),
        total(2, TotalValue::Histogram(Box::new(histogram(12)))),
    ];
    vec![delta_totals::encode(&mut totals, 1_700_000_060).into()]
}

fn metadata() -> Metadata {
    let help = "Requests served.".into();
    Metadata {
        metric_type: MetricType::Counter,
        unit: "requests".into(),
        help,
        ..Metadata::default()
    }
}

fn metadata_records() -> Vec<Vec<u8>> {
    vec![metadata::encode(&metadata())]
}

fn journal_blocks() -> Vec<Vec<u8>> {
    let mut encoder = journal::BlockEncoder::new();
    let mut blocks = Vec::new();
    // Once small, so that sections are stored raw and can be damaged inside; once compressed.
    for samples in [3u32, 60] {
        for i in 0..samples {
            let value = i.to_string();
            encoder.define(
                i,
                [("__name__", "up"), ("instance", value.as_str())].into_iter(),
            );
            encoder.floats(&[i], &[1_700_000_000_000], &[f64::from(i) / 2.0]);
        }
        encoder.histogram(1, 5, &histogram(12));
        encoder.histogram(2, 5, &float_histogram());
        encoder.exemplar(1, &exemplar(5));
        encoder.metadata("up", &metadata());
        encoder.start_timestamp(1, 5, 2);
        encoder.events(b"bytes of events");
        encoder.totals(1, 2);
        blocks.push(encoder.finish());
    }
    blocks
}

fn journal_records() -> Vec<Vec<u8>> {
    vec![journal::encode_record(&journal_blocks())]
}

fn operands() -> Vec<Vec<u8>> {
    let values: [Vec<Vec<u8>>; 10] = [
        bucket_lists(),
        dictionaries(),
        bitmaps(),
        streams(),
        starts(),
        histograms(),
        exemplars(),
        streams(),
        bucket_metas(),
        histograms(),
    ];
    let seed = |(selector, values): (usize, &Vec<Vec<u8>>)| {
        let mut input = vec![selector as u8];
        for value in values
            .iter()
            .filter(|value| value.len() < 256)
            .chain(values.first())
        {
            input.push(value.len() as u8);
            input.extend_from_slice(value);
        }
        input
    };
    values.iter().enumerate().map(seed).collect()
}
