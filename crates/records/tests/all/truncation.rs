//! A value that is cut anywhere is an error; so is one with a byte too many.

use icecore_records::tombstones::{self, Tombstones};
use icecore_records::{
    SeriesId, bucket_list, bucket_meta, delta_totals, event_cell, event_identity, exemplar_series,
    flush_cursor, flush_mark, forward_index, histogram_series, inverted_index, metadata,
    retired_bucket, series_dictionary, start_timestamps,
};
use roaring::RoaringBitmap;

use crate::samples::*;

/// Cuts `value` everywhere; cuts at a multiple of `element` leave a shorter valid list.
fn check<T, E>(name: &str, value: &[u8], element: usize, decode: impl Fn(&[u8]) -> Result<T, E>) {
    assert!(decode(value).is_ok(), "{name}");
    for end in 0..value.len() {
        let may_pass = element > 0 && end % element == 0;
        assert_eq!(
            decode(&value[..end]).is_ok(),
            may_pass,
            "{name} cut at {end}"
        );
    }
    let longer = [value, &[0]].concat();
    assert!(decode(&longer).is_err(), "{name} with a byte too many");
}

#[test]
fn every_cut_is_found() {
    let buckets = [hour(), sixteen_hours()].into_iter().collect();
    check(
        "bucket list",
        &bucket_list::encode(&buckets),
        5,
        bucket_list::decode,
    );
    let ids = [SeriesId(1), SeriesId(2)];
    check(
        "dictionary",
        &series_dictionary::encode(&ids),
        4,
        series_dictionary::decode,
    );
    check(
        "forward",
        &forward_index::encode(&forward_record()),
        0,
        forward_index::decode,
    );
    for mut ids in [
        (0..1000u32).collect::<RoaringBitmap>(),
        (0..9000u32).map(|i| i * 5).collect(),
        [1, 70_000, 1 << 30].into_iter().collect(),
    ] {
        check(
            "bitmap",
            &inverted_index::encode(&mut ids),
            0,
            inverted_index::decode,
        );
    }
    let histograms = histogram_series::encode(&histogram_entries());
    check("histograms", &histograms, 0, histogram_series::decode);
    check(
        "exemplars",
        &exemplar_series::encode(&exemplars()),
        0,
        exemplar_series::decode,
    );
    check(
        "starts",
        &start_timestamps::encode(&starts()),
        0,
        start_timestamps::decode,
    );
    check(
        "bucket meta",
        &bucket_meta::encode(&bucket_meta()),
        0,
        bucket_meta::decode,
    );
    check("cursor", &flush_cursor::encode(7), 0, flush_cursor::decode);
    let totals = delta_totals::encode(&mut crate::golden_deltas::totals(), 1_700_000_061);
    check("running totals", &totals, 0, delta_totals::decode);
    let retired = retired_bucket::encode(1_700_000_000_000);
    check("retired bucket", &retired, 0, retired_bucket::decode);
    for cell in crate::golden_events::cells() {
        check("cell", &event_cell::encode(&cell), 0, event_cell::decode);
    }
    check(
        "identity",
        &event_identity::encode(70_000),
        0,
        event_identity::decode,
    );
    let mark = flush_mark::encode(crate::golden_events::mark());
    check("flush mark", &mark, 0, flush_mark::decode);
    let mut deleted = Tombstones::default();
    deleted.erase(&[1, 7].into_iter().collect());
    deleted.erase_range(-5, 9, &[2, 90_000].into_iter().collect());
    check(
        "tombstones",
        &tombstones::encode(&deleted),
        0,
        tombstones::decode,
    );
    check(
        "metadata",
        &metadata::encode(&metadata()),
        0,
        metadata::decode,
    );
    check(
        "metadata with an hour",
        &metadata::encode_seen(&metadata(), 472_222),
        0,
        metadata::decode_seen,
    );
}

#[test]
fn other_versions_are_refused() {
    for mut value in [
        histogram_series::encode(&histogram_entries()),
        exemplar_series::encode(&exemplars()),
        start_timestamps::encode(&starts()),
        bucket_meta::encode(&bucket_meta()),
        metadata::encode(&metadata()),
    ] {
        value[0] = 3;
        assert!(histogram_series::decode(&value).is_err());
        assert!(exemplar_series::decode(&value).is_err());
        assert!(start_timestamps::decode(&value).is_err());
        assert!(bucket_meta::decode(&value).is_err());
        assert!(metadata::decode(&value).is_err());
    }
}
