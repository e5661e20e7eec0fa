//! Calls without a query, for tests of functions.

use std::sync::atomic::AtomicBool;

use icecore_model::{Labels, LabelsBuilder, METRIC_NAME};

use super::{Argument, CallContext, map_function, vector_function};
use crate::annotations::Annotations;
use crate::error::Result;
use crate::exec::{Context, Grid, LabelMaker, Limits, Row, ScalarColumn, Values, is_absent};
use crate::memory_source::MemorySource;
use crate::parse::{Call, Expr, Signature, Span, StringLiteral, ValueType};

static SIGNATURE: Signature = Signature {
    name: "function",
    args: &[],
    variadic: -1,
    returns: ValueType::Vector,
    experimental: false,
};

/// The arguments and steps of a call. The position of argument n is byte 10 · (n + 1) of the query,
/// that of the call byte 0.
pub(super) struct Setup {
    pub(super) grid: Grid,
    pub(super) is_range_query: bool,
    pub(super) call: Call,
    pub(super) memory_max: usize,
    pub(super) label_value_bytes_max: usize,
    pub(super) canceled: bool,
    args: Vec<Argument>,
    annotations: Annotations,
}

impl Setup {
    pub(super) fn new(steps: usize) -> Self {
        Self {
            grid: Grid {
                start_ms: 0,
                step_ms: 60_000,
                steps,
            },
            is_range_query: steps > 1,
            call: Call {
                function: &SIGNATURE,
                args: Vec::new(),
                span: Span::default(),
            },
            memory_max: 1 << 20,
            label_value_bytes_max: 1000,
            canceled: false,
            args: Vec::new(),
            annotations: Annotations::default(),
        }
    }

    pub(super) fn series(self) -> Self {
        self.arg(Argument::Series)
    }

    pub(super) fn scalar(self, column: ScalarColumn) -> Self {
        self.arg(Argument::Scalar(column))
    }

    pub(super) fn scalars(self, values: &[f64]) -> Self {
        let columns = values.iter().copied().map(ScalarColumn::Constant);
        columns.fold(self, Self::scalar)
    }

    pub(super) fn texts(self, texts: &[&str]) -> Self {
        let texts = texts.iter().map(|text| Argument::Text(text.to_string()));
        texts.fold(self, Self::arg)
    }

    fn arg(mut self, arg: Argument) -> Self {
        self.args.push(arg);
        let start = 10 * self.args.len();
        self.call.args.push(Expr::String(StringLiteral {
            value: String::new(),
            not_utf8: None,
            span: Span {
                start,
                end: start + 1,
            },
        }));
        self
    }

    pub(super) fn map(&self, name: &str, row: Row) -> Row {
        map_function(name).expect(name)(&self.context(), row)
    }

    pub(super) fn vector(&self, name: &str, rows: Vec<Row>) -> Result<Vec<Row>> {
        let (source, canceled) = (MemorySource::default(), AtomicBool::new(self.canceled));
        let limits = Limits {
            memory_bytes: self.memory_max,
            samples: usize::MAX,
            label_value_bytes: self.label_value_bytes_max,
        };
        let context = Context::new(&source, limits, &canceled, None);
        let maker = LabelMaker::new(&context)?;
        vector_function(name).expect(name)(&self.context(), &maker, rows)
    }

    /// Warnings and infos with their positions.
    pub(super) fn annotations(&self) -> Vec<String> {
        let (mut all, infos) = self.annotations.render(&" ".repeat(200));
        all.extend(infos);
        all
    }

    /// A row from `name{label="value", …}`, with plain names and values.
    pub(super) fn row(series: &str, floats: &[f64]) -> Row {
        Row {
            labels: labels(series),
            drop_name: false,
            values: Values {
                floats: floats.to_vec(),
                histograms: Vec::new(),
            },
        }
    }

    fn context(&self) -> CallContext<'_> {
        CallContext {
            grid: self.grid,
            is_range_query: self.is_range_query,
            delayed_names: true,
            call: &self.call,
            args: self.args.clone().into(),
            annotations: &self.annotations,
        }
    }
}

pub(super) fn labels(series: &str) -> Labels {
    let (name, rest) = series.split_once('{').unwrap_or((series, "}"));
    let mut builder = LabelsBuilder::default();
    builder.set(METRIC_NAME, name);
    for pair in rest.trim_end_matches('}').split(',') {
        if let Some((name, value)) = pair.split_once('=') {
            builder.set(name.trim(), value.trim_matches('"'));
        }
    }
    builder.build()
}

/// Equal bits, or both NaN; an absent value equals only itself.
pub(super) fn same(a: f64, b: f64) -> bool {
    let close = (a - b).abs() <= 1e-12 * a.abs().max(b.abs());
    a == b
        || (is_absent(a) && is_absent(b))
        || (!is_absent(a) && !is_absent(b) && ((a.is_nan() && b.is_nan()) || close))
}

#[track_caller]
pub(super) fn check_floats(found: &[f64], expected: &[f64]) {
    let equal = found.iter().zip(expected).all(|(a, b)| same(*a, *b));
    assert!(
        equal && found.len() == expected.len(),
        "{found:?} instead of {expected:?}"
    );
}
