//! Columns of attributes: values of one path in the type that was declared.
//!
//! A value of another type is absent from the column, and long text is cut in files; the column is
//! then called incomplete, and nothing is left out because of it. All attributes are in the JSON
//! column.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, ListBuilder, StringBuilder,
    TimestampNanosecondBuilder,
};
use arrow_schema::{DataType, Field};
use icecore_events::time_text::parse_time;
use icecore_events::{Scalar, Value};

/// Characters of text in the column of a file. Statistics, dictionaries and pages are made for what
/// is compared, and nobody compares more.
pub const TEXT_LIMIT: usize = 4_096;

/// How much of a text a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Texts {
    Whole,
    /// Its first [`TEXT_LIMIT`] characters.
    Cut,
}

/// Up to here every integer is a double.
const INTEGER_LIMIT: i64 = 1 << 53;

/// The values of an attribute in a column, and whether the column has all of them.
pub(crate) fn attribute_values<'a>(
    data_type: &DataType,
    texts: Texts,
    values: impl Iterator<Item = Option<&'a Value<'a>>>,
) -> Option<(ArrayRef, bool)> {
    let mut complete = true;
    let mut is_cut = false;
    let mut text = |scalar: &'a Scalar<'a>| {
        let whole = text(scalar)?;
        let shown = match texts {
            Texts::Whole => whole,
            Texts::Cut => cut(whole),
        };
        is_cut |= shown.len() < whole.len();
        Some(shown)
    };
    macro_rules! column {
        ($builder:expr, $convert:expr) => {{
            let mut builder = $builder;
            for value in values {
                let converted = match value {
                    Some(Value::Scalar(scalar)) => $convert(scalar),
                    _ => None,
                };
                complete &= converted.is_some() || matches!(value, None | Some(Value::Null));
                builder.append_option(converted);
            }
            Arc::new(builder.finish()) as ArrayRef
        }};
    }
    macro_rules! list_column {
        ($builder:expr, $item:expr, $convert:expr) => {{
            let field = Field::new_list_field($item.clone(), true);
            let mut builder = ListBuilder::new($builder).with_field(field);
            for value in values {
                let converted = match value {
                    Some(Value::List(list)) => list.iter().map(&mut $convert).collect(),
                    _ => None::<Vec<_>>,
                };
                complete &= converted.is_some() || matches!(value, None | Some(Value::Null));
                for item in converted.iter().flatten() {
                    builder.values().append_value(*item);
                }
                builder.append(converted.is_some());
            }
            Arc::new(builder.finish()) as ArrayRef
        }};
    }
    let times = || TimestampNanosecondBuilder::new().with_timezone("UTC");
    let array = match data_type {
        DataType::Utf8 => column!(StringBuilder::new(), text),
        DataType::Int64 => column!(Int64Builder::new(), integer),
        DataType::Float64 => column!(Float64Builder::new(), number),
        DataType::Boolean => column!(BooleanBuilder::new(), boolean),
        DataType::Timestamp(..) => column!(times(), timestamp),
        DataType::List(item) => match item.data_type() {
            DataType::Utf8 => list_column!(StringBuilder::new(), item.data_type(), text),
            DataType::Int64 => list_column!(Int64Builder::new(), item.data_type(), integer),
            DataType::Float64 => list_column!(Float64Builder::new(), item.data_type(), number),
            DataType::Boolean => list_column!(BooleanBuilder::new(), item.data_type(), boolean),
            DataType::Timestamp(..) => list_column!(times(), item.data_type(), timestamp),
            _ => return None,
        },
        _ => return None,
    };
    Some((array, complete && !is_cut))
}

fn text<'a>(scalar: &'a Scalar<'_>) -> Option<&'a str> {
    match scalar {
        Scalar::Text(text) => Some(text),
        _ => None,
    }
}

fn cut(text: &str) -> &str {
    // A character is a byte at least.
    if text.len() <= TEXT_LIMIT {
        return text;
    }
    let end = text.char_indices().nth(TEXT_LIMIT);
    end.map_or(text, |(end, _)| &text[..end])
}

fn integer(scalar: &Scalar<'_>) -> Option<i64> {
    match scalar {
        Scalar::Integer(value) => Some(*value),
        Scalar::Number(value) => whole(*value),
        _ => None,
    }
}

/// Zero has no sign here, because comparisons of columns would see it.
fn number(scalar: &Scalar<'_>) -> Option<f64> {
    match scalar {
        Scalar::Number(value) => Some(*value + 0.0),
        Scalar::Integer(value) => as_double(*value),
        _ => None,
    }
}

fn boolean(scalar: &Scalar<'_>) -> Option<bool> {
    match scalar {
        Scalar::Boolean(value) => Some(*value),
        _ => None,
    }
}

fn timestamp(scalar: &Scalar<'_>) -> Option<i64> {
    match scalar {
        Scalar::Integer(value) => Some(*value),
        Scalar::Text(text) => parse_time(text),
        _ => None,
    }
}

/// The integer that a double is, if all doubles beside it are other integers.
pub(crate) fn whole(value: f64) -> Option<i64> {
    let is_whole = value.fract() == 0.0 && value.abs() <= INTEGER_LIMIT as f64;
    is_whole.then_some(value as i64)
}

/// The double that an integer is, if no other integer is it.
pub(crate) fn as_double(value: i64) -> Option<f64> {
    (value.unsigned_abs() <= INTEGER_LIMIT.unsigned_abs()).then_some(value as f64)
}
