//! Conditions on columns: which rows, and which groups of rows, cannot satisfy them.
//!
//! Holds always:
//! - What is not certain is `None`: then every row stays, and is looked at as an event.
//! - A mask is true wherever the event would satisfy the condition.

use std::cmp::Ordering;
use std::collections::HashSet;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::DataType;
use icecore_events::Scalar;
use icecore_events::query::{Clause, Condition, Operand, Operator, Subject, is_like};

use crate::attribute_values::{as_double, whole};
use crate::columns::attribute_column;

/// Columns of text whose values are compared as they are.
const TEXT_COLUMNS: [&str; 5] = [
    "outcome",
    "name",
    "error_code",
    "correlation_id",
    "trace_id",
];

/// Where the values of a column are, whole or as bounds.
pub(crate) trait Columns {
    /// Rows that may satisfy a clause on a column.
    fn clause(&self, column: &str, clause: &Clause) -> Option<BooleanArray>;
}

/// Which rows may satisfy a condition.
pub(crate) fn mask(condition: &Condition, columns: &impl Columns) -> Option<BooleanArray> {
    match condition {
        Condition::All(parts) => {
            let masks = parts.iter().filter_map(|part| mask(part, columns));
            masks.reduce(|a, b| and(&a, &b))
        }
        Condition::Any(parts) => any(parts.iter().map(|part| mask(part, columns))),
        Condition::Clause(clause) => columns.clause(&column_of(&clause.subject)?, clause),
    }
}

/// The columns that a mask looks at.
pub(crate) fn columns_of(condition: &Condition, names: &mut Vec<String>) {
    match condition {
        Condition::All(parts) | Condition::Any(parts) => {
            parts.iter().for_each(|part| columns_of(part, names));
        }
        Condition::Clause(clause) => {
            names.extend(column_of(&clause.subject).filter(|name| !names.contains(name)));
        }
    }
}

fn column_of(subject: &Subject) -> Option<String> {
    match subject {
        Subject::Attribute(path) => Some(attribute_column(path)),
        Subject::Column(name) if TEXT_COLUMNS.contains(&name.as_str()) => Some(name.clone()),
        Subject::Column(_) | Subject::Kept(_) => None,
    }
}

/// The values of rows.
pub(crate) struct RowColumns<'a>(pub(crate) &'a RecordBatch);

impl Columns for RowColumns<'_> {
    fn clause(&self, column: &str, clause: &Clause) -> Option<BooleanArray> {
        let values = self.0.column_by_name(column)?;
        match (clause.operator, &clause.operand) {
            (Operator::Exists, _) => Some(is_present(values)),
            (Operator::In, Operand::Several(several)) => is_one_of(values, several),
            (Operator::Like, Operand::One(Scalar::Text(pattern))) => {
                let texts = values.as_string_opt::<i32>()?;
                let fits = |text: &str| is_like(text, pattern);
                Some(BooleanArray::from_unary(texts, fits))
            }
            (operator, Operand::One(one)) => compare(values, one, accepts(operator)?),
            _ => None,
        }
    }
}

/// The least and the greatest value of a column in each of some groups of rows.
pub(crate) struct Bounds<F>(pub(crate) F);

impl<F> Columns for Bounds<F>
where
    F: Fn(&str) -> Option<(ArrayRef, ArrayRef)>,
{
    fn clause(&self, column: &str, clause: &Clause) -> Option<BooleanArray> {
        let (least, greatest) = (self.0)(column)?;
        let within = |one: &Scalar<'_>| {
            let above = compare(&least, one, Ordering::is_le)?;
            Some(and(&above, &compare(&greatest, one, Ordering::is_ge)?))
        };
        match (clause.operator, &clause.operand) {
            (Operator::Equal, Operand::One(one)) => within(one),
            (Operator::In, Operand::Several(several)) => any(several.iter().map(within)),
            (operator @ (Operator::Greater | Operator::GreaterOrEqual), Operand::One(one)) => {
                compare(&greatest, one, accepts(operator)?)
            }
            (operator @ (Operator::Less | Operator::LessOrEqual), Operand::One(one)) => {
                compare(&least, one, accepts(operator)?)
            }
            _ => None,
        }
    }
}

/// Returns the orders of a value and an operand that satisfy an operator of comparison.
fn accepts(operator: Operator) -> Option<fn(Ordering) -> bool> {
    Some(match operator {
        Operator::Equal => Ordering::is_eq,
        Operator::NotEqual => Ordering::is_ne,
        Operator::Greater => Ordering::is_gt,
        Operator::GreaterOrEqual => Ordering::is_ge,
        Operator::Less => Ordering::is_lt,
        Operator::LessOrEqual => Ordering::is_le,
        _ => return None,
    })
}

/// Compares each value of a column with an operand, if the two compare the way events do. The
/// result is null where the value is.
fn compare(
    values: &ArrayRef,
    operand: &Scalar<'_>,
    accepts: fn(Ordering) -> bool,
) -> Option<BooleanArray> {
    let integers = |operand: i64| {
        let values = values.as_primitive::<Int64Type>();
        BooleanArray::from_unary(values, |value| accepts(value.cmp(&operand)))
    };
    // Zero has no sign in columns.
    let floats = |operand: f64| {
        let values = values.as_primitive::<Float64Type>();
        BooleanArray::from_unary(values, |value| accepts(value.total_cmp(&(operand + 0.0))))
    };
    Some(match (operand, values.data_type()) {
        (Scalar::Text(operand), DataType::Utf8) => {
            let values = values.as_string::<i32>();
            BooleanArray::from_unary(values, |value: &str| accepts(value.cmp(operand)))
        }
        (Scalar::Boolean(operand), DataType::Boolean) => {
            BooleanArray::from_unary(values.as_boolean(), |value| accepts(value.cmp(operand)))
        }
        (Scalar::Integer(operand), DataType::Int64) => integers(*operand),
        (Scalar::Number(operand), DataType::Int64) => integers(whole(*operand)?),
        (Scalar::Number(operand), DataType::Float64) => floats(*operand),
        (Scalar::Integer(operand), DataType::Float64) => floats(as_double(*operand)?),
        _ => return None,
    })
}

/// Looks each value of a column up among operands, if all of them compare with it the way events
/// do. The result is null where the value is.
fn is_one_of(values: &ArrayRef, operands: &[Scalar<'_>]) -> Option<BooleanArray> {
    match values.data_type() {
        DataType::Utf8 => {
            let texts = operands.iter().map(|operand| match operand {
                Scalar::Text(text) => Some(text.as_ref()),
                _ => None,
            });
            let texts: HashSet<&str> = texts.collect::<Option<_>>()?;
            let values = values.as_string::<i32>();
            Some(BooleanArray::from_unary(values, |value: &str| {
                texts.contains(value)
            }))
        }
        DataType::Int64 => {
            let integers = operands.iter().map(|operand| match operand {
                Scalar::Integer(integer) => Some(*integer),
                Scalar::Number(number) => whole(*number),
                _ => None,
            });
            let integers: HashSet<i64> = integers.collect::<Option<_>>()?;
            let values = values.as_primitive::<Int64Type>();
            Some(BooleanArray::from_unary(values, |value| {
                integers.contains(&value)
            }))
        }
        _ => any(operands
            .iter()
            .map(|operand| compare(values, operand, Ordering::is_eq))),
    }
}

/// Returns `true` for each value that is not null.
fn is_present(values: &ArrayRef) -> BooleanArray {
    (0..values.len())
        .map(|at| Some(values.is_valid(at)))
        .collect()
}

/// Combines masks by [`or`]; `None` if one of them is unknown, or if there are none.
fn any(masks: impl Iterator<Item = Option<BooleanArray>>) -> Option<BooleanArray> {
    let masks: Option<Vec<_>> = masks.collect();
    masks?.into_iter().reduce(|a, b| or(&a, &b))
}

/// SQL's AND: null is unknown, and false wins over it.
fn and(a: &BooleanArray, b: &BooleanArray) -> BooleanArray {
    let both = a.iter().zip(b.iter()).map(|pair| match pair {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    });
    both.collect()
}

/// SQL's OR: null is unknown, and true wins over it.
fn or(a: &BooleanArray, b: &BooleanArray) -> BooleanArray {
    let either = a.iter().zip(b.iter()).map(|pair| match pair {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    });
    either.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_unknown_unless_the_other_side_decides() {
        let three = [Some(false), None, Some(true)];
        let sides = |pick: fn(usize) -> usize| -> BooleanArray {
            (0..9).map(|at| three[pick(at)]).collect()
        };
        let (a, b) = (sides(|at| at / 3), sides(|at| at % 3));
        let table = |mask: BooleanArray| mask.iter().collect::<Vec<_>>();
        let (no, unknown, yes) = (Some(false), None, Some(true));
        assert_eq!(
            table(and(&a, &b)),
            [no, no, no, no, unknown, unknown, no, unknown, yes]
        );
        assert_eq!(
            table(or(&a, &b)),
            [no, unknown, yes, unknown, unknown, yes, yes, yes, yes]
        );
    }

    #[test]
    fn a_list_is_its_values_one_by_one() {
        use arrow_array::{Float64Array, Int64Array, StringArray};
        let texts: ArrayRef =
            std::sync::Arc::new(StringArray::from(vec![Some("a"), None, Some("b")]));
        let integers: ArrayRef =
            std::sync::Arc::new(Int64Array::from(vec![Some(1), None, Some(7)]));
        let floats: ArrayRef =
            std::sync::Arc::new(Float64Array::from(vec![Some(1.0), None, Some(-0.0)]));
        let text = |text: &'static str| Scalar::Text(text.into());
        let lists = [
            vec![text("a"), text("c")],
            vec![Scalar::Integer(1), Scalar::Number(2.0)],
            vec![Scalar::Number(0.0), Scalar::Integer(3)],
            vec![text("7")],
            vec![Scalar::Number(1.5)],
            vec![Scalar::Boolean(true)],
        ];
        for values in [&texts, &integers, &floats] {
            for list in &lists {
                let one_by_one = any(list.iter().map(|one| compare(values, one, Ordering::is_eq)));
                assert_eq!(
                    is_one_of(values, list),
                    one_by_one,
                    "{values:?} in {list:?}"
                );
            }
        }
    }
}
