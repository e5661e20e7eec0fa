//! The state of retention: which policy is applied, which bucket sizes belong to which level, and
//! up to where each level has been given up.
//!
//! ```text
//! version u8 = 1 | varint policy version
//! | varint count, levels: (resolution u8 | bucket sizes u16 LE, bit n = exponent n
//!                          | zigzag watermark in milliseconds)*
//! ```
//!
//! Holds always:
//! - Levels are in the order of their resolution, each of them once; a bucket size belongs to one
//!   level at most. So a size and a start say at which resolution a bucket is.
//! - Watermarks only rise ([`RetentionState::raise_watermark`]): what lies before one has been
//!   promised to be gone, and comes back neither with a changed policy nor with a changed clock.

use icecore_model::BucketSize;
use icecore_model::rollup::Resolution;
use icecore_model::varint::{push_varint, push_zigzag};

use crate::DecodeError;
use crate::reader::Reader;

const RECORD: &str = "RetentionState";
const VERSION: u8 = 1;

/// Bytes of a level, at least.
const LEVEL_LEN: usize = 4;

/// Nothing is given up.
pub const NO_WATERMARK: i64 = i64::MIN;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionState {
    /// Counts the policies that were applied.
    pub policy_version: u32,
    levels: Vec<Level>,
}

/// What is known of one resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    pub resolution: Resolution,
    /// The sizes of its buckets.
    pub sizes: BucketSizes,
    /// Samples before this time are not kept at this level.
    pub watermark_ms: i64,
}

/// A set of bucket sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketSizes(u16);

impl BucketSizes {
    pub fn contains(self, size: BucketSize) -> bool {
        self.0 >> size.exponent() & 1 != 0
    }

    /// In the order of size.
    pub fn iter(self) -> impl Iterator<Item = BucketSize> {
        (1..=15)
            .filter_map(BucketSize::from_exponent)
            .filter(move |size| self.contains(*size))
    }

    fn is_disjoint(self, other: Self) -> bool {
        self.0 & other.0 == 0
    }
}

impl FromIterator<BucketSize> for BucketSizes {
    fn from_iter<T: IntoIterator<Item = BucketSize>>(sizes: T) -> Self {
        let bits = sizes.into_iter().map(|size| 1 << size.exponent());
        Self(bits.fold(0, |all, bit: u16| all | bit))
    }
}

impl RetentionState {
    /// In the order of resolution.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    pub fn level(&self, resolution: Resolution) -> Option<&Level> {
        self.levels
            .iter()
            .find(|level| level.resolution == resolution)
    }

    /// The resolution of buckets of a size; `None` where no level has any.
    pub fn resolution_of(&self, size: BucketSize) -> Option<Resolution> {
        let level = self.levels.iter().find(|level| level.sizes.contains(size));
        level.map(|level| level.resolution)
    }

    /// [`NO_WATERMARK`] where nothing was given up.
    pub fn watermark_ms(&self, resolution: Resolution) -> i64 {
        self.level(resolution)
            .map_or(NO_WATERMARK, |level| level.watermark_ms)
    }

    /// Gives sizes to a level, which keeps its watermark. Returns whether they are its own now:
    /// they are not where another level has one of them.
    pub fn assign(&mut self, resolution: Resolution, sizes: BucketSizes) -> bool {
        let mut others = self.levels.iter();
        let is_free =
            others.all(|level| level.resolution == resolution || level.sizes.is_disjoint(sizes));
        if is_free {
            self.entry(resolution).sizes = sizes;
        }
        is_free
    }

    /// Raises the watermark of a level; a lower one changes nothing. Returns whether it rose.
    pub fn raise_watermark(&mut self, resolution: Resolution, watermark_ms: i64) -> bool {
        if watermark_ms <= self.watermark_ms(resolution) {
            return false;
        }
        self.entry(resolution).watermark_ms = watermark_ms;
        true
    }

    fn entry(&mut self, resolution: Resolution) -> &mut Level {
        let place = self
            .levels
            .partition_point(|level| level.resolution < resolution);
        if self.level(resolution).is_none() {
            self.levels.insert(
                place,
                Level {
                    resolution,
                    sizes: BucketSizes::default(),
                    watermark_ms: NO_WATERMARK,
                },
            );
        }
        &mut self.levels[place]
    }
}

pub fn encode(state: &RetentionState) -> Vec<u8> {
    let mut value = vec![VERSION];
    push_varint(&mut value, state.policy_version.into());
    push_varint(&mut value, state.levels.len() as u64);
    for level in &state.levels {
        value.push(level.resolution.code());
        value.extend_from_slice(&level.sizes.0.to_le_bytes());
        push_zigzag(&mut value, level.watermark_ms);
    }
    value
}

pub fn decode(value: &[u8]) -> Result<RetentionState, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    reader.version(VERSION)?;
    let mut state = RetentionState {
        policy_version: reader.varint32()?,
        levels: Vec::new(),
    };
    for _ in 0..reader.count(LEVEL_LEN)? {
        let resolution = Resolution::from_code(reader.u8()?);
        let resolution = resolution.ok_or_else(|| reader.error("unknown resolution"))?;
        let last = state.levels.last();
        if last.is_some_and(|last| last.resolution >= resolution) {
            return Err(reader.error("levels are not in order"));
        }
        let sizes = BucketSizes(reader.u16()?);
        if sizes.0 & 1 != 0 {
            return Err(reader.error("bucket size is not between 1 and 15"));
        }
        let watermark_ms = reader.zigzag()?;
        if !state.assign(resolution, sizes) {
            return Err(reader.error("a bucket size of two levels"));
        }
        state.entry(resolution).watermark_ms = watermark_ms;
    }
    reader.finish()?;
    Ok(state)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sizes(exponents: &[u8]) -> BucketSizes {
        let size = |exponent: &u8| BucketSize::from_exponent(*exponent).unwrap();
        exponents.iter().map(size).collect()
    }

    #[test]
    fn watermarks_rise_and_sizes_have_one_level() {
        let mut state = RetentionState::default();
        let (five, hour) = (Resolution::FIVE_MINUTES, Resolution::HOUR);
        assert!(state.assign(hour, sizes(&[8, 11])));
        assert!(state.assign(Resolution::RAW, sizes(&[1, 3, 5])));
        assert!(!state.assign(five, sizes(&[6, 11])) && state.level(five).is_none());
        assert!(state.assign(five, sizes(&[6])));
        let order: Vec<Resolution> = state.levels().iter().map(|l| l.resolution).collect();
        assert_eq!(order, [Resolution::RAW, five, hour]);
        let size = |exponent| BucketSize::from_exponent(exponent).unwrap();
        assert_eq!(state.resolution_of(size(11)), Some(hour));
        assert_eq!(state.resolution_of(size(2)), None);
        let exponents: Vec<u8> = sizes(&[11, 8]).iter().map(BucketSize::exponent).collect();
        assert_eq!(exponents, [8, 11]);

        assert_eq!(state.watermark_ms(five), NO_WATERMARK);
        assert!(state.raise_watermark(five, 700) && !state.raise_watermark(five, 600));
        assert!(!state.raise_watermark(five, 700));
        assert!(state.assign(five, sizes(&[7])), "other sizes");
        assert_eq!(state.watermark_ms(five), 700);
        let before = state.clone();
        assert!(!state.raise_watermark(Resolution::from_code(1).unwrap(), NO_WATERMARK));
        assert_eq!(state, before);
    }

    #[test]
    fn broken_rules_are_errors() {
        let reason = |value: &[u8]| decode(value).unwrap_err().reason;
        assert_eq!(
            reason(&[1, 0, 2, 6, 0, 1, 0, 3, 0, 2, 0]),
            "levels are not in order"
        );
        assert_eq!(
            reason(&[1, 0, 2, 3, 0, 1, 0, 6, 0, 3, 0]),
            "a bucket size of two levels"
        );
        assert_eq!(reason(&[1, 0, 1, 11, 0, 1, 0]), "unknown resolution");
        assert_eq!(
            reason(&[1, 0, 1, 3, 1, 0, 0]),
            "bucket size is not between 1 and 15"
        );
        assert_eq!(reason(&[1, 0, 200, 1, 0]), "more elements than bytes");
        assert_eq!(reason(&[2, 0, 0]), "unknown version");
    }

    proptest! {
        #[test]
        fn states_round_trip(
            policy_version in any::<u32>(),
            levels in prop::collection::vec((0u8..=10, any::<u16>(), any::<i64>()), 0..20),
        ) {
            let mut state = RetentionState { policy_version, ..RetentionState::default() };
            for (code, bits, watermark_ms) in levels {
                let resolution = Resolution::from_code(code).unwrap();
                state.assign(resolution, BucketSizes(bits & !1));
                let before = state.watermark_ms(resolution);
                state.raise_watermark(resolution, watermark_ms);
                prop_assert!(state.watermark_ms(resolution) >= before);
            }
            let value = encode(&state);
            prop_assert_eq!(decode(&value), Ok(state));
            for end in 0..value.len() {
                prop_assert!(decode(&value[..end]).is_err(), "cut at {}", end);
            }
            prop_assert!(decode(&[&value[..], &[0]].concat()).is_err());
        }

        #[test]
        fn any_bytes_are_a_state_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(state) = decode(&[&[VERSION], &bytes[..]].concat()) {
                prop_assert_eq!(decode(&encode(&state)), Ok(state));
            }
        }
    }
}
