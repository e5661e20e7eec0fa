//! Golden bytes of rollup and retention; `golden` checks them together with the others.

use std::sync::Arc;

use icecore_model::STALE_NAN_BITS;
use icecore_model::rollup::{
    HistogramAggregate, HistogramEdge, HistogramWindow, Resolution, Window, WindowFields, roll_up,
};
use icecore_records::bucket_meta::{self, RollupMeta};
use icecore_records::maintenance_job::{self, Counts, Job, JobKind, JobSource, Phase, Rollup};
use icecore_records::{
    BucketMeta, BucketState, RetentionState, SeriesId, key, retention_state, rollup_histograms,
    rollup_series,
};

use crate::samples::*;

const MINUTE_MS: i64 = 60_000;

/// Windows of one sample a minute, seven seconds after it, from the bucket's start on.
fn windows(resolution: Resolution, values: impl Iterator<Item = f64>) -> Vec<Window> {
    let start_ms = sixteen_hours().start_ms() + 7_000;
    let times = (0..).map(|i| start_ms + i * MINUTE_MS);
    roll_up(resolution, times.zip(values))
}

fn rollup(resolution: Resolution, fields: WindowFields, windows: &[Window]) -> Vec<u8> {
    let value = rollup_series::encode(sixteen_hours(), resolution, fields, windows);
    let decoded = rollup_series::decode_windows(sixteen_hours(), &value).unwrap();
    assert_eq!(decoded.len(), windows.len());
    value
}

/// Half an hour of a counter that is reset once; then nothing for an hour, a sample at the very
/// start of a window, a stale marker, and a window that late samples were merged into.
fn counter() -> Vec<Window> {
    let step = |i: i32| f64::from(if i < 17 { 300 * i + i * i % 7 } else { 40 * i });
    let mut windows = windows(Resolution::FIVE_MINUTES, (0..30).map(step));
    let later_ms = sixteen_hours().start_ms() + 90 * MINUTE_MS;
    let stale = f64::from_bits(STALE_NAN_BITS);
    let later = [
        (later_ms, 1200.0),
        (later_ms + 7_000, 1240.5),
        (later_ms + 8_000, stale),
        (later_ms + 5 * MINUTE_MS, stale),
        (later_ms + 11 * MINUTE_MS, f64::NAN),
    ];
    windows.extend(roll_up(Resolution::FIVE_MINUTES, later));
    windows[1].has_late = true;
    windows
}

fn gauge() -> Vec<Window> {
    let value = |i: i32| f64::from(2000 + i * i * 37 % 113) / 100.0;
    windows(Resolution::HOUR, (0..480).map(value))
}

fn constant() -> Vec<Window> {
    windows(Resolution::HOUR, std::iter::repeat_n(1.0, 960))
}

pub(crate) fn table() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let all = WindowFields::ALL;
    let lost = WindowFields::M2 | WindowFields::CHANGES;
    let typed = WindowFields::CORRECTION | WindowFields::RESETS;
    vec![
        (
            "key RollupSeries, 16 h",
            key::rollup_series(sixteen_hours(), SeriesId(713)).into(),
            "016501b051c0000002c9",
        ),
        (
            "key RollupSeries histograms, 16 h",
            key::rollup_histograms(sixteen_hours(), SeriesId(713)).into(),
            "016501b051c0000002c901",
        ),
        (
            "value RollupSeries, empty",
            rollup(Resolution::HOUR, all, &[]),
            "0106ff0300010001",
        ),
        (
            "value RollupSeries, counter",
            rollup(Resolution::FIVE_MINUTES, all, &counter()),
            "0103ff0309010200050c0209ff7f0a0408050a111d211919102d0a0508000005000002004051\
             0000100151010a00030724490c000001008010889e03ae6d0001008011e8078ebc0600008100\
             4002080506f0353111050000000b93086614108400a0a02da5050107000000000000f87f3011\
             0ae8bb01000d9d4d4fb3692e4d00d0f37a5ea7eb740107000000000000f87f30110500008000\
             020e0307b3bbd8040107000000000000f87f30210f0000810080020c030788aa330107000000\
             000000f87f101105500085371cf04229a5010803d1501228a0878f56001ae3c99302727222cc\
             5489a07d23823372b1409c00007102000000000000000000020160551001a8f7020000010008\
             0000010008110408000001015f",
        ),
        (
            "value RollupSeries, gauge with fewer fields",
            rollup(Resolution::HOUR, all.without(lost | typed), &gauge()),
            "01063f00080101000708f4070304050d0d09090e0001780001ae6d00018ebc0600020007a01f\
             006b014c19b44200020007e41fb81b8030647e5a100203a01f00010054100207fc20000101bf\
             101271fe0a00062f18602e113445",
        ),
        (
            "value RollupSeries, constant",
            rollup(Resolution::HOUR, all, &constant()),
            "0106ff031000107400030405040001780001ae6d00018ebc0600000102",
        ),
        (
            "key state of retention",
            key::retention_state().into(),
            "01b00a",
        ),
        (
            "value state of retention",
            retention_state::encode(&retention()),
            "01f6a1abfef962020080a0c1cdf9620380bab703",
        ),
        (
            "value maintenance job, rollup",
            maintenance_job::encode(&job()),
            "010205c051b0010301f0debc9a7856341201010855b001efcdab8967452301efcdab89674523\
             0103ac0200c905000000f0b80a000000000080a0abfef962b08aadfef962ec420c",
        ),
        (
            "value maintenance job, remnant",
            maintenance_job::encode(&remnant_job()),
            "010305c051b001f0debc9a7856341201010855b001efcdab8967452301efcdab896745230103\
             ac0200c905000000f0b80a000000000080a0abfef962b08aadfef962",
        ),
        (
            "value BucketMeta, rolled up",
            bucket_meta::encode(&rolled_meta()),
            "01010fe0a712ca050200f4030188aac10df0b80af0010380ccc9fdf962fe858181fa62ec420c\
             00",
        ),
        (
            "value BucketMeta, rolled up, nothing left out",
            bucket_meta::encode(&noted_meta(&[])),
            "01012fe0a712ca050200f4030188aac10df0b80af0010380ccc9fdf962fe858181fa62ec420c\
             0000",
        ),
        (
            "value BucketMeta, rolled up, two groups left out",
            bucket_meta::encode(&noted_meta(&[0x1234_5678_9abc_def0, 0x0102])),
            "01012fe0a712ca050200f4030188aac10df0b80af0010380ccc9fdf962fe858181fa62ec420c\
             00020201000000000000f0debc9a78563412",
        ),
        (
            "value BucketMeta, rolled up, standing in",
            bucket_meta::encode(&standing_in_meta()),
            "01016fe0a712ca050200f4030188aac10df0b80af0010380ccc9fdf962fe858181fa62ec420c\
             0000",
        ),
        (
            "value BucketMeta, overlay",
            bucket_meta::encode(&BucketMeta {
                is_overlay: true,
                ..bucket_meta()
            }),
            "01001300ca050200f4030188aac10df0b80af0010380ccc9fdf962fe858181fa62",
        ),
        (
            "value RollupSeries histograms",
            rollup_histograms::encode(sixteen_hours(), Resolution::HOUR, &histogram_windows()),
            "0106030202018303ff03060404050527282828280000040c0a030001e0030001ae6d0001bea9\
             0700000100010501010000000101041d0a03009d978ccf08ba5b250203020601000003000340\
             34801c0204020a050102000001020102041d0a03009d978ccf08ba5b25020302060100000300\
             034032801802040206050102000001020102041d0a03009d978ccf08ba5b2502030206010000\
             0300034034801c0204020a050102000001020102041d0a03009d978ccf08ba5b250203020601\
             00000300034034801c0204020a050102000001020100041d0a03009d978ccf08ba5b25020302\
             060100000300034032801802040206",
        ),
        (
            "value RollupSeries histograms, changes",
            rollup_histograms::encode(sixteen_hours(), Resolution::HOUR, &changing_histograms()),
            "01060101010200019f070304040503272727040001200001e0030001ae6d0001bea907000102\
             0501010000000101041d0a03009d978ccf08ba5b25020302060100000300034034801c020402\
             0a0501010000000101041d0a03009d978ccf08ba5b25020302060100000300034034801c0204\
             020a0501010000000101041d0a03009d978ccf08ba5b25020302060100000300034032801802\
             04020600019003",
        ),
    ]
}

/// Raw samples are gone up to the bucket, 5m up to an hour after the epoch.
fn retention() -> RetentionState {
    let mut state = RetentionState::default();
    state.clock_ms = 1_700_000_000_123;
    state.raise_watermark(Resolution::FIVE_MINUTES, 60 * MINUTE_MS);
    state.raise_watermark(Resolution::RAW, sixteen_hours().start_ms());
    state
}

fn job() -> Job {
    Job {
        kind: JobKind::RollUp(Rollup {
            resolution: Resolution::FIVE_MINUTES,
            is_lean: true,
            left_out: 0x1234_5678_9abc_def0,
        }),
        target: sixteen_hours(),
        sources: vec![JobSource {
            bucket: hour(),
            meta_hash: 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef,
        }],
        phase: Phase::Samples { next_id: 300 },
        counts: Counts {
            series: 713,
            floats: 171_120,
            windows: 8556,
            histogram_windows: 12,
            min_timestamp_ms: 1_700_000_000_000,
            max_timestamp_ms: 1_700_000_015_000,
            ..Counts::default()
        },
    }
}

fn remnant_job() -> Job {
    let counts = Counts {
        windows: 0,
        histogram_windows: 0,
        ..job().counts
    };
    Job {
        kind: JobKind::Remnant {
            left_out: 0x1234_5678_9abc_def0,
        },
        counts,
        ..job()
    }
}

fn rolled_meta() -> BucketMeta {
    BucketMeta {
        resolution_ms: 300_000,
        state: BucketState::RolledUp,
        rollup: RollupMeta {
            windows: 8556,
            histogram_windows: 12,
            is_lean: true,
            source: Resolution::RAW,
            sources_gone: true,
            left_out: None,
            stands_in: false,
        },
        ..bucket_meta()
    }
}

/// The same, with a note of what was left out.
fn noted_meta(left_out: &[u64]) -> BucketMeta {
    let meta = rolled_meta();
    BucketMeta {
        rollup: RollupMeta {
            left_out: Some(left_out.iter().copied().collect()),
            ..meta.rollup
        },
        ..meta
    }
}

/// The same, with late samples of series that only finer levels keep.
fn standing_in_meta() -> BucketMeta {
    let meta = noted_meta(&[]);
    BucketMeta {
        rollup: RollupMeta {
            stands_in: true,
            ..meta.rollup
        },
        ..meta
    }
}

/// Two windows with samples, the first one with a reset; one with a sample at its start alone.
fn histogram_windows() -> Vec<HistogramWindow> {
    let entries = histogram_entries();
    let mut histograms = entries.into_iter().filter_map(|entry| entry.value);
    let [a, b] = [histograms.next().unwrap(), histograms.next().unwrap()];
    let start_ms = sixteen_hours().start_ms();
    let window = |hour: i64, edge, interior| HistogramWindow {
        start_ms: start_ms + hour * 60 * MINUTE_MS,
        edge,
        interior,
        ends_stale: hour == 3,
        has_late: hour == 2,
    };
    let interior = |hour: i64, resets: u64| {
        let start_ms = start_ms + hour * 60 * MINUTE_MS;
        Some(HistogramAggregate {
            samples: 240,
            first_ms: start_ms + 7_000,
            first: Some(Arc::clone(&a)),
            last_ms: start_ms + 59 * MINUTE_MS,
            last: Some(Arc::clone(&b)),
            sum: Some(Arc::clone(&b)),
            correction: (resets > 0).then(|| Arc::clone(&a)),
            resets,
            changes: 0,
        })
    };
    vec![
        window(2, HistogramEdge::None, interior(2, 1)),
        window(3, HistogramEdge::Stale, interior(3, 0)),
        window(9, HistogramEdge::Sample(Arc::clone(&b)), None),
    ]
}

/// The first window, with changes from one histogram to the next.
fn changing_histograms() -> Vec<HistogramWindow> {
    let mut windows = histogram_windows();
    windows.truncate(1);
    let interior = windows[0].interior.as_mut().unwrap();
    (interior.changes, interior.first) = (200, None);
    windows
}

/// What the golden bytes say, read field by field.
#[test]
fn golden_windows_are_read() {
    let value = rollup(Resolution::FIVE_MINUTES, WindowFields::ALL, &counter());
    let fields = WindowFields::COUNTS | WindowFields::LAST | WindowFields::CORRECTION;
    let start_ms = sixteen_hours().start_ms() + 15 * MINUTE_MS;
    let range = start_ms..start_ms + 10 * MINUTE_MS;
    let read = rollup_series::decode(sixteen_hours(), &value, fields, range).unwrap();
    assert_eq!(&*read.starts, [start_ms, start_ms + 5 * MINUTE_MS]);
    assert_eq!((read.numbers, read.last), (vec![5, 5], vec![760.0, 960.0]));
    // 300 · 16 + 16² mod 7: what was lost when the counter began again.
    assert_eq!(read.correction, [4804.0, 0.0]);
    assert_eq!(read.last_ms[0], start_ms + 4 * MINUTE_MS + 7_000);
    assert!(read.sum.is_empty() && read.first.is_empty());
}
