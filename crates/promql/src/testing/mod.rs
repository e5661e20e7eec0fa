//! Random queries for tests: differential runs, fuzzing.
//!
//! ```text
//! seed, Vocabulary, Language ─► QueryGenerator ─ query() ─► text of a well-typed expression
//! ```
//!
//! Holds always:
//! - A seed decides every query that follows.
//! - Every query parses in the language that was asked for; whether it can be answered is another
//!   matter, because joins may find two partners and parameters may be out of range.
//! - Usual shapes are frequent: sums of rates, joins by the labels both sides have, quantiles of
//!   histograms. Pure chance over the grammar would hardly ever write them.

mod calls;
mod durations;
mod joins;
mod random;
mod scalars;
mod selectors;
mod vectors;

#[cfg(test)]
mod tests;

pub use random::Random;

/// Which language the queries are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// What Prometheus 2.42 knows, without the few words whose meaning has changed since.
    Prometheus2,
    /// All of Prometheus 3.14, every experimental part included.
    Everything,
}

/// What the samples of a metric are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    Counter,
    Gauge,
    /// The buckets of a classic histogram, with a label `le`.
    Buckets,
    NativeHistogram,
}

/// What queries may speak about.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    pub metrics: Vec<(String, MetricKind)>,
    /// Names of labels and values they have.
    pub labels: Vec<(String, Vec<String>)>,
    /// Times in seconds that `@` may name.
    pub times: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub language: Language,
    /// How many expressions may lie in one another, beyond the few of a usual shape.
    pub depth: usize,
    /// Whether numbers and durations are often at the edge of what can be written.
    pub hostile: bool,
}

/// Writes queries.
#[derive(Clone, Debug)]
pub struct QueryGenerator {
    random: Random,
    vocabulary: Vocabulary,
    options: Options,
}

impl QueryGenerator {
    pub fn new(seed: u64, vocabulary: Vocabulary, options: Options) -> Self {
        Self {
            random: Random::new(seed),
            vocabulary,
            options,
        }
    }

    /// A query that has a vector or a scalar as its answer, so that it may be asked for a range too.
    pub fn query(&mut self) -> String {
        let depth = self.options.depth;
        if self.random.one_in(25) {
            self.scalar(depth)
        } else {
            self.vector(depth)
        }
    }

    /// A query that has a range vector as its answer, for instant queries only.
    pub fn range_query(&mut self) -> String {
        if self.random.one_in(3) {
            self.subquery(1)
        } else {
            self.range_selector(None)
        }
    }

    fn knows_everything(&self) -> bool {
        self.options.language == Language::Everything
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        self.random.pick(from)
    }
}
