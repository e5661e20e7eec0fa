//! Limits of a plan: the expressions that it comes to, and the texts and columns that it makes of
//! each batch beside those that it reads.
//!
//! A text in a query becomes a text for each row of a batch where it is a column, and each
//! expression a column. The optimizer repeats both wherever a query refers to them.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable as _, LogicalPlan};
use icecore_events::Problem;

use crate::statement::external;

/// Most expressions of one operation that are more than a column: each is computed for all rows of
/// a batch before any is passed on.
const COMPUTED_MAX: usize = 256;

/// Most parts of an expression of which all columns are written out: the optimizer may do so.
const WRITTEN_OUT_MAX: usize = 100_000;

/// Most bytes of all texts of a plan, those that were folded included.
const TEXTS_MAX: usize = 16 << 20;

/// Checks a plan before it is optimized, which takes time and memory that nothing sees.
pub(crate) fn check_written_out(plan: &LogicalPlan) -> Result<()> {
    column_size(plan).map(drop)
}

/// Returns the most parts that a column of a plan has when columns below are written out.
fn column_size(plan: &LogicalPlan) -> Result<usize> {
    let inputs = plan.inputs();
    let mut below = 1;
    for input in &inputs {
        below = below.max(column_size(input)?);
    }
    plan.apply_subqueries(|subquery| {
        below = below.max(column_size(subquery)?);
        Ok(TreeNodeRecursion::Continue)
    })?;
    let schema = merge_schema(&inputs);
    let is_boolean = |expr: &Expr| {
        matches!(
            expr.get_type(&schema),
            Ok(DataType::Boolean | DataType::Null)
        )
    };
    let mut widest = below;
    plan.apply_expressions(|expr| {
        let size = written_out(expr, below, &is_boolean);
        if size > WRITTEN_OUT_MAX {
            let detail = format!(
                "an expression has more than {WRITTEN_OUT_MAX} parts where the columns of \
                 subqueries are written out"
            );
            return Err(external(Problem::new(422, "sql.limit", detail)));
        }
        widest = widest.max(size);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(match plan {
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => widest,
        _ => below,
    })
}

/// Returns the parts of an expression, of whose columns each has `column` parts. What the optimizer
/// writes twice counts twice.
fn written_out(expr: &Expr, column: usize, is_boolean: &dyn Fn(&Expr) -> bool) -> usize {
    if matches!(expr, Expr::Column(_)) {
        return column;
    }
    let mut size = usize::from(!matches!(expr, Expr::Alias(_)));
    let visited = expr.apply_children(|child| {
        size = size.saturating_add(written_out(child, column, is_boolean));
        Ok(TreeNodeRecursion::Continue)
    });
    if visited.is_err() {
        return usize::MAX;
    }
    let is_doubled = match expr {
        Expr::Between(_) => true,
        // A condition becomes a chain of AND and OR.
        Expr::Case(_) => is_boolean(expr),
        Expr::ScalarFunction(call) => ["coalesce", "nvl"].contains(&call.func.name()),
        _ => false,
    };
    size.saturating_mul(if is_doubled { 2 } else { 1 })
}

/// Checks a plan that is ready to run.
pub(crate) fn check(plan: &LogicalPlan, batch_rows: usize, memory_bytes: usize) -> Result<()> {
    let mut texts = 0;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            texts += text_bytes(expr)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        if texts > TEXTS_MAX {
            let detail = format!("the texts of the query have more than {TEXTS_MAX} bytes");
            return Err(external(Problem::new(422, "sql.limit", detail)));
        }
        let makes_columns = matches!(
            node,
            LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)
        );
        if makes_columns {
            check_columns(&node.expressions(), batch_rows, memory_bytes)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn check_columns(exprs: &[Expr], batch_rows: usize, memory_bytes: usize) -> Result<()> {
    let computed = exprs.iter().filter(|expr| !is_column(expr));
    if computed.count() > COMPUTED_MAX {
        let detail = format!("a query computes at most {COMPUTED_MAX} columns at a time");
        return Err(external(Problem::new(422, "sql.limit", detail)));
    }
    let mut texts = 0;
    for expr in exprs {
        texts += text_bytes(expr)?;
    }
    if texts.saturating_mul(batch_rows) > memory_bytes {
        let detail = "the texts of the query, for each row, are larger than its memory";
        return Err(external(Problem::new(422, "sql.limit", detail)));
    }
    Ok(())
}

/// Returns the bytes of the texts of an expression.
fn text_bytes(expr: &Expr) -> Result<usize> {
    let mut bytes = 0;
    expr.apply(|expr| {
        bytes += text_length(expr);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(bytes)
}

fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_column(&alias.expr),
        expr => matches!(expr, Expr::Column(_)),
    }
}

fn text_length(expr: &Expr) -> usize {
    match expr {
        Expr::Literal(
            ScalarValue::Utf8(Some(text))
            | ScalarValue::LargeUtf8(Some(text))
            | ScalarValue::Utf8View(Some(text)),
            _,
        ) => text.len(),
        _ => 0,
    }
}
