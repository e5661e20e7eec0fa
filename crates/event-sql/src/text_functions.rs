//! Functions on texts that are made here: `||`, and `levenshtein` in bounded memory.

use std::sync::Arc;

use arrow::array::{AsArray, Int32Builder, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The name of the function that stands for `||`.
pub(crate) const CONCAT_TEXTS: &str = "||";

/// `a || b`: both texts, or nothing where one is missing.
pub(crate) fn concat_texts() -> ScalarUDF {
    ScalarUDF::new_from_impl(ConcatTexts {
        signature: Signature::any(2, Volatility::Immutable),
    })
}

/// `levenshtein(a, b)`: changes of single characters between two texts.
pub(crate) fn levenshtein() -> ScalarUDF {
    ScalarUDF::new_from_impl(Levenshtein {
        signature: Signature::string(2, Volatility::Immutable),
    })
}

/// An argument as texts, one for each row.
fn texts(args: &ScalarFunctionArgs, at: usize) -> Result<StringArray> {
    let value = args.args.get(at).cloned();
    let value = value.ok_or_else(|| DataFusionError::Plan("two texts are needed".into()))?;
    let array = cast(&value.into_array(args.number_rows)?, &DataType::Utf8)?;
    Ok(array.as_string::<i32>().clone())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ConcatTexts {
    signature: Signature,
}

impl ScalarUDFImpl for ConcatTexts {
    fn name(&self) -> &str {
        CONCAT_TEXTS
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names: Vec<String> = args
            .iter()
            .map(|arg| arg.schema_name().to_string())
            .collect();
        Ok(names.join(" || "))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (left, right) = (texts(&args, 0)?, texts(&args, 1)?);
        let bytes = left.value_data().len() + right.value_data().len();
        let mut made = StringBuilder::with_capacity(args.number_rows, bytes);
        let mut both = String::new();
        for (left, right) in left.iter().zip(&right) {
            match (left, right) {
                (Some(left), Some(right)) => {
                    both.clear();
                    both.push_str(left);
                    both.push_str(right);
                    made.append_value(&both);
                }
                _ => made.append_null(),
            }
        }
        Ok(ColumnarValue::Array(Arc::new(made.finish())))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Levenshtein {
    signature: Signature,
}

impl ScalarUDFImpl for Levenshtein {
    fn name(&self) -> &str {
        "levenshtein"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (left, right) = (texts(&args, 0)?, texts(&args, 1)?);
        let mut found = Int32Builder::with_capacity(args.number_rows);
        for (left, right) in left.iter().zip(&right) {
            let distance = left.zip(right).map(|(left, right)| distance(left, right));
            found.append_option(
                distance.map(|distance| i32::try_from(distance).unwrap_or(i32::MAX)),
            );
        }
        Ok(ColumnarValue::Array(Arc::new(found.finish())))
    }
}

/// One row of the table of distances at a time.
fn distance(left: &str, right: &str) -> u32 {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<u32> = (0..).take(right.len() + 1).collect();
    for (above, left) in (0..).zip(left.chars()) {
        let mut diagonal = above;
        let mut last = above + 1;
        row[0] = last;
        for (right, cell) in right.iter().zip(&mut row[1..]) {
            let changed = diagonal + u32::from(left != *right);
            diagonal = *cell;
            last = changed.min(diagonal + 1).min(last + 1);
            *cell = last;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_the_textbook() {
        for (left, right, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
            ("größe", "grosse", 3),
            ("same", "same", 0),
        ] {
            assert_eq!(distance(left, right), expected, "{left} {right}");
            assert_eq!(distance(right, left), expected, "{right} {left}");
        }
    }
}
