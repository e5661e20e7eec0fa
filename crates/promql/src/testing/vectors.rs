//! Instant vectors: the frequency of shapes, and aggregations.

use super::{MetricKind, QueryGenerator};

/// A shape of an expression; `depth` is that of its operands.
type Shape = fn(&mut QueryGenerator, depth: usize) -> String;

impl QueryGenerator {
    pub(super) fn vector(&mut self, depth: usize) -> String {
        let Some(below) = depth.checked_sub(1) else {
            return self.leaf();
        };
        let shapes: &[(usize, Shape)] = &[
            (8, |generator, _| generator.leaf()),
            (12, |generator, _| generator.sum_of_rates()),
            (14, Self::range_call),
            (14, Self::aggregate),
            (6, Self::choice),
            (14, Self::join),
            (6, Self::compared_with_scalar),
            (6, Self::combined_with_scalar),
            (7, Self::set_operation),
            (6, Self::histogram_quantile),
            (6, Self::math_call),
            (5, Self::label_call),
            (2, Self::time_call),
            (3, Self::absent_call),
            (2, |generator, depth| {
                format!("-{}", generator.operand(depth))
            }),
            (1, |generator, depth| {
                format!("({})", generator.vector(depth))
            }),
            (2, |generator, depth| {
                let function = generator.pick(&["sort", "sort_desc"]);
                format!("{function}({})", generator.vector(depth))
            }),
        ];
        if self.knows_everything() && self.random.one_in(6) {
            return self.newer_call(below);
        }
        let shape = self.random.pick_weighted(shapes);
        shape(self, below)
    }

    /// A vector that is an operand of any operator and of brackets.
    pub(super) fn operand(&mut self, depth: usize) -> String {
        let vector = self.vector(depth);
        let is_atom = |text: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_:\"={},.!~+*|".contains(c);
            text.chars().all(plain) && !text.starts_with(|c: char| c.is_ascii_digit())
        };
        if is_atom(&vector) {
            vector
        } else {
            format!("({vector})")
        }
    }

    fn leaf(&mut self) -> String {
        if self.random.one_in(25) {
            return format!("vector({})", self.number());
        }
        let kind = self.random.pick_weighted(&[
            (20, None),
            (2, Some(MetricKind::Buckets)),
            (1, Some(MetricKind::NativeHistogram)),
        ]);
        self.selector(kind)
    }

    fn sum_of_rates(&mut self) -> String {
        let function = self.pick(&["rate", "rate", "increase", "irate"]);
        let range = self.range_selector(Some(MetricKind::Counter));
        let aggregate = self.plain_aggregate();
        if self.random.one_in(5) {
            format!("{aggregate}({function}({range}))")
        } else {
            format!(
                "{aggregate} by ({}) ({function}({range}))",
                self.label_list()
            )
        }
    }

    /// An aggregation without a parameter.
    pub(super) fn plain_aggregate(&mut self) -> &'static str {
        self.random.pick_weighted(&[
            (10, "sum"),
            (4, "avg"),
            (4, "max"),
            (3, "min"),
            (4, "count"),
            (1, "group"),
            (1, "stddev"),
            (1, "stdvar"),
        ])
    }

    fn aggregate(&mut self, depth: usize) -> String {
        if self.random.one_in(8) {
            let fraction = self.fraction();
            self.grouped("quantile", Some(fraction), depth)
        } else {
            let aggregate = self.plain_aggregate();
            self.grouped(aggregate, None, depth)
        }
    }

    /// Aggregations that select or count series by their values.
    fn choice(&mut self, depth: usize) -> String {
        let count = self.count();
        match self.random.below(6) {
            0 => {
                // Only stored values: the text of computed ones depends on their last bit.
                let series = self.selector(None);
                format!(
                    "count_values by ({}) (\"value\", {series})",
                    self.label_list()
                )
            }
            1..4 => self.grouped("topk", Some(count), depth),
            _ => self.grouped("bottomk", Some(count), depth),
        }
    }

    /// `op by (…) (parameter, …)`, with the grouping on either side or none.
    pub(super) fn grouped(&mut self, op: &str, parameter: Option<String>, depth: usize) -> String {
        let vector = self.vector(depth);
        let arguments = match parameter {
            Some(parameter) => format!("{parameter}, {vector}"),
            None => vector,
        };
        let word = self.pick(&["by", "by", "without"]);
        let labels = self.label_list();
        match self.random.below(4) {
            0 => format!("{op}({arguments})"),
            1 => format!("{op}({arguments}) {word} ({labels})"),
            _ => format!("{op} {word} ({labels}) ({arguments})"),
        }
    }

    fn compared_with_scalar(&mut self, depth: usize) -> String {
        let comparison = self.comparison();
        let bool = self.pick(&["", "", " bool"]);
        self.with_scalar(&format!("{comparison}{bool}"), depth)
    }

    fn combined_with_scalar(&mut self, depth: usize) -> String {
        let arithmetic = self.arithmetic();
        self.with_scalar(arithmetic, depth)
    }

    fn with_scalar(&mut self, operator: &str, depth: usize) -> String {
        let vector = self.operand(depth);
        let scalar = if self.random.one_in(4) {
            self.scalar_operand(depth.min(1))
        } else {
            self.number()
        };
        if self.random.one_in(4) {
            format!("{scalar} {operator} {vector}")
        } else {
            format!("{vector} {operator} {scalar}")
        }
    }

    fn histogram_quantile(&mut self, depth: usize) -> String {
        let fraction = self.fraction();
        let native = self.knows_everything() && self.random.one_in(2);
        let kind = if native {
            MetricKind::NativeHistogram
        } else {
            MetricKind::Buckets
        };
        let range = self.range_selector(Some(kind));
        let function = self.pick(&["rate", "rate", "increase"]);
        let rates = format!("{function}({range})");
        let buckets = match self.random.below(5) {
            0 => self.selector(Some(kind)),
            1 => rates,
            2 => format!("sum by (le) ({rates})"),
            3 => format!("sum by ({}, le) ({rates})", self.label()),
            _ => format!("sum without ({}) ({rates})", self.label()),
        };
        if depth > 0 && self.random.one_in(10) {
            format!("histogram_quantile({}, {buckets})", self.scalar(depth - 1))
        } else {
            format!("histogram_quantile({fraction}, {buckets})")
        }
    }
}
