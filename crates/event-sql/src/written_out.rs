//! The size that a plan may grow to while it is optimized.
//!
//! The optimizer writes columns of subqueries out wherever a condition names them, repeats parts of
//! some expressions, and copies conditions to all tables below. It asks for no memory meanwhile.
//!
//! ```text
//! Filter x > 1               ─► size of the condition × tables below
//!   Union
//!     Projection a + a AS x  ─► x: three parts, wherever x stands
//!       Table, Table
//! ```
//!
//! Holds always: an optimized plan has no more parts than are counted here. Tests compare both. Its
//! memory is a small multiple: filters of tables are kept twice, and a rule may hold an expression
//! beside its copy.

use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{Case, ScalarFunction};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};
use icecore_events::Problem;

use crate::statement::external;
use crate::steps::Steps;

/// Most parts of all expressions of a plan, with columns written out and conditions counted for
/// each table below.
const PARTS_MAX: usize = 100_000;

/// Parts of an operation of a plan, beside its expressions: subqueries in expressions are repeated
/// as a whole.
const OPERATION_PARTS: usize = 10;

/// The longest list of `IN` that becomes a comparison for each value.
const SHORT_LIST: usize = 3;

/// Most subqueries in expressions, each in the one before: with each level, rules visit those in it
/// twice as often.
const SUBQUERY_LEVELS_MAX: usize = 8;

/// Checks a plan before it is optimized, which takes time and memory that nothing sees.
pub(crate) fn check(plan: &LogicalPlan) -> Result<()> {
    Written::new(plan, Outer::default()).map(drop)
}

/// The size of an expression.
#[derive(Clone, Copy, Default)]
struct Size {
    parts: usize,
    /// Parts of the subqueries in it.
    subqueries: usize,
    steps: Steps,
    /// Set if it may turn out to be a NULL that stands in the query.
    may_be_null: bool,
}

impl Size {
    /// The size of a column that is written out no further.
    fn column() -> Self {
        Self::default().operation()
    }

    fn and(self, other: Self) -> Self {
        Self {
            parts: self.parts.saturating_add(other.parts),
            subqueries: self.subqueries.saturating_add(other.subqueries),
            steps: self.steps.and(other.steps),
            may_be_null: self.may_be_null || other.may_be_null,
        }
    }

    fn times(self, count: usize) -> Self {
        Self {
            parts: self.parts.saturating_mul(count),
            subqueries: self.subqueries.saturating_mul(count),
            steps: self.steps.times(count),
            ..self
        }
    }

    fn max(self, other: Self) -> Self {
        Self {
            parts: self.parts.max(other.parts),
            subqueries: self.subqueries.max(other.subqueries),
            steps: self.steps.max(other.steps),
            may_be_null: self.may_be_null || other.may_be_null,
        }
    }

    fn operation(self) -> Self {
        Self {
            parts: self.parts.saturating_add(1),
            steps: self.steps.operation(),
            ..self
        }
    }
}

/// The size of a `CASE`, arm by arm.
#[derive(Default)]
struct CaseSize {
    conditions: Size,
    /// Conditions as often as they may be written.
    repeated: Size,
    results: Size,
}

impl CaseSize {
    fn add_condition(&mut self, condition: Size, copies: usize) {
        self.conditions = self.conditions.and(condition);
        self.repeated = self.repeated.and(condition.times(copies));
    }

    fn add_result(&mut self, result: Size) {
        self.results = self.results.and(result);
    }

    fn size(self) -> Size {
        let steps = [&self.conditions, &self.repeated, &self.results].map(|size| size.steps);
        let [conditions, repeated, results] = steps;
        Size {
            steps: Steps::case(conditions, repeated, results),
            may_be_null: self.results.may_be_null,
            ..self.repeated.and(self.results).operation()
        }
    }
}

/// The largest of columns.
fn widest<'s>(columns: impl IntoIterator<Item = &'s Size>) -> Size {
    let columns = columns.into_iter().copied();
    columns.fold(Size::column(), Size::max)
}

/// The size of a plan.
struct Written {
    /// Sizes of its columns where they are written out.
    columns: Vec<Size>,
    /// Tables, and other inputs that have none themselves, with those of subqueries.
    leaves: usize,
    /// Parts of all its expressions.
    parts: usize,
    /// Subqueries in expressions, each in the one before.
    levels: usize,
}

/// The part of the query around a subquery that it names, and where its conditions may go there.
#[derive(Clone, Copy, Default)]
struct Outer {
    column: Size,
    leaves: usize,
}

impl Outer {
    fn with(self, input: &Written) -> Self {
        Self {
            column: self.column.max(widest(&input.columns)),
            leaves: self.leaves.saturating_add(input.leaves),
        }
    }
}

impl Written {
    fn new(plan: &LogicalPlan, outer: Outer) -> Result<Self> {
        let mut inputs: Vec<Self> = Vec::new();
        for input in plan.inputs() {
            // A lateral subquery names columns of what it is joined with.
            let is_joined = matches!(plan, LogicalPlan::Join(_));
            let left = inputs.iter().take(usize::from(is_joined));
            let around = left.fold(outer, Outer::with);
            inputs.push(Self::new(input, around)?);
        }
        let around = inputs.iter().fold(outer, Outer::with);
        let of_inputs: usize = inputs.iter().map(|input| input.leaves).sum();
        let of_inputs = of_inputs.max(1);
        let (mut leaves, mut subquery) = (of_inputs, 0);
        let mut levels = inputs.iter().map(|input| input.levels).max().unwrap_or(0);
        levels += usize::from(matches!(plan, LogicalPlan::Subquery(_)));
        plan.apply_subqueries(|plan| {
            let written = Self::new(plan, around)?;
            leaves += written.leaves;
            subquery = written.parts.max(subquery);
            levels = written.levels.max(levels);
            Ok(TreeNodeRecursion::Continue)
        })?;
        if levels > SUBQUERY_LEVELS_MAX {
            return Err(limit(format!(
                "more than {SUBQUERY_LEVELS_MAX} subqueries are nested, with those of WITH written \
                 out"
            )));
        }
        // A condition may go to tables of a subquery in it. The subquery itself does not.
        let is_condition = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
        let (copies, of_subqueries) = if is_condition {
            (leaves.saturating_add(outer.leaves), of_inputs)
        } else {
            (1, 1)
        };
        let schemas = plan.inputs().into_iter().map(|input| &**input.schema());
        let below = Below {
            inputs: schemas.zip(&inputs).collect(),
            outer: outer.column,
            subquery,
        };
        let mut parts = inputs.iter().fold(OPERATION_PARTS, |parts, input| {
            parts.saturating_add(input.parts)
        });
        let mut made = Vec::new();
        plan.apply_expressions(|expr| {
            let size = below.size(expr)?;
            if size.steps.are_too_many() {
                return Err(limit(
                    "CASE and functions are nested too deeply where the columns of subqueries are \
                     written out"
                        .to_owned(),
                ));
            }
            parts = parts.saturating_add(size.parts.saturating_mul(copies));
            parts = parts.saturating_add(size.subqueries.saturating_mul(of_subqueries));
            check_parts(parts)?;
            made.push(size);
            Ok(TreeNodeRecursion::Continue)
        })?;
        check_parts(parts)?;
        Ok(Self {
            columns: columns(plan, &inputs, made),
            leaves,
            parts,
            levels,
        })
    }
}

fn check_parts(parts: usize) -> Result<()> {
    if parts > PARTS_MAX {
        return Err(limit(format!(
            "the expressions of a query have more than {PARTS_MAX} parts where the columns of \
             subqueries are written out, and conditions for each table"
        )));
    }
    Ok(())
}

fn limit(detail: String) -> DataFusionError {
    external(Problem::new(422, "sql.limit", detail))
}

/// Returns the sizes of the columns of a plan that makes expressions of these sizes.
fn columns(plan: &LogicalPlan, inputs: &[Written], mut made: Vec<Size>) -> Vec<Size> {
    let width = plan.schema().fields().len();
    let below: Vec<Size> = inputs
        .iter()
        .flat_map(|input| &input.columns)
        .copied()
        .collect();
    let widest = widest(below.iter().chain(&made));
    let columns = match plan {
        LogicalPlan::Projection(_) => made,
        // Conditions go no further than what is aggregated or is computed of windows.
        LogicalPlan::Aggregate(aggregate)
            if !matches!(aggregate.group_expr[..], [Expr::GroupingSet(_)]) =>
        {
            made.truncate(aggregate.group_expr.len());
            made.resize(width, Size::column());
            made
        }
        LogicalPlan::Window(_) => {
            let mut columns = below;
            columns.resize(width, Size::column());
            columns
        }
        LogicalPlan::Union(_) => {
            let mut inputs = inputs.iter().map(|input| input.columns.clone());
            let first = inputs.next().unwrap_or_default();
            inputs.fold(first, |columns, input| {
                let pairs = columns.into_iter().zip(input);
                pairs.map(|(one, other)| one.max(other)).collect()
            })
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => below,
        _ => Vec::new(),
    };
    if columns.len() == width {
        columns
    } else {
        vec![widest; width]
    }
}

/// The inputs of one operation, to which its expressions refer.
struct Below<'p> {
    inputs: Vec<(&'p DFSchema, &'p Written)>,
    /// The size of a column of the query around.
    outer: Size,
    /// Parts of the largest subquery in these expressions.
    subquery: usize,
}

impl Below<'_> {
    /// Returns the size of an expression with its columns written out. What the optimizer repeats
    /// counts as often.
    fn size(&self, expr: &Expr) -> Result<Size> {
        match expr {
            Expr::Column(column) => Ok(self.column(column)),
            Expr::OuterReferenceColumn(..) => Ok(self.outer.max(Size::column())),
            Expr::Case(case) => self.case(case),
            Expr::ScalarFunction(call) => match call.func.name() {
                "coalesce" | "nvl" => self.coalesce(call),
                "nvl2" => self.nvl2(call),
                _ => self.operation(expr),
            },
            _ => self.operation(expr),
        }
    }

    fn operation(&self, expr: &Expr) -> Result<Size> {
        let mut size = Size::default();
        expr.apply_children(|child| {
            size = size.and(self.size(child)?);
            Ok(TreeNodeRecursion::Continue)
        })?;
        size.may_be_null = match expr {
            Expr::Literal(value, _) => value.is_null(),
            Expr::Alias(_)
            | Expr::BinaryExpr(_)
            | Expr::Not(_)
            | Expr::Negative(_)
            | Expr::Cast(_)
            | Expr::Like(_)
            | Expr::Between(_)
            | Expr::InList(_) => size.may_be_null,
            _ => true,
        };
        if is_subquery(expr) {
            size.subqueries = size.subqueries.saturating_add(self.subquery);
        }
        Ok(size.operation().times(repeated(expr)))
    }

    /// A `CASE` whose results are true and false becomes `AND` and `OR`, where a condition stands
    /// in its own arm, in each that follows, and in the last. It may become one while the query is
    /// optimized, because it is compared with a constant.
    ///
    /// Where there are three arms or more, none but two of one truth and those of NULL remain.
    fn case(&self, case: &Case) -> Result<Size> {
        let mut size = CaseSize::default();
        if let Some(operand) = &case.expr {
            size.add_condition(self.size(operand)?, 1);
        }
        let (mut nulls, mut at_first) = (0, 0usize);
        for (later, (condition, result)) in case.when_then_expr.iter().rev().enumerate() {
            let (condition, result) = (self.size(condition)?, self.size(result)?);
            nulls += usize::from(result.may_be_null);
            let written = later + 2;
            let copies = match case.expr {
                Some(_) => 1,
                None => written.min(nulls + 3),
            };
            at_first = at_first.saturating_add(condition.parts.saturating_mul(written));
            size.add_condition(condition, copies);
            size.add_result(result);
        }
        check_parts(at_first)?;
        match &case.else_expr {
            Some(result) => size.add_result(self.size(result)?),
            None => size.results.may_be_null = true,
        }
        Ok(size.size())
    }

    /// All arguments but the last stand in a condition and in its result. There are two conditions
    /// at most where they become `AND` and `OR`: three copies of the first.
    fn coalesce(&self, call: &ScalarFunction) -> Result<Size> {
        let mut size = CaseSize::default();
        for (at, arg) in call.args.iter().enumerate() {
            let arg = self.size(arg)?;
            if at + 1 < call.args.len() {
                size.add_condition(arg.operation(), 3);
            }
            size.add_result(arg);
        }
        Ok(size.size())
    }

    /// The first argument stands in the condition, which may be written twice.
    fn nvl2(&self, call: &ScalarFunction) -> Result<Size> {
        let mut size = CaseSize::default();
        for (at, arg) in call.args.iter().enumerate() {
            let arg = self.size(arg)?;
            if at == 0 {
                size.add_condition(arg.operation(), 2);
            } else {
                size.add_result(arg);
            }
        }
        Ok(size.size())
    }

    fn column(&self, column: &Column) -> Size {
        let found = self.inputs.iter().filter_map(|(schema, input)| {
            let at = schema.maybe_index_of_column(column)?;
            input.columns.get(at).copied()
        });
        let all = || widest(self.inputs.iter().flat_map(|(_, input)| &input.columns));
        found.reduce(Size::max).unwrap_or_else(all)
    }
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_)
    )
}

/// Returns how many times the optimizer writes the parts of an expression that is none of `CASE`.
fn repeated(expr: &Expr) -> usize {
    match expr {
        Expr::Between(_) => 2,
        Expr::InList(list) if list.list.len() <= SHORT_LIST => list.list.len().max(1),
        // A CASE of two conditions, each of which has the subquery.
        Expr::SetComparison(_) => 5,
        // Where the year is compared, the time is compared twice, and once with NULL.
        Expr::ScalarFunction(call) if call.func.name() == "date_part" => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
    use datafusion::datasource::empty::EmptyTable;
    use datafusion::prelude::SessionContext;

    use super::*;

    /// The parts of a query as they are counted, and those after it was optimized. `None` if it is
    /// refused.
    async fn parts(query: &str) -> Option<(usize, usize)> {
        let context = SessionContext::new();
        let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let columns = [
            Field::new("n", DataType::Int64, true),
            Field::new("s", DataType::Utf8, true),
            Field::new("b", DataType::Boolean, true),
            Field::new("c", DataType::Boolean, true),
            Field::new("t", time, true),
        ];
        let table = EmptyTable::new(Arc::new(Schema::new(columns.to_vec())));
        context.register_table("r", Arc::new(table)).unwrap();
        let state = context.state();
        let plan = state.create_logical_plan(query).await.unwrap();
        let counted = Written::new(&plan, Outer::default()).ok()?.parts;
        let optimized = state.optimize(&plan).unwrap();
        let mut written = 0;
        let visited = optimized.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|_| {
                    written += 1;
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        });
        visited.unwrap();
        Some((counted, written))
    }

    /// A condition on a column that is computed from another of its kind, and so on.
    fn in_subqueries(levels: usize, first: &str, outer: &str) -> String {
        let first = format!("SELECT {first} AS x0, n, s, b, c, t FROM r");
        let query = (0..levels).fold(first, |inner, i| {
            let made = outer.replace('@', &format!("x{i}"));
            format!("SELECT {made} AS x{}, n, s, b, c, t FROM ({inner})", i + 1)
        });
        format!("SELECT count(*) FROM ({query}) WHERE x{levels} IS NOT NULL")
    }

    #[tokio::test]
    async fn no_rule_writes_more_than_is_counted() {
        for (first, outer) in [
            ("n", "@ + @"),
            ("t", "CASE WHEN date_part('year', @) = 2024 THEN t END"),
            (
                "t",
                "CASE WHEN date_part('year', @) IS DISTINCT FROM 2024 THEN t END",
            ),
            (
                "t",
                "CASE WHEN date_part('year', @) IN (2024, 2025, 2026) THEN t END",
            ),
            ("n", "CASE WHEN @ IN (1, 2, 3) THEN n END"),
            ("n", "CASE WHEN @ NOT IN (1, 2, 3) THEN n END"),
            ("n", "CASE WHEN @ BETWEEN 1 AND n THEN n END"),
            (
                "s",
                "CASE WHEN @ = 'a' THEN 'a' WHEN n = 2 THEN 'b' ELSE 'c' END",
            ),
            (
                "s",
                "CASE WHEN @ <> 'a' THEN 'a' WHEN @ = 'b' THEN NULL WHEN n > 1 THEN NULL END",
            ),
            ("s", "coalesce(@, s)"),
            ("s", "nvl2(@, s, 'a')"),
            ("b", "CASE WHEN @ THEN b ELSE c END"),
            ("b", "CASE WHEN n = 1 THEN @ WHEN @ THEN b ELSE c END"),
            (
                "b",
                "CASE WHEN @ THEN true WHEN b THEN false WHEN c THEN true ELSE @ END",
            ),
            (
                "b",
                "CASE WHEN @ THEN NULL WHEN b THEN NULL WHEN c THEN true ELSE false END",
            ),
            (
                "b",
                "CASE WHEN @ THEN NULL WHEN b THEN NULL WHEN c THEN NULL WHEN n = 1 THEN NULL
                 WHEN n = 2 THEN true ELSE @ END",
            ),
            (
                "b",
                "CASE WHEN @ THEN true WHEN b THEN false WHEN c THEN false WHEN n = 1 THEN false
                 WHEN n = 2 THEN true ELSE @ END",
            ),
            (
                "s",
                "CASE WHEN @ = 'a' THEN 'a' WHEN s = 'b' THEN NULL WHEN n = 2 THEN NULL
                 WHEN n = 3 THEN 'c' ELSE 'd' END",
            ),
            ("b", "coalesce(@, b, c)"),
            ("b", "nvl(@, b)"),
            ("b", "nvl2(@, b, c)"),
            ("b", "(@ BETWEEN b AND c)"),
            ("b", "(@ IN (b, c, true))"),
            ("b", "(@ IS DISTINCT FROM b)"),
            ("b", "(@ = b)"),
        ] {
            for levels in 1..=4 {
                let query = in_subqueries(levels, first, outer);
                let Some((counted, written)) = parts(&query).await else {
                    assert!(levels > 3, "{query}");
                    break;
                };
                assert!(written <= counted, "{query}: {written} of {counted}");
            }
        }
    }

    #[tokio::test]
    async fn conditions_are_counted_where_they_are_copied_to() {
        let any = |column: &str| {
            let terms: Vec<String> = (0..30).map(|i| format!("{column} < {i}")).collect();
            terms.join(" OR ")
        };
        let joined = |condition: &str| {
            format!(
                "SELECT count(*) FROM r a JOIN r d ON a.n = d.n JOIN r e ON d.n = e.n
                 JOIN r f ON e.n = f.n WHERE {condition}"
            )
        };
        let united = vec!["SELECT n FROM r"; 20].join(" UNION ALL ");
        for query in [
            format!("SELECT count(*) FROM ({united}) WHERE {}", any("n")),
            joined(&any("a.n")),
            joined(&format!(
                "({}) OR (a.s = f.s AND ({}))",
                any("a.n"),
                any("a.n")
            )),
            format!(
                "SELECT count(*) FROM r WHERE n IN (SELECT n FROM ({united})) AND ({})",
                any("n")
            ),
            format!(
                "SELECT count(*) FROM ({united}) u WHERE EXISTS (SELECT 1 FROM r WHERE r.n = u.n AND ({}))",
                any("u.n")
            ),
            format!(
                "SELECT count(*) FROM r WHERE n < ANY (SELECT n FROM ({united}) WHERE {})",
                any("n")
            ),
        ] {
            let (counted, written) = parts(&query).await.unwrap();
            assert!(written <= counted, "{query}: {written} of {counted}");
        }
    }
}
