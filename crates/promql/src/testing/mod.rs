//! Random queries for tests (differential runs, fuzzing), and a source of rolled-up samples.
//!
//! ```text
//! seed, Vocabulary, Language ─► QueryGenerator ─ query() ─► text of a well-typed expression
//! ```
//!
//! Holds always:
//! - The seed determines all queries.
//! - Every query parses in the requested language; its evaluation may fail, because joins may find
//!   two partners and parameters may be out of range.
//! - Usual shapes are frequent: sums of rates, joins by common labels, quantiles of histograms. A
//!   uniform choice over the grammar would hardly ever generate them.

mod calls;
mod durations;
mod joins;
mod random;
mod rolled;
mod scalars;
mod selectors;
mod vectors;

#[cfg(test)]
mod tests;

pub use random::Random;
pub use rolled::{KeptTime, RolledSource};

/// The language of the queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// That of Prometheus 2.42, without the few functions that have changed since.
    Prometheus2,
    /// All of Prometheus 3.15, every experimental part included.
    Everything,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    Counter,
    Gauge,
    /// The buckets of a classic histogram, with a label `le`.
    Buckets,
    NativeHistogram,
}

/// Metrics, labels and times for queries.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    pub metrics: Vec<(String, MetricKind)>,
    /// Labels with their values.
    pub labels: Vec<(String, Vec<String>)>,
    /// Times for `@` in seconds.
    pub times: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub language: Language,
    /// Most nested expressions, besides those of a usual shape.
    pub depth: usize,
    /// Whether numbers and durations are often extreme.
    pub hostile: bool,
}

/// Generates queries.
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

    /// A query for a vector or a scalar, which may also be a range query.
    pub fn query(&mut self) -> String {
        let depth = self.options.depth;
        if self.random.one_in(25) {
            self.scalar(depth)
        } else {
            self.vector(depth)
        }
    }

    /// A query for a range vector, only for instant queries.
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
