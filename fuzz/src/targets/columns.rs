//! Targets for the records of coarse buckets. What decodes must survive being written again, a
//! range must hold what the whole holds, and a few bytes must not stand for much memory.

use bytes::Bytes;
use icecore_model::rollup::Resolution;
use icecore_model::{BucketStart, STALE_NAN_BITS};
use icecore_records::coarse_samples::{self, Part};
use icecore_records::columns::{ColumnRecord, RecordTimes, TimeList, Times, time_column, values};
use icecore_records::maintenance_job::{self, Counts, Job, JobKind, JobSource, Phase, Rollup};
use icecore_records::{Bucket, gorilla, key, restore_mark, retired_bucket, tombstones};

use crate::{MEMORY_BASE, Target};

const BUCKET_MS: i64 = 1_699_948_800_000;

/// Longer lists are allowed, but not written out here.
const MOST_SAMPLES: usize = 1 << 16;

/// A chunk of 4096 equal values takes a few bytes, and a record may have as many chunks as it has
/// bytes for.
const COLUMNS_MEMORY_BASE: usize = 16 << 20;

pub fn targets() -> Vec<Target> {
    let target = |name, seeds, run| Target {
        name,
        seeds,
        run,
        memory_base: COLUMNS_MEMORY_BASE,
    };
    vec![
        target("columns/coarse_samples", coarse_parts, |input| {
            for part in coarse_samples::parts(&Bytes::copy_from_slice(input)) {
                match coarse_samples::parse(&part) {
                    Ok(Part::Columns(record)) => record_round_trip(&record),
                    Ok(Part::Stream(stream)) => drop(gorilla::count(stream)),
                    Err(_) => {}
                }
            }
        }),
        target("columns/time_column", time_columns, |input| {
            if let Ok(list) = time_column::decode(BUCKET_MS, input) {
                list_round_trip(&list);
            }
        }),
        target("columns/values", chunks, |input| {
            // The length of the chunk comes first, as it would from the record's header.
            let [low, high, chunk @ ..] = input else {
                return;
            };
            let len = usize::from(u16::from_le_bytes([*low, *high])) % 4097;
            let mut decoded = Vec::new();
            if values::decode_into(chunk, len, &mut decoded).is_ok() {
                assert_eq!(decoded.len(), len);
                let mut again = Vec::new();
                values::encode(&decoded, &mut again);
                let mut decoded_again = Vec::new();
                values::decode_into(&again, len, &mut decoded_again).expect("own chunk");
                assert_eq!(bits(&decoded), bits(&decoded_again));
            }
        }),
        Target {
            name: "columns/maintenance",
            seeds: maintenance,
            run: |input| {
                if let Ok(retired_at_ms) = retired_bucket::decode(input) {
                    let again = retired_bucket::encode(retired_at_ms);
                    assert_eq!(retired_bucket::decode(&again), Ok(retired_at_ms));
                }
                if let Ok(deleted) = tombstones::decode(input) {
                    let again = tombstones::encode(&deleted);
                    assert_eq!(tombstones::decode(&again), Ok(deleted));
                }
                if let Ok(mark) = restore_mark::decode(input) {
                    let again = restore_mark::encode(&mark);
                    assert_eq!(restore_mark::decode(&again), Ok(mark));
                }
                if let Ok(job) = maintenance_job::decode(input) {
                    let again = maintenance_job::encode(&job);
                    assert_eq!(maintenance_job::decode(&again), Ok(job));
                }
            },
            memory_base: MEMORY_BASE,
        },
    ]
}

fn record_round_trip(record: &ColumnRecord<'_>) {
    let list = match record.times() {
        RecordTimes::Own => record.decode_times(BUCKET_MS).ok(),
        RecordTimes::Shared { .. } => None,
    };
    if let Some(list) = &list {
        assert_eq!(list.len(), record.len());
        list_round_trip(list);
    }
    let end = record.len().min(MOST_SAMPLES);
    let mut all = vec![0.25];
    if record.decode_values(0..end, &mut all).is_err() {
        assert_eq!(all, [0.25], "an error leaves nothing behind");
        return;
    }
    let all = &all[1..];
    assert_eq!(all.len(), end);
    let mut some = Vec::new();
    let range = end / 3..end - end / 4;
    record
        .decode_values(range.clone(), &mut some)
        .expect("a part of what was read");
    assert_eq!(bits(&some), bits(&all[range]));
    if end < record.len() {
        return;
    }
    let mut timestamps = Vec::new();
    let times = match (&list, record.times()) {
        (Some(list), _) => {
            list.copy_into(0..end, &mut timestamps);
            Times::Own(&timestamps)
        }
        (None, RecordTimes::Shared { column, first }) => Times::Shared {
            column,
            first,
            len: end as u32,
        },
        (None, RecordTimes::Own) => return,
    };
    let part = coarse_samples::encode_columns(BUCKET_MS, times, all);
    let Ok(Part::Columns(again)) = coarse_samples::parse(&part) else {
        panic!("own record");
    };
    assert_eq!(again.times(), record.times());
    if let Some(list) = list {
        assert_eq!(again.decode_times(BUCKET_MS), Ok(list));
    }
    let mut decoded = Vec::new();
    again
        .decode_values(0..end, &mut decoded)
        .expect("own record");
    assert_eq!(bits(&decoded), bits(all));
}

fn list_round_trip(list: &TimeList) {
    if list.len() > MOST_SAMPLES {
        return;
    }
    let mut times = Vec::new();
    list.copy_into(0..list.len(), &mut times);
    assert!(times.is_sorted_by(|a, b| a < b));
    for time in times.iter().step_by(times.len() / 8 + 1) {
        let end = time.saturating_add(1_000_000);
        let found = times.partition_point(|t| t < time)..times.partition_point(|t| *t <= end);
        assert_eq!(list.range(*time, end), found);
    }
    assert_eq!(&TimeList::from(&times[..]), list);
    let again = time_column::encode(BUCKET_MS, &times);
    assert_eq!(time_column::decode(BUCKET_MS, &again).as_ref(), Ok(list));
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn regular(len: i64) -> Vec<i64> {
    (0..len).map(|i| BUCKET_MS + 15_000 * i).collect()
}

fn jittered(len: i64) -> Vec<i64> {
    (0..len)
        .map(|i| BUCKET_MS + 15_000 * (i + i / 50) + i * i % 3)
        .collect()
}

/// One list for each way in which a chunk can be written.
fn value_lists(len: i64) -> Vec<Vec<f64>> {
    let list = |value: fn(i64) -> f64| (0..len).map(value).collect::<Vec<f64>>();
    vec![
        list(|_| 12.5),
        list(|i| (i * i % 997 + 40 * i) as f64),
        list(|i| (i / 20) as f64 * 4096.0),
        list(|i| (i as f64).sin()),
        list(|i| match i % 37 {
            5 => f64::from_bits(STALE_NAN_BITS),
            9 => -0.0,
            _ => i as f64 / 100.0,
        }),
        list(|i| if i % 3 == 0 { i as f64 } else { 0.5 }),
    ]
}

fn coarse_parts() -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    for values in value_lists(120) {
        for times in [regular(120), jittered(120)] {
            parts.push(coarse_samples::encode_columns(
                BUCKET_MS,
                Times::Own(&times),
                &values,
            ));
        }
    }
    let shared = Times::Shared {
        column: 3,
        first: 7,
        len: 2500,
    };
    let long = &value_lists(2500)[1];
    parts.push(coarse_samples::encode_columns(BUCKET_MS, shared, long));
    parts.push(coarse_samples::encode_columns(
        BUCKET_MS,
        Times::Own(&jittered(2500)),
        &vec![1.0; 2500],
    ));
    let wide = [i64::MIN, -1, 0, i64::MAX];
    parts.push(coarse_samples::encode_columns(
        BUCKET_MS,
        Times::Own(&wide),
        &[f64::NAN, -0.0, f64::INFINITY, 5e-324],
    ));
    parts.push(coarse_samples::encode_columns(
        BUCKET_MS,
        Times::Own(&[]),
        &[],
    ));
    let stream = gorilla::encode(&regular(5), &[1.0, 2.0, 2.0, 3.0, 4.0]);
    parts.push(coarse_samples::late_stream(&stream).into());
    let mut container = vec![0xff; 8];
    for part in [&parts[0], &parts[parts.len() - 1]] {
        container.push(part.len() as u8);
        container.extend_from_slice(part);
    }
    parts.push(container);
    parts
}

fn maintenance() -> Vec<Vec<u8>> {
    let bucket = Bucket::hour(BucketStart(28_333_320));
    let phases = [
        Phase::Series { next_id: 300 },
        Phase::Index {
            after: b"status\x00500".to_vec(),
        },
        Phase::Samples { next_id: 0 },
        Phase::Verify,
    ];
    let rollup = JobKind::RollUp(Rollup {
        resolution: Resolution::HOUR,
        is_lean: true,
        left_out: 0x1234_5678_9abc_def0,
    });
    let kinds = [JobKind::Coarsen, rollup].into_iter().cycle();
    let jobs = phases.into_iter().zip(kinds).map(|(phase, kind)| {
        let source = JobSource {
            bucket,
            meta_hash: u128::MAX / 7,
        };
        maintenance_job::encode(&Job {
            kind,
            target: bucket,
            sources: vec![source; 3],
            phase,
            counts: Counts::default(),
        })
    });
    let mut deleted = tombstones::Tombstones::default();
    deleted.erase(&(7..90).collect());
    deleted.erase_range(BUCKET_MS, BUCKET_MS + 60_000, &(1..4).collect());
    let mark = restore_mark::RestoreMark {
        snapshot: "nightly".into(),
        records: 300,
        bytes: 70_000,
        last_key: key::bucket_list(),
    };
    let others = [
        retired_bucket::encode(BUCKET_MS),
        tombstones::encode(&deleted),
        restore_mark::encode(&mark),
    ];
    jobs.chain(others.into_iter().map(Into::into)).collect()
}

fn time_columns() -> Vec<Vec<u8>> {
    let wide = vec![i64::MIN, -1, 0, i64::MAX];
    [regular(200), jittered(200), jittered(5000), wide, vec![]]
        .iter()
        .map(|times| time_column::encode(BUCKET_MS, times))
        .collect()
}

fn chunks() -> Vec<Vec<u8>> {
    [1u16, 100, 960]
        .into_iter()
        .flat_map(|len| {
            value_lists(len.into()).into_iter().map(move |list| {
                let mut chunk = len.to_le_bytes().to_vec();
                values::encode(&list, &mut chunk);
                chunk
            })
        })
        .collect()
}
