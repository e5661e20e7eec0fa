//! Memory of rows that operators of DataFusion take and do not count.
//!
//! ```text
//! table ─► CountedRows ─► projection with CASE ─► CountedRows ─► join ─► …
//!          texts of a row     └ copies texts          └ repeats them for each row of a batch
//!          have a limit
//! ```
//!
//! Holds always:
//! - The memory is asked for before the operator gets the rows that need it.
//! - The time of the query is looked at whenever rows pass, while operators wait for nothing, too.
//!
//! Texts that functions make are counted in `bounded`.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array as _, RecordBatch, UInt64Array};
use arrow::compute::take_record_batch;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{CaseExpr, CastExpr, TryCastExpr};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties,
    ReplaceChildrenOptions, replace_children_if_necessary,
};
use futures::{TryStreamExt as _, stream};
use icecore_events::Problem;

use crate::bounded::TEXT_BYTES_MAX;
use crate::statement::external;
use crate::text_lengths::{Lengths, is_text};

/// Rows of a batch in plans that repeat rows: each may have the longest text of all.
pub(crate) const REPEATED_ROWS: usize = 1_024;

/// Bytes of a batch of a table that are not counted: each thread has such a batch.
const READ_BYTES: usize = 32 << 20;

/// Bytes of a value that is none of the texts, with what is kept about it.
const VALUE_BYTES: usize = 16;

/// Functions that copy a text and are not bounded.
const COPYING: [&str; 3] = ["greatest", "least", "nullif"];

/// A plan whose operators count rows.
pub(crate) struct CountedPlan {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    /// Set if an operator repeats rows: its batches should be small.
    pub(crate) repeats: bool,
}

impl CountedPlan {
    pub(crate) fn new(plan: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let mut repeats = false;
        let counted = plan.transform_up(|plan| count_inputs(plan, &mut repeats))?;
        Ok(Self {
            plan: counted.data,
            repeats,
        })
    }
}

/// The use that an operator makes of the rows of an input.
#[derive(Clone, Copy, Debug)]
enum RowUse {
    /// A table hands them over.
    Read,
    /// So many expressions copy texts of a batch.
    Copied(usize),
    /// Any row may become all rows of a batch, in so many columns.
    Repeated(usize),
    /// All of them are collected, and any text may be repeated for each row in so many columns.
    Collected(usize),
}

fn count_inputs(
    plan: Arc<dyn ExecutionPlan>,
    repeats: &mut bool,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let inputs: Vec<Arc<dyn ExecutionPlan>> = plan.children().into_iter().cloned().collect();
    if inputs.is_empty() {
        return Ok(Transformed::yes(CountedRows::over(plan, RowUse::Read)));
    }
    let name = plan.name().to_owned();
    let copies = copies(&plan)?;
    let mut counted = Vec::with_capacity(inputs.len());
    for (at, input) in inputs.iter().enumerate() {
        let row_use = match name.as_str() {
            "ScalarSubqueryExec" if at == 0 => None,
            "ScalarSubqueryExec" => Some(RowUse::Repeated(subquery_uses(&inputs[0])?)),
            "WindowAggExec" | "BoundedWindowAggExec" => {
                Some(RowUse::Collected(window_texts(&plan)))
            }
            name if name.ends_with("JoinExec") => Some(RowUse::Repeated(1 + copies)),
            _ if copies > 0 => Some(RowUse::Copied(copies)),
            _ => None,
        };
        *repeats |= matches!(row_use, Some(RowUse::Repeated(_)));
        let input = Arc::clone(input);
        counted.push(match row_use {
            Some(row_use) => CountedRows::over(input, row_use),
            None => input,
        });
    }
    Ok(Transformed::yes(replace_children_if_necessary(
        plan, counted,
    )?))
}

/// Returns how many times an operator copies the texts of a batch.
fn copies(plan: &Arc<dyn ExecutionPlan>) -> Result<usize> {
    let copies = expressions(plan, &is_copy)?;
    // Each grouping set has groups of its own.
    let sets = plan.downcast_ref::<AggregateExec>();
    let sets = sets.map_or(0, |aggregate| aggregate.group_expr().groups().len());
    Ok(if sets > 1 { copies + sets } else { copies })
}

fn is_copy(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let is_listed = |call: &ScalarFunctionExpr| COPYING.contains(&call.fun().name());
    expr.is::<CaseExpr>()
        || expr.is::<CastExpr>()
        || expr.is::<TryCastExpr>()
        || expr
            .downcast_ref::<ScalarFunctionExpr>()
            .is_some_and(is_listed)
}

/// Counts expressions of one operator.
fn expressions(
    plan: &Arc<dyn ExecutionPlan>,
    is_counted: &dyn Fn(&Arc<dyn PhysicalExpr>) -> bool,
) -> Result<usize> {
    let mut count = 0;
    plan.apply_expressions(&mut |root| {
        root.apply(|expr| {
            count += usize::from(is_counted(expr));
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(count)
}

/// Returns how many times a plan uses results of subqueries.
fn subquery_uses(plan: &Arc<dyn ExecutionPlan>) -> Result<usize> {
    let mut uses = 0;
    plan.apply(|node| {
        uses += expressions(node, &|expr| expr.is::<ScalarSubqueryExpr>())?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(uses)
}

/// Returns how many columns of texts windows add to their input.
fn window_texts(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let of_input = plan.children()[0].schema().fields().len();
    let schema = plan.schema();
    let added = schema.fields().iter().skip(of_input);
    added.filter(|field| is_text(field.data_type())).count()
}

/// Passes rows on, and counts what the operator above takes for them.
#[derive(Debug)]
struct CountedRows {
    input: Arc<dyn ExecutionPlan>,
    row_use: RowUse,
    /// For each partition. Operators keep rows when their input has ended, so that this lasts as
    /// long as the plan.
    held: Arc<Mutex<HashMap<usize, Arc<MemoryReservation>>>>,
}

impl CountedRows {
    fn over(input: Arc<dyn ExecutionPlan>, row_use: RowUse) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self {
            input,
            row_use,
            held: Arc::default(),
        })
    }

    fn held(&self, partition: usize, context: &TaskContext) -> Arc<MemoryReservation> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let of_partition = held.entry(partition).or_insert_with(|| {
            let consumer = MemoryConsumer::new("texts of rows");
            Arc::new(consumer.register(context.memory_pool()))
        });
        Arc::clone(of_partition)
    }
}

impl DisplayAs for CountedRows {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CountedRows: {:?}", self.row_use)
    }
}

impl ExecutionPlan for CountedRows {
    fn name(&self) -> &str {
        "CountedRows"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            input: children.swap_remove(0),
            row_use: self.row_use,
            held: Arc::clone(&self.held),
        }))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            input: children.swap_remove(0),
            row_use: self.row_use,
            held: Arc::clone(&self.held),
        }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = Rows {
            row_use: self.row_use,
            batch_rows: context.session_config().batch_size(),
            held: self.held(partition, &context),
            input: self.input.execute(partition, context)?,
            rest: None,
            bytes: 0,
            rows: 0,
            widest: 0,
        };
        let batches = stream::try_unfold(rows, |mut rows| async move {
            let next = rows.next().await?;
            Ok(next.map(|batch| (batch, rows)))
        });
        let schema = self.input.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// The rows of one partition.
struct Rows {
    input: SendableRecordBatchStream,
    row_use: RowUse,
    batch_rows: usize,
    held: Arc<MemoryReservation>,
    /// A batch that is passed on in parts, and how many of its rows have been.
    rest: Option<(RecordBatch, usize)>,
    /// Of all rows so far.
    bytes: usize,
    rows: usize,
    /// Bytes of the texts of one row, at most.
    widest: usize,
}

impl Rows {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        // No memory is asked for, but the time is looked at.
        self.held.try_grow(0)?;
        if let Some((batch, from)) = self.rest.take() {
            return self.part(batch, from).map(Some);
        }
        let Some(batch) = self.input.try_next().await? else {
            if matches!(self.row_use, RowUse::Read | RowUse::Copied(_)) {
                self.held.free();
            }
            return Ok(None);
        };
        self.count(&batch)?;
        let is_long = batch.num_rows() > self.batch_rows;
        if is_long && matches!(self.row_use, RowUse::Repeated(_)) {
            return self.part(batch, 0).map(Some);
        }
        Ok(Some(batch))
    }

    /// Some rows of a batch, copied: DataFusion counts slices as if they were whole.
    fn part(&mut self, batch: RecordBatch, from: usize) -> Result<RecordBatch> {
        let to = batch.num_rows().min(from + self.batch_rows);
        let part = if batch.num_columns() == 0 {
            batch.slice(from, to - from)
        } else {
            let rows = UInt64Array::from_iter_values(from as u64..to as u64);
            take_record_batch(&batch, &rows)?
        };
        if to < batch.num_rows() {
            self.rest = Some((batch, to));
        }
        Ok(part)
    }

    /// Asks for the memory that the operator above takes when it has this batch, too.
    fn count(&mut self, batch: &RecordBatch) -> Result<()> {
        let (texts, widest) = lengths(batch);
        self.widest = self.widest.max(widest);
        let bytes = match self.row_use {
            RowUse::Read => {
                if widest > TEXT_BYTES_MAX {
                    let detail =
                        format!("a row of a table has more than {TEXT_BYTES_MAX} bytes of text");
                    return Err(external(
                        Problem::new(422, "sql.limit", detail)
                            .with_hint("a query reads the columns that it names"),
                    ));
                }
                batch.get_array_memory_size().saturating_sub(READ_BYTES)
            }
            // Once in parts, and once as a whole.
            RowUse::Copied(times) => texts.saturating_mul(2 * times),
            RowUse::Repeated(times) => self.widest.saturating_mul(self.batch_rows * times),
            RowUse::Collected(columns) => {
                let rows = batch.num_rows();
                self.rows += rows;
                self.bytes += texts + rows * batch.num_columns() * VALUE_BYTES;
                let repeated = self.widest.saturating_mul(self.rows * columns);
                repeated.saturating_add(2 * self.bytes)
            }
        };
        self.held.try_resize(bytes)
    }
}

/// Bytes of the texts of a batch, and of its widest row.
fn lengths(batch: &RecordBatch) -> (usize, usize) {
    let columns = batch.columns().iter();
    let columns: Vec<Lengths<'_>> = columns
        .filter(|column| is_text(column.data_type()))
        .map(Lengths::of_array)
        .collect();
    let rows = (0..batch.num_rows()).map(|row| -> usize {
        let texts = columns.iter().map(|column| column.of(row));
        texts.fold(0usize, usize::saturating_add)
    });
    rows.fold((0usize, 0usize), |(all, widest), row| {
        (all.saturating_add(row), widest.max(row))
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    use datafusion::physical_plan::EmptyRecordBatchStream;

    use super::*;

    fn batch(texts: &[&str]) -> RecordBatch {
        let numbers = Int64Array::from_iter_values(0..texts.len() as i64);
        let columns: [(&str, ArrayRef); 3] = [
            ("a", Arc::new(StringArray::from(texts.to_vec()))),
            ("b", Arc::new(StringArray::from(texts.to_vec()))),
            ("c", Arc::new(numbers)),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn rows(row_use: RowUse, pool: &Arc<dyn MemoryPool>, schema: &RecordBatch) -> Rows {
        Rows {
            input: Box::pin(EmptyRecordBatchStream::new(schema.schema())),
            row_use,
            batch_rows: 10,
            held: Arc::new(MemoryConsumer::new("rows").register(pool)),
            rest: None,
            bytes: 0,
            rows: 0,
            widest: 0,
        }
    }

    #[test]
    fn rows_count_as_they_are_used() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(10_000));
        let (small, wide) = (batch(&["a", "bb"]), batch(&["", "cccc"]));
        assert_eq!((lengths(&small), lengths(&wide)), ((6, 4), (8, 8)));
        // The copies of the last batch, and the widest row of all.
        for (row_use, of_wide, of_small) in [
            (RowUse::Read, 0, 0),
            (RowUse::Copied(3), 8 * 2 * 3, 6 * 2 * 3),
            (RowUse::Repeated(2), 8 * 10 * 2, 8 * 10 * 2),
            (
                RowUse::Collected(5),
                8 * 2 * 5 + 2 * (8 + 6 * VALUE_BYTES),
                8 * 4 * 5 + 2 * (8 + 6 + 12 * VALUE_BYTES),
            ),
        ] {
            let mut rows = rows(row_use, &pool, &small);
            rows.count(&wide).unwrap();
            assert_eq!(pool.reserved(), of_wide, "{row_use:?}");
            rows.count(&small).unwrap();
            assert_eq!(pool.reserved(), of_small, "{row_use:?}");
            drop(rows);
            assert_eq!(pool.reserved(), 0);
        }
        let long = batch(&[&"x".repeat(501)]);
        assert!(
            rows(RowUse::Repeated(1), &pool, &long)
                .count(&long)
                .is_err()
        );
        let long = batch(&[&"x".repeat(TEXT_BYTES_MAX / 2 + 1)]);
        assert!(rows(RowUse::Read, &pool, &long).count(&long).is_err());
    }

    #[test]
    fn long_batches_are_passed_on_in_parts() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(10_000));
        let texts: Vec<String> = (0..25).map(|row| row.to_string()).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let whole = batch(&texts);
        let mut rows = rows(RowUse::Repeated(1), &pool, &whole);
        let mut parts = vec![rows.part(whole.clone(), 0).unwrap()];
        while let Some((batch, from)) = rows.rest.take() {
            parts.push(rows.part(batch, from).unwrap());
        }
        let counts: Vec<usize> = parts.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(counts, [10, 10, 5]);
        let joined = arrow::compute::concat_batches(&whole.schema(), &parts).unwrap();
        assert_eq!(joined, whole);
    }
}
