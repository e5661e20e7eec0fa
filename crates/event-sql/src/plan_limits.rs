//! Limits of a plan that is ready to run: the texts and columns that it makes of each batch beside
//! those that it reads.
//!
//! A text in a query becomes a text for each row of a batch where it is a column, and each
//! expression a column. The optimizer repeats both wherever a query refers to them.

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use icecore_events::Problem;

use crate::statement::external;

/// Most expressions of one operation that are more than a column: each is computed for all rows of
/// a batch before any is passed on.
const COMPUTED_MAX: usize = 256;

/// Most bytes of all texts of a plan, those that were folded included.
const TEXTS_MAX: usize = 16 << 20;

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
