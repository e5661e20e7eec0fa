//! Label matchers: one condition of a PromQL selector, `name="value"`, `!=`, `=~` or `!~`.
//!
//! ```text
//! pattern ─(go_syntax)─► regex-crate syntax ─(pattern)─► literals | glob | compiled regex
//! ```
//!
//! Holds always:
//! - A regex has the meaning it has in Prometheus 3: RE2 as Go writes it, anchored at both ends,
//!   and the dot matches a newline.
//! - An absent label has the empty value.
//! - A matcher is checked and compiled once, when it is made; cloning shares it.
//! - Time to match is linear in the value. Memory is bounded by the named limits of `pattern` and
//!   `recent` for one matcher, by that of `budget` for those of a request.

mod analysis;
mod anchored;
mod budget;
mod go_syntax;
mod pattern;
mod recent;

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::quote::{write_label_name, write_quoted};
pub use anchored::{AnchoredRegex, ExpansionTooLong};
use budget::MAX_REQUEST_BYTES;
pub use budget::MatcherBudget;
pub use pattern::MAX_PATTERN_BYTES;
use pattern::{MAX_PARSED_BYTES, Pattern, Shape};
use recent::MAX_COMPILED_BYTES;

/// How a matcher compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchOp {
    Equal,
    NotEqual,
    Regex,
    NotRegex,
}

impl fmt::Display for MatchOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Regex => "=~",
            Self::NotRegex => "!~",
        })
    }
}

/// One condition on one label.
#[derive(Clone)]
pub struct Matcher(Arc<Inner>);

struct Inner {
    op: MatchOp,
    name: String,
    value: String,
    /// Present for the two regex operators.
    pattern: Option<Arc<Pattern>>,
}

/// Why a regular expression cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MatcherError {
    #[error("error parsing regexp: {reason}: `{at}`")]
    Syntax { reason: String, at: String },
    #[error("regular expression is longer than {MAX_PATTERN_BYTES} bytes")]
    TooLong,
    #[error(
        "regular expression is longer than {MAX_PARSED_BYTES} bytes, and more than a list of values"
    )]
    TooComplex,
    #[error("regular expression takes more than {MAX_COMPILED_BYTES} bytes when compiled")]
    TooLarge,
    #[error(
        "the regular expressions of the request may take more than {MAX_REQUEST_BYTES} bytes when \
         compiled: use fewer or simpler ones, or send several requests"
    )]
    TooManyLarge,
}

impl MatcherError {
    /// Most bytes of a pattern that an error repeats: errors go to logs and clients.
    const MAX_QUOTED_BYTES: usize = 200;

    fn syntax(reason: &str, at: &str) -> Self {
        let mut quoted = at[..at.floor_char_boundary(Self::MAX_QUOTED_BYTES)].to_owned();
        if quoted.len() < at.len() {
            quoted.push('…');
        }
        Self::Syntax {
            reason: reason.to_owned(),
            at: quoted,
        }
    }
}

/// What a matcher means for a sorted list of values, so that it becomes lookups where it can. It
/// describes the positive set: for `!=` and `!~`, the values that are excluded. The empty value
/// stands for an absent label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueLookup<'a> {
    /// Exactly these values, sorted and unique (possibly none).
    Literals(&'a [String]),
    /// Every value of the set begins so; not every value that begins so is in the set.
    Prefix(&'a str),
    /// Every value, the empty one included.
    All,
    /// Every value but the empty one.
    NonEmpty,
    /// Nothing is known; each value has to be tried.
    Scan,
}

impl Matcher {
    pub fn new(
        op: MatchOp,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<Self, MatcherError> {
        let value = value.into();
        let pattern = match op {
            MatchOp::Equal | MatchOp::NotEqual => None,
            MatchOp::Regex | MatchOp::NotRegex => Some(Arc::new(Pattern::new(&value)?)),
        };
        let name = name.into();
        Ok(Self(Arc::new(Inner {
            op,
            name,
            value,
            pattern,
        })))
    }

    /// The matcher `name="value"`.
    pub fn equal(name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        Self(Arc::new(Inner {
            op: MatchOp::Equal,
            name,
            value,
            pattern: None,
        }))
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub fn op(&self) -> MatchOp {
        self.0.op
    }

    /// The value or the pattern, as it was given.
    pub fn value(&self) -> &str {
        &self.0.value
    }

    /// Whether a label value satisfies the matcher. An absent label is the empty value.
    pub fn matches(&self, value: &str) -> bool {
        self.in_positive_set(value) != self.is_negative()
    }

    /// Whether series without the label satisfy the matcher.
    pub fn matches_empty(&self) -> bool {
        self.matches("")
    }

    /// Whether the operator is `!=` or `!~`.
    pub fn is_negative(&self) -> bool {
        matches!(self.0.op, MatchOp::NotEqual | MatchOp::NotRegex)
    }

    /// The positive set as lookups, see [`ValueLookup`].
    pub fn lookup(&self) -> ValueLookup<'_> {
        let Some(pattern) = &self.0.pattern else {
            return ValueLookup::Literals(std::slice::from_ref(&self.0.value));
        };
        match pattern.shape() {
            Shape::Literals(literals) => ValueLookup::Literals(literals),
            Shape::Glob(glob) if glob.is_all() => ValueLookup::All,
            Shape::Glob(glob) if glob.is_non_empty() => ValueLookup::NonEmpty,
            shape => match shape.prefix() {
                "" => ValueLookup::Scan,
                prefix => ValueLookup::Prefix(prefix),
            },
        }
    }

    fn in_positive_set(&self, value: &str) -> bool {
        match &self.0.pattern {
            Some(pattern) => pattern.matches(value),
            None => self.0.value == value,
        }
    }
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.op(), self.name(), self.value()) == (other.op(), other.name(), other.value())
    }
}

impl Eq for Matcher {}

impl fmt::Display for Matcher {
    /// The way PromQL writes a matcher; names that are not plain words are quoted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_label_name(f, self.name())?;
        write!(f, "{}", self.op())?;
        write_quoted(f, self.value())
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests;
