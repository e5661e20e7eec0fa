//! The size of a query before it is planned.
//!
//! Planning writes a query of `WITH` out wherever its name stands, lists all sets of `CUBE`, and
//! copies what `SELECT` computes to where `GROUP BY` and others name it. It waits for nothing
//! meanwhile and asks for no memory, so that no other limit ends it.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, GroupByExpr, ObjectName, ObjectNamePart, Query, Select, SelectItem, Visit, Visitor,
    visit_expressions,
};
use icecore_events::Problem;

use crate::steps::Steps;

/// Most expressions and tables of a query, with those of `WITH` wherever their names stand.
const SIZE_MAX: usize = 20_000;

/// The size of a table, as a number of expressions.
const TABLE_SIZE: usize = 10;

/// The size of `*`, as a number of expressions: it stands for all columns.
const WILDCARD_SIZE: usize = 50;

/// Most expressions that planning copies within one `SELECT`.
const REPEATED_MAX: usize = 200_000;

/// Most tables of one `FROM`: each join lists all columns before it.
const TABLES_MAX: usize = 100;

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
        ControlFlow::Break(Excess::Tables) => {
            format!("FROM has more than {TABLES_MAX} tables")
        }
        ControlFlow::Break(Excess::Repeated) => {
            "GROUP BY, HAVING, QUALIFY or windows repeat too much of what SELECT computes".into()
        }
        ControlFlow::Break(Excess::Steps) => "CASE and functions are nested too deeply".into(),
    };
    Err(Problem::new(422, "sql.limit", detail))
}

enum Excess {
    Size,
    GroupingSets,
    Tables,
    Repeated,
    Steps,
}

/// An expression that is being looked at.
struct OpenExpr {
    is_case: bool,
    /// Of the expressions in it.
    steps: Steps,
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
    /// From the outermost to the innermost, those of outer queries included.
    exprs: Vec<OpenExpr>,
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
        let tables = select.from.iter().map(|table| 1 + table.joins.len());
        if tables.sum::<usize>() > TABLES_MAX {
            return ControlFlow::Break(Excess::Tables);
        }
        if repeated(select) > REPEATED_MAX {
            return ControlFlow::Break(Excess::Repeated);
        }
        let is_wildcard = |item: &&SelectItem| {
            matches!(
                item,
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)
            )
        };
        let wildcards = select.projection.iter().filter(is_wildcard).count();
        self.add(wildcards.saturating_mul(WILDCARD_SIZE))
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<Excess> {
        let size = match &relation.0[..] {
            [ObjectNamePart::Identifier(name)] => self.named.get(&name.value.to_lowercase()),
            _ => None,
        };
        let size = size.copied().unwrap_or(0).saturating_add(TABLE_SIZE);
        self.add(size)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Excess> {
        self.exprs.push(OpenExpr {
            is_case: matches!(expr, Expr::Case { .. }),
            steps: Steps::default(),
        });
        self.add(1)
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<Excess> {
        let Some(expr) = self.exprs.pop() else {
            return ControlFlow::Continue(());
        };
        // Results of CASE count as conditions: they are not told apart here.
        let steps = if expr.is_case {
            Steps::case(expr.steps, expr.steps, Steps::default())
        } else {
            expr.steps.operation()
        };
        if steps.are_too_many() {
            return ControlFlow::Break(Excess::Steps);
        }
        if let Some(outer) = self.exprs.last_mut() {
            outer.steps = outer.steps.and(steps);
        }
        ControlFlow::Continue(())
    }
}

/// Returns how many expressions planning may write of those that one `SELECT` computes: it copies
/// windows to where their names stand, and columns to where their aliases or numbers do.
fn repeated(select: &Select) -> usize {
    let windows = count(&select.named_window).saturating_add(1);
    let computed = count(&select.projection).saturating_mul(windows);
    let places = [
        count(&select.group_by),
        count(&select.having),
        count(&select.qualify),
        count(&select.distinct),
    ];
    computed.saturating_mul(places.iter().sum::<usize>() + 1)
}

fn count(of: &impl Visit) -> usize {
    let mut count = 0;
    let _: ControlFlow<()> = visit_expressions(of, |_| {
        count += 1;
        ControlFlow::Continue(())
    });
    count
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
        // A column for each `*`.
        let wide = |count: usize| format!("SELECT {} FROM t", vec!["*"; count].join(", "));
        assert_eq!(refusal(&wide(300)), None);
        assert!(refusal(&wide(500)).is_some());
        // The longest text is no large query.
        let list = vec!["1"; 8_000].join(",");
        assert_eq!(refusal(&format!("SELECT {list}")), None);
    }

    #[test]
    fn tables_of_a_join_are_bounded() {
        let from =
            |tables: &[&str], between: &str| format!("SELECT 1 FROM {}", tables.join(between));
        for between in [", ", " CROSS JOIN "] {
            assert_eq!(refusal(&from(&["t"; 100], between)), None);
            let refused = refusal(&from(&["t"; 101], between)).unwrap();
            assert!(refused.contains("tables"), "{between}: {refused}");
        }
        let united = vec!["SELECT 1 FROM t"; 200].join(" UNION ALL ");
        assert_eq!(refusal(&united), None);
    }

    #[test]
    fn copies_within_a_select_are_bounded() {
        let sum = |count: usize| vec!["c"; count].join(" + ");
        let places = |count: usize| vec!["1"; count].join(", ");
        let any = |count: usize| vec!["x > 1"; count].join(" OR ");
        let uses = |count: usize| vec!["sum(c) OVER w"; count].join(" + ");
        for query in [
            format!("SELECT {} FROM t GROUP BY {}", sum(300), places(300)),
            format!("SELECT {} AS x FROM t HAVING {}", sum(100), any(200)),
            format!(
                "SELECT {} FROM t WINDOW w AS (ORDER BY {})",
                uses(2),
                sum(1000)
            ),
            format!("SELECT {} FROM t GROUP BY {}", sum(1000), places(20)),
        ] {
            assert_eq!(refusal(&query), None, "{query}");
        }
        for query in [
            format!("SELECT {} FROM t GROUP BY {}", sum(1000), places(1000)),
            format!(
                "SELECT 1 FROM (SELECT {} FROM t GROUP BY {})",
                sum(1000),
                places(1000)
            ),
            format!("SELECT {} AS x FROM t HAVING {}", sum(1000), any(200)),
            format!("SELECT {} AS x FROM t QUALIFY {}", sum(1000), any(200)),
            format!(
                "SELECT DISTINCT ON ({}) {} AS x FROM t",
                any(200),
                sum(1000)
            ),
            format!(
                "SELECT {} FROM t WINDOW w AS (ORDER BY {})",
                uses(200),
                sum(1000)
            ),
        ] {
            let refused = refusal(&query).unwrap();
            assert!(refused.contains("repeat"), "{query}: {refused}");
        }
    }

    /// Types of expressions are found from each level down.
    #[test]
    fn the_depth_of_case_is_bounded() {
        let nested = |levels: usize, outer: &dyn Fn(String) -> String| {
            let made = (0..levels).fold("c".to_owned(), |inner, _| outer(inner));
            format!("SELECT {made} FROM t")
        };
        let of_sum = |x: String| format!("CASE WHEN {x} + 1 + 1 + 1 + 1 > 1 THEN d END");
        let of_text = |x: String| format!("upper(CASE WHEN d > 1 THEN {x} END)");
        let in_else = |x: String| format!("CASE WHEN d > 1 THEN 1 ELSE {x} END");
        for query in [
            nested(4, &of_sum),
            nested(8, &of_text),
            nested(12, &in_else),
            format!("SELECT c{}", "+1".repeat(2_000)),
        ] {
            assert_eq!(refusal(&query), None, "{query}");
        }
        for query in [nested(8, &of_sum), nested(14, &of_text)] {
            let refused = refusal(&query).unwrap();
            assert!(refused.contains("deeply"), "{query}: {refused}");
        }
    }
}
