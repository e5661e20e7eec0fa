//! A tree as one line of text, as Prometheus prints it.
//!
//! Holds always: what is printed parses to a tree that prints the same.

use std::fmt::{self, Display, Formatter, Write};

use icecore_model::{METRIC_NAME, MatchOp, go_plain_float};

use super::ast::{
    Aggregate, At, Binary, BinaryOp, Cardinality, Duration, DurationExpr, DurationExprKind as Kind,
    Expr, MatrixSelector, NumberLiteral, Subquery, TimeModifiers, VectorMatching, VectorSelector,
};
use super::go_float;
use super::literal::{format_duration, seconds_to_millis};
use super::text::{write_label_name, write_quoted};

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::String(string) => {
                let bytes = string.not_utf8.as_deref();
                write_quoted(f, bytes.unwrap_or(string.value.as_bytes()))
            }
            Self::Vector(vector) => write!(f, "{vector}"),
            Self::Matrix(matrix) => write!(f, "{matrix}"),
            Self::Subquery(subquery) => {
                write!(f, "{}{}", subquery.expr, SubquerySuffix(subquery))
            }
            Self::Aggregate(aggregate) => {
                write!(f, "{}(", AggregateHead(aggregate))?;
                if let Some(parameter) = &aggregate.parameter {
                    write!(f, "{parameter}, ")?;
                }
                write!(f, "{})", aggregate.expr)
            }
            Self::Binary(binary) => {
                match unsigned_base(binary) {
                    Some(base) => f.write_str(base)?,
                    None => write!(f, "{}", binary.lhs)?,
                }
                write!(f, " {} {}", BinaryHead(binary), binary.rhs)
            }
            Self::Call(call) => {
                write!(f, "{}(", call.function.name)?;
                write_list(f, &call.args)?;
                f.write_char(')')
            }
            Self::Paren(paren) => write!(f, "({})", paren.expr),
            Self::Unary(unary) => write!(f, "{}{}", sign(unary.negative), unary.expr),
        }
    }
}

/// Infinity prints with a sign, except before `^`, where the sign would apply to the power.
pub(super) fn unsigned_base(binary: &Binary) -> Option<&'static str> {
    match &*binary.lhs {
        Expr::Number(number) if number.value == f64::INFINITY && binary.op == BinaryOp::Power => {
            Some("Inf")
        }
        _ => None,
    }
}

pub(super) fn sign(negative: bool) -> char {
    if negative { '-' } else { '+' }
}

/// An aggregation before its parentheses: `sum by (a) `.
pub(super) struct AggregateHead<'a>(pub(super) &'a Aggregate);

impl Display for AggregateHead<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let aggregate = self.0;
        f.write_str(aggregate.op.name())?;
        let keyword = match (aggregate.without, aggregate.grouping.is_empty()) {
            (true, _) => "without",
            (false, false) => "by",
            (false, true) => return Ok(()),
        };
        write!(f, " {keyword} ({}) ", LabelList(&aggregate.grouping))
    }
}

/// An operator with its modifiers: `== bool on (a) group_left (b)`.
pub(super) struct BinaryHead<'a>(pub(super) &'a Binary);

impl Display for BinaryHead<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.op.symbol())?;
        if self.0.return_bool {
            f.write_str(" bool")?;
        }
        match &self.0.matching {
            Some(matching) => write_matching(f, matching),
            None => Ok(()),
        }
    }
}

fn write_matching(f: &mut Formatter<'_>, matching: &VectorMatching) -> fmt::Result {
    let group = match matching.cardinality {
        Cardinality::ManyToOne => Some("group_left"),
        Cardinality::OneToMany => Some("group_right"),
        Cardinality::OneToOne | Cardinality::ManyToMany => None,
    };
    if matching.on || !matching.labels.is_empty() || group.is_some() {
        let keyword = if matching.on { "on" } else { "ignoring" };
        write!(f, " {keyword} ({})", LabelList(&matching.labels))?;
    }
    if let Some(group) = group {
        write!(f, " {group} ({})", LabelList(&matching.include))?;
    }
    match (matching.fill_left, matching.fill_right) {
        (Some(left), Some(right)) if left.to_bits() == right.to_bits() => {
            write!(f, " fill ({})", go_float(left))
        }
        (left, right) => {
            for (keyword, value) in [("fill_left", left), ("fill_right", right)] {
                if let Some(value) = value {
                    write!(f, " {keyword} ({})", go_float(value))?;
                }
            }
            Ok(())
        }
    }
}

struct LabelList<'a>(&'a [String]);

impl Display for LabelList<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, label) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write_label_name(f, label)?;
        }
        Ok(())
    }
}

impl Display for NumberLiteral {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&if self.is_duration {
            format_duration(seconds_to_millis(self.value))
        } else {
            go_plain_float(self.value)
        })
    }
}

impl Display for VectorSelector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_series(f, self)?;
        write_at(f, &self.time)?;
        f.write_str(extension(self))?;
        write_offset(f, &self.time)
    }
}

impl Display for MatrixSelector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_series(f, &self.selector)?;
        write!(f, "[{}]{}", self.range, extension(&self.selector))?;
        write_at(f, &self.selector.time)?;
        write_offset(f, &self.selector.time)
    }
}

/// The name and the matchers, sorted as text, without that of the name.
fn write_series(f: &mut Formatter<'_>, selector: &VectorSelector) -> fmt::Result {
    let name = selector.name.as_deref().unwrap_or("");
    let mut matchers: Vec<String> = selector
        .matchers
        .iter()
        .filter(|matcher| {
            let is_name = matcher.name() == METRIC_NAME
                && matcher.op() == MatchOp::Equal
                && matcher.value() == name;
            !is_name || name.is_empty()
        })
        .map(|matcher| matcher_text(matcher.name(), matcher.op(), matcher.value()))
        .collect();
    matchers.sort();
    f.write_str(name)?;
    if matchers.is_empty() && !name.is_empty() {
        return Ok(());
    }
    write!(f, "{{{}}}", matchers.join(","))
}

fn matcher_text(name: &str, op: MatchOp, value: &str) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_label_name(&mut text, name);
    let _ = write!(text, "{op}");
    let _ = write_quoted(&mut text, value.as_bytes());
    text
}

fn extension(selector: &VectorSelector) -> &'static str {
    match (selector.anchored, selector.smoothed) {
        (true, _) => " anchored",
        (false, true) => " smoothed",
        (false, false) => "",
    }
}

fn write_at(f: &mut Formatter<'_>, time: &TimeModifiers) -> fmt::Result {
    match time.at {
        None => Ok(()),
        Some(At::Timestamp(millis)) => write!(f, " @ {:.3}", millis as f64 / 1000.0),
        Some(At::Start) => f.write_str(" @ start()"),
        Some(At::End) => f.write_str(" @ end()"),
    }
}

fn write_offset(f: &mut Formatter<'_>, time: &TimeModifiers) -> fmt::Result {
    match &time.offset {
        Duration::Millis(0) => Ok(()),
        offset => write!(f, " offset {offset}"),
    }
}

/// The suffix of a subquery: `[5m:1m] @ end() offset 1h`.
pub(super) struct SubquerySuffix<'a>(pub(super) &'a Subquery);

impl Display for SubquerySuffix<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "[{}:", self.0.range)?;
        if let Some(step) = &self.0.step {
            write!(f, "{step}")?;
        }
        f.write_char(']')?;
        write_at(f, &self.0.time)?;
        write_offset(f, &self.0.time)
    }
}

impl Display for Duration {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Millis(millis) => f.write_str(&format_duration(*millis)),
            Self::Expr(expr) => write!(f, "{expr}"),
        }
    }
}

impl Display for DurationExpr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.wrapped {
            f.write_char('(')?;
        }
        match &self.kind {
            Kind::Number(number) => write!(f, "{number}")?,
            Kind::Step => f.write_str("step()")?,
            Kind::Range => f.write_str("range()")?,
            Kind::Plus(expr) => write!(f, "{expr}")?,
            Kind::Negate(expr) => write!(f, "-{expr}")?,
            Kind::Binary(op, left, right) => write!(f, "{left} {} {right}", op.symbol())?,
            Kind::MinOf(left, right) => write!(f, "min_of({left}, {right})")?,
            Kind::MaxOf(left, right) => write!(f, "max_of({left}, {right})")?,
        }
        if self.wrapped {
            f.write_char(')')
        } else {
            Ok(())
        }
    }
}

fn write_list(f: &mut Formatter<'_>, exprs: &[Expr]) -> fmt::Result {
    for (i, expr) in exprs.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{expr}")?;
    }
    Ok(())
}
