//! Spans cover exactly what was written.

use super::super::{Expr, Span, parse};

fn spans(expr: &Expr, found: &mut Vec<Span>) {
    found.push(expr.span());
    match expr {
        Expr::Number(_) | Expr::String(_) | Expr::Vector(_) => {}
        Expr::Matrix(matrix) => found.push(matrix.selector.span),
        Expr::Subquery(subquery) => spans(&subquery.expr, found),
        Expr::Aggregate(aggregate) => {
            if let Some(parameter) = &aggregate.parameter {
                spans(parameter, found);
            }
            spans(&aggregate.expr, found);
        }
        Expr::Binary(binary) => {
            spans(&binary.lhs, found);
            spans(&binary.rhs, found);
        }
        Expr::Call(call) => call.args.iter().for_each(|arg| spans(arg, found)),
        Expr::Paren(paren) => spans(&paren.expr, found),
        Expr::Unary(unary) => spans(&unary.expr, found),
    }
}

#[test]
fn of_every_node() {
    let cases: [(&str, &[&str]); 9] = [
        (" 1 + foo ", &["1 + foo", "1", "foo"]),
        ("- 1", &["- 1"]),
        (
            "-foo{a=\"b\"} offset 5m + 2",
            &[
                "-foo{a=\"b\"} offset 5m + 2",
                "-foo{a=\"b\"} offset 5m",
                "foo{a=\"b\"} offset 5m",
                "2",
            ],
        ),
        (
            "rate( foo[5m] @ start() )",
            &["rate( foo[5m] @ start() )", "foo[5m] @ start()", "foo"],
        ),
        ("sum(x) by (y) ", &["sum(x) by (y)", "x"]),
        ("(sum (x) )", &["(sum (x) )", "sum (x)", "x"]),
        ("topk by (y) (5, x)", &["topk by (y) (5, x)", "5", "x"]),
        (
            "x[5m:1m] offset (1m + 2m) ",
            &["x[5m:1m] offset (1m + 2m)", "x"],
        ),
        ("x @ -5 * y", &["x @ -5 * y", "x @ -5", "y"]),
    ];
    for (query, expected) in cases {
        let mut found = Vec::new();
        spans(&parse(query).unwrap(), &mut found);
        let texts: Vec<&str> = found
            .iter()
            .map(|span| &query[span.start..span.end])
            .collect();
        assert_eq!(texts, expected, "{query}");
    }
}
