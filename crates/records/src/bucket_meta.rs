//! BucketMeta: what is known about a bucket as a whole.
//!
//! ```text
//! version u8 = 1 | state u8 | flags u8 | varint resolution, next series id
//! | varint count, run starts (each as difference to the one before)
//! | varint count, dirty hours (same) | varint floats, histograms, exemplars
//! | zigzag first and last timestamp
//! | rolled up: varint windows, histogram windows | resolution of the sources u8
//!     | if it says what was left out: varint count, hashes u64, ascending
//! ```
//!
//! Written with put by the bucket's single writer; never merged.

use std::collections::BTreeSet;

use icecore_model::rollup::Resolution;
use icecore_model::varint::{push_varint, push_zigzag};

use crate::reader::Reader;
use crate::{DecodeError, SeriesId};

const RECORD: &str = "BucketMeta";
const VERSION: u8 = 1;
const HAS_HISTOGRAMS: u8 = 1;
const HAS_START_TIMESTAMPS: u8 = 2;
const IS_LEAN: u8 = 4;
const SOURCES_GONE: u8 = 8;
const IS_OVERLAY: u8 = 16;
const SAYS_LEFT_OUT: u8 = 32;
const STANDS_IN: u8 = 64;
const FLAGS: u8 = HAS_HISTOGRAMS
    | HAS_START_TIMESTAMPS
    | IS_LEAN
    | SOURCES_GONE
    | IS_OVERLAY
    | SAYS_LEFT_OUT
    | STANDS_IN;

/// What has been done to a bucket's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BucketState {
    /// Samples as they came.
    #[default]
    Raw = 0,
    /// Windows of samples.
    RolledUp = 1,
}

impl BucketState {
    fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Raw),
            1 => Some(Self::RolledUp),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketMeta {
    /// Width of a rollup window; 0 for raw samples.
    pub resolution_ms: u32,
    /// Rolled up if there is a width, and only then.
    pub state: BucketState,
    /// The first id that is still free.
    pub next_series_id: u32,
    /// Ids are in label order within a run; the first id of each run, ascending.
    pub run_starts: Vec<SeriesId>,
    /// Hours (start minutes, ascending) that got samples after the bucket was rolled up.
    pub dirty_hours: Vec<u32>,
    pub float_samples: u64,
    pub histogram_samples: u64,
    pub exemplars: u64,
    pub has_histograms: bool,
    pub has_start_timestamps: bool,
    pub min_timestamp_ms: i64,
    pub max_timestamp_ms: i64,
    /// An overlay: raw samples that came after those of their time had gone. They wait to be merged
    /// into its windows.
    pub is_overlay: bool,
    /// All 0 for raw samples.
    pub rollup: RollupMeta,
}

/// What is known about windows. The counts of samples are those that the windows stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RollupMeta {
    /// Of floats.
    pub windows: u64,
    pub histogram_windows: u64,
    /// Without squared deviations and changes.
    pub is_lean: bool,
    /// What they were made of, or could be made of again.
    pub source: Resolution,
    /// The sources have been culled: the windows are all that is left.
    pub sources_gone: bool,
    /// Hashes of the groups of series that were left out; what they are hashes of is up to the
    /// writer. `None`: written before this was noted.
    pub left_out: Option<BTreeSet<u64>>,
    /// They have late samples of series that only finer levels keep, and stand in for those.
    pub stands_in: bool,
}

impl BucketMeta {
    /// `None` for a width that windows cannot have.
    pub fn resolution(&self) -> Option<Resolution> {
        Resolution::from_ms(self.resolution_ms.into())
    }

    /// Why it cannot be.
    fn contradiction(&self) -> Option<&'static str> {
        let is_rolled_up = self.state == BucketState::RolledUp;
        if self.resolution().is_none() {
            return Some("unknown resolution");
        }
        if is_rolled_up != (self.resolution_ms != 0) {
            return Some("state and resolution do not match");
        }
        if !is_rolled_up && self.rollup != RollupMeta::default() {
            return Some("windows of raw samples");
        }
        if is_rolled_up && self.is_overlay {
            return Some("an overlay of windows");
        }
        let is_coarser = Some(self.rollup.source) < self.resolution();
        (is_rolled_up && !is_coarser).then_some("windows of what is not finer")
    }
}

/// # Panics
/// When the resolution is none, or does not go with the state or the windows.
pub fn encode(meta: &BucketMeta) -> Vec<u8> {
    assert_eq!(meta.contradiction(), None);
    let mut value = vec![VERSION, meta.state as u8, flags(meta)];
    push_varint(&mut value, meta.resolution_ms.into());
    push_varint(&mut value, meta.next_series_id.into());
    push_ascending(&mut value, meta.run_starts.iter().map(|id| id.0));
    push_ascending(&mut value, meta.dirty_hours.iter().copied());
    push_varint(&mut value, meta.float_samples);
    push_varint(&mut value, meta.histogram_samples);
    push_varint(&mut value, meta.exemplars);
    push_zigzag(&mut value, meta.min_timestamp_ms);
    push_zigzag(&mut value, meta.max_timestamp_ms);
    if meta.state == BucketState::RolledUp {
        push_varint(&mut value, meta.rollup.windows);
        push_varint(&mut value, meta.rollup.histogram_windows);
        value.push(meta.rollup.source.code());
        if let Some(left_out) = &meta.rollup.left_out {
            push_varint(&mut value, left_out.len() as u64);
            for group in left_out {
                value.extend_from_slice(&group.to_le_bytes());
            }
        }
    }
    value
}

pub fn decode(value: &[u8]) -> Result<BucketMeta, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    reader.version(VERSION)?;
    let state = BucketState::from_number(reader.u8()?);
    let state = state.ok_or_else(|| reader.error("unknown bucket state"))?;
    let flags = reader.u8()?;
    if flags & !FLAGS != 0 {
        return Err(reader.error("unknown flags"));
    }
    let mut meta = BucketMeta {
        state,
        has_histograms: flags & HAS_HISTOGRAMS != 0,
        has_start_timestamps: flags & HAS_START_TIMESTAMPS != 0,
        resolution_ms: reader.varint32()?,
        next_series_id: reader.varint32()?,
        run_starts: read_ascending(&mut reader)?
            .into_iter()
            .map(SeriesId)
            .collect(),
        dirty_hours: read_ascending(&mut reader)?,
        float_samples: reader.varint()?,
        histogram_samples: reader.varint()?,
        exemplars: reader.varint()?,
        min_timestamp_ms: reader.zigzag()?,
        max_timestamp_ms: reader.zigzag()?,
        is_overlay: flags & IS_OVERLAY != 0,
        rollup: RollupMeta {
            is_lean: flags & IS_LEAN != 0,
            sources_gone: flags & SOURCES_GONE != 0,
            stands_in: flags & STANDS_IN != 0,
            ..RollupMeta::default()
        },
    };
    if state == BucketState::RolledUp {
        meta.rollup.windows = reader.varint()?;
        meta.rollup.histogram_windows = reader.varint()?;
        let source = Resolution::from_code(reader.u8()?);
        meta.rollup.source = source.ok_or_else(|| reader.error("unknown resolution of sources"))?;
    }
    if flags & SAYS_LEFT_OUT != 0 {
        if state != BucketState::RolledUp {
            return Err(reader.error("windows of raw samples"));
        }
        meta.rollup.left_out = Some(read_left_out(&mut reader)?);
    }
    if let Some(reason) = meta.contradiction() {
        return Err(reader.error(reason));
    }
    reader.finish()?;
    Ok(meta)
}

fn flags(meta: &BucketMeta) -> u8 {
    let bit = |is_set, flag| if is_set { flag } else { 0 };
    bit(meta.has_histograms, HAS_HISTOGRAMS)
        | bit(meta.has_start_timestamps, HAS_START_TIMESTAMPS)
        | bit(meta.rollup.is_lean, IS_LEAN)
        | bit(meta.rollup.sources_gone, SOURCES_GONE)
        | bit(meta.is_overlay, IS_OVERLAY)
        | bit(meta.rollup.left_out.is_some(), SAYS_LEFT_OUT)
        | bit(meta.rollup.stands_in, STANDS_IN)
}

fn read_left_out(reader: &mut Reader<'_>) -> Result<BTreeSet<u64>, DecodeError> {
    let count = reader.count(size_of::<u64>())?;
    let mut left_out = BTreeSet::new();
    for _ in 0..count {
        let group = reader.u64()?;
        if left_out.last().is_some_and(|last| *last >= group) {
            return Err(reader.error("hashes do not ascend"));
        }
        left_out.insert(group);
    }
    Ok(left_out)
}

fn push_ascending(buffer: &mut Vec<u8>, numbers: impl ExactSizeIterator<Item = u32>) {
    push_varint(buffer, numbers.len() as u64);
    let mut previous = 0;
    for number in numbers {
        assert!(number >= previous, "numbers must ascend");
        push_varint(buffer, number.wrapping_sub(previous).into());
        previous = number;
    }
}

fn read_ascending(reader: &mut Reader<'_>) -> Result<Vec<u32>, DecodeError> {
    let count = reader.count(1)?;
    let mut numbers = Vec::with_capacity(count);
    let mut previous = 0u32;
    for _ in 0..count {
        let number = previous.checked_add(reader.varint32()?);
        previous = number.ok_or_else(|| reader.error("number does not fit 32 bits"))?;
        numbers.push(previous);
    }
    Ok(numbers)
}
