//! The running maintenance job: its sources, its target and its progress.
//!
//! ```text
//! version u8 = 1 | kind u8: 1 coarsen, 2 roll up, 3 remnant | target: bucket
//! | rollup: resolution u8 | flags u8: 1 lean | series left out, hash u64 LE
//! | remnant: series left out, hash u64 LE
//! | varint count, sources: (bucket | hash of its BucketMeta, 16 bytes LE)*
//! | phase u8: 1 series, 2 index, 3 samples, 4 verify
//! | cursor: varint for series and samples; varint length and bytes for index
//! | flags u8: 1 start timestamps | varint series, labels, postings, floats read, floats, histograms,
//!   exemplars, bytes read, bytes written, records | zigzag first and last timestamp
//! | rollup: varint windows, histogram windows
//!
//! bucket = u8 size exponent | u32 LE start in minutes
//! ```
//!
//! Holds always:
//! - It is written together with what its cursor covers, so both are there or neither. Losing it is
//!   harmless: the target is not listed, and what was written of it is dropped.

use icecore_model::rollup::Resolution;
use icecore_model::varint::{push_varint, push_zigzag};
use icecore_model::{BucketSize, BucketStart};

use crate::reader::Reader;
use crate::{Bucket, DecodeError};

const RECORD: &str = "MaintenanceJob";
const VERSION: u8 = 1;
const COARSEN: u8 = 1;
const ROLL_UP: u8 = 2;
const REMNANT: u8 = 3;
const IS_LEAN: u8 = 1;
const HAS_START_TIMESTAMPS: u8 = 1;

/// Bytes of a source.
const SOURCE_LEN: usize = 5 + 16;

/// A job that makes one bucket out of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub kind: JobKind,
    pub target: Bucket,
    /// In the order of time.
    pub sources: Vec<JobSource>,
    pub phase: Phase,
    pub counts: Counts,
}

/// What a job makes of its sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobKind {
    /// The same samples in a larger bucket.
    #[default]
    Coarsen,
    /// Windows, of samples or of windows that are not wider.
    RollUp(Rollup),
    /// The same samples in a larger bucket, of some series only.
    Remnant {
        /// As that of a rollup.
        left_out: u64,
    },
}

/// What a bucket of windows is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollup {
    pub resolution: Resolution,
    /// Without squared deviations and changes.
    pub is_lean: bool,
    /// Stands for what says which series are left out; 0: none are. A job of another one starts
    /// over, because it gives out other ids.
    pub left_out: u64,
}

/// A bucket that goes into the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobSource {
    pub bucket: Bucket,
    /// XXH3-128 of its BucketMeta when the job began: a different one means that it was written to.
    pub meta_hash: u128,
}

/// Where a job is. Everything before its cursor is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Forward records, by id.
    Series { next_id: u32 },
    /// Inverted index, by label pair as it follows the bucket in a key; empty: none yet.
    Index { after: Vec<u8> },
    /// Samples, histograms, starts and exemplars, by id.
    Samples { next_id: u32 },
    /// All is written; it is verified before the commit.
    Verify,
}

/// Counts of a job so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    pub has_start_timestamps: bool,
    pub series: u64,
    /// Label pairs of all series.
    pub labels: u64,
    /// Entries of all postings.
    pub postings: u64,
    /// Floats in the sources, those that others replace included.
    pub floats_read: u64,
    pub floats: u64,
    pub histograms: u64,
    pub exemplars: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub records: u64,
    pub min_timestamp_ms: i64,
    pub max_timestamp_ms: i64,
    /// Windows of floats that were written; 0 unless the job rolls up.
    pub windows: u64,
    /// Windows of native histograms, likewise.
    pub histogram_windows: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            has_start_timestamps: false,
            series: 0,
            labels: 0,
            postings: 0,
            floats_read: 0,
            floats: 0,
            histograms: 0,
            exemplars: 0,
            bytes_read: 0,
            bytes_written: 0,
            records: 0,
            min_timestamp_ms: i64::MAX,
            max_timestamp_ms: i64::MIN,
            windows: 0,
            histogram_windows: 0,
        }
    }
}

pub fn encode(job: &Job) -> Vec<u8> {
    let kind = match job.kind {
        JobKind::Coarsen => COARSEN,
        JobKind::RollUp(_) => ROLL_UP,
        JobKind::Remnant { .. } => REMNANT,
    };
    let mut value = vec![VERSION, kind];
    push_bucket(&mut value, job.target);
    if let JobKind::RollUp(rollup) = &job.kind {
        let flags = if rollup.is_lean { IS_LEAN } else { 0 };
        value.extend_from_slice(&[rollup.resolution.code(), flags]);
        value.extend_from_slice(&rollup.left_out.to_le_bytes());
    }
    if let JobKind::Remnant { left_out } = &job.kind {
        value.extend_from_slice(&left_out.to_le_bytes());
    }
    push_varint(&mut value, job.sources.len() as u64);
    for source in &job.sources {
        push_bucket(&mut value, source.bucket);
        value.extend_from_slice(&source.meta_hash.to_le_bytes());
    }
    push_phase(&mut value, &job.phase);
    let counts = &job.counts;
    value.push(if counts.has_start_timestamps {
        HAS_START_TIMESTAMPS
    } else {
        0
    });
    for count in [
        counts.series,
        counts.labels,
        counts.postings,
        counts.floats_read,
        counts.floats,
        counts.histograms,
        counts.exemplars,
        counts.bytes_read,
        counts.bytes_written,
        counts.records,
    ] {
        push_varint(&mut value, count);
    }
    push_zigzag(&mut value, counts.min_timestamp_ms);
    push_zigzag(&mut value, counts.max_timestamp_ms);
    let windows = [counts.windows, counts.histogram_windows];
    match job.kind {
        JobKind::Coarsen | JobKind::Remnant { .. } => {
            assert_eq!(windows, [0, 0], "only a rollup writes windows")
        }
        JobKind::RollUp(_) => {
            for count in windows {
                push_varint(&mut value, count);
            }
        }
    }
    value
}

pub fn decode(value: &[u8]) -> Result<Job, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    reader.version(VERSION)?;
    let kind = reader.u8()?;
    let target = read_bucket(&mut reader)?;
    let kind = match kind {
        COARSEN => JobKind::Coarsen,
        ROLL_UP => JobKind::RollUp(read_rollup(&mut reader)?),
        REMNANT => JobKind::Remnant {
            left_out: reader.u64()?,
        },
        _ => return Err(reader.error("unknown kind of job")),
    };
    let count = reader.count(SOURCE_LEN)?;
    let mut sources = Vec::with_capacity(count);
    for _ in 0..count {
        sources.push(JobSource {
            bucket: read_bucket(&mut reader)?,
            meta_hash: u128::from_le_bytes(reader.array()?),
        });
    }
    let phase = read_phase(&mut reader)?;
    let flags = reader.u8()?;
    if flags & !HAS_START_TIMESTAMPS != 0 {
        return Err(reader.error("unknown flags"));
    }
    let mut counts = Counts {
        has_start_timestamps: flags & HAS_START_TIMESTAMPS != 0,
        series: reader.varint()?,
        labels: reader.varint()?,
        postings: reader.varint()?,
        floats_read: reader.varint()?,
        floats: reader.varint()?,
        histograms: reader.varint()?,
        exemplars: reader.varint()?,
        bytes_read: reader.varint()?,
        bytes_written: reader.varint()?,
        records: reader.varint()?,
        min_timestamp_ms: reader.zigzag()?,
        max_timestamp_ms: reader.zigzag()?,
        ..Counts::default()
    };
    if matches!(kind, JobKind::RollUp(_)) {
        counts.windows = reader.varint()?;
        counts.histogram_windows = reader.varint()?;
    }
    reader.finish()?;
    Ok(Job {
        kind,
        target,
        sources,
        phase,
        counts,
    })
}

fn read_rollup(reader: &mut Reader<'_>) -> Result<Rollup, DecodeError> {
    let resolution = Resolution::from_code(reader.u8()?);
    let resolution = resolution.filter(|resolution| !resolution.is_raw());
    let resolution = resolution.ok_or_else(|| reader.error("unknown resolution"))?;
    let flags = reader.u8()?;
    if flags & !IS_LEAN != 0 {
        return Err(reader.error("unknown flags of a rollup"));
    }
    Ok(Rollup {
        resolution,
        is_lean: flags & IS_LEAN != 0,
        left_out: reader.u64()?,
    })
}

fn push_phase(value: &mut Vec<u8>, phase: &Phase) {
    match phase {
        Phase::Series { next_id } => {
            value.push(1);
            push_varint(value, (*next_id).into());
        }
        Phase::Index { after } => {
            value.push(2);
            push_varint(value, after.len() as u64);
            value.extend_from_slice(after);
        }
        Phase::Samples { next_id } => {
            value.push(3);
            push_varint(value, (*next_id).into());
        }
        Phase::Verify => value.push(4),
    }
}

fn read_phase(reader: &mut Reader<'_>) -> Result<Phase, DecodeError> {
    Ok(match reader.u8()? {
        1 => Phase::Series {
            next_id: reader.varint32()?,
        },
        2 => {
            let len = reader.count(1)?;
            Phase::Index {
                after: reader.bytes(len)?.to_vec(),
            }
        }
        3 => Phase::Samples {
            next_id: reader.varint32()?,
        },
        4 => Phase::Verify,
        _ => return Err(reader.error("unknown phase")),
    })
}

fn push_bucket(value: &mut Vec<u8>, bucket: Bucket) {
    value.push(bucket.size.exponent());
    value.extend_from_slice(&bucket.start.minutes().to_le_bytes());
}

fn read_bucket(reader: &mut Reader<'_>) -> Result<Bucket, DecodeError> {
    let size = BucketSize::from_exponent(reader.u8()?);
    let size = size.ok_or_else(|| reader.error("bucket size is not between 1 and 15"))?;
    let start = BucketStart(reader.u32()?);
    Ok(Bucket { size, start })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bucket(exponent: u8, start: u32) -> Bucket {
        let size = BucketSize::from_exponent(exponent).unwrap();
        let start = BucketStart(start);
        Bucket { size, start }
    }

    fn job(phase: Phase) -> Job {
        Job {
            kind: JobKind::Coarsen,
            target: bucket(3, 28_333_200),
            sources: vec![JobSource {
                bucket: bucket(1, 28_333_320),
                meta_hash: 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef,
            }],
            phase,
            counts: Counts {
                has_start_timestamps: true,
                series: 713,
                floats: 300,
                min_timestamp_ms: 1,
                max_timestamp_ms: -1,
                ..Counts::default()
            },
        }
    }

    #[test]
    fn golden_bytes() {
        let check = |phase: Phase, expected: &str| {
            let value = encode(&job(phase.clone()));
            let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            let head = "01010390 54b001 01 0108 55b001 efcdab8967452301efcdab8967452301";
            let tail = "01c905000000ac0200000000000201";
            assert_eq!(hex, format!("{head}{expected}{tail}").replace(' ', ""));
            assert_eq!(decode(&value), Ok(job(phase)));
            for end in 0..value.len() {
                assert!(decode(&value[..end]).is_err(), "cut at {end}");
            }
            assert!(decode(&[&value[..], &[0]].concat()).is_err());
        };
        check(Phase::Series { next_id: 300 }, "01ac02");
        check(
            Phase::Index {
                after: b"a\0b".to_vec(),
            },
            "0203610062",
        );
        check(Phase::Samples { next_id: 0 }, "0300");
        check(Phase::Verify, "04");
    }

    #[test]
    fn a_remnant_says_which_series_it_leaves_out() {
        let mut remnant = job(Phase::Verify);
        remnant.kind = JobKind::Remnant { left_out: 0x0102 };
        let value = encode(&remnant);
        assert_eq!(value[..2], [VERSION, REMNANT]);
        assert_eq!(value[7..15], [2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decode(&value), Ok(remnant));
        for end in 0..value.len() {
            assert!(decode(&value[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_rollup_says_what_it_makes() {
        let mut rollup = job(Phase::Verify);
        rollup.kind = JobKind::RollUp(Rollup {
            resolution: Resolution::FIVE_MINUTES,
            is_lean: true,
            left_out: 0x0102,
        });
        rollup.counts.windows = 8556;
        rollup.counts.histogram_windows = 2;
        let value = encode(&rollup);
        let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        let head =
            "01020390 54b001 0301 0201000000000000 01 0108 55b001 efcdab8967452301efcdab8967452301";
        let tail = "0401c905000000ac0200000000000201 ec4202";
        assert_eq!(hex, format!("{head}{tail}").replace(' ', ""));
        assert_eq!(decode(&value), Ok(rollup));
        for end in 0..value.len() {
            assert!(decode(&value[..end]).is_err(), "cut at {end}");
        }
        for (place, wrong) in [(7, 0), (7, 11), (8, 2), (1, 3)] {
            let mut value = value.clone();
            value[place] = wrong;
            assert!(decode(&value).is_err(), "{wrong} at {place}");
        }
    }

    fn any_kind() -> impl Strategy<Value = JobKind> {
        let rollup = (1u8..=10, any::<bool>(), any::<u64>());
        prop_oneof![
            Just(JobKind::Coarsen),
            rollup.prop_map(|(code, is_lean, left_out)| JobKind::RollUp(Rollup {
                resolution: Resolution::from_code(code).unwrap(),
                is_lean,
                left_out,
            })),
        ]
    }

    fn any_phase() -> impl Strategy<Value = Phase> {
        prop_oneof![
            any::<u32>().prop_map(|next_id| Phase::Series { next_id }),
            prop::collection::vec(any::<u8>(), 0..300).prop_map(|after| Phase::Index { after }),
            any::<u32>().prop_map(|next_id| Phase::Samples { next_id }),
            Just(Phase::Verify),
        ]
    }

    fn any_counts() -> impl Strategy<Value = Counts> {
        let numbers = prop::array::uniform10(any::<u64>());
        (numbers, any::<(bool, i64, i64)>()).prop_map(|(n, (starts, min, max))| Counts {
            has_start_timestamps: starts,
            series: n[0],
            labels: n[1],
            postings: n[2],
            floats_read: n[3],
            floats: n[4],
            histograms: n[5],
            exemplars: n[6],
            bytes_read: n[7],
            bytes_written: n[8],
            records: n[9],
            min_timestamp_ms: min,
            max_timestamp_ms: max,
            ..Counts::default()
        })
    }

    proptest! {
        #[test]
        fn jobs_round_trip(
            target in (1u8..=15, any::<u32>()),
            sources in prop::collection::vec((1u8..=15, any::<u32>(), any::<u128>()), 0..20),
            phase in any_phase(),
            mut counts in any_counts(),
            kind in any_kind(),
            windows in any::<(u64, u64)>(),
        ) {
            let source = |(exponent, start, meta_hash)| JobSource {
                bucket: bucket(exponent, start),
                meta_hash,
            };
            if kind != JobKind::Coarsen {
                (counts.windows, counts.histogram_windows) = windows;
            }
            let job = Job {
                kind,
                target: bucket(target.0, target.1),
                sources: sources.into_iter().map(source).collect(),
                phase,
                counts,
            };
            prop_assert_eq!(decode(&encode(&job)), Ok(job));
        }

        #[test]
        fn any_bytes_are_a_job_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
