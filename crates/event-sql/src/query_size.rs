//! The size of a query before it is planned.
//!
//! Planning writes a query of `WITH` out wherever its name stands, and lists all sets of `CUBE`. It
//! waits for nothing meanwhile and asks for no memory, so that no other limit ends it.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, GroupByExpr, ObjectName, ObjectNamePart, Query, Select, Visit as _, Visitor,
};
use icecore_events::Problem;

/// Most expressions and tables of a query, with those of `WITH` wherever their names stand.
const SIZE_MAX: usize = 20_000;

/// The size of a table, as a number of expressions.
const TABLE_SIZE: usize = 10;

/// Most grouping sets of `CUBE`, `ROLLUP` and `GROUPING SETS`: all have groups of their own for
/// each batch.
const GROUPING_SETS_MAX: usize = 64;

pub(crate) fn check(statement: &ast::Statement) -> Result<(), Problem> {
    let mut size = QuerySize::default();
    let detail = match statement.visit(&mut size) {
        ControlFlow::Continue(()) => return Ok(()),
        ControlFlow::Break(Excess::Size) => {
            format!(
                "the query has more than {SIZE_MAX} expressions, with those of WITH written out"
            )
        }
        ControlFlow::Break(Excess::GroupingSets) => {
            format!("GROUP BY has more than {GROUPING_SETS_MAX} grouping sets")
        }
    };
    Err(Problem::new(422, "sql.limit", detail))
}

enum Excess {
    Size,
    GroupingSets,
}

/// A query that is being looked at.
#[derive(Default)]
struct OpenQuery {
    /// Names of the queries of its `WITH` that follow: they are visited first, in this order.
    named: VecDeque<String>,
    size: usize,
}

#[derive(Default)]
struct QuerySize {
    /// From the outermost to the innermost.
    open: Vec<OpenQuery>,
    /// The largest query of each name, wherever the name is known.
    named: HashMap<String, usize>,
}

impl QuerySize {
    fn add(&mut self, size: usize) -> ControlFlow<Excess> {
        let Some(query) = self.open.last_mut() else {
            return ControlFlow::Continue(());
        };
        query.size = query.size.saturating_add(size);
        if query.size > SIZE_MAX {
            return ControlFlow::Break(Excess::Size);
        }
        ControlFlow::Continue(())
    }
}

impl Visitor for QuerySize {
    type Break = Excess;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Excess> {
        let named = query.with.iter().flat_map(|with| &with.cte_tables);
        self.open.push(OpenQuery {
            named: named
                .map(|named| named.alias.name.value.to_lowercase())
                .collect(),
            size: 0,
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Excess> {
        let size = self.open.pop().map_or(0, |query| query.size);
        let outer = self.open.last_mut();
        match outer.and_then(|outer| outer.named.pop_front()) {
            Some(name) => {
                let known = self.named.entry(name).or_default();
                *known = size.max(*known);
                ControlFlow::Continue(())
            }
            None => self.add(size),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Excess> {
        if let GroupByExpr::Expressions(exprs, _) = &select.group_by {
            let sets = exprs.iter().map(grouping_sets);
            if sets.fold(1, usize::saturating_mul) > GROUPING_SETS_MAX {
                return ControlFlow::Break(Excess::GroupingSets);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<Excess> {
        let size = match &relation.0[..] {
            [ObjectNamePart::Identifier(name)] => self.named.get(&name.value.to_lowercase()),
            _ => None,
        };
        let size = size.copied().unwrap_or(0).saturating_add(TABLE_SIZE);
        self.add(size)
    }

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<Excess> {
        self.add(1)
    }
}

fn grouping_sets(expr: &Expr) -> usize {
    match expr {
        Expr::Cube(exprs) => {
            let count = u32::try_from(exprs.len()).unwrap_or(u32::MAX);
            2usize.saturating_pow(count)
        }
        Expr::Rollup(exprs) => exprs.len() + 1,
        Expr::GroupingSets(sets) => sets.len(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::{DFParser, Statement};

    use super::*;

    fn refusal(query: &str) -> Option<String> {
        let mut statements = DFParser::parse_sql(query).unwrap();
        let Some(Statement::Statement(statement)) = statements.pop_front() else {
            panic!("a query: {query}")
        };
        check(&statement).err().map(|problem| {
            assert_eq!(
                (problem.status, problem.code),
                (422, "sql.limit"),
                "{query}"
            );
            problem.detail
        })
    }

    #[test]
    fn grouping_sets_are_bounded() {
        let columns = |count: usize| {
            let columns: Vec<String> = (0..count).map(|i| format!("c{i}")).collect();
            columns.join(", ")
        };
        let query = |groups: String| format!("SELECT 1 FROM (SELECT 1 FROM t GROUP BY {groups})");
        for groups in [
            format!("CUBE({})", columns(6)),
            format!("ROLLUP({})", columns(63)),
            format!("ROLLUP({}), CUBE(a, b)", columns(15)),
            "GROUPING SETS ((a, b), (a), ())".into(),
            columns(100),
        ] {
            assert_eq!(refusal(&query(groups.clone())), None, "{groups}");
        }
        for groups in [
            format!("CUBE({})", columns(7)),
            format!("a, CUBE({})", columns(200)),
            format!("ROLLUP({})", columns(64)),
            format!("ROLLUP({}), CUBE(a, b, c)", columns(15)),
        ] {
            let refused = refusal(&query(groups.clone())).unwrap();
            assert!(refused.contains("grouping sets"), "{groups}: {refused}");
        }
        let united = format!(
            "SELECT 1 UNION SELECT 2 FROM t GROUP BY CUBE({})",
            columns(32)
        );
        assert!(refusal(&united).is_some());
    }

    #[test]
    fn queries_of_with_count_wherever_their_names_stand() {
        let chain = |links: usize, from: &str| {
            let links = (0..links).map(|i| {
                format!(
                    ", t{} AS (SELECT c FROM t{i} UNION ALL SELECT c FROM t{i})",
                    i + 1
                )
            });
            let links: String = links.collect();
            format!("WITH t0 AS (SELECT 1 AS c){links} SELECT {from}")
        };
        assert_eq!(refusal(&chain(8, "c FROM t8")), None);
        for from in [
            "c FROM t30",
            "c FROM T30 AS other",
            "(SELECT max(c) FROM t30)",
            "1 WHERE EXISTS (SELECT c FROM t30)",
        ] {
            let refused = refusal(&chain(30, from)).unwrap();
            assert!(refused.contains("WITH"), "{from}: {refused}");
        }
        // Not each query of a subquery is one of its WITH.
        let inner = chain(30, "c FROM t30");
        assert!(refusal(&format!("SELECT * FROM ({inner})")).is_some());
        let hidden = format!("WITH a AS ({inner}) SELECT 1");
        assert!(refusal(&hidden).is_some());
        // The longest text is no large query.
        let list = vec!["1"; 8_000].join(",");
        assert_eq!(refusal(&format!("SELECT {list}")), None);
    }
}
