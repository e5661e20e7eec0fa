//! Functions on texts within the memory and the time of a query.
//!
//! DataFusion counts what operators collect. It does not count what a function makes of a batch,
//! nor look at the time while one runs: a few nested calls make gigabytes of a word.
//!
//! ```text
//! batch ─► slices of rows, by their cost ─► memory and time are checked ─► function
//!                                                                            └► texts, counted
//!                                                                               while they live
//! ```
//!
//! Holds always: a slice is no longer than takes a fraction of a second, and memory is asked for
//! before it is taken.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, make_array};
use arrow::buffer::Buffer;
use arrow::compute::concat;
use arrow::datatypes::{DataType, FieldRef};
use bytes::Bytes;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use icecore_events::Problem;

use crate::statement::external;

/// Bytes of results that are made at a time.
const SLICE_BYTES: usize = 4 << 20;

/// Work that is done at a time: bytes that are looked at, or as much as looking at one takes. A
/// tenth of a second or so.
const SLICE_WORK: usize = 32 << 20;

/// Most work for one row, during which the time is not checked.
const ROW_WORK_MAX: usize = 1 << 30;

/// Most bytes of the text of a value that is none: of a number or a time.
const OTHER_BYTES: usize = 100;

/// Upper bounds of what one row costs, by the bytes of its arguments.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    /// Bytes of the result.
    pub(crate) bytes: fn(&[usize]) -> usize,
    pub(crate) work: fn(&[usize]) -> usize,
}

impl Cost {
    /// Of a function that takes as long as its result is.
    pub(crate) const fn of_text(bytes: fn(&[usize]) -> usize) -> Self {
        Self { bytes, work: bytes }
    }
}

/// A function with its cost.
pub(crate) struct Bounded {
    inner: Arc<ScalarUDF>,
    cost: Cost,
    pool: Arc<dyn MemoryPool>,
}

impl Bounded {
    pub(crate) fn new(inner: Arc<ScalarUDF>, cost: Cost, pool: &Arc<dyn MemoryPool>) -> Self {
        Self {
            inner,
            cost,
            pool: Arc::clone(pool),
        }
    }

    /// Runs the function for rows from `from` to `to`.
    fn invoke_slice(
        &self,
        args: &ScalarFunctionArgs,
        (from, to): (usize, usize),
        bytes: usize,
    ) -> Result<ArrayRef> {
        let consumer = MemoryConsumer::new(self.inner.name().to_owned());
        let held = consumer.register(&self.pool);
        // Texts grow in buffers that may be twice as long.
        held.try_grow(bytes.saturating_mul(2))?;
        let slice = |value: &ColumnarValue| match value {
            ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(from, to - from)),
            ColumnarValue::Scalar(value) => ColumnarValue::Scalar(value.clone()),
        };
        let made = self.inner.invoke_with_args(ScalarFunctionArgs {
            args: args.args.iter().map(slice).collect(),
            arg_fields: args.arg_fields.clone(),
            number_rows: to - from,
            return_field: Arc::clone(&args.return_field),
            config_options: Arc::clone(&args.config_options),
        })?;
        let made = made.into_array(to - from)?;
        counted(made, held)
    }
}

impl fmt::Debug for Bounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bounded").field(&self.inner).finish()
    }
}

impl PartialEq for Bounded {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl Eq for Bounded {}

impl Hash for Bounded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        let all_scalar = args.args.iter().all(is_scalar);
        let rows = if all_scalar { 1 } else { args.number_rows };
        let lengths: Vec<Lengths<'_>> = args.args.iter().map(Lengths::new).collect();
        let mut row_lengths = vec![0; lengths.len()];
        let mut made: Vec<ArrayRef> = Vec::new();
        let (mut from, mut bytes, mut work) = (0, 0usize, 0usize);
        for row in 0..rows {
            for (length, of_value) in row_lengths.iter_mut().zip(&lengths) {
                *length = of_value.of(row);
            }
            let (row_bytes, row_work) = (
                (self.cost.bytes)(&row_lengths),
                (self.cost.work)(&row_lengths),
            );
            if row_work > ROW_WORK_MAX {
                let detail = format!("the texts of {} are too long", self.inner.name());
                return Err(external(Problem::new(422, "sql.limit", detail)));
            }
            let is_full = bytes.saturating_add(row_bytes) > SLICE_BYTES
                || work.saturating_add(row_work) > SLICE_WORK;
            if is_full && row > from {
                made.push(self.invoke_slice(&args, (from, row), bytes)?);
                (from, bytes, work) = (row, 0, 0);
            }
            bytes = bytes.saturating_add(row_bytes);
            work = work.saturating_add(row_work);
        }
        let last = self.invoke_slice(&args, (from, rows), bytes)?;
        if all_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                &last, 0,
            )?));
        }
        if made.is_empty() {
            return Ok(ColumnarValue::Array(last));
        }
        made.push(last);
        let parts: Vec<&dyn Array> = made.iter().map(AsRef::as_ref).collect();
        let bytes = parts.iter().map(|part| part.get_array_memory_size()).sum();
        let held = MemoryConsumer::new(self.inner.name().to_owned()).register(&self.pool);
        held.try_grow(bytes)?;
        let whole = concat(&parts)?;
        Ok(ColumnarValue::Array(counted(whole, held)?))
    }
}

/// The bytes of the texts of an argument.
enum Lengths<'a> {
    Same(usize),
    Texts(Box<dyn Fn(usize) -> usize + 'a>),
}

impl<'a> Lengths<'a> {
    fn new(value: &'a ColumnarValue) -> Self {
        match value {
            ColumnarValue::Scalar(value) => Self::Same(scalar_length(value)),
            ColumnarValue::Array(array) => Self::of_array(array),
        }
    }

    fn of_array(array: &'a ArrayRef) -> Self {
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
            _ => Self::Same(OTHER_BYTES),
        }
    }

    fn of(&self, row: usize) -> usize {
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

/// Bytes of an array with the memory that they count for.
struct CountedBuffer {
    buffer: Buffer,
    _held: Arc<MemoryReservation>,
}

impl AsRef<[u8]> for CountedBuffer {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_slice()
    }
}

/// The array, which counts for as long as any part of it is there.
fn counted(array: ArrayRef, held: MemoryReservation) -> Result<ArrayRef> {
    held.try_resize(array.get_array_memory_size())?;
    let held = Arc::new(held);
    let data = array.to_data();
    let buffers = data.buffers().iter().map(|buffer| {
        Buffer::from(Bytes::from_owner(CountedBuffer {
            buffer: buffer.clone(),
            _held: Arc::clone(&held),
        }))
    });
    let counted = data.clone().into_builder().buffers(buffers.collect());
    Ok(make_array(counted.build()?))
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, Int64Array, StringArray, StringViewArray};
    use arrow::datatypes::{Field, Int32Type};
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::prelude::SessionContext;

    use super::*;

    fn pool(bytes: usize) -> Arc<dyn MemoryPool> {
        Arc::new(GreedyMemoryPool::new(bytes))
    }

    fn invoke(
        name: &str,
        cost: Cost,
        pool: &Arc<dyn MemoryPool>,
        args: Vec<ColumnarValue>,
        rows: usize,
    ) -> Result<ColumnarValue> {
        let context = SessionContext::new();
        let inner = Arc::clone(&context.state().scalar_functions()[name]);
        let fields = args
            .iter()
            .map(|arg| Arc::new(Field::new("a", arg.data_type(), true)));
        Bounded::new(inner, cost, pool).invoke_with_args(ScalarFunctionArgs {
            arg_fields: fields.collect(),
            args,
            number_rows: rows,
            return_field: Arc::new(Field::new("r", DataType::Utf8, true)),
            config_options: Arc::default(),
        })
    }

    fn upper(lengths: &[usize]) -> usize {
        lengths.iter().sum::<usize>() * 3
    }

    #[test]
    fn results_are_the_same_in_slices_and_count_while_they_live() {
        let pool = pool(1 << 30);
        let texts: Vec<String> = (0..5000)
            .map(|i| format!("{i}{}", "x".repeat(1000)))
            .collect();
        let array: ArrayRef = Arc::new(StringArray::from_iter_values(&texts));
        let args = vec![ColumnarValue::Array(array)];
        // Fifteen megabytes at most, so that there are four slices.
        let made = invoke("upper", Cost::of_text(upper), &pool, args, texts.len()).unwrap();
        let ColumnarValue::Array(made) = made else {
            panic!("an array")
        };
        let expected = texts.iter().map(|text| text.to_uppercase());
        assert!(made.as_string::<i32>().iter().flatten().eq(expected));
        assert!(pool.reserved() >= 5_000_000, "{}", pool.reserved());
        let part = made.slice(7, 1);
        drop(made);
        assert!(pool.reserved() >= 5_000_000);
        drop(part);
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn memory_is_asked_for_before_it_is_taken() {
        let pool = pool(1 << 20);
        let text = |text: &str| ColumnarValue::Scalar(ScalarValue::Utf8(Some(text.into())));
        let args = vec![
            text(&"x".repeat(1000)),
            text("x"),
            text(&"y".repeat(100_000)),
        ];
        let much = |_: &[usize]| 100_000_000;
        let refused = invoke("replace", Cost::of_text(much), &pool, args, 1).unwrap_err();
        assert!(refused.to_string().contains("replace"), "{refused}");
        assert_eq!(pool.reserved(), 0);
        let endless = Cost {
            bytes: upper,
            work: |_| usize::MAX,
        };
        let refused = invoke("upper", endless, &pool, vec![text("x")], 1).unwrap_err();
        assert!(refused.to_string().contains("too long"), "{refused}");
    }

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
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN]));
        assert_eq!(
            Lengths::new(&ColumnarValue::Array(numbers)).of(0),
            OTHER_BYTES
        );
    }
}
