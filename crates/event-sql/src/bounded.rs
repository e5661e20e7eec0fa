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
//! Holds always: a slice is no longer than takes a fraction of a second, memory is asked for before
//! it is taken, and no text of a result is longer than [`TEXT_BYTES_MAX`].

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, make_array};
use arrow::buffer::Buffer;
use arrow::compute::concat;
use arrow::datatypes::{DataType, FieldRef};
use bytes::Bytes;
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use icecore_events::Problem;

use crate::statement::external;
use crate::text_lengths::Lengths;

/// Bytes of results that are made at a time.
const SLICE_BYTES: usize = 4 << 20;

/// Work that is done at a time: bytes that are looked at, or as much as looking at one takes. A
/// tenth of a second or so.
const SLICE_WORK: usize = 32 << 20;

/// Most work for one row, during which the time is not checked.
const ROW_WORK_MAX: usize = 1 << 30;

/// Most bytes of a text that a function makes: as many as one row of a table may have.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 20;

/// Most bytes of a text that a function makes of constants. Plans keep such texts, and count them
/// nowhere.
const CONSTANT_BYTES_MAX: usize = 64 << 10;

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
        self.check_lengths(&made, TEXT_BYTES_MAX)?;
        counted(made, held)
    }

    fn check_lengths(&self, made: &ArrayRef, most: usize) -> Result<()> {
        let lengths = Lengths::of_array(made);
        if (0..made.len()).any(|row| lengths.of(row) > most) {
            let name = self.inner.name();
            let kind = if most == CONSTANT_BYTES_MAX {
                "of constants "
            } else {
                ""
            };
            let detail = format!("{name} makes a text {kind}that is longer than {most} bytes");
            return Err(limit(detail));
        }
        Ok(())
    }
}

fn limit(detail: String) -> DataFusionError {
    external(Problem::new(422, "sql.limit", detail))
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
                return Err(limit(detail));
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
            self.check_lengths(&last, CONSTANT_BYTES_MAX)?;
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
    use arrow::array::{AsArray as _, StringArray};
    use arrow::datatypes::Field;
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
    fn long_texts_are_no_results() {
        let pool = pool(1 << 30);
        let text = |bytes: usize| "x".repeat(bytes);
        let constant = |bytes: usize| {
            let args = vec![ColumnarValue::Scalar(ScalarValue::Utf8(Some(text(bytes))))];
            invoke("upper", Cost::of_text(upper), &pool, args, 1)
        };
        assert!(constant(CONSTANT_BYTES_MAX).is_ok());
        let refused = constant(CONSTANT_BYTES_MAX + 1).unwrap_err();
        assert!(refused.to_string().contains("of constants"), "{refused}");
        let column = |bytes: usize| {
            let array: ArrayRef = Arc::new(StringArray::from(vec!["a".to_owned(), text(bytes)]));
            let args = vec![ColumnarValue::Array(array)];
            invoke("upper", Cost::of_text(upper), &pool, args, 2)
        };
        assert!(column(TEXT_BYTES_MAX).is_ok());
        let refused = column(TEXT_BYTES_MAX + 1).unwrap_err();
        assert!(refused.to_string().contains("longer than"), "{refused}");
        assert_eq!(pool.reserved(), 0);
    }
}
