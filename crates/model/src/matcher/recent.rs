//! Compiling regexes, and those that were compiled a moment ago.
//!
//! A dashboard sends the same patterns every few seconds, and compiling one takes longer than most
//! of its queries.

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use lru::LruCache;
use parking_lot::Mutex;
use regex::{Error, Regex, RegexBuilder};

/// Most memory that an automaton of a pattern may take. A counted repetition of a large class
/// reaches it.
pub(super) const MAX_COMPILED_BYTES: usize = 8 << 20;

/// Limits of an automaton that are tried one after the other. `regex` does not tell how much memory
/// it takes, so that a pattern counts for the first limit that admits it. Each is four times the
/// one before: builds that fail take a third of the time of the one that succeeds.
const AUTOMATON_BYTES: [usize; 6] = [
    8 << 10,
    32 << 10,
    128 << 10,
    512 << 10,
    2 << 20,
    MAX_COMPILED_BYTES,
];

/// Most memory for the states that a search has met, the default of `regex`.
const CACHE_BYTES_MAX: usize = 2 << 20;

/// Patterns that are remembered.
const PATTERNS_MAX: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// The largest limit of an automaton whose pattern is remembered.
const REMEMBERED_BYTES_MAX: usize = 128 << 10;

static RECENT: LazyLock<Recent> = LazyLock::new(Recent::new);

/// A compiled regex that knows its size.
#[derive(Clone)]
pub(super) struct Compiled {
    pub(super) regex: Regex,
    automaton_bytes_max: usize,
}

impl Compiled {
    fn build(pattern: &str) -> Result<Self, Error> {
        for automaton_bytes_max in AUTOMATON_BYTES {
            let built = RegexBuilder::new(pattern)
                .size_limit(automaton_bytes_max)
                .dfa_size_limit(cache_bytes_max(automaton_bytes_max))
                .build();
            match built {
                Ok(regex) => {
                    return Ok(Self {
                        regex,
                        automaton_bytes_max,
                    });
                }
                Err(Error::CompiledTooBig(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::CompiledTooBig(MAX_COMPILED_BYTES))
    }

    /// Most bytes held once the regex has been used. The limit holds for each automaton, and there
    /// are two, one of which reads backwards. The working space of searches takes as much as both
    /// of them, besides the cache of states.
    pub(super) fn heap_bytes(&self) -> usize {
        4 * self.automaton_bytes_max + cache_bytes_max(self.automaton_bytes_max)
    }

    /// Bytes held for this user of the pattern alone: none if the next one gets the same regex.
    pub(super) fn unshared_bytes(&self) -> usize {
        if self.is_remembered() {
            0
        } else {
            self.heap_bytes()
        }
    }

    fn is_remembered(&self) -> bool {
        self.automaton_bytes_max <= REMEMBERED_BYTES_MAX
    }
}

/// Room for the states of a search. Sixteen automata are enough: a value of a label meets few of
/// the states that a pattern has.
fn cache_bytes_max(automaton_bytes_max: usize) -> usize {
    CACHE_BYTES_MAX.min(16 * automaton_bytes_max)
}

/// Compiles a pattern, or finds it compiled. A pattern whose automata take more than
/// [`MAX_COMPILED_BYTES`] is an error.
pub(super) fn compile(pattern: String) -> Result<Compiled, Error> {
    RECENT.compile(pattern)
}

struct Recent(Mutex<LruCache<String, Compiled>>);

impl Recent {
    fn new() -> Self {
        Self(Mutex::new(LruCache::new(PATTERNS_MAX)))
    }

    fn compile(&self, pattern: String) -> Result<Compiled, Error> {
        if let Some(compiled) = self.0.lock().get(&pattern) {
            return Ok(compiled.clone());
        }
        let compiled = Compiled::build(&pattern)?;
        if compiled.is_remembered() {
            self.0.lock().put(pattern, compiled.clone());
        }
        Ok(compiled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_patterns_are_remembered() {
        let recent = Recent::new();
        let (small, large, invalid) = ("x(.*)", r"x\w{20}", "x(");
        let remembered = |pattern| recent.0.lock().contains(pattern);
        for _ in 0..2 {
            let compiled = recent.compile(small.into()).unwrap();
            assert!(compiled.is_remembered() && compiled.regex.is_match("x1"));
            assert!(remembered(small));
            assert!(!recent.compile(large.into()).unwrap().is_remembered());
            assert!(!remembered(large));
            assert!(recent.compile(invalid.into()).is_err());
            assert!(!remembered(invalid));
        }
    }

    #[test]
    fn sizes_grow_with_the_automaton() {
        let compiled = |count: usize| Compiled::build(&format!(r"x\w{{{count}}}")).unwrap();
        let sizes = [0, 1, 10, 50].map(|count| compiled(count).heap_bytes());
        assert!(sizes.is_sorted_by(|a, b| a < b), "{sizes:?}");
        assert_eq!(sizes[0], 20 * AUTOMATON_BYTES[0]);
        let refused = Compiled::build(r"(\w{100}){10}").err();
        assert_eq!(refused, Some(Error::CompiledTooBig(MAX_COMPILED_BYTES)));
    }

    #[test]
    fn the_longest_unused_is_forgotten() {
        let recent = Recent::new();
        for i in 0..=PATTERNS_MAX.get() {
            recent.compile(i.to_string()).unwrap();
            recent.compile("0".into()).unwrap();
        }
        let patterns = recent.0.lock();
        assert_eq!(patterns.len(), PATTERNS_MAX.get());
        assert!(patterns.contains("0") && !patterns.contains("1"));
    }
}
