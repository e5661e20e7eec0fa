//! Whatever an encoder accepts its decoder reads: each pair at the edge of what the decoder takes,
//! and that the encoder refuses what lies behind it, in every build.

use std::panic::{AssertUnwindSafe, catch_unwind};

use icecore_model::{Exemplar, Labels};
use icecore_records::bucket_meta::{self, BucketMeta};
use icecore_records::columns::{self, ColumnRecord, Times, time_column};
use icecore_records::delta_totals::{self, DeltaTotal, SeriesKey, TotalValue};
use icecore_records::forward_index::{self, MAX_LABELS, MAX_TEXT_BYTES, MetricMeta};
use icecore_records::journal::{self, BlockEncoder};
use icecore_records::tombstones::{self, ErasedRange, Tombstones};
use icecore_records::{
    HistogramEntry, SeriesId, exemplar_series, gorilla, histogram_series, series_dictionary,
    start_timestamps,
};

/// An encoder ends in a panic, which costs the one who asked and stores nothing.
fn refuses<T>(encode: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(encode)).is_err()
}

fn numbered(count: usize) -> Vec<(String, String)> {
    let pairs = (0..count).map(|i| (format!("{i:05}"), "x".into()));
    pairs.collect()
}

fn pairs(labels: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> + Clone {
    labels.iter().map(|(n, v)| (n.as_str(), v.as_str()))
}

fn forward<'a>(unit: &str, labels: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut value = Vec::new();
    forward_index::encode_into(&mut value, unit, MetricMeta::default(), labels);
    value
}

#[test]
fn labels() {
    let most = numbered(MAX_LABELS);
    let record = forward_index::decode(&forward("", pairs(&most))).unwrap();
    assert_eq!(record.labels.len(), MAX_LABELS);
    let more = numbered(MAX_LABELS + 1);
    assert!(refuses(|| forward("", pairs(&more))));
    let longest = "x".repeat(MAX_TEXT_BYTES);
    let long = [(longest.as_str(), longest.as_str())];
    let record = forward_index::decode(&forward(&longest, long.into_iter())).unwrap();
    assert_eq!((record.unit, record.labels.len()), (longest.clone(), 1));
    let longer = format!("{longest}x");
    assert!(refuses(|| forward(
        "",
        [("a", longer.as_str())].into_iter()
    )));
    assert!(refuses(|| forward(
        "",
        [(longer.as_str(), "a")].into_iter()
    )));
    let record = forward_index::decode(&forward(&longer, [].into_iter())).unwrap();
    assert_eq!(record.unit, "", "the catalog keeps it");
    assert!(refuses(|| forward(
        "",
        [("b", "1"), ("a", "1")].into_iter()
    )));
    assert!(refuses(|| forward(
        "",
        [("a", "1"), ("a", "2")].into_iter()
    )));
    assert!(refuses(|| forward("", [("a", "")].into_iter())));
}

#[test]
fn definitions_and_exemplars() {
    let most = numbered(MAX_LABELS);
    let exemplar = Exemplar {
        labels: Labels::from_sorted(pairs(&most)),
        timestamp_ms: i64::MIN,
        value: f64::NAN,
    };
    let mut encoder = BlockEncoder::new();
    encoder.define(u32::MAX, pairs(&most));
    encoder.exemplar(u32::MAX, &exemplar);
    assert_eq!(journal::decode_block(&encoder.finish()).unwrap().len(), 2);
    // The same one twice is one, also when its value is not a number.
    let stored = exemplar_series::encode(&[exemplar.clone(), exemplar.clone()]);
    assert_eq!(exemplar_series::decode(&stored).unwrap(), [exemplar]);
}

#[test]
fn columns_of_floats() {
    let mut encoder = BlockEncoder::new();
    assert!(refuses(|| encoder.floats(&[1, 2], &[1, 2], &[1.0])));
    assert!(refuses(|| gorilla::encode(&[1, 2], &[1.0])));
    assert!(refuses(|| gorilla::encode(&[2, 2], &[1.0, 2.0])));
    let encode = |times: &[i64], values: &[f64]| {
        let mut record = Vec::new();
        columns::encode(0, Times::Own(times), values, &mut record);
        record
    };
    let record = encode(&[i64::MIN, i64::MAX], &[1.0, 2.0]);
    assert_eq!(ColumnRecord::parse(&record).unwrap().len(), 2);
    assert!(refuses(|| encode(&[1, 2], &[1.0])));
    assert!(refuses(|| encode(&[2, 1], &[1.0, 2.0])));
    assert!(refuses(|| time_column::encode(0, &[1, 1])));
    let shared = |first: u32| {
        let times = Times::Shared {
            column: 1,
            first,
            len: 1,
        };
        let mut record = Vec::new();
        columns::encode(0, times, &[1.0], &mut record);
        record
    };
    assert!(ColumnRecord::parse(&shared(u32::MAX - 1)).is_ok());
    assert!(refuses(|| shared(u32::MAX)));
}

#[test]
fn lists_in_order() {
    assert!(refuses(|| start_timestamps::encode(&[(2, 0), (1, 0)])));
    let none = |timestamp_ms| HistogramEntry {
        timestamp_ms,
        value: None,
    };
    for encode in [histogram_series::encode, histogram_series::encode_columns] {
        assert!(histogram_series::decode(&encode(&[none(1), none(2)])).is_ok());
        assert!(refuses(|| encode(&[none(2), none(2)])));
    }
    let meta = |dirty_hours: Vec<u32>| BucketMeta {
        dirty_hours,
        ..BucketMeta::default()
    };
    let edge = meta(vec![0, 0, u32::MAX]);
    assert_eq!(bucket_meta::decode(&bucket_meta::encode(&edge)), Ok(edge));
    assert!(refuses(|| bucket_meta::encode(&meta(vec![2, 1]))));
}

#[test]
fn sets_without_repetition() {
    let ids = [SeriesId(3), SeriesId(1), SeriesId(3)];
    assert!(series_dictionary::decode(&series_dictionary::encode(&ids[..2])).is_ok());
    assert!(refuses(|| series_dictionary::encode(&ids)));
    let total = |check| DeltaTotal {
        series: SeriesKey {
            fingerprint: 7,
            check,
        },
        end_ms: 0,
        start_ms: 0,
        written_s: 9,
        value: TotalValue::Float(1.0),
    };
    let saved = delta_totals::encode(&mut [total(2), total(1)], 0);
    assert_eq!(delta_totals::decode(&saved).unwrap().len(), 2);
    assert!(refuses(|| delta_totals::encode(
        &mut [total(1), total(1)],
        0
    )));
}

#[test]
fn what_was_deleted() {
    let range = |first_ms, last_ms, id| ErasedRange {
        first_ms,
        last_ms,
        series: [id].into_iter().collect(),
    };
    let of = |ranges: Vec<ErasedRange>| Tombstones {
        through_seq: u64::MAX,
        erased: [1].into_iter().collect(),
        ranges,
    };
    let good = of(vec![
        range(i64::MIN, i64::MAX, 2),
        range(i64::MAX, i64::MAX, 2),
    ]);
    assert_eq!(tombstones::decode(&tombstones::encode(&good)), Ok(good));
    for bad in [
        vec![range(2, 1, 2)],
        vec![range(1, 2, 1)],
        vec![range(2, 3, 2), range(1, 3, 2)],
        vec![range(1, 2, 2), range(1, 2, 3)],
    ] {
        assert!(refuses(|| tombstones::encode(&of(bad.clone()))));
    }
}
