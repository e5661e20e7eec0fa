//! Regexes that were compiled a moment ago.
//!
//! A dashboard sends the same patterns every few seconds, and compiling one takes longer than most
//! of its queries.

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use lru::LruCache;
use parking_lot::Mutex;
use regex::{Error, Regex, RegexBuilder};

/// Patterns that are remembered.
const PATTERNS_MAX: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// What a pattern may take, compiled, to be remembered.
const REMEMBERED_BYTES_MAX: usize = 128 << 10;

static RECENT: LazyLock<Recent> = LazyLock::new(Recent::new);

/// Compiles a pattern, or finds it compiled. A pattern that takes more than `bytes_max` is an
/// error.
pub(super) fn compile(pattern: String, bytes_max: usize) -> Result<Regex, Error> {
    RECENT.compile(pattern, bytes_max)
}

struct Recent(Mutex<LruCache<String, Regex>>);

impl Recent {
    fn new() -> Self {
        Self(Mutex::new(LruCache::new(PATTERNS_MAX)))
    }

    fn compile(&self, pattern: String, bytes_max: usize) -> Result<Regex, Error> {
        if let Some(regex) = self.0.lock().get(&pattern) {
            return Ok(regex.clone());
        }
        let build = |bytes_max| RegexBuilder::new(&pattern).size_limit(bytes_max).build();
        match build(REMEMBERED_BYTES_MAX) {
            Ok(regex) => {
                self.0.lock().put(pattern, regex.clone());
                Ok(regex)
            }
            Err(Error::CompiledTooBig(_)) => build(bytes_max),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_patterns_are_remembered() {
        let recent = Recent::new();
        let (small, large, invalid) = ("x(.*)", r"x\w{200}", "x(");
        let remembered = |pattern| recent.0.lock().contains(pattern);
        for _ in 0..2 {
            assert!(
                recent
                    .compile(small.into(), 8 << 20)
                    .unwrap()
                    .is_match("x1")
            );
            assert!(remembered(small));
            assert!(recent.compile(large.into(), 64 << 20).is_ok());
            assert!(!remembered(large));
            assert!(recent.compile(large.into(), 1 << 20).is_err());
            assert!(recent.compile(invalid.into(), 8 << 20).is_err());
            assert!(!remembered(invalid));
        }
    }

    #[test]
    fn the_longest_unused_is_forgotten() {
        let recent = Recent::new();
        for i in 0..=PATTERNS_MAX.get() {
            recent.compile(i.to_string(), 8 << 20).unwrap();
            recent.compile("0".into(), 8 << 20).unwrap();
        }
        let patterns = recent.0.lock();
        assert_eq!(patterns.len(), PATTERNS_MAX.get());
        assert!(patterns.contains("0") && !patterns.contains("1"));
    }
}
