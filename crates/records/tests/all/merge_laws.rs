//! The laws of the merge operator, for every type that is written with merge: however flushes and
//! compactions group the operands, the result is the same, and nothing is lost.

use bytes::Bytes;
use icecore_model::STALE_NAN_BITS;
use icecore_records::columns::Times;
use icecore_records::merge::{merge, readable, unmerged_parts};
use icecore_records::{
    DecodeError, HistogramEntry, SeriesId, bucket_list, bucket_meta, coarse_samples,
    exemplar_series, gorilla, histogram_series, inverted_index, key, series_dictionary,
    start_timestamps,
};
use proptest::prelude::*;

use crate::samples::*;

/// A key and values for it, of one of the merged types.
fn any_values() -> impl Strategy<Value = (Bytes, Vec<Bytes>)> {
    let series = SeriesId(713);
    let of = |key: Bytes, value: BoxedStrategy<Vec<u8>>| {
        (
            Just(key),
            prop::collection::vec(value.prop_map(Bytes::from), 1..7),
        )
    };
    let buckets = prop::collection::btree_set(any_bucket(), 0..4);
    let ids = prop::collection::btree_set(0u32..6, 0..4);
    let postings = prop::collection::btree_set(prop_oneof![0u32..40, any::<u32>()], 0..40);
    let floats = prop::collection::btree_map(any_time(), any_float(), 0..8);
    prop_oneof![
        of(
            key::bucket_list(),
            buckets.prop_map(|b| bucket_list::encode(&b).into()).boxed()
        ),
        of(
            key::series_dictionary(hour(), 7),
            ids.prop_map(|ids| {
                let ids: Vec<SeriesId> = ids.into_iter().rev().map(SeriesId).collect();
                series_dictionary::encode(&ids).into()
            })
            .boxed()
        ),
        of(
            key::inverted_index(hour(), "a", "b"),
            postings
                .prop_map(|ids| inverted_index::encode(&mut ids.into_iter().collect()).into())
                .boxed()
        ),
        of(
            key::time_series(hour(), series),
            floats
                .prop_map(|samples| {
                    let (timestamps, values): (Vec<i64>, Vec<f64>) = samples.into_iter().unzip();
                    gorilla::encode(&timestamps, &values)
                })
                .boxed()
        ),
        of(
            key::histogram_series(hour(), series),
            any_histogram_entries()
                .prop_map(|e| histogram_series::encode(&e))
                .boxed()
        ),
        of(
            key::exemplar_series(hour(), series),
            any_exemplars()
                .prop_map(|e| exemplar_series::encode(&e))
                .boxed()
        ),
        of(
            key::time_series_starts(hour(), series),
            any_starts()
                .prop_map(|s| start_timestamps::encode(&s))
                .boxed()
        ),
        // Samples and histograms of coarse buckets are only lined up.
        of(
            key::time_series(sixteen_hours(), series),
            any_part().boxed()
        ),
        of(
            key::time_series(sixteen_hours(), series),
            prop::collection::vec(any::<u8>(), 0..4).boxed()
        ),
        of(
            key::histogram_series(sixteen_hours(), series),
            any_histogram_entries()
                .prop_map(|e| histogram_series::encode(&e))
                .boxed()
        ),
        of(
            key::exemplar_series(sixteen_hours(), series),
            any_exemplars()
                .prop_map(|e| exemplar_series::encode(&e))
                .boxed()
        ),
        of(
            key::histogram_series_starts(sixteen_hours(), series),
            any_starts()
                .prop_map(|s| start_timestamps::encode(&s))
                .boxed()
        ),
    ]
}

/// A base or a late stream of a coarse bucket; few different ones, so that repetitions occur.
fn any_part() -> impl Strategy<Value = Vec<u8>> {
    let samples = prop::collection::btree_map(0i64..3, Just(1.5), 0..3);
    (samples, any::<bool>()).prop_map(|(samples, is_base)| {
        let (timestamps, values): (Vec<i64>, Vec<f64>) = samples.into_iter().unzip();
        if is_base {
            coarse_samples::encode_columns(0, Times::Own(&timestamps), &values)
        } else {
            coarse_samples::late_stream(&gorilla::encode(&timestamps, &values)).into()
        }
    })
}

/// Values of which some are damaged: cut, a bit flipped, or garbage, also garbage that looks like a
/// container.
fn any_damaged_values() -> impl Strategy<Value = (Bytes, Vec<Bytes>)> {
    any_values().prop_flat_map(|(key, values)| {
        let damage = prop::collection::vec((0u8..8, any::<prop::sample::Index>()), values.len());
        (Just(key), Just(values), damage).prop_map(|(key, values, damage)| {
            let damaged = values.into_iter().zip(damage).map(|(value, (what, at))| {
                let mut bytes = value.to_vec();
                match what {
                    0 if !bytes.is_empty() => bytes.truncate(at.index(bytes.len())),
                    1 if !bytes.is_empty() => {
                        let bit = at.index(8 * bytes.len());
                        bytes[bit / 8] ^= 1 << (bit % 8);
                    }
                    2 => bytes = vec![0xff; at.index(12)],
                    3 => bytes = [&[0xff; 8][..], &[1, 7, 0, 2, 9]].concat(),
                    4 => bytes = [&[0xff; 8][..], &[9], &[0xff; 8], &[0]].concat(),
                    _ => {}
                }
                bytes.into()
            });
            let damaged = damaged.collect();
            (key, damaged)
        })
    })
}

fn merge_all(key: &[u8], values: &[Bytes]) -> Bytes {
    merge(key, None, values).unwrap()
}

/// Merges by a random binary tree over the operands, with and without a base.
fn merge_grouped(key: &[u8], values: &[Bytes], cuts: &mut impl Iterator<Item = usize>) -> Bytes {
    if values.len() == 1 {
        return merge_all(key, values);
    }
    let cut = 1 + cuts.next().unwrap_or(0) % (values.len() - 1);
    let left = merge_grouped(key, &values[..cut], cuts);
    let right = merge_grouped(key, &values[cut..], cuts);
    match cuts.next().unwrap_or(0) % 2 {
        0 => merge(key, Some(&left), &[right]).unwrap(),
        _ => merge(key, None, &[left, right]).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_grouping_gives_the_same(
        (key, values) in any_values(),
        cuts in prop::collection::vec(any::<usize>(), 20),
    ) {
        let grouped = merge_grouped(&key, &values, &mut cuts.into_iter());
        prop_assert_eq!(grouped, merge_all(&key, &values));
    }

    #[test]
    fn every_grouping_gives_the_same_with_damage(
        (key, values) in any_damaged_values(),
        cuts in prop::collection::vec(any::<usize>(), 20),
    ) {
        let grouped = merge_grouped(&key, &values, &mut cuts.into_iter());
        prop_assert_eq!(grouped, merge_all(&key, &values));
    }

    #[test]
    fn one_operand_comes_back_as_it_is((key, values) in any_damaged_values()) {
        prop_assert_eq!(&merge_all(&key, &values[..1]), &values[0]);
        prop_assert_eq!(&merge(&key, Some(&values[0]), &[]).unwrap(), &values[0]);
    }

    #[test]
    fn repeating_the_operands_changes_nothing((key, values) in any_values()) {
        let once = merge_all(&key, &values);
        // Re-running a flush writes the last operand again.
        let again: Vec<Bytes> = values.iter().chain(values.last()).cloned().collect();
        prop_assert_eq!(&merge_all(&key, &again), &merge_all(&key, &[once.clone(), values[values.len() - 1].clone()]));
        let twice = merge_all(&key, &[once.clone(), once.clone()]);
        if unmerged_parts(&once).is_none() {
            prop_assert_eq!(twice, once);
        }
    }

    #[test]
    fn what_cannot_be_read_is_kept((key, values) in any_damaged_values()) {
        let merged = merge_all(&key, &values);
        let kept = unmerged_parts(&merged).unwrap_or_else(|| vec![merged.clone()]);
        for value in values {
            let parts = unmerged_parts(&value).unwrap_or_else(|| vec![value]);
            for part in parts {
                prop_assert!(can_read(&key, &part) || kept.contains(&part), "lost {:?}", part);
            }
        }
    }
}

fn can_read(key: &[u8], value: &[u8]) -> bool {
    let (mut t, mut v) = (Vec::new(), Vec::new());
    match (key[1] >> 4, key.len()) {
        (1, _) => bucket_list::decode(value).is_ok(),
        (2, _) => series_dictionary::decode(value).is_ok(),
        (4, _) => inverted_index::decode(value).is_ok(),
        (5, 11) => start_timestamps::decode(value).is_ok(),
        (5, _) if key[1] & 0xf == 1 => gorilla::decode_into(value, &mut t, &mut v).is_ok(),
        // Only lined up: nothing may be gone.
        (5, _) => false,
        (8, 11) => start_timestamps::decode(value).is_ok(),
        (8, _) if key[1] & 0xf != 1 => false,
        (8, _) => histogram_series::decode(value).is_ok(),
        (9, _) => exemplar_series::decode(value).is_ok(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_newest_sample_wins() {
    let key = key::time_series(hour(), SeriesId(1));
    let old = gorilla::encode(&[1, 2, 3], &[1.0, 1.0, 1.0]);
    let new = gorilla::encode(&[2, 4], &[f64::from_bits(STALE_NAN_BITS), 2.0]);
    let merged = merge(&key, Some(&old.into()), &[new.into()]).unwrap();
    let expected = [1.0, f64::from_bits(STALE_NAN_BITS), 1.0, 2.0];
    assert_eq!(merged, gorilla::encode(&[1, 2, 3, 4], &expected));
}

#[test]
fn no_histogram_is_an_answer_that_wins() {
    let key = key::histogram_series(hour(), SeriesId(1));
    let old = histogram_series::encode(&histogram_entries()[..2]);
    let none = HistogramEntry {
        value: None,
        ..histogram_entries()[0].clone()
    };
    let new = histogram_series::encode(&[none]);
    let merged = merge(&key, None, &[old.into(), new.into()]).unwrap();
    let entries = histogram_series::decode(&merged).unwrap();
    assert_eq!(entries.len(), 2);
    assert!(entries[0].value.is_none() && entries[1].value.is_some());
}

#[test]
fn an_unknown_start_replaces_a_known_one() {
    let key = key::histogram_series_starts(hour(), SeriesId(1));
    let old = start_timestamps::encode(&[(1, 1), (2, 1)]);
    let new = start_timestamps::encode(&[(2, 0)]);
    let merged = merge(&key, None, &[old.into(), new.into()]).unwrap();
    assert_eq!(start_timestamps::decode(&merged).unwrap(), [(1, 1), (2, 0)]);
}

#[test]
fn types_without_union_keep_the_newest() {
    let (old, new) = (Bytes::from_static(b"old"), Bytes::from_static(b"new"));
    for key in [
        key::bucket_meta(hour()),
        key::forward_index(hour(), SeriesId(1)),
        key::flush_cursor(hour()),
        Bytes::from_static(&[9, 0x51, 1]),
        Bytes::from_static(&[1, 0x51, 1]),
        Bytes::new(),
    ] {
        assert_eq!(
            merge(&key, Some(&old), std::slice::from_ref(&new)).unwrap(),
            new
        );
    }
    assert!(
        merge(&key::bucket_list(), None, &[]).is_err(),
        "nothing to merge"
    );
}

#[test]
fn damage_is_kept_in_its_place_and_the_rest_merges() {
    let key = key::time_series(hour(), SeriesId(1));
    let stream = |t: i64| Bytes::from(gorilla::encode(&[t], &[1.0]));
    let damaged = Bytes::from_static(b"damaged");
    let values = [stream(1), stream(2), damaged.clone(), stream(3), stream(4)];
    let merged = merge(&key, None, &values).unwrap();

    let error: DecodeError =
        gorilla::decode_into(&merged, &mut Vec::new(), &mut Vec::new()).unwrap_err();
    assert!(error.is_unmerged(), "{error}");
    let before = Bytes::from(gorilla::encode(&[1, 2], &[1.0, 1.0]));
    let after = Bytes::from(gorilla::encode(&[3, 4], &[1.0, 1.0]));
    assert_eq!(unmerged_parts(&merged), Some(vec![before, damaged, after]));

    let all = gorilla::encode(&[1, 2, 3, 4], &[1.0; 4]);
    assert_eq!(readable(&key, &merged), (Some(all.into()), 1));
    let whole = stream(1);
    assert_eq!(readable(&key, &whole), (Some(whole.clone()), 0));
}

#[test]
fn coarse_samples_and_histograms_are_lined_up() {
    let (t, v) = float_samples();
    let base = Bytes::from(coarse_samples::encode_columns(0, Times::Own(&t), &v));
    let late = |t: i64| coarse_samples::late_stream(&gorilla::encode(&[t], &[1.0]));
    let damaged = Bytes::from_static(b"damaged");
    let key = key::time_series(sixteen_hours(), SeriesId(1));
    let values = [
        base.clone(),
        late(1),
        late(1),
        damaged.clone(),
        late(2),
        late(1),
    ];
    let merged = merge(&key, None, &values).unwrap();
    let expected = vec![base.clone(), late(1), damaged, late(2), late(1)];
    assert_eq!(unmerged_parts(&merged).as_ref(), Some(&expected));
    assert_eq!(coarse_samples::parts(&merged), expected);
    let (readable_parts, unreadable) = readable(&key, &merged);
    let expected = vec![base.clone(), late(1), late(2), late(1)];
    assert_eq!(coarse_samples::parts(&readable_parts.unwrap()), expected);
    assert_eq!(unreadable, 1);
    assert_eq!(coarse_samples::parts(&base), std::slice::from_ref(&base));
    // A flush that is repeated writes its late stream again.
    let once = merge(&key, Some(&base), &[late(1)]).unwrap();
    assert_eq!(merge(&key, Some(&once), &[late(1)]).unwrap(), once);

    let key = key::histogram_series(sixteen_hours(), SeriesId(1));
    let entries = histogram_entries();
    let parts: Vec<Bytes> = [&entries[..2], &entries[..1]]
        .map(|entries| histogram_series::encode(entries).into())
        .into();
    let merged = merge(&key, Some(&parts[0]), &parts[1..]).unwrap();
    assert_eq!(unmerged_parts(&merged), Some(parts));
    assert_eq!(readable(&key, &merged), (Some(merged.clone()), 0));
}

#[test]
fn every_merged_type_reports_a_container() {
    let container = [&[0xff; 8][..], &[1, 7, 1, 8]].concat();
    let unmerged = |result: Result<(), DecodeError>| result.unwrap_err().is_unmerged();
    assert!(unmerged(bucket_list::decode(&container).map(drop)));
    assert!(unmerged(series_dictionary::decode(&container).map(drop)));
    assert!(unmerged(inverted_index::decode(&container).map(drop)));
    assert!(unmerged(gorilla::count(&container).map(drop)));
    assert!(unmerged(gorilla::first_timestamp(&container).map(drop)));
    assert!(unmerged(histogram_series::decode(&container).map(drop)));
    assert!(unmerged(exemplar_series::decode(&container).map(drop)));
    assert!(unmerged(start_timestamps::decode(&container).map(drop)));
    // A dictionary of two equal ids would look like one, so no dictionary has them.
    assert!(series_dictionary::decode(&[0xff; 8]).is_err());
    assert!(bucket_meta::decode(&container).is_err());
}
