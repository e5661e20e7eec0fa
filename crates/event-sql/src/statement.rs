//! Which statements are allowed: those that read.

use datafusion::error::DataFusionError;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::{self, SetExpr};
use icecore_events::Problem;

use crate::query_size;

/// The longest text of a query. A plan is as deep as its longest chain of operators, and planning
/// calls itself for each of them: threads of the engine have the stack for this.
pub(crate) const TEXT_MAX: usize = 16 * 1024;

/// Parses a query: `SELECT`, `WITH`, or `EXPLAIN` of one of them.
pub(crate) fn parse(query: &str) -> Result<Statement, Problem> {
    if query.len() > TEXT_MAX {
        let detail = format!("the query is longer than {TEXT_MAX} bytes");
        return Err(Problem::new(400, "sql.invalid", detail));
    }
    let mut statements = DFParser::parse_sql(query).map_err(|error| problem(&error))?;
    let (Some(statement), None) = (statements.pop_front(), statements.pop_front()) else {
        return Err(Problem::new(
            400,
            "sql.invalid",
            "a request has one statement",
        ));
    };
    if !reads(&statement) {
        let detail = "only SELECT, WITH and EXPLAIN are allowed";
        return Err(Problem::new(400, "sql.read-only", detail));
    }
    if let Some(query) = query_of(&statement) {
        query_size::check(query)?;
    }
    Ok(statement)
}

/// The statement without what DataFusion writes around it.
fn query_of(statement: &Statement) -> Option<&ast::Statement> {
    match statement {
        Statement::Statement(statement) => Some(statement),
        Statement::Explain(explain) => query_of(&explain.statement),
        _ => None,
    }
}

fn reads(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => match &**statement {
            ast::Statement::Query(query) => query_reads(query),
            ast::Statement::Explain { statement, .. } => {
                matches!(&**statement, ast::Statement::Query(query) if query_reads(query))
            }
            _ => false,
        },
        Statement::Explain(explain) => reads(&explain.statement),
        _ => false,
    }
}

fn query_reads(query: &ast::Query) -> bool {
    let tables = query.with.iter().flat_map(|with| &with.cte_tables);
    body_reads(&query.body) && tables.into_iter().all(|table| query_reads(&table.query))
}

fn body_reads(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select.into.is_none(),
        SetExpr::Query(query) => query_reads(query),
        SetExpr::SetOperation { left, right, .. } => body_reads(left) && body_reads(right),
        SetExpr::Values(_) => true,
        _ => false,
    }
}

/// What went wrong, as an answer.
pub(crate) fn problem(error: &DataFusionError) -> Problem {
    let root = error.find_root();
    let detail = || root.strip_backtrace();
    match root {
        DataFusionError::External(cause) => match cause.downcast_ref::<Problem>() {
            Some(problem) => problem.clone(),
            None => Problem::new(500, "sql.failed", cause.to_string()),
        },
        DataFusionError::ResourcesExhausted(_) => Problem::new(422, "sql.limit", detail())
            .with_hint("fewer groups, or a shorter range of time"),
        DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::NotImplemented(_)
        | DataFusionError::Configuration(_) => Problem::new(400, "sql.invalid", detail()),
        DataFusionError::Execution(_) | DataFusionError::ArrowError(..) => {
            Problem::new(400, "sql.failed", detail())
        }
        _ => Problem::new(500, "sql.failed", detail()),
    }
}

/// A problem on its way through DataFusion.
pub(crate) fn external(problem: Problem) -> DataFusionError {
    DataFusionError::External(Box::new(problem))
}
