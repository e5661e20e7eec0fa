//! Blocks come back as they were written, and damage is reported.

use std::sync::Arc;

use icecore_model::{
    CatalogChange, CounterResetHint, Exemplar, Histogram, HistogramCounts, Labels, Metadata,
    MetricType, STALE_NAN_BITS, Span,
};
use proptest::prelude::*;

use super::*;

fn full_block() -> Vec<u8> {
    let mut encoder = BlockEncoder::new();
    assert!(encoder.is_empty());
    for i in 0..20u32 {
        let value = i.to_string();
        encoder.define(
            i,
            [("__name__", "http_requests_total"), ("status", &value)].into_iter(),
        );
    }
    encoder.floats(
        &[0, 1, 2],
        &[10, 10, 11],
        &[1.0, 2.5, f64::from_bits(STALE_NAN_BITS)],
    );
    encoder.floats(&[7, 3], &[5, -5], &[-0.0, 1e300]);
    encoder.histogram(4, 10, &histogram());
    encoder.exemplar(4, &exemplar());
    encoder.metadata("http_requests", &metadata());
    encoder.start_timestamp(4, 10, 3);
    encoder.events(&events()[..7]);
    encoder.events(&events()[7..]);
    encoder.totals(2, 1);
    changes().iter().for_each(|change| encoder.catalog(change));
    let block = encoder.finish();
    assert!(encoder.is_empty());
    assert!(
        encoder.finish().is_empty(),
        "a finished encoder holds nothing back"
    );
    block
}

fn histogram() -> Histogram {
    Histogram {
        schema: 3,
        reset_hint: CounterResetHint::Reset,
        zero_threshold: 1e-128,
        sum: 18.25,
        counts: HistogramCounts::Integer {
            count: 12,
            zero_count: 2,
            positive_deltas: vec![2, 1, -2],
            negative_deltas: vec![],
        },
        positive_spans: vec![
            Span {
                offset: 0,
                length: 2,
            },
            Span {
                offset: 3,
                length: 1,
            },
        ],
        negative_spans: vec![],
        custom_bounds: Arc::from([]),
    }
}

fn exemplar() -> Exemplar {
    let labels = Labels::from_pairs([("trace_id", "abc")]);
    Exemplar {
        labels,
        timestamp_ms: 9,
        value: f64::NAN,
    }
}

/// Every byte, also those that sections begin with.
fn events() -> Vec<u8> {
    (0..=255).collect()
}

fn changes() -> [CatalogChange; 3] {
    let change = |key: &[u8], value: Option<&[u8]>| CatalogChange {
        key: key.to_vec(),
        value: value.map(<[u8]>::to_vec),
    };
    [
        change(&[0x10, 1], Some(b"a name")),
        change(&[0x10, 2], Some(b"")),
        change(&[0x11], None),
    ]
}

fn metadata() -> Metadata {
    Metadata {
        metric_type: MetricType::Counter,
        unit: "".into(),
        help: "Requests.".into(),
        ..Metadata::default()
    }
}

#[test]
fn all_sections_come_back() {
    let block = full_block();
    let sections = decode_block(&block).unwrap();
    assert_eq!(sections.len(), 9);
    for section in sections {
        match section {
            Section::Definitions(all) => {
                assert_eq!(all.len(), 20);
                assert_eq!(all[19].0, 19);
                assert_eq!(all[19].1.get("status"), Some("19"));
            }
            Section::Floats {
                refs,
                timestamps,
                values,
            } => {
                assert_eq!(refs, [0, 1, 2, 7, 3]);
                assert_eq!(timestamps, [10, 10, 11, 5, -5]);
                let bits: Vec<u64> = values.iter().map(|v| v.to_bits()).collect();
                let expected = [1.0, 2.5, f64::from_bits(STALE_NAN_BITS), -0.0, 1e300];
                assert_eq!(bits, expected.map(f64::to_bits));
            }
            Section::Histograms(all) => assert_eq!(all, [(4, 10, histogram())]),
            Section::Exemplars(all) => assert_eq!(all, [(4, exemplar())]),
            Section::Metadata(all) => assert_eq!(all, [("http_requests".into(), metadata())]),
            Section::StartTimestamps(all) => assert_eq!(all, [(4, 10, 3)]),
            Section::Events(bytes) => assert_eq!(bytes, events()),
            Section::Totals { floats, histograms } => assert_eq!((floats, histograms), (2, 1)),
            Section::Catalog(all) => assert_eq!(all, changes()),
            Section::Unknown { kind } => panic!("unknown section {kind}"),
        }
    }
}

#[test]
fn the_same_request_gives_the_same_bytes_from_a_used_encoder() {
    let mut used = BlockEncoder::new();
    let many: Vec<u32> = (0..50_000).collect();
    let values: Vec<f64> = many.iter().map(|&r| f64::from(r) / 3.0).collect();
    used.floats(&many, &vec![1; many.len()], &values);
    used.finish();
    used.floats(&many[..500], &[1; 500], &values[..500]);
    let mut fresh = BlockEncoder::new();
    fresh.floats(&many[..500], &[1; 500], &values[..500]);
    assert_eq!(used.finish(), fresh.finish());
}

#[test]
fn records_hold_their_blocks_and_a_flipped_bit_is_found() {
    let blocks = [full_block(), Vec::new(), vec![1, 2, 3]];
    let record = encode_record(&blocks);
    assert_eq!(decode_record(&record).unwrap(), blocks);
    for bit in 0..8 * record.len() {
        let mut damaged = record.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_record(&damaged).is_err(), "bit {bit}");
    }
    for end in 0..record.len() {
        assert!(decode_record(&record[..end]).is_err(), "cut at {end}");
    }
    assert!(
        decode_record(&encode_record(&[[0u8; 0]; 0]))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn truncated_blocks_lose_whole_sections_or_fail() {
    let block = full_block();
    let mut whole_prefixes = 0;
    for end in 0..block.len() {
        if let Ok(sections) = decode_block(&block[..end]) {
            assert_eq!(sections.len(), whole_prefixes, "cut at {end}");
            whole_prefixes += 1;
        }
    }
    assert_eq!(whole_prefixes, 9, "only the ends of sections are accepted");
}

#[test]
fn reserved_kinds_are_reported() {
    for kind in [0u8, 7, 11, 200] {
        let sections = decode_block(&[kind, 0, 1, 1, 42]).unwrap();
        assert!(matches!(sections[..], [Section::Unknown { kind: k }] if k == kind));
    }
}

#[test]
fn sections_cannot_claim_to_expand_without_end() {
    // A gibibyte of floats in one stored byte.
    let error = decode_block(&[kind::FLOATS, 1, 0x80, 0x80, 0x80, 0x80, 4, 1, 0]).unwrap_err();
    assert_eq!(error.reason, "section expands too far");
    assert!(
        decode_block(&[kind::FLOATS, 9, 1, 1, 0]).is_err(),
        "unknown codec"
    );
    assert!(
        decode_block(&[kind::FLOATS, 0, 2, 1, 0]).is_err(),
        "raw lengths differ"
    );
}

#[test]
fn what_compresses_too_well_for_zstd_is_still_readable() {
    let mut encoder = BlockEncoder::new();
    let long = "x".repeat(30_000);
    for _ in 0..100 {
        encoder.define(1, [("a", long.as_str())].into_iter());
    }
    let block = encoder.finish();
    assert_eq!(block[1], 1, "written with lz4");
    let sections = decode_block(&block).unwrap();
    assert!(matches!(&sections[..], [Section::Definitions(all)] if all.len() == 100));
}

#[test]
fn whole_numbers_are_short_and_all_others_survive() {
    let edge = 9_007_199_254_740_992.0;
    let values = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        edge,
        -edge,
        edge - 1.0,
        1.0 - edge,
        0.5,
        f64::NAN,
        f64::MIN,
        5e-324,
    ];
    let n = values.len();
    let mut encoder = BlockEncoder::new();
    encoder.floats(&vec![0; n], &vec![0; n], &values);
    let sections = decode_block(&encoder.finish()).unwrap();
    let [
        Section::Floats {
            values: decoded, ..
        },
    ] = &sections[..]
    else {
        panic!("{sections:?}")
    };
    let bits = |all: &[f64]| all.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(decoded), bits(&values));
}

proptest! {
    #[test]
    fn any_samples_come_back(
        samples in prop::collection::vec((any::<u32>(), any::<i64>(), any::<u64>()), 1..200),
        whole in any::<bool>(),
        split in any::<prop::sample::Index>(),
    ) {
        let refs: Vec<u32> = samples.iter().map(|s| s.0).collect();
        let timestamps: Vec<i64> = samples.iter().map(|s| s.1).collect();
        let value = |bits: u64| if whole { (bits >> 9) as f64 } else { f64::from_bits(bits) };
        let values: Vec<f64> = samples.iter().map(|s| value(s.2)).collect();
        let middle = split.index(samples.len());
        let mut encoder = BlockEncoder::new();
        encoder.floats(&refs[..middle], &timestamps[..middle], &values[..middle]);
        encoder.floats(&refs[middle..], &timestamps[middle..], &values[middle..]);
        let sections = decode_block(&encoder.finish()).unwrap();
        let [Section::Floats { refs: r, timestamps: t, values: v }] = &sections[..] else {
            panic!("{sections:?}");
        };
        prop_assert_eq!(r, &refs);
        prop_assert_eq!(t, &timestamps);
        prop_assert!(v.iter().map(|v| v.to_bits()).eq(values.iter().map(|v| v.to_bits())));
    }
}

/// Histograms of about 1.6 KiB each.
fn wide_histogram(seed: u32) -> Histogram {
    let deltas: Vec<i64> = (0..160)
        .map(|i| (i64::from(seed) + (1 << 27)) * if i % 2 == 0 { 1 } else { -1 })
        .collect();
    let spans = vec![Span {
        offset: 0,
        length: 160,
    }];
    Histogram {
        counts: HistogramCounts::Integer {
            count: 1,
            zero_count: 0,
            positive_deltas: deltas.clone(),
            negative_deltas: deltas,
        },
        positive_spans: spans.clone(),
        negative_spans: spans,
        ..histogram()
    }
}

fn kinds_of(block: &[u8]) -> Vec<u8> {
    let mut reader = Reader::new(RECORD, block);
    let mut kinds = Vec::new();
    while !reader.is_empty() {
        kinds.push(reader.u8().unwrap());
        compression::read_section(&mut reader, &mut Vec::new()).unwrap();
    }
    kinds
}

/// What does not fit a section, at the length at which sections are cut in earnest.
#[test]
fn more_than_a_section_holds_is_read_back() {
    let count = 180_000u32;
    let mut encoder = BlockEncoder::new();
    for i in 0..count {
        encoder.histogram(i, 1_700_000_000_000, &wide_histogram(i));
    }
    encoder.totals(0, 7);
    let block = encoder.finish();
    assert!(block.len() > MAX_SECTION_BYTES / 64);
    assert!(kinds_of(&block).len() > 4);
    let mut sections = decode_block(&block).unwrap();
    assert_eq!(sections.len(), 2);
    let Section::Histograms(all) = sections.remove(0) else {
        panic!("histograms come first");
    };
    assert_eq!(all.len(), count as usize);
    for i in [0, 40_000, count - 1] {
        let expected = (i, 1_700_000_000_000, wide_histogram(i));
        assert_eq!(all[i as usize], expected);
    }
}

/// Events that do not fit a section, at the length at which sections are cut in earnest.
#[test]
fn more_events_than_a_section_holds_are_read_back() {
    let line = |i: u32| format!("event {i} of a large request; ").into_bytes();
    let bytes: Vec<u8> = (0..6_000_000).flat_map(line).collect();
    assert!(bytes.len() > MAX_SECTION_BYTES / 2);
    let mut encoder = BlockEncoder::new();
    encoder.events(&bytes);
    let block = encoder.finish();
    assert!(kinds_of(&block).len() > 2);
    let sections = decode_block(&block).unwrap();
    // Not compared with assert_eq, which would print them.
    assert!(matches!(&sections[..], [Section::Events(found)] if *found == bytes));
}

#[test]
fn a_record_has_as_many_blocks_as_are_read() {
    let blocks = vec![[0u8; 0]; MAX_BLOCKS];
    let record = encode_record(&blocks);
    assert_eq!(decode_record(&record).unwrap().len(), MAX_BLOCKS);
    let more = vec![[0u8; 0]; MAX_BLOCKS + 1];
    assert!(std::panic::catch_unwind(|| encode_record(&more)).is_err());
}

proptest! {
    /// However short sections are, a block says the same.
    #[test]
    fn cut_blocks_are_read_as_whole_ones(
        section_bytes in 1usize..400,
        floats in prop::collection::vec((any::<u32>(), any::<i64>(), any::<u64>()), 0..60),
        names in prop::collection::vec("[a-z]{1,40}", 0..20),
        totals in 0usize..9,
        events in prop::collection::vec(any::<u8>(), 0..2000),
        later in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let write = |encoder: &mut BlockEncoder| {
            for (i, name) in names.iter().enumerate() {
                encoder.define(i as u32, [("__name__", name.as_str())].into_iter());
                let labels = Labels::from_pairs([("a", name)]);
                encoder.exemplar(i as u32, &Exemplar { labels, ..exemplar() });
                encoder.metadata(name, &metadata());
                encoder.start_timestamp(i as u32, i as i64, -1);
                encoder.histogram(i as u32, 5, &wide_histogram(i as u32));
            }
            for part in floats.chunks(7) {
                let refs: Vec<u32> = part.iter().map(|f| f.0).collect();
                let timestamps: Vec<i64> = part.iter().map(|f| f.1).collect();
                let values: Vec<f64> = part.iter().map(|f| f64::from_bits(f.2)).collect();
                encoder.floats(&refs, &timestamps, &values);
            }
            encoder.events(&events);
            encoder.events(&later);
            encoder.totals(totals, totals);
            let block = encoder.finish();
            assert!(encoder.is_empty());
            block
        };
        let whole = write(&mut BlockEncoder::new());
        let mut small = BlockEncoder::with_section_bytes(section_bytes);
        let cut = write(&mut small);
        prop_assert_eq!(&write(&mut small), &cut, "nothing of a block stays behind");
        prop_assert!(kinds_of(&cut).is_sorted_by(|a, b| a <= b));
        let all = [&events[..], &later].concat();
        let found = decode_block(&cut).unwrap().into_iter().find_map(|section| match section {
            Section::Events(bytes) => Some(bytes),
            _ => None,
        });
        prop_assert_eq!(found, (!all.is_empty()).then_some(all.clone()));
        let cut_events = kinds_of(&cut).into_iter().filter(|kind| *kind == kind::EVENTS);
        prop_assert_eq!(cut_events.count(), all.len().div_ceil(section_bytes));
        let text = |block: &[u8]| format!("{:?}", decode_block(block).unwrap());
        prop_assert_eq!(text(&cut), text(&whole));
    }
}
