//! What is written is read back, bit for bit, whatever it is.

use std::collections::BTreeSet;

use icecore_model::event::FlushMark;
use icecore_model::rollup::Resolution;
use icecore_model::{Exemplar, Labels, Metadata, MetricType};
use icecore_records::bucket_meta::RollupMeta;
use icecore_records::watermark::{self, Watermark};
use icecore_records::{
    BucketMeta, BucketState, ForwardRecord, MetricMeta, SeriesId, StoredType, Temporality,
    bucket_list, bucket_meta, event_identity, exemplar_series, flush_cursor, flush_mark,
    forward_index, histogram_series, inverted_index, metadata, series_dictionary, start_timestamps,
};
use proptest::prelude::*;
use roaring::RoaringBitmap;

use crate::samples::*;

fn any_meta() -> impl Strategy<Value = MetricMeta> {
    let temporality = prop_oneof![
        Just(Temporality::Unspecified),
        Just(Temporality::Cumulative),
        Just(Temporality::Delta)
    ];
    (0u8..6, temporality, any::<bool>()).prop_map(|(number, temporality, monotonic)| MetricMeta {
        metric_type: StoredType::from_number(number).unwrap(),
        temporality,
        monotonic,
    })
}

/// Sets with runs, dense stretches and lone ids.
fn any_ids() -> impl Strategy<Value = RoaringBitmap> {
    let range = (prop_oneof![0u32..200, any::<u32>()], 1u32..20_000);
    let lone = prop::collection::vec(0u32..200_000, 0..300);
    (prop::collection::vec(range, 0..4), lone).prop_map(|(ranges, lone)| {
        let mut ids: RoaringBitmap = lone.into_iter().collect();
        for (start, len) in ranges {
            ids.insert_range(start..=start.saturating_add(len));
        }
        ids
    })
}

proptest! {
    #[test]
    fn bucket_lists(buckets in prop::collection::btree_set(any_bucket(), 0..20)) {
        prop_assert_eq!(bucket_list::decode(&bucket_list::encode(&buckets)), Ok(buckets));
    }

    #[test]
    fn dictionaries(ids in prop::collection::btree_set(any::<u32>(), 0..5)) {
        let ids: Vec<SeriesId> = ids.into_iter().rev().map(SeriesId).collect();
        prop_assert_eq!(series_dictionary::decode(&series_dictionary::encode(&ids)), Ok(ids));
    }

    #[test]
    fn forward_records(unit in ".{0,5}", meta in any_meta(), labels in any_labels()) {
        let record = ForwardRecord { unit, meta, labels };
        let value = forward_index::encode(&record);
        let bindings = forward_index::label_bindings(&value).unwrap();
        prop_assert_eq!(forward_index::decode_bindings(bindings), Ok(record.labels.clone()));
        prop_assert_eq!(forward_index::decode(&value), Ok(record));
    }

    #[test]
    fn bitmaps_have_one_form(ids in any_ids(), split in any::<u32>()) {
        let mut straight = ids.clone();
        let value = inverted_index::encode(&mut straight);
        prop_assert_eq!(&inverted_index::decode(&value).unwrap(), &ids);
        // The same set built in another way: halves, optimised apart, then united.
        let mut low: RoaringBitmap = ids.iter().filter(|id| *id < split).collect();
        let mut high: RoaringBitmap = ids.iter().filter(|id| *id >= split).collect();
        low.optimize();
        high.optimize();
        prop_assert_eq!(inverted_index::encode(&mut (low | high)), value);
    }

    #[test]
    fn histograms(entries in any_histogram_entries()) {
        let value = histogram_series::encode(&entries);
        let decoded = histogram_series::decode(&value).unwrap();
        prop_assert_eq!(entry_bits(&decoded), entry_bits(&entries));
    }

    #[test]
    fn exemplars_are_sorted_and_unique(exemplars in any_exemplars()) {
        let value = exemplar_series::encode(&exemplars);
        let decoded = exemplar_series::decode(&value).unwrap();
        let key = |e: &Exemplar| (e.timestamp_ms, e.labels.clone(), e.value.to_bits());
        let expected: BTreeSet<(i64, Labels, u64)> = exemplars.iter().map(key).collect();
        prop_assert!(decoded.iter().map(key).eq(expected));
    }

    #[test]
    fn starts_of_samples(starts in any_starts()) {
        prop_assert_eq!(start_timestamps::decode(&start_timestamps::encode(&starts)), Ok(starts));
    }

    #[test]
    fn bucket_metas(
        code in 0u8..=10,
        numbers in any::<(u32, u64, u64, u64)>(),
        rolled_up in any::<(u64, u64, bool, u8, bool, bool)>(),
        flags in any::<(bool, bool, bool)>(),
        times in any::<(i64, i64)>(),
        runs in prop::collection::btree_set(any::<u32>(), 0..5),
        hours in prop::collection::btree_set(any::<u32>(), 0..5),
        left_out in prop::option::of(prop::collection::btree_set(any::<u64>(), 0..4)),
    ) {
        let resolution = Resolution::from_code(code).unwrap();
        let (windows, histogram_windows, is_lean, source, sources_gone, stands_in) = rolled_up;
        let (state, rollup) = if resolution.is_raw() {
            (BucketState::Raw, RollupMeta::default())
        } else {
            let source = Resolution::from_code(source % code).unwrap();
            let rollup = RollupMeta {
                windows, histogram_windows, is_lean, source, sources_gone, left_out, stands_in,
            };
            (BucketState::RolledUp, rollup)
        };
        let meta = BucketMeta {
            resolution_ms: resolution.ms() as u32,
            state,
            rollup,
            next_series_id: numbers.0,
            run_starts: runs.into_iter().map(SeriesId).collect(),
            dirty_hours: hours.into_iter().collect(),
            float_samples: numbers.1,
            histogram_samples: numbers.2,
            exemplars: numbers.3,
            has_histograms: flags.0,
            has_start_timestamps: flags.1,
            min_timestamp_ms: times.0,
            max_timestamp_ms: times.1,
            is_overlay: flags.2 && resolution.is_raw(),
        };
        prop_assert_eq!(bucket_meta::decode(&bucket_meta::encode(&meta)), Ok(meta));
    }

    #[test]
    fn cursors_and_watermarks(next_seq in any::<u64>(), next_epoch in any::<u32>()) {
        prop_assert_eq!(flush_cursor::decode(&flush_cursor::encode(next_seq)), Ok(next_seq));
        let mark = Watermark { next_seq, next_epoch };
        prop_assert_eq!(watermark::decode(&watermark::encode(mark)), Ok(mark));
    }

    #[test]
    fn marks_and_identities_of_events(
        generation in any::<u64>(),
        seq in any::<u64>(),
        registry_version in any::<u64>(),
    ) {
        let mark = FlushMark { generation, seq, registry_version };
        prop_assert_eq!(flush_mark::decode(&flush_mark::encode(mark)), Ok(mark));
        prop_assert_eq!(event_identity::decode(&event_identity::encode(seq)), Ok(seq));
    }

    #[test]
    fn metric_metadata(
        number in 0u64..8,
        unit in ".{0,5}",
        help in ".{0,300}",
        seen_hour in any::<u32>(),
    ) {
        let metric_type = MetricType::from_number(number).unwrap();
        let said = Metadata { metric_type, unit, help, ..Metadata::default() };
        let seen = metadata::encode_seen(&said, seen_hour);
        prop_assert_eq!(metadata::decode(&metadata::encode(&said)), Ok(said.clone()));
        prop_assert_eq!(metadata::decode(&seen), Ok(said.clone()));
        prop_assert_eq!(metadata::decode_seen(&seen), Ok((said, Some(seen_hour))));
    }
}

#[test]
fn forward_records_break_on_what_no_writer_writes() {
    // By hand: the encoder refuses what does not decode.
    let encode = |labels: &[(&str, &str)]| {
        let mut value = Vec::new();
        let meta = MetricMeta::default();
        forward_index::encode_into(&mut value, "", meta, [].into_iter());
        value.truncate(value.len() - 2);
        value.extend((labels.len() as u16).to_le_bytes());
        for text in labels.iter().flat_map(|(name, text)| [name, text]) {
            value.extend((text.len() as u16).to_le_bytes());
            value.extend(text.as_bytes());
        }
        value
    };
    assert!(forward_index::decode(&encode(&[("a", "1"), ("b", "2")])).is_ok());
    assert!(
        forward_index::decode(&encode(&[("b", "1"), ("a", "2")])).is_err(),
        "unsorted"
    );
    assert!(
        forward_index::decode(&encode(&[("a", "1"), ("a", "2")])).is_err(),
        "twice"
    );
    assert!(
        forward_index::decode(&encode(&[("a", "")])).is_err(),
        "empty value"
    );
    let mut flags = encode(&[]);
    flags[3] = 8;
    assert!(forward_index::decode(&flags).is_err(), "reserved flag");
    flags[3] = 3;
    assert!(forward_index::decode(&flags).is_err(), "temporality 3");
}

#[test]
fn a_unit_that_does_not_fit_is_left_out() {
    let mut value = Vec::new();
    let unit = "x".repeat(65_536);
    forward_index::encode_into(&mut value, &unit, MetricMeta::default(), [].into_iter());
    assert_eq!(forward_index::decode(&value).unwrap().unit, "");
}

#[test]
fn types_become_the_nearest_stored_one() {
    let counter = MetricMeta::from(MetricType::Counter);
    assert_eq!((counter.metric_type.number(), counter.flags()), (2, 0b101));
    let numbers = MetricType::ALL.map(|t| MetricMeta::from(t).metric_type.number());
    assert_eq!(numbers, [0, 2, 1, 3, 3, 5, 1, 1]);
}

#[test]
fn a_layout_is_written_once() {
    let one = histogram_series::encode(&histogram_entries()[..1]).len();
    let two = histogram_series::encode(&histogram_entries()[..2]).len();
    assert!(two - one < 14, "{one} then {two}");
}

#[test]
fn spans_without_buckets_do_not_multiply_in_memory() {
    use icecore_model::Span;
    use icecore_records::HistogramEntry;
    let mut odd = stale_histogram();
    odd.positive_spans = vec![
        Span {
            offset: 1,
            length: 0
        };
        1000
    ];
    let odd = std::sync::Arc::new(odd);
    let entries: Vec<HistogramEntry> = (0..50)
        .map(|timestamp_ms| HistogramEntry {
            timestamp_ms,
            value: Some(odd.clone()),
        })
        .collect();
    let value = histogram_series::encode(&entries);
    assert!(value.len() > 50 * 2000, "every entry carries its spans");
    let decoded = histogram_series::decode(&value).unwrap();
    assert_eq!(entry_bits(&decoded), entry_bits(&entries));
}
