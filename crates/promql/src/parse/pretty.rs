//! A tree as indented lines, as `/api/v1/format_query` answers.
//!
//! Holds always: an expression that fits a line stays on one.

use super::ast::Expr;
use super::display::{AggregateHead, BinaryHead, SubquerySuffix, sign, unsigned_base};

/// Longer expressions are split; in bytes, as Prometheus counts.
const MAX_LINE: usize = 100;

/// The expression over as many lines as it needs.
pub fn pretty(expr: &Expr) -> String {
    split(expr, 0)
}

/// The expression at a level of indentation, each of its lines indented.
fn split(expr: &Expr, level: usize) -> String {
    let line = expr.to_string();
    let indent = "  ".repeat(level);
    // Prometheus does not indent a subquery that fits its line.
    if let (Expr::Subquery(_), true) = (expr, line.len() <= MAX_LINE) {
        return line;
    }
    if let Expr::Unary(unary) = expr {
        let child = split(&unary.expr, level);
        return format!("{indent}{}{}", sign(unary.negative), child.trim());
    }
    if line.len() <= MAX_LINE {
        return format!("{indent}{line}");
    }
    match expr {
        Expr::Aggregate(aggregate) => {
            let parameter = aggregate.parameter.as_ref().map_or(String::new(), |expr| {
                format!("{},\n", split(expr, level + 1))
            });
            let head = AggregateHead(aggregate);
            let inner = split(&aggregate.expr, level + 1);
            format!("{indent}{head}(\n{parameter}{inner}\n{indent})")
        }
        Expr::Binary(binary) => {
            let left = match unsigned_base(binary) {
                Some(base) => format!("{indent}  {base}"),
                None => split(&binary.lhs, level + 1),
            };
            let right = split(&binary.rhs, level + 1);
            format!("{left}\n{indent}{}\n{right}", BinaryHead(binary))
        }
        Expr::Call(call) => {
            let args: Vec<String> = call.args.iter().map(|arg| split(arg, level + 1)).collect();
            format!(
                "{indent}{}(\n{}\n{indent})",
                call.function.name,
                args.join(",\n")
            )
        }
        Expr::Paren(paren) => {
            let inner = split(&paren.expr, level + 1);
            format!("{indent}(\n{inner}\n{indent})")
        }
        Expr::Subquery(subquery) => {
            let inner = split(&subquery.expr, level);
            format!("{inner}{}", SubquerySuffix(subquery))
        }
        _ => format!("{indent}{line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    const LONG: &str = "a_rather_long_metric_name_that_takes_room{label=\"value\"}";

    fn formatted(query: &str) -> String {
        pretty(&parse(query).unwrap())
    }

    #[test]
    fn short_expressions_stay_on_a_line() {
        assert_eq!(formatted("sum(a)by(b)"), "sum by (b) (a)");
        assert_eq!(formatted("a+b"), "a + b");
        assert_eq!(formatted(LONG), LONG);
    }

    #[test]
    fn long_expressions_are_split_where_prometheus_splits() {
        assert_eq!(
            formatted(&format!("{LONG} + on(a) {LONG}")),
            format!("  {LONG}\n+ on (a)\n  {LONG}")
        );
        assert_eq!(
            formatted(&format!("topk(3, {LONG} == bool {LONG})")),
            format!("topk(\n  3,\n    {LONG}\n  == bool\n    {LONG}\n)")
        );
        assert_eq!(
            formatted(&format!("-({LONG} - {LONG})")),
            format!("-(\n    {LONG}\n  -\n    {LONG}\n)")
        );
        assert_eq!(
            formatted(&format!("rate(({LONG} - {LONG})[5m:])")),
            format!("rate(\n  (\n      {LONG}\n    -\n      {LONG}\n  )[5m:]\n)")
        );
        assert_eq!(
            formatted(&format!(
                "label_join({LONG},\"a\",\"b\",\"{}\")",
                "x".repeat(60)
            )),
            format!(
                "label_join(\n  {LONG},\n  \"a\",\n  \"b\",\n  \"{}\"\n)",
                "x".repeat(60)
            )
        );
    }
}
