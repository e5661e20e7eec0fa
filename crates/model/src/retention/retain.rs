//! How long something is kept.
//!
//! Holds always: what is displayed is parsed as the same time.

use std::fmt;
use std::str::FromStr;

use crate::{DurationError, format_duration_ms, parse_duration_ms};

/// How long a level is kept. A longer time is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retention {
    /// Milliseconds; 0 for a level that is not kept.
    For(i64),
    Forever,
}

impl Retention {
    pub const NOT_KEPT: Self = Self::For(0);

    pub fn is_not_kept(self) -> bool {
        self == Self::NOT_KEPT
    }

    /// `None` for ever.
    pub fn ms(self) -> Option<i64> {
        match self {
            Self::For(ms) => Some(ms),
            Self::Forever => None,
        }
    }
}

/// A duration, `0` or `inf`.
impl FromStr for Retention {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        match text {
            "inf" => Ok(Self::Forever),
            "0" => Ok(Self::NOT_KEPT),
            _ => parse_duration_ms(text).map(Self::For),
        }
    }
}

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forever => f.write_str("inf"),
            Self::For(0) => f.write_str("0"),
            Self::For(ms) => f.write_str(&format_duration_ms(*ms)),
        }
    }
}
