//! Golden bytes: the stored format has not moved. A change here is a change of the format.
//!
//! The same table is in `docs/storage-format.md`; the last test compares the two.

use std::collections::BTreeSet;

use icecore_model::{BucketStart, CatalogChange, Labels, Metadata, MetricType};
use icecore_records::journal::Section;
use icecore_records::watermark::{self, Watermark};
use icecore_records::{
    Bucket, SeriesId, bucket_list, bucket_meta, exemplar_series, flush_cursor, forward_index,
    gorilla, histogram_series, inverted_index, journal, key, metadata, series_dictionary,
    start_timestamps,
};
use roaring::RoaringBitmap;

use crate::samples::*;
use crate::{golden_coarse, golden_deltas, golden_events, golden_rollup};

const FINGERPRINT: u128 = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;

/// Small enough for every section to be stored raw: how well lz4 and zstd compress is not part of
/// the format.
fn journal_record() -> Vec<u8> {
    let mut encoder = journal::BlockEncoder::new();
    encoder.define(3, http_requests().iter());
    encoder.floats(
        &[3, 4, 3],
        &[1_700_000_000_000, 1_700_000_000_000, 1_700_000_000_001],
        &[12.0, 0.5, -1.0],
    );
    encoder.histogram(5, 1_700_000_000_000, &integer_histogram(12, 18.5));
    encoder.exemplar(3, &exemplars()[1]);
    let said = Metadata {
        metric_type: MetricType::Gauge,
        unit: "By".into(),
        help: "Held.".into(),
        ..Metadata::default()
    };
    encoder.metadata("http_requests", &said);
    encoder.start_timestamp(3, 1_700_000_000_000, 1_699_990_000_000);
    journal::encode_record(&[encoder.finish()])
}

/// Catalog records of a request.
fn journal_catalog() -> Vec<u8> {
    let mut encoder = journal::BlockEncoder::new();
    let change = |key: &[u8], value: Option<&[u8]>| CatalogChange {
        key: key.to_vec(),
        value: value.map(<[u8]>::to_vec),
    };
    encoder.catalog(&change(&[0x10, 0, 7], Some(b"host")));
    encoder.catalog(&change(&[0x11, 1], None));
    journal::encode_record(&[encoder.finish()])
}

/// Everything that is pinned: a name, the bytes now, the bytes as they must be.
fn all_rows() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let mut rows = table();
    rows.extend(golden_coarse::table());
    rows.extend(golden_deltas::table());
    rows.extend(golden_rollup::table());
    rows.extend(golden_events::table());
    rows
}

fn table() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let (timestamps, values) = float_samples();
    let buckets = BTreeSet::from([hour(), Bucket::hour(BucketStart(28_333_380))]);
    let mut posting: RoaringBitmap = [1u32, 2, 3, 713, 70_000].into_iter().collect();
    let mut run: RoaringBitmap = (0..1000u32).collect();
    vec![
        ("key BucketList", key::bucket_list().into(), "0110"),
        (
            "key SeriesDictionary",
            key::series_dictionary(hour(), FINGERPRINT).into(),
            "012101b055080123456789abcdef0123456789abcdef",
        ),
        (
            "key ForwardIndex",
            key::forward_index(hour(), SeriesId(713)).into(),
            "013101b05508000002c9",
        ),
        (
            "key InvertedIndex",
            key::inverted_index(hour(), "status", "500").into(),
            "014101b0550873746174757300353030",
        ),
        (
            "key InvertedIndex, name 00 01 61",
            key::inverted_index(hour(), "\u{0}\u{1}a", "\u{0}").into(),
            "014101b0550801010102610000",
        ),
        (
            "key TimeSeries",
            key::time_series(hour(), SeriesId(713)).into(),
            "015101b05508000002c9",
        ),
        (
            "key TimeSeries, 16 h",
            key::time_series(sixteen_hours(), SeriesId(713)).into(),
            "015501b051c0000002c9",
        ),
        (
            "key TimeSeries start timestamps",
            key::time_series_starts(hour(), SeriesId(713)).into(),
            "015101b05508000002c901",
        ),
        (
            "key BucketMeta",
            key::bucket_meta(hour()).into(),
            "017101b05508",
        ),
        (
            "key HistogramSeries",
            key::histogram_series(hour(), SeriesId(713)).into(),
            "018101b05508000002c9",
        ),
        (
            "key HistogramSeries start timestamps",
            key::histogram_series_starts(hour(), SeriesId(713)).into(),
            "018101b05508000002c901",
        ),
        (
            "key ExemplarSeries",
            key::exemplar_series(hour(), SeriesId(713)).into(),
            "019101b05508000002c9",
        ),
        (
            "key Journal",
            key::journal(7, 258).into(),
            "01a0000000070000000000000102",
        ),
        (
            "key flush cursor",
            key::flush_cursor(hour()).into(),
            "01b0010101b05508",
        ),
        ("key catalog cursor", key::catalog_cursor().into(), "01b002"),
        (
            "key journal watermark",
            key::journal_watermark().into(),
            "01b003",
        ),
        (
            "key metric metadata",
            key::metric_metadata("up").into(),
            "01c0017570",
        ),
        (
            "key catalog record",
            key::catalog_record(&[0x10, 0, 7]).unwrap().into(),
            "01c0100007",
        ),
        (
            "value BucketList",
            bucket_list::encode(&buckets).into(),
            "010855b001014455b001",
        ),
        (
            "value SeriesDictionary",
            series_dictionary::encode(&[SeriesId(713)]).into(),
            "c9020000",
        ),
        (
            "value ForwardIndex",
            forward_index::encode(&forward_record()),
            "020042790205020008005f5f6e616d655f5f1300687474705f72657175657374735f746f74616c\
             06007374617475730300353030",
        ),
        (
            "value InvertedIndex",
            inverted_index::encode(&mut posting).into(),
            "3a3000000200000000000300010000001800000020000000010002000300c9027011",
        ),
        (
            "value InvertedIndex, run 0..999",
            inverted_index::encode(&mut run).into(),
            "3b300000010000e70301000000e703",
        ),
        (
            "value TimeSeries",
            gorilla::encode(&timestamps, &values),
            "0680a0abfef9620000000000002840f0ea5d0d606dc00e562f3fc8800000000003f000000000\
             004f573c1f7ff8000000000001",
        ),
        ("value TimeSeries, empty", gorilla::encode(&[], &[]), "00"),
        (
            "value HistogramSeries",
            histogram_series::encode(&histogram_entries()),
            "010580a0abfef9620a03009d978ccf08ba5b25020302060100000300034032801802040206b0\
             ea010911060400000004b0ea0100b0ea0102000000000000000000000000000000087ff00000\
             000000020000b0ea010ecb0100000000000000000100020002000000000000e03f0000000000\
             001440020002401e02400800023ff00140",
        ),
        (
            "value HistogramSeries, columns",
            histogram_series::encode_columns(&histogram_column_entries()),
            "021301180180a0abfef96298750700000100aaaaaa0605002902001d106e0a03009d978ccf08\
             ba5b250203020601000003000340328018020402060911060400000004020000000000000000\
             00000000000000087ff000000000000200000ecb010000000000000000010002000200000000\
             0000e03f0000000000001440020002401e02400800023ff00140252d03009d978ccf08ba5b25\
             02030206010000030022080011010500000102000102000104000106010c01040001002171cb\
             0100000000000000000100020002000000000000e03f000000000000144002001f3600210000\
             000100240501555555555555d53f00555555555555e53f01555555555555f53f00abaaaaaaaa\
             aafa3f01abaaaaaaaaaa0240050000000106050000000100050000000102050000000104",
        ),
        (
            "value ExemplarSeries",
            exemplar_series::encode(&exemplars()),
            "0103c8a1abfef962000000000000f83f000000000000000000f83f0100080074726163655f69\
             64100030616637363531393136636434336464a006000000000000d03f010008007472616365\
             5f6964100030616637363531393136636434336464",
        ),
        (
            "value start timestamps",
            start_timestamps::encode(&starts()),
            "010280a0abfef96280c6e6f4f962b0ea01ffc5e6f4f962",
        ),
        (
            "value start timestamps, forms of numbers",
            start_timestamps::encode(&forms()),
            "010580a0abfef962ffffffffffff7fb0ea01ffff07b0ea0101b0ea01828008b0ea0100",
        ),
        (
            "value BucketMeta",
            bucket_meta::encode(&bucket_meta()),
            "01000300ca050200f4030188aac10df0b80af0010380ccc9fdf962fe858181fa62",
        ),
        (
            "value flush cursor",
            flush_cursor::encode(258).into(),
            "0201000000000000",
        ),
        (
            "value journal watermark",
            watermark::encode(Watermark {
                next_seq: 258,
                next_epoch: 7,
            })
            .into(),
            "020100000000000007000000",
        ),
        (
            "value metric metadata",
            metadata::encode(&metadata()),
            "0101087265717565737473105265717565737473207365727665642e",
        ),
        (
            "value metric metadata, with the hour in which it was last said",
            metadata::encode_seen(&metadata(), 472_222),
            "029ee91c01087265717565737473105265717565737473207365727665642e",
        ),
        (
            "value Journal",
            journal_record(),
            "01ae3bb05ed6b6676001d20101002f2f03020008005f5f6e616d655f5f1300687474705f7265\
             7175657374735f746f74616c06007374617475730300353030020017170306000380a0abfef9\
             6200021900000000000000e03f02030024240580a0abfef9620a03009d978ccf08ba5b250203\
             0206010000030003403280180204020604002d2d03c8a1abfef962000000000000f83f010008\
             0074726163655f6964100030616637363531393136636434336464050018180d687474705f72\
             65717565737473020242790548656c642e06000b0b0380a0abfef962ffd9c409",
        ),
        (
            "value Journal with catalog records",
            journal_catalog(),
            "0180cfb817f10c50cf01130a000f0f031000070104686f73740211010000",
        ),
        (
            "fingerprint",
            http_requests().fingerprint().to_be_bytes().into(),
            "62403b2d822ef214f0856adc2378e7ab",
        ),
    ]
}

#[test]
fn golden_bytes_have_not_moved() {
    let mut moved = String::new();
    for (name, bytes, expected) in all_rows() {
        if hex(&bytes) != expected {
            moved += &format!("{name}\n  now  {}\n  must {expected}\n", hex(&bytes));
        }
    }
    assert!(moved.is_empty(), "{moved}");
}

#[test]
fn the_document_has_the_same_golden_bytes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/storage-format.md");
    let document = std::fs::read_to_string(path).unwrap();
    for (name, _, expected) in all_rows() {
        let row = format!("| {name} | `{expected}` |");
        assert!(document.contains(&row), "missing row: {row}");
    }
}

/// Blocks as today's compressors wrote them must stay readable with tomorrow's.
#[test]
fn compressed_blocks_stay_readable() {
    let labels = ["0", "1", "2", "3"]
        .map(|n| Labels::from_pairs([("__name__", "http_requests_total"), ("instance", n)]));
    let sections = journal::decode_block(&unhex(ZSTD_BLOCK)).unwrap();
    let [Section::Definitions(definitions)] = &sections[..] else {
        panic!("{sections:?}")
    };
    let expected: Vec<(u32, Labels)> = (0..4).zip(labels).collect();
    assert_eq!(definitions, &expected);

    let sections = journal::decode_block(&unhex(LZ4_BLOCK)).unwrap();
    let [
        Section::Floats {
            refs,
            timestamps,
            values,
        },
    ] = &sections[..]
    else {
        panic!("{sections:?}")
    };
    assert_eq!(refs, &(0..40).collect::<Vec<u32>>());
    assert_eq!(timestamps, &[1_700_000_000_000; 40]);
    assert_eq!(values, &[0.5; 40]);
}

const ZSTD_BLOCK: &str = "0102bc014928b52ffd20bc050200540300020008005f5f6e616d655f5f1300687474705f7265\
    7175657374735f746f74616c0800696e7374616e6365010030013102320333030424022cc0a0\
    5450";
const LZ4_BLOCK: &str =
    "0201be03212f28000100146f80a0abfef9622d00140302002fe03f0900ff476000000000e03f";

fn unhex(text: &str) -> Vec<u8> {
    let digits = text
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).unwrap());
    digits
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}
