//! Lengths of texts, from which follows what operators and functions take for them.

use arrow::array::{Array as _, ArrayRef, AsArray as _};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;

/// Most bytes of the text of a value that is none: of a number or a time.
const OTHER_BYTES: usize = 100;

/// Returns `true` if values of a type differ in length.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => true,
        DataType::Dictionary(_, values) => is_text(values),
        other => other.is_nested(),
    }
}

/// The bytes of the texts of an argument or a column, row by row.
pub(crate) enum Lengths<'a> {
    Same(usize),
    Texts(Box<dyn Fn(usize) -> usize + 'a>),
}

impl<'a> Lengths<'a> {
    pub(crate) fn new(value: &'a ColumnarValue) -> Self {
        match value {
            ColumnarValue::Scalar(value) => Self::Same(scalar_length(value)),
            ColumnarValue::Array(array) => Self::of_array(array),
        }
    }

    pub(crate) fn of_array(array: &'a ArrayRef) -> Self {
        // A value that is missing has no length in offsets, or any: it is an upper bound.
        match array.data_type() {
            DataType::Utf8 => {
                let texts = array.as_string::<i32>();
                Self::Texts(Box::new(move |row| {
                    texts.value_length(row).try_into().unwrap_or(0)
                }))
            }
            DataType::LargeUtf8 => {
                let texts = array.as_string::<i64>();
                Self::Texts(Box::new(move |row| {
                    texts.value_length(row).try_into().unwrap_or(0)
                }))
            }
            DataType::Utf8View => {
                // The length of a view is in its first four bytes.
                let views = array.as_string_view().views();
                Self::Texts(Box::new(move |row| (views[row] as u32) as usize))
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                Self::Same(array.get_array_memory_size())
            }
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let values = dictionary.values();
                if values.is_empty() {
                    return Self::Same(0);
                }
                let keys = dictionary.normalized_keys();
                let of_values = Self::of_array(values);
                Self::Texts(Box::new(move |row| of_values.of(keys[row])))
            }
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                let (of_values, offsets) = (Self::of_array(lists.values()), lists.value_offsets());
                Self::Texts(Box::new(move |row| {
                    let values = offsets[row]..offsets[row + 1];
                    values.map(|value| of_values.of(value as usize)).sum()
                }))
            }
            other if other.is_nested() => Self::Same(array.get_array_memory_size()),
            _ => Self::Same(OTHER_BYTES),
        }
    }

    pub(crate) fn of(&self, row: usize) -> usize {
        match self {
            Self::Same(length) => *length,
            Self::Texts(length) => length(row),
        }
    }
}

fn scalar_length(value: &ScalarValue) -> usize {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            text.as_ref().map_or(0, String::len)
        }
        ScalarValue::Binary(bytes)
        | ScalarValue::LargeBinary(bytes)
        | ScalarValue::BinaryView(bytes) => bytes.as_ref().map_or(0, Vec::len),
        ScalarValue::Dictionary(_, value) => scalar_length(value),
        _ => OTHER_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{DictionaryArray, Int64Array, ListArray, StringArray, StringViewArray};
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn lengths_of_all_kinds_of_texts() {
        let texts = ["a", "longer than twelve bytes", ""];
        let dictionary: DictionaryArray<Int32Type> = texts.into_iter().collect();
        let arrays: [ArrayRef; 3] = [
            Arc::new(StringArray::from(texts.to_vec())),
            Arc::new(StringViewArray::from(texts.to_vec())),
            Arc::new(dictionary),
        ];
        for array in arrays {
            let value = ColumnarValue::Array(array.slice(1, 2));
            let lengths = Lengths::new(&value);
            assert_eq!(
                (lengths.of(0), lengths.of(1)),
                (24, 0),
                "{:?}",
                array.data_type()
            );
        }
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1), Some(2)]),
            None,
            Some(vec![Some(3)]),
        ]);
        let lists: ArrayRef = Arc::new(lists);
        let lengths = Lengths::of_array(&lists);
        assert_eq!(
            [0, 1, 2].map(|row| lengths.of(row)),
            [2 * OTHER_BYTES, 0, OTHER_BYTES]
        );
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN]));
        assert_eq!(
            Lengths::new(&ColumnarValue::Array(numbers)).of(0),
            OTHER_BYTES
        );
    }
}
