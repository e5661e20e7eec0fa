//! What the filters of a query say of a column: bounds of time, values, conditions.
//!
//! Everything found here only leaves rows out that a filter would; the filters run all the same.

use std::ops::Range;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator as SqlOperator};
use icecore_event_files::attribute_of;
use icecore_events::Scalar;
use icecore_events::query::{Clause, Condition, Operand, Operator, Subject};

/// A comparison of a column with a value.
struct Comparison<'e> {
    column: &'e str,
    operator: Operator,
    value: &'e ScalarValue,
}

fn comparison(expr: &Expr) -> Option<Comparison<'_>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
        return None;
    };
    let operator = match op {
        SqlOperator::Eq => Operator::Equal,
        SqlOperator::NotEq => Operator::NotEqual,
        SqlOperator::Gt => Operator::Greater,
        SqlOperator::GtEq => Operator::GreaterOrEqual,
        SqlOperator::Lt => Operator::Less,
        SqlOperator::LtEq => Operator::LessOrEqual,
        _ => return None,
    };
    match (&**left, &**right) {
        (Expr::Column(column), Expr::Literal(value, _)) => Some(Comparison {
            column: &column.name,
            operator,
            value,
        }),
        (Expr::Literal(value, _), Expr::Column(column)) => Some(Comparison {
            column: &column.name,
            operator: mirrored(operator),
            value,
        }),
        _ => None,
    }
}

fn mirrored(operator: Operator) -> Operator {
    match operator {
        Operator::Greater => Operator::Less,
        Operator::GreaterOrEqual => Operator::LessOrEqual,
        Operator::Less => Operator::Greater,
        Operator::LessOrEqual => Operator::GreaterOrEqual,
        other => other,
    }
}

/// The times of a column in nanoseconds that filters leave, or `None` if they have no bound.
pub(crate) fn time_range(filters: &[Expr], column: &str) -> Option<Range<i64>> {
    let ranges = filters.iter().filter_map(|filter| range_of(filter, column));
    ranges.reduce(|a, b| a.start.max(b.start)..a.end.min(b.end))
}

fn range_of(filter: &Expr, column: &str) -> Option<Range<i64>> {
    match filter {
        Expr::Between(between) if !between.negated => match (&*between.low, &*between.high) {
            (Expr::Literal(low, _), Expr::Literal(high, _)) => {
                let is_it = matches!(&*between.expr, Expr::Column(found) if found.name == column);
                let range = nanoseconds(low)?..nanoseconds(high)?.saturating_add(1);
                is_it.then_some(range)
            }
            _ => None,
        },
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if *op == SqlOperator::And => {
            match (range_of(left, column), range_of(right, column)) {
                (Some(a), Some(b)) => Some(a.start.max(b.start)..a.end.min(b.end)),
                (one, other) => one.or(other),
            }
        }
        // Either side bounds it.
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if *op == SqlOperator::Or => {
            let (a, b) = (range_of(left, column)?, range_of(right, column)?);
            Some(a.start.min(b.start)..a.end.max(b.end))
        }
        _ => {
            let found = comparison(filter).filter(|found| found.column == column)?;
            let at = nanoseconds(found.value)?;
            match found.operator {
                Operator::Equal => Some(at..at.saturating_add(1)),
                Operator::Greater => Some(at.saturating_add(1)..i64::MAX),
                Operator::GreaterOrEqual => Some(at..i64::MAX),
                Operator::Less => Some(i64::MIN..at),
                Operator::LessOrEqual => Some(i64::MIN..at.saturating_add(1)),
                _ => None,
            }
        }
    }
}

fn nanoseconds(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::TimestampNanosecond(at, _) => *at,
        ScalarValue::TimestampMicrosecond(at, _) => at.and_then(|at| at.checked_mul(1_000)),
        ScalarValue::TimestampMillisecond(at, _) => at.and_then(|at| at.checked_mul(1_000_000)),
        ScalarValue::TimestampSecond(at, _) => at.and_then(|at| at.checked_mul(1_000_000_000)),
        _ => None,
    }
}

/// The texts that a column may have, or `None` if filters allow any.
pub(crate) fn texts<'e>(filters: &'e [Expr], column: &str) -> Option<Vec<&'e str>> {
    filters.iter().find_map(|filter| texts_of(filter, column))
}

fn texts_of<'e>(filter: &'e Expr, column: &str) -> Option<Vec<&'e str>> {
    match filter {
        Expr::InList(list) if !list.negated => {
            let is_it = matches!(&*list.expr, Expr::Column(found) if found.name == column);
            let texts = list.list.iter().map(|value| match value {
                Expr::Literal(value, _) => text(value),
                _ => None,
            });
            texts.collect::<Option<Vec<&str>>>().filter(|_| is_it)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if *op == SqlOperator::And => {
            texts_of(left, column).or_else(|| texts_of(right, column))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if *op == SqlOperator::Or => {
            let mut texts = texts_of(left, column)?;
            texts.extend(texts_of(right, column)?);
            Some(texts)
        }
        _ => {
            let found = comparison(filter).filter(|found| found.column == column)?;
            (found.operator == Operator::Equal).then(|| text(found.value).map(|text| vec![text]))?
        }
    }
}

fn text(value: &ScalarValue) -> Option<&str> {
    match value {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => Some(text),
        _ => None,
    }
}

/// What filters ask of events, as far as files can leave rows out by it.
pub(crate) fn condition(filters: &[Expr]) -> Option<Condition> {
    let parts: Vec<Condition> = filters.iter().filter_map(condition_of).collect();
    (!parts.is_empty()).then_some(Condition::All(parts))
}

fn condition_of(filter: &Expr) -> Option<Condition> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if *op == SqlOperator::And => {
            match (condition_of(left), condition_of(right)) {
                (Some(a), Some(b)) => Some(Condition::All(vec![a, b])),
                (one, other) => one.or(other),
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if *op == SqlOperator::Or => {
            Some(Condition::Any(vec![
                condition_of(left)?,
                condition_of(right)?,
            ]))
        }
        Expr::InList(list) if !list.negated => {
            let Expr::Column(column) = &*list.expr else {
                return None;
            };
            let values = list.list.iter().map(|value| match value {
                Expr::Literal(value, _) => scalar(value),
                _ => None,
            });
            let values: Option<Vec<_>> = values.collect();
            clause(&column.name, Operator::In, Operand::Several(values?))
        }
        _ => {
            let found = comparison(filter)?;
            let value = scalar(found.value)?;
            clause(found.column, found.operator, Operand::One(value))
        }
    }
}

fn clause(column: &str, operator: Operator, operand: Operand) -> Option<Condition> {
    let subject = match attribute_of(column) {
        Some(path) => Subject::Attribute(path.to_owned()),
        None => Subject::Column(column.to_owned()),
    };
    Some(Condition::Clause(Clause {
        subject,
        operator,
        operand,
    }))
}

fn scalar(value: &ScalarValue) -> Option<Scalar<'static>> {
    Some(match value {
        ScalarValue::Boolean(Some(value)) => Scalar::Boolean(*value),
        ScalarValue::Int64(Some(value)) => Scalar::Integer(*value),
        ScalarValue::Float64(Some(value)) => Scalar::Number(*value),
        other => Scalar::Text(text(other)?.to_owned().into()),
    })
}
