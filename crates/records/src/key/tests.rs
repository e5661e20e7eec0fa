//! Order, antichain and reading back, over arbitrary keys.

use proptest::prelude::*;

use super::*;
use icecore_model::event::{CellKey, DimensionHash, EventId, EventWindow, IdentityKey, Week};
use icecore_model::{BucketSize, BucketStart};

fn any_bucket() -> impl Strategy<Value = Bucket> {
    let exponent = prop_oneof![Just(1u8), 1u8..=15];
    let start = prop_oneof![Just(0u32), Just(u32::MAX), 0u32..3, any::<u32>()];
    (exponent, start).prop_map(|(exponent, start)| Bucket {
        size: BucketSize::from_exponent(exponent).unwrap(),
        start: BucketStart(start),
    })
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]{0,3}", "[\u{0}\u{1}\u{2}a]{0,4}", ".{0,8}"]
}

fn any_id() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..3, any::<u32>()]
}

/// A key with everything it says, in the order in which keys must sort.
type Logical = (u8, u8, u32, u32, Vec<Vec<u8>>, u128);

fn any_key() -> impl Strategy<Value = (Bytes, ParsedKey, Logical)> {
    (
        0usize..23,
        any_bucket(),
        any_id(),
        any::<u64>(),
        any_text(),
        any_text(),
    )
        .prop_map(|(which, bucket, id, number, name, value)| {
            let series = SeriesId(id);
            let scoped = |t: u8| (t, bucket.size.exponent(), bucket.start.minutes());
            let of_series = |t: u8, suffix: Vec<Vec<u8>>| {
                let (t, size, start) = scoped(t);
                (t, size, start, id, suffix, 0)
            };
            match which {
                0 => (
                    bucket_list(),
                    ParsedKey::BucketList,
                    (1, 0, 0, 0, vec![], 0),
                ),
                1 => {
                    let fingerprint = u128::from(number) << 40;
                    let (t, size, start) = scoped(2);
                    (
                        series_dictionary(bucket, fingerprint),
                        ParsedKey::SeriesDictionary {
                            bucket,
                            fingerprint,
                        },
                        (t, size, start, 0, vec![], fingerprint),
                    )
                }
                2 => (
                    forward_index(bucket, series),
                    ParsedKey::ForwardIndex { bucket, series },
                    of_series(3, vec![]),
                ),
                3 => {
                    let (t, size, start) = scoped(4);
                    let texts = vec![name.clone().into_bytes(), value.clone().into_bytes()];
                    (
                        inverted_index(bucket, &name, &value),
                        ParsedKey::InvertedIndex {
                            bucket,
                            name,
                            value,
                        },
                        (t, size, start, 0, texts, 0),
                    )
                }
                4 => (
                    time_series(bucket, series),
                    ParsedKey::TimeSeries { bucket, series },
                    of_series(5, vec![]),
                ),
                5 => (
                    time_series_starts(bucket, series),
                    ParsedKey::TimeSeriesStarts { bucket, series },
                    of_series(5, vec![vec![1]]),
                ),
                6 => (
                    histogram_series(bucket, series),
                    ParsedKey::HistogramSeries { bucket, series },
                    of_series(8, vec![]),
                ),
                7 => (
                    histogram_series_starts(bucket, series),
                    ParsedKey::HistogramSeriesStarts { bucket, series },
                    of_series(8, vec![vec![1]]),
                ),
                8 => (
                    exemplar_series(bucket, series),
                    ParsedKey::ExemplarSeries { bucket, series },
                    of_series(9, vec![]),
                ),
                9 => {
                    let (t, size, start) = scoped(7);
                    let logical = (t, size, start, 0, vec![], 0);
                    (
                        bucket_meta(bucket),
                        ParsedKey::BucketMeta { bucket },
                        logical,
                    )
                }
                10 => (
                    journal(id, number),
                    ParsedKey::Journal {
                        epoch: id,
                        seq: number,
                    },
                    (10, 0, 0, id, vec![], number.into()),
                ),
                11 => (
                    flush_cursor(bucket),
                    ParsedKey::FlushCursor { bucket },
                    (11, 0, 1, bucket.size.exponent().into(), vec![], {
                        bucket.start.minutes().into()
                    }),
                ),
                12 => (
                    catalog_cursor(),
                    ParsedKey::CatalogCursor,
                    (11, 0, 2, 0, vec![], 0),
                ),
                13 => (
                    journal_watermark(),
                    ParsedKey::JournalWatermark,
                    (11, 0, 3, 0, vec![], 0),
                ),
                14 => (
                    epoch_summary(id),
                    ParsedKey::EpochSummary { epoch: id },
                    (11, 0, 9, id, vec![], 0),
                ),
                15 => (
                    rollup_series(bucket, series),
                    ParsedKey::RollupSeries { bucket, series },
                    of_series(6, vec![]),
                ),
                16 => (
                    rollup_histograms(bucket, series),
                    ParsedKey::RollupHistograms { bucket, series },
                    of_series(6, vec![vec![1]]),
                ),
                17 => (
                    retention_state(),
                    ParsedKey::RetentionState,
                    (11, 0, 10, 0, vec![], 0),
                ),
                18 => (
                    event_mark(),
                    ParsedKey::EventMark,
                    (11, 0, 11, 0, vec![], 0),
                ),
                19 => {
                    let parsed = ParsedKey::EventsSealed;
                    (events_sealed(), parsed, (11, 0, 12, 0, vec![], 0))
                }
                20 => {
                    let cell = cell_key(bucket.start.minutes(), id, number);
                    let week = Week::of(cell.start_s);
                    let from_monday = (cell.start_s - week.start_s()) as u128;
                    let place = [
                        id.to_be_bytes().to_vec(),
                        from_monday.to_be_bytes().to_vec(),
                    ];
                    let hash = u128::from_be_bytes(cell.dimensions.0);
                    (
                        event_cell(&cell).unwrap(),
                        ParsedKey::EventCell(cell),
                        (
                            14,
                            cell.window.number(),
                            week.minutes(),
                            0,
                            place.into(),
                            hash,
                        ),
                    )
                }
                21 => {
                    let identity = IdentityKey {
                        week: Week::of(i64::from(bucket.start.minutes()) * 60),
                        service: id,
                        event: EventId(u128::from(number).to_be_bytes()),
                    };
                    (
                        event_identity(&identity),
                        ParsedKey::EventIdentity(identity),
                        (15, 0, identity.week.minutes(), id, vec![], number.into()),
                    )
                }
                _ => (
                    metric_metadata(&name),
                    ParsedKey::MetricMetadata {
                        family: name.clone(),
                    },
                    (12, 0, 1, 0, vec![name.into_bytes()], 0),
                ),
            }
        })
}

/// A cell of some window around a minute.
fn cell_key(minutes: u32, metric: u32, number: u64) -> CellKey {
    let window = EventWindow::ALL[(number % 5) as usize];
    let week = Week::of(i64::from(minutes) * 60);
    let at_s = week.start_s() + (number % 604_800) as i64;
    CellKey {
        window,
        metric,
        start_s: window.start_of(at_s),
        dimensions: DimensionHash((u128::from(number) << 64).to_be_bytes()),
    }
}

proptest! {
    #[test]
    fn byte_order_is_logical_order(a in any_key(), b in any_key()) {
        prop_assert_eq!(a.0.cmp(&b.0), a.2.cmp(&b.2), "{} and {}", a.1, b.1);
    }

    #[test]
    fn what_was_built_is_read_back((key, parsed, _) in any_key()) {
        prop_assert_eq!(ParsedKey::parse(&key), Ok(parsed));
    }

    #[test]
    fn a_segment_prefix_never_begins_another(a in any_key(), b in any_key()) {
        let (a, b) = (&a.0[..segment_len(&a.0)], &b.0[..segment_len(&b.0)]);
        prop_assert!(a == b || !a.starts_with(b));
    }

    #[test]
    fn segment_len_depends_on_version_and_tag_only(
        head in any::<[u8; 2]>(),
        one in prop::collection::vec(any::<u8>(), 0..20),
        other in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let (one, other) = ([&head[..], &one[..]].concat(), [&head[..], &other[..]].concat());
        let full = segment_len(&[head[0], head[1], 0, 0, 0, 0, 0, 0]);
        prop_assert!(full == 2 || full == 6);
        prop_assert_eq!(segment_len(&one), full.min(one.len()));
        prop_assert_eq!(segment_len(&other), full.min(other.len()));
    }

    #[test]
    fn any_bytes_are_a_key_or_an_error(key in prop::collection::vec(any::<u8>(), 0..40)) {
        segment_len(&key);
        if let Ok(parsed) = ParsedKey::parse(&key) {
            prop_assert!(!parsed.to_string().is_empty());
        }
    }

    #[test]
    fn prefixes_find_their_records_and_no_others((key, parsed, _) in any_key(), other in any_bucket(), text in any_text(), epoch in any_id()) {
        for record_type in RecordType::ALL.into_iter().filter(|t| t.is_bucket_scoped()) {
            let prefix = record_prefix(record_type, other);
            prop_assert_eq!(prefix.len(), 6);
            let inside = key.starts_with(&prefix);
            let tag = (record_type.number() << 4) | other.size.exponent();
            prop_assert_eq!(inside, key[1] == tag && key[2..].starts_with(&other.start.0.to_be_bytes()));
        }
        let label = key.starts_with(&inverted_label_prefix(other, &text));
        let is_label = matches!(&parsed, ParsedKey::InvertedIndex { bucket, name, .. } if *bucket == other && *name == text);
        prop_assert_eq!(label, is_label);
        let in_epoch = matches!(&parsed, ParsedKey::Journal { epoch: e, .. } if *e == epoch);
        prop_assert_eq!(key.starts_with(&journal_epoch_prefix(epoch)), in_epoch);
        let week = Week::of(i64::from(other.start.minutes()) * 60);
        for window in EventWindow::ALL {
            let cell = match &parsed {
                ParsedKey::EventCell(cell) if cell.window == window => Some(cell),
                _ => None,
            };
            let in_week = cell.filter(|cell| Week::of(cell.start_s) == week);
            let of_metric = in_week.filter(|cell| cell.metric == epoch);
            prop_assert_eq!(key.starts_with(&event_cell_prefix(window)), cell.is_some());
            prop_assert_eq!(key.starts_with(&event_cell_week_prefix(window, week)), in_week.is_some());
            let prefix = event_cell_metric_prefix(window, week, epoch);
            prop_assert_eq!(key.starts_with(&prefix), of_metric.is_some());
        }
        let identity = match &parsed {
            ParsedKey::EventIdentity(identity) => Some(identity),
            _ => None,
        };
        prop_assert_eq!(key.starts_with(&event_identity_prefix()), identity.is_some());
        let in_week = identity.is_some_and(|identity| identity.week == week);
        prop_assert_eq!(key.starts_with(&event_identity_week_prefix(week)), in_week);
        prop_assert_eq!(key.starts_with(&journal_prefix()), matches!(parsed, ParsedKey::Journal { .. }));
        prop_assert_eq!(key.starts_with(&flush_cursor_prefix()), matches!(parsed, ParsedKey::FlushCursor { .. }));
        prop_assert_eq!(key.starts_with(&metric_metadata_prefix()), matches!(parsed, ParsedKey::MetricMetadata { .. }));
    }
}

proptest! {
    #[test]
    fn a_range_of_starts_has_the_cells_that_begin_in_it(
        minutes in 20_000_000u32..20_030_000,
        number in any::<u64>(),
        from in -700_000i64..700_000,
        len in -10i64..700_000,
    ) {
        let cell = cell_key(minutes, 7, number);
        let week = Week::of(cell.start_s);
        let starts = week.start_s() + from..week.start_s() + from + len;
        let range = event_cell_range(cell.window, week, 7, starts.clone());
        prop_assert!(range.start <= range.end);
        let inside = range.contains(&event_cell(&cell).unwrap());
        prop_assert_eq!(inside, starts.contains(&cell.start_s));
        for (window, week, metric) in [
            (cell.window, week.next(), 7),
            (cell.window, week, 8),
            (EventWindow::ALL[(number as usize + 1) % 5], week, 7),
        ] {
            let all = event_cell_range(window, week, metric, i64::MIN..i64::MAX);
            prop_assert!(!all.contains(&event_cell(&cell).unwrap()));
            let prefix = event_cell_metric_prefix(window, week, metric);
            prop_assert!(all.start.starts_with(&prefix) && all.end.starts_with(&prefix));
        }
    }
}

#[test]
fn cells_that_no_interval_begins_have_no_key() {
    let monday_s = Week::of(1_794_218_400).start_s();
    let cell = |window, start_s| CellKey {
        window,
        metric: 1,
        start_s,
        dimensions: DimensionHash::default(),
    };
    for window in EventWindow::ALL {
        let seconds = window.seconds();
        assert!(event_cell(&cell(window, monday_s)).is_some());
        assert_eq!(event_cell(&cell(window, monday_s + seconds - 1)), None);
        assert_eq!(
            event_cell(&cell(window, 0)),
            None,
            "before the first Monday"
        );
        assert_eq!(event_cell(&cell(window, -4 * seconds)), None);
        assert_eq!(event_cell(&cell(window, 1 << 50)), None);
        let mut key = event_cell(&cell(window, monday_s)).unwrap().to_vec();
        key[13] += 1;
        assert!(ParsedKey::parse(&key).is_err(), "off the grid");
        key[10..14].copy_from_slice(&604_800u32.to_be_bytes());
        assert!(ParsedKey::parse(&key).is_err(), "in the next week");
        key[10..14].fill(0);
        assert!(ParsedKey::parse(&key).is_ok());
        key[5] += 1;
        assert!(ParsedKey::parse(&key).is_err(), "not a Monday");
    }
    let last = cell(EventWindow::Week, Week::of(i64::MAX).start_s());
    let key = event_cell(&last).unwrap();
    assert_eq!(ParsedKey::parse(&key), Ok(ParsedKey::EventCell(last)));
}

#[test]
fn segments_by_tag() {
    let len = |tag: u8| segment_len(&[VERSION, tag, 0, 0, 0, 0, 0, 0, 0, 0]);
    for number in [2, 3, 4, 5, 6, 7, 8, 9, 0xA, 0xE, 0xF] {
        assert_eq!(len(number << 4 | 1), 6, "type {number}");
    }
    for number in [0, 1, 0xB, 0xC, 0xD] {
        assert_eq!(len(number << 4), 2, "type {number}");
    }
    assert_eq!(
        segment_len(&[2, 0x51, 0, 0, 0, 0, 0, 0]),
        2,
        "unknown version"
    );
    assert_eq!(
        (
            segment_len(&[]),
            segment_len(&[1]),
            segment_len(&[1, 0x51, 9])
        ),
        (0, 1, 3)
    );
}

#[test]
fn every_truncation_is_an_error_or_unknown() {
    let bucket = Bucket::hour(BucketStart(28_333_320));
    let keys = [
        series_dictionary(bucket, 7),
        forward_index(bucket, SeriesId(713)),
        time_series(bucket, SeriesId(713)),
        rollup_series(bucket, SeriesId(713)),
        journal(7, 9),
        flush_cursor(bucket),
        bucket_meta(bucket),
        event_cell(&cell_key(28_333_320, 7, 9)).unwrap(),
        event_identity(&IdentityKey {
            week: Week::of(1_794_218_400),
            service: 3,
            event: EventId([9; 16]),
        }),
        event_mark(),
        events_sealed(),
    ];
    for key in keys {
        for end in 0..key.len() {
            assert!(
                ParsedKey::parse(&key[..end]).is_err(),
                "{key:?} cut at {end}"
            );
        }
        let longer = [&key[..], &[9, 9]].concat();
        let parsed = ParsedKey::parse(&longer);
        assert!(
            matches!(parsed, Err(_) | Ok(ParsedKey::Unknown { .. })),
            "{parsed:?}"
        );
    }
}

#[test]
fn keys_of_other_programs_are_unknown_not_errors() {
    let unknown = |key: &[u8]| matches!(ParsedKey::parse(key), Ok(ParsedKey::Unknown { .. }));
    assert!(unknown(&[2, 0x51, 1, 2, 3]), "other version");
    assert!(unknown(&[1, 0x00]), "reserved type");
    assert!(unknown(&[1, 0xb0, 99]), "other maintenance kind");
    assert!(unknown(&[1, 0xc0, 9, 1]), "other catalog kind");
    assert!(unknown(&[1, 0xe6, 0, 0]), "other window");
    assert!(unknown(&[1, 0xe0]), "no window");
    assert!(unknown(&[1, 0xf1, 0]), "other identity");
    assert!(
        unknown(&[1, 0x51, 0, 0, 0, 0, 0, 0, 0, 1, 2]),
        "other suffix of a series"
    );
}
