//! The matchers of one query or request.
//!
//! A few bytes of a pattern become megabytes when they are compiled, and a query of the longest
//! length has room for tens of thousands of patterns. They are compiled while the text is parsed,
//! before anything else of the query is known, so that they have a limit of their own.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Inner, MatchOp, Matcher, MatcherError, Pattern};

/// Most bytes that the patterns of one request may take. Enough for a hundred regexes of the usual
/// size, or one of the largest.
pub(super) const MAX_REQUEST_BYTES: usize = 64 << 20;

/// Makes the matchers of one request. Memory of their patterns is bounded in sum; equal patterns
/// are one.
#[derive(Default)]
pub struct MatcherBudget {
    patterns: HashMap<String, Arc<Pattern>>,
    used_bytes: usize,
}

impl MatcherBudget {
    /// As [`Matcher::new`], but fails if the patterns take too much memory together.
    pub fn matcher(
        &mut self,
        op: MatchOp,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<Matcher, MatcherError> {
        let value = value.into();
        let pattern = match op {
            MatchOp::Equal | MatchOp::NotEqual => None,
            MatchOp::Regex | MatchOp::NotRegex => Some(self.pattern(&value)?),
        };
        Ok(Matcher(Arc::new(Inner {
            op,
            name: name.into(),
            value,
            pattern,
        })))
    }

    fn pattern(&mut self, text: &str) -> Result<Arc<Pattern>, MatcherError> {
        if let Some(pattern) = self.patterns.get(text) {
            return Ok(Arc::clone(pattern));
        }
        let pattern = Arc::new(Pattern::new(text)?);
        self.used_bytes += pattern.heap_bytes();
        if self.used_bytes > MAX_REQUEST_BYTES {
            return Err(MatcherError::TooManyLarge);
        }
        self.patterns.insert(text.to_owned(), Arc::clone(&pattern));
        Ok(pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of different patterns that one request may have, at most `max`.
    fn admitted(max: usize, pattern: impl Fn(usize) -> String) -> usize {
        let mut budget = MatcherBudget::default();
        let refused = (0..max).find(|number| {
            let made = budget.matcher(MatchOp::Regex, "a", pattern(*number));
            made.is_err_and(|error| error == MatcherError::TooManyLarge)
        });
        refused.unwrap_or(max)
    }

    #[test]
    fn patterns_are_bounded_in_sum() {
        let large = admitted(1000, |number| format!(r"\pL{{20}}{number}"));
        assert!((1..=64).contains(&large), "{large}");
        let small = admitted(1000, |number| format!("[a-z]+-x{number}"));
        assert!((100..=500).contains(&small), "{small}");
        // Values that are written out count, too: here more than a megabyte of them.
        let values = admitted(1000, |number| format!("(x{{1000}}){{100}}[a-p]{number}"));
        assert!((1..=64).contains(&values), "{values}");
        assert_eq!(admitted(1000, |number| format!("a|b|c{number}")), 1000);
        assert_eq!(admitted(1000, |number| format!(".*{number}.*")), 1000);
    }

    #[test]
    fn equal_patterns_are_one() {
        let pattern = r"\pL{20}x";
        assert_eq!(admitted(1000, |_| pattern.to_owned()), 1000);
        let mut budget = MatcherBudget::default();
        let mut matcher = |op, name| budget.matcher(op, name, pattern).unwrap();
        let (one, other) = (
            matcher(MatchOp::Regex, "a"),
            matcher(MatchOp::NotRegex, "b"),
        );
        let letters = format!("{}x", "ä".repeat(20));
        assert!(one.matches(&letters) && !other.matches(&letters));
        assert_eq!(one, Matcher::new(MatchOp::Regex, "a", pattern).unwrap());
        assert_eq!(
            other,
            Matcher::new(MatchOp::NotRegex, "b", pattern).unwrap()
        );
        let equal = budget.matcher(MatchOp::Equal, "a", "(").unwrap();
        assert_eq!(equal, Matcher::equal("a", "("));
        let error = budget.matcher(MatchOp::Regex, "a", "(").unwrap_err();
        assert!(matches!(error, MatcherError::Syntax { .. }));
    }
}
