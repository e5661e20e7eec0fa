//! Conditions on columns: which rows, and which groups of rows, cannot satisfy them.
//!
//! Holds always:
//! - What is not certain is `None`: then every row stays, and is looked at as an event.
//! - A mask is true wherever the event would satisfy the condition.

use arrow::array::{
    Array, ArrayRef, BooleanArray, Datum, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::compute::kernels::cmp;
use arrow::compute::{and_kleene, is_not_null, like, or_kleene};
use arrow::datatypes::DataType;
use icecore_events::Scalar;
use icecore_events::query::{Clause, Condition, Operand, Operator, Subject};

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
            masks.reduce(|a, b| and_kleene(&a, &b).unwrap_or(a))
        }
        Condition::Any(parts) => {
            let masks: Option<Vec<_>> = parts.iter().map(|part| mask(part, columns)).collect();
            let mut masks = masks?.into_iter();
            let first = masks.next()?;
            masks.try_fold(first, |a, b| or_kleene(&a, &b).ok())
        }
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
        let compare = |compare: Compare, operand: &Scalar<'_>| {
            compare(values, &*datum(operand, values.data_type())?).ok()
        };
        let each = |operands: &[Scalar<'_>], how: Compare| {
            let masks: Option<Vec<_>> = operands.iter().map(|one| compare(how, one)).collect();
            let mut masks = masks?.into_iter();
            let first = masks.next()?;
            masks.try_fold(first, |a, b| or_kleene(&a, &b).ok())
        };
        match (clause.operator, &clause.operand) {
            (Operator::Exists, _) => is_not_null(values).ok(),
            (Operator::Equal, Operand::One(one)) => compare(cmp::eq, one),
            (Operator::NotEqual, Operand::One(one)) => compare(cmp::neq, one),
            (Operator::Greater, Operand::One(one)) => compare(cmp::gt, one),
            (Operator::GreaterOrEqual, Operand::One(one)) => compare(cmp::gt_eq, one),
            (Operator::Less, Operand::One(one)) => compare(cmp::lt, one),
            (Operator::LessOrEqual, Operand::One(one)) => compare(cmp::lt_eq, one),
            (Operator::In, Operand::Several(several)) => each(several, cmp::eq),
            // A backslash means something to this function.
            (Operator::Like, Operand::One(Scalar::Text(text))) if !text.contains('\\') => {
                (values.data_type() == &DataType::Utf8)
                    .then(|| like(values, &StringArray::new_scalar(&**text)).ok())?
            }
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
        let data_type = least.data_type().clone();
        let within = |one: &Scalar<'_>| {
            let value = datum(one, &data_type)?;
            let above = cmp::lt_eq(&least, &*value).ok()?;
            and_kleene(&above, &cmp::gt_eq(&greatest, &*value).ok()?).ok()
        };
        let compare = |how: Compare, bound: &ArrayRef, one: &Scalar<'_>| {
            how(bound, &*datum(one, &data_type)?).ok()
        };
        match (clause.operator, &clause.operand) {
            (Operator::Equal, Operand::One(one)) => within(one),
            (Operator::Greater, Operand::One(one)) => compare(cmp::gt, &greatest, one),
            (Operator::GreaterOrEqual, Operand::One(one)) => compare(cmp::gt_eq, &greatest, one),
            (Operator::Less, Operand::One(one)) => compare(cmp::lt, &least, one),
            (Operator::LessOrEqual, Operand::One(one)) => compare(cmp::lt_eq, &least, one),
            (Operator::In, Operand::Several(several)) => {
                let masks: Option<Vec<_>> = several.iter().map(within).collect();
                let mut masks = masks?.into_iter();
                let first = masks.next()?;
                masks.try_fold(first, |a, b| or_kleene(&a, &b).ok())
            }
            _ => None,
        }
    }
}

type Compare = fn(&dyn Datum, &dyn Datum) -> Result<BooleanArray, arrow::error::ArrowError>;

/// An operand as a value of a column, if the two compare the way events do.
fn datum(operand: &Scalar<'_>, data_type: &DataType) -> Option<Box<dyn Datum>> {
    Some(match (operand, data_type) {
        (Scalar::Text(text), DataType::Utf8) => Box::new(StringArray::new_scalar(&**text)),
        (Scalar::Integer(value), DataType::Int64) => Box::new(Int64Array::new_scalar(*value)),
        (Scalar::Number(value), DataType::Int64) => {
            Box::new(Int64Array::new_scalar(whole(*value)?))
        }
        (Scalar::Number(value), DataType::Float64) => {
            Box::new(Float64Array::new_scalar(*value + 0.0))
        }
        (Scalar::Integer(value), DataType::Float64) => {
            Box::new(Float64Array::new_scalar(as_double(*value)?))
        }
        (Scalar::Boolean(value), DataType::Boolean) => Box::new(BooleanArray::new_scalar(*value)),
        _ => return None,
    })
}
