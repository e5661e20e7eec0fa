//! Golden bytes of coarse buckets; `golden` checks them together with the others.

use bytes::Bytes;
use icecore_records::columns::{Times, time_column};
use icecore_records::epoch_summary::{self, EpochSummary, FlushUnit};
use icecore_records::maintenance_job::{self, Counts, Job, JobKind, JobSource, Phase};
use icecore_records::restore_mark::{self, RestoreMark};
use icecore_records::tombstones::{self, Tombstones};
use icecore_records::{SeriesId, coarse_samples, gorilla, key, merge, retired_bucket};

use crate::samples::*;

const T: i64 = 1_700_000_000_000;

fn columns(times: Times<'_>, values: &[f64]) -> Vec<u8> {
    coarse_samples::encode_columns(sixteen_hours().start_ms(), times, values)
}

fn column(times: &[i64]) -> Vec<u8> {
    time_column::encode(sixteen_hours().start_ms(), times)
}

fn late_samples() -> Bytes {
    coarse_samples::late_stream(&gorilla::encode(&[T], &[12.5]))
}

fn job() -> Job {
    Job {
        kind: JobKind::Coarsen,
        target: sixteen_hours(),
        sources: vec![JobSource {
            bucket: hour(),
            meta_hash: 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef,
        }],
        phase: Phase::Samples { next_id: 300 },
        counts: Counts {
            has_start_timestamps: true,
            series: 713,
            floats: 171_120,
            min_timestamp_ms: T,
            max_timestamp_ms: T + 15_000,
            ..Counts::default()
        },
    }
}

fn noise(i: i64) -> i64 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) as i64
}

pub(crate) fn table() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let (timestamps, values) = float_samples();
    let regular: Vec<i64> = (0..1025).map(|i| T + 15_000 * i).collect();
    let steps: Vec<f64> = (0..1025).map(|i| if i < 513 { 1.0 } else { 2.5 }).collect();
    let jitter: Vec<i64> = (0..8).map(|i| T + 15_000 * i + i * i % 3).collect();
    let with_gaps: Vec<i64> = (0..8).map(|i| T + 15_000 * (i + i / 3)).collect();
    let slower: Vec<i64> = (0..8).map(|i| T + 1000 * i * i).collect();
    let crowded: Vec<i64> = (0..256)
        .map(|i| T + 15_000 * i + ((noise(i) % 64) >> (noise(i + 1000) % 6)))
        .collect();
    let shared = Times::Shared {
        column: 7,
        first: 300,
        len: values.len() as u32,
    };
    let base = Bytes::from(columns(Times::Own(&timestamps), &values));
    let series = key::time_series(sixteen_hours(), SeriesId(713));
    let merged = merge(&series, Some(&base), &[late_samples()]).unwrap();
    vec![
        (
            "key shared column 7, 16 h",
            key::time_column(sixteen_hours(), 7).into(),
            "017501b051c00100000007",
        ),
        (
            "key maintenance job",
            key::maintenance_job().into(),
            "01b004",
        ),
        (
            "key retired bucket",
            key::retired_bucket(hour()).into(),
            "01b0050101b05508",
        ),
        (
            "value columns, empty",
            columns(Times::Own(&[]), &[]),
            "01010001000000",
        ),
        (
            "value columns, one sample",
            columns(Times::Own(&[T]), &[12.0]),
            "01010101008080ea30000000000118",
        ),
        (
            "value columns",
            base.into(),
            "01010606018080ea3099750c00008405230269011005b09e00310105f0010000050000070000\
             0204020000000000f07f000000000000000080",
        ),
        (
            "value columns, regular, two chunks",
            columns(Times::Own(&regular), &steps),
            "010181088104008080ea3098750500000001020000010132",
        ),
        (
            "value columns, shared column",
            columns(shared, &values),
            "010106060207ac0200310105f00100000500000700000204020000000000f07f000000000000\
             000080",
        ),
        (
            "value late samples",
            late_samples().into(),
            "020180a0abfef9620000000000002940",
        ),
        (
            "value columns and late samples",
            merged.into(),
            "ffffffffffffffff3901010606018080ea3099750c00008405230269011005b09e00310105f0\
             0100000500000700000204020000000000f07f00000000000000008010020180a0abfef96200\
             00000000002940",
        ),
        (
            "value shared column",
            column(&jitter),
            "0108018080ea3098750500000100b6",
        ),
        (
            "value shared column, gaps",
            column(&with_gaps),
            "0108018080ea3098750c01008000020f03063075983a",
        ),
        (
            "value shared column, slower",
            column(&slower),
            "0108018080ea30d8360d020080a01f020e00019fcf9f0f",
        ),
        (
            "value shared column, Huffman code",
            column(&crowded),
            "018002018080ea309875b8010002030d1343545505000000001014111289174441076020e391\
             045c9ac05e1500995e98a0fdaf5deda8195695ce728d31c6ca360cf8adc2296413015eb7a492\
             9c1696007c0007ab82a459088413a22b4d000cd779ff6e0a7ffb203723205a7203c910f4058d\
             ff890c39fa81a081f3ac872800380d22b38b62741ca518a6109106a39f05eae4e1c50f508a00\
             7048c0f3e36838890b72efff29135c78b4905a420550130ff0f3ac904bece13d792c3cbf0461\
             53801540a817",
        ),
        (
            "value maintenance job",
            maintenance_job::encode(&job()),
            "010105c051b00101010855b001efcdab8967452301efcdab896745230103ac0201c905000000\
             f0b80a000000000080a0abfef962b08aadfef962",
        ),
        (
            "value retired bucket",
            retired_bucket::encode(T).into(),
            "0180a0abfef962",
        ),
        (
            "key tombstones",
            key::tombstones(hour()).into(),
            "01b0070101b05508",
        ),
        (
            "value tombstones",
            tombstones::encode(&deleted()).into(),
            "02ac02123a300000010000000000000010000000c9020180a0abfef962e0d403143a30000001000000000001001000000001000200",
        ),
        ("key restore mark", key::restore_mark().into(), "01b008"),
        (
            "value restore mark",
            restore_mark::encode(&restored()).into(),
            "0103616263ac02f0a2040110",
        ),
        (
            "key epoch summary",
            key::epoch_summary(7).into(),
            "01b00900000007",
        ),
        (
            "value epoch summary",
            epoch_summary::encode(&finished()).into(),
            "01b1ac8360712504158202ba030288aac10d00f7d5bef20f9003",
        ),
    ]
}

/// Series 713 is gone, series 1 and 2 lost a minute.
fn deleted() -> Tombstones {
    let mut deleted = Tombstones {
        through_seq: 300,
        ..Tombstones::default()
    };
    deleted.erase(&[713].into_iter().collect());
    deleted.erase_range(T, T + 60_000, &[1, 2].into_iter().collect());
    deleted
}

/// Sequences 258 to 700 touched an hour and the catalog.
fn finished() -> EpochSummary {
    EpochSummary {
        first_seq: 258,
        last_seq: 700,
        units: [
            (FlushUnit::Hour(hour().start), 700),
            (FlushUnit::Catalog, 300),
        ]
        .into(),
    }
}

fn restored() -> RestoreMark {
    RestoreMark {
        snapshot: "abc".into(),
        records: 300,
        bytes: 70_000,
        last_key: key::bucket_list(),
    }
}

/// What was written before tombstones knew of the journal.
#[test]
fn tombstones_without_a_sequence_are_read() {
    let value = hex(
        "01123a300000010000000000000010000000c9020180a0abfef962e0d403143a30000001000000000001001000000001000200",
    );
    let expected = Tombstones {
        through_seq: 0,
        ..deleted()
    };
    assert_eq!(tombstones::decode(&value), Ok(expected));
}

fn hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16));
    bytes.collect::<Result<_, _>>().unwrap()
}
