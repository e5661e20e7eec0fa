//! The state of retention: what it takes for the time of day, and up to where each level has been
//! given up.
//!
//! ```text
//! version u8 = 1 | zigzag clock in milliseconds
//! | varint count, levels: (resolution u8 | zigzag watermark in milliseconds)*
//! ```
//!
//! Holds always:
//! - Levels are in the order of their resolution, each of them once.
//! - Watermarks only rise ([`RetentionState::raise_watermark`]): what lies before one is gone, and
//!   comes back neither with a changed policy nor with a changed clock.

use icecore_model::rollup::Resolution;
use icecore_model::varint::{push_varint, push_zigzag};

use crate::DecodeError;
use crate::reader::Reader;

const RECORD: &str = "RetentionState";
const VERSION: u8 = 1;

/// Bytes of a level, at least.
const LEVEL_LEN: usize = 2;

/// Nothing is given up.
pub const NO_WATERMARK: i64 = i64::MIN;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionState {
    /// What retention took for the time of day when this was written; 0 if it never did.
    pub clock_ms: i64,
    levels: Vec<Level>,
}

/// What is known of one resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    pub resolution: Resolution,
    /// Samples before this time are not kept at this level.
    pub watermark_ms: i64,
}

impl RetentionState {
    /// In the order of resolution.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// [`NO_WATERMARK`] where nothing was given up.
    pub fn watermark_ms(&self, resolution: Resolution) -> i64 {
        let level = self.levels.iter().find(|l| l.resolution == resolution);
        level.map_or(NO_WATERMARK, |level| level.watermark_ms)
    }

    /// Raises the watermark of a level; a lower one changes nothing. Returns whether it rose.
    pub fn raise_watermark(&mut self, resolution: Resolution, watermark_ms: i64) -> bool {
        if watermark_ms <= self.watermark_ms(resolution) {
            return false;
        }
        let place = self.levels.partition_point(|l| l.resolution < resolution);
        let level = Level {
            resolution,
            watermark_ms,
        };
        match self.levels.get_mut(place) {
            Some(known) if known.resolution == resolution => *known = level,
            _ => self.levels.insert(place, level),
        }
        true
    }
}

pub fn encode(state: &RetentionState) -> Vec<u8> {
    let mut value = vec![VERSION];
    push_zigzag(&mut value, state.clock_ms);
    push_varint(&mut value, state.levels.len() as u64);
    for level in &state.levels {
        value.push(level.resolution.code());
        push_zigzag(&mut value, level.watermark_ms);
    }
    value
}

pub fn decode(value: &[u8]) -> Result<RetentionState, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    reader.version(VERSION)?;
    let mut state = RetentionState {
        clock_ms: reader.zigzag()?,
        levels: Vec::new(),
    };
    for _ in 0..reader.count(LEVEL_LEN)? {
        let resolution = Resolution::from_code(reader.u8()?);
        let resolution = resolution.ok_or_else(|| reader.error("unknown resolution"))?;
        let last = state.levels.last();
        if last.is_some_and(|last| last.resolution >= resolution) {
            return Err(reader.error("levels are not in order"));
        }
        state.levels.push(Level {
            resolution,
            watermark_ms: reader.zigzag()?,
        });
    }
    reader.finish()?;
    Ok(state)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn watermarks_rise() {
        let mut state = RetentionState::default();
        let (five, hour) = (Resolution::FIVE_MINUTES, Resolution::HOUR);
        assert_eq!(state.watermark_ms(five), NO_WATERMARK);
        assert!(state.raise_watermark(hour, -5));
        assert!(state.raise_watermark(five, 700) && !state.raise_watermark(five, 600));
        assert!(!state.raise_watermark(five, 700));
        assert!(state.raise_watermark(Resolution::RAW, 900));
        let order: Vec<Resolution> = state.levels().iter().map(|l| l.resolution).collect();
        assert_eq!(order, [Resolution::RAW, five, hour]);
        assert_eq!(state.watermark_ms(five), 700);
        let before = state.clone();
        assert!(!state.raise_watermark(Resolution::from_code(1).unwrap(), NO_WATERMARK));
        assert_eq!(state, before);
    }

    #[test]
    fn broken_rules_are_errors() {
        let reason = |value: &[u8]| decode(value).unwrap_err().reason;
        assert_eq!(reason(&[1, 0, 2, 6, 0, 3, 0]), "levels are not in order");
        assert_eq!(reason(&[1, 0, 1, 11, 0]), "unknown resolution");
        assert_eq!(reason(&[1, 0, 200, 1, 0]), "more elements than bytes");
        assert_eq!(reason(&[2, 0, 0]), "unknown version");
    }

    proptest! {
        #[test]
        fn states_round_trip(
            clock_ms in any::<i64>(),
            levels in prop::collection::vec((0u8..=10, any::<i64>()), 0..20),
        ) {
            let mut state = RetentionState { clock_ms, ..RetentionState::default() };
            for (code, watermark_ms) in levels {
                let resolution = Resolution::from_code(code).unwrap();
                let before = state.watermark_ms(resolution);
                state.raise_watermark(resolution, watermark_ms);
                prop_assert_eq!(state.watermark_ms(resolution), before.max(watermark_ms));
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
