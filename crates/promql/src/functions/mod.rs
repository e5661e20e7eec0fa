//! The functions of the language.
//!
//! ```text
//! range vector  ─ window/   ─► one value per window    rate, avg_over_time, …
//! rows          ─ map       ─► the same rows           abs, round, hour, histogram_count, …
//! all rows      ─ vector    ─► other rows              label_replace, histogram_quantile, sort, …
//! ```
//!
//! Holds always: a function gets all steps of a series at once and yields one value per step.

mod absent;
mod histogram;
mod labels;
mod math;
mod sort;
#[cfg(test)]
mod testing;
mod time;
pub(crate) mod window;

use std::sync::Arc;

use crate::annotations::{Annotation, Annotations};
use crate::error::Result;
use crate::exec::{Grid, LabelMaker, Row, ScalarColumn};
use crate::parse::{Call, Span};

pub(crate) use labels::scalar_of;

/// The context of a call, besides its rows.
pub(crate) struct CallContext<'a> {
    pub(crate) grid: Grid,
    /// Whether this is a range query or a subquery, even one with a single step (`sort` warns
    /// then).
    pub(crate) is_range_query: bool,
    /// Metric names are removed at the end of the evaluation, so annotations can show them.
    pub(crate) delayed_names: bool,
    pub(crate) call: &'a Call,
    /// One per argument, as written.
    pub(crate) args: Arc<[Argument]>,
    pub(crate) annotations: &'a Annotations,
}

/// The value of an argument.
#[derive(Clone, Debug)]
pub(crate) enum Argument {
    /// A vector or range vector: its rows or samples are handed over separately.
    Series,
    Scalar(ScalarColumn),
    Text(String),
}

impl CallContext<'_> {
    /// The scalar argument at `index`; NaN if it is not a scalar.
    pub(crate) fn scalar(&self, index: usize, step: usize) -> f64 {
        match self.args.get(index) {
            Some(Argument::Scalar(column)) => column.at(step),
            _ => f64::NAN,
        }
    }

    /// The string argument at `index`.
    pub(crate) fn text(&self, index: usize) -> &str {
        match self.args.get(index) {
            Some(Argument::Text(text)) => text,
            _ => "",
        }
    }

    /// The span of the argument at `index` without its parentheses; that of the call if it is
    /// missing.
    pub(crate) fn arg_span(&self, index: usize) -> Span {
        let arg = self.call.args.get(index);
        arg.map_or(self.call.span, |arg| arg.unwrapped().span())
    }

    pub(crate) fn annotate(&self, span: Span, annotation: Annotation) {
        self.annotations.add(span, annotation);
    }
}

/// Works on one row at a time, in parallel.
pub(crate) type MapFunction = fn(&CallContext<'_>, Row) -> Row;

/// Works on all rows of its vector argument.
pub(crate) type VectorFunction =
    fn(&CallContext<'_>, &LabelMaker<'_>, Vec<Row>) -> Result<Vec<Row>>;

/// The function of one row with this name.
pub(crate) fn map_function(name: &str) -> Option<MapFunction> {
    math::function(name)
        .or_else(|| time::function(name))
        .or_else(|| histogram::map_function(name))
}

/// The function of all rows with this name.
pub(crate) fn vector_function(name: &str) -> Option<VectorFunction> {
    match name {
        "absent" => Some(absent::absent),
        _ => labels::function(name)
            .or_else(|| sort::function(name))
            .or_else(|| histogram::vector_function(name)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::testing::Setup;
    use super::*;
    use crate::exec::{ABSENT, is_absent};
    use crate::parse::{FUNCTIONS, Signature, ValueType};

    /// The functions that get rows and hand out rows, but `info`, which needs the source.
    fn functions_of_rows() -> impl Iterator<Item = &'static Signature> {
        FUNCTIONS.iter().filter(|function| {
            function.args.contains(&ValueType::Vector)
                && function.returns == ValueType::Vector
                && function.name != "info"
        })
    }

    #[test]
    fn every_function_of_rows_is_here() {
        for Signature { name, .. } in functions_of_rows() {
            let (map, vector) = (map_function(name), vector_function(name));
            assert!(map.is_some() != vector.is_some(), "{name}");
        }
        for Signature { name, args, .. } in FUNCTIONS {
            if !args.contains(&ValueType::Vector) {
                assert!(map_function(name).is_none() && vector_function(name).is_none());
            }
        }
    }

    fn any_float() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<u64>().prop_map(f64::from_bits),
            -10.0..10.0,
            Just(ABSENT)
        ]
    }

    proptest! {
        /// Whatever the numbers: nothing panics, and functions of one row keep absent values
        /// absent.
        #[test]
        fn any_numbers_will_do(
            floats in prop::collection::vec(any_float(), 4),
            scalars in prop::collection::vec(any_float(), 2),
            bound in "([0-9.e+-]|Inf|NaN){0,4}",
        ) {
            for Signature { name, args, .. } in functions_of_rows() {
                let mut setup = Setup::new(4);
                let mut scalars = scalars.iter().cycle();
                for arg in *args {
                    setup = match arg {
                        ValueType::Scalar => {
                            let scalar = scalars.next().copied().unwrap_or_default();
                            setup.scalars(&[scalar])
                        }
                        ValueType::String => setup.texts(&["a"]),
                        _ => setup.series(),
                    };
                }
                let row = Setup::row(&format!("m{{le={bound}}}"), &floats);
                if map_function(name).is_some() {
                    let mapped = setup.map(name, row);
                    for (before, after) in floats.iter().zip(&mapped.values.floats) {
                        prop_assert!(!is_absent(*before) || is_absent(*after), "{}", name);
                    }
                } else if let Ok(rows) = setup.vector(name, vec![row]) {
                    prop_assert!(rows.iter().all(|row| row.values.floats.len() == 4));
                }
            }
        }
    }
}
