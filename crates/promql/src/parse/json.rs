//! A tree as the JSON of `/api/v1/parse_query`, in the shapes of Prometheus.
//!
//! As there, a duration that is an expression has the value 0 and a field with the expression.

use icecore_model::{Matcher, go_plain_float};
use serde_json::{Value, json};

use super::ast::{
    Aggregate, At, Binary, Call, Duration, DurationExpr, DurationExprKind, Expr, Subquery,
    TimeModifiers, VectorMatching, VectorSelector,
};
use super::display::sign;

/// The tree as JSON text.
pub fn ast_json(expr: &Expr) -> String {
    node(expr).to_string()
}

fn node(expr: &Expr) -> Value {
    match expr {
        Expr::Number(number) => json!({
            "type": "numberLiteral",
            "val": go_plain_float(number.value),
        }),
        Expr::String(string) => json!({"type": "stringLiteral", "val": string.value}),
        Expr::Vector(vector) => selector(vector, "vectorSelector"),
        Expr::Matrix(matrix) => {
            let mut value = selector(&matrix.selector, "matrixSelector");
            value["range"] = json!(millis(&matrix.range));
            value["rangeExpr"] = computed(&matrix.range);
            value
        }
        Expr::Subquery(subquery) => subquery_node(subquery),
        Expr::Aggregate(aggregate) => aggregate_node(aggregate),
        Expr::Binary(binary) => binary_node(binary),
        Expr::Call(call) => call_node(call),
        Expr::Paren(paren) => json!({"type": "parenExpr", "expr": node(&paren.expr)}),
        Expr::Unary(unary) => json!({
            "type": "unaryExpr",
            "op": sign(unary.negative),
            "expr": node(&unary.expr),
        }),
    }
}

fn selector(vector: &VectorSelector, kind: &str) -> Value {
    let matchers: Vec<Value> = vector.matchers.iter().map(matcher).collect();
    json!({
        "type": kind,
        "name": vector.name.as_deref().unwrap_or(""),
        "offset": millis(&vector.time.offset),
        "offsetExpr": computed(&vector.time.offset),
        "matchers": matchers,
        "timestamp": timestamp(&vector.time),
        "startOrEnd": start_or_end(&vector.time),
        "anchored": vector.anchored,
        "smoothed": vector.smoothed,
    })
}

fn matcher(matcher: &Matcher) -> Value {
    json!({
        "name": matcher.name(),
        "value": matcher.value(),
        "type": matcher.op().to_string(),
    })
}

fn subquery_node(subquery: &Subquery) -> Value {
    json!({
        "type": "subquery",
        "expr": node(&subquery.expr),
        "range": millis(&subquery.range),
        "rangeExpr": computed(&subquery.range),
        "offset": millis(&subquery.time.offset),
        "offsetExpr": computed(&subquery.time.offset),
        "step": subquery.step.as_ref().map_or(0, millis),
        "stepExpr": subquery.step.as_ref().map_or(Value::Null, computed),
        "timestamp": timestamp(&subquery.time),
        "startOrEnd": start_or_end(&subquery.time),
    })
}

fn aggregate_node(aggregate: &Aggregate) -> Value {
    json!({
        "type": "aggregation",
        "op": aggregate.op.name(),
        "expr": node(&aggregate.expr),
        "param": aggregate.parameter.as_deref().map(node),
        "grouping": aggregate.grouping,
        "without": aggregate.without,
    })
}

fn binary_node(binary: &Binary) -> Value {
    json!({
        "type": "binaryExpr",
        "op": binary.op.symbol(),
        "lhs": node(&binary.lhs),
        "rhs": node(&binary.rhs),
        "matching": binary.matching.as_ref().map(matching),
        "bool": binary.return_bool,
    })
}

fn matching(matching: &VectorMatching) -> Value {
    json!({
        "card": matching.cardinality.name(),
        "labels": matching.labels,
        "on": matching.on,
        "include": matching.include,
        "fillValues": {"lhs": matching.fill_left, "rhs": matching.fill_right},
    })
}

fn call_node(call: &Call) -> Value {
    let function = call.function;
    let arg_types: Vec<&str> = function.args.iter().map(|arg| arg.name()).collect();
    let args: Vec<Value> = call.args.iter().map(node).collect();
    json!({
        "type": "call",
        "func": {
            "name": function.name,
            "argTypes": arg_types,
            "variadic": function.variadic,
            "returnType": function.returns.name(),
        },
        "args": args,
    })
}

fn millis(duration: &Duration) -> i64 {
    match duration {
        Duration::Millis(millis) => *millis,
        Duration::Expr(_) => 0,
    }
}

/// The expression of a duration, if it is one.
fn computed(duration: &Duration) -> Value {
    match duration {
        Duration::Expr(expr) => duration_node(expr),
        Duration::Millis(_) => Value::Null,
    }
}

fn duration_node(expr: &DurationExpr) -> Value {
    let node = |op: &str, lhs: Option<Value>, rhs: Option<Value>| {
        json!({
            "type": "durationExpr",
            "op": op,
            "lhs": lhs,
            "rhs": rhs,
            "wrapped": expr.wrapped,
        })
    };
    let of = |side: &DurationExpr| Some(duration_node(side));
    match &expr.kind {
        DurationExprKind::Number(number) => {
            let literal = json!({
                "type": "numberLiteral",
                "val": go_plain_float(number.value),
                "duration": number.is_duration,
            });
            // As there, parentheses of a number are those of a sum without a left side.
            if expr.wrapped {
                node("+", None, Some(literal))
            } else {
                literal
            }
        }
        DurationExprKind::Step => node("step", None, None),
        DurationExprKind::Range => node("range", None, None),
        DurationExprKind::Plus(inner) => node("+", None, of(inner)),
        DurationExprKind::Negate(inner) => node("-", None, of(inner)),
        DurationExprKind::Binary(op, lhs, rhs) => node(op.symbol(), of(lhs), of(rhs)),
        DurationExprKind::MinOf(lhs, rhs) => node("min_of", of(lhs), of(rhs)),
        DurationExprKind::MaxOf(lhs, rhs) => node("max_of", of(lhs), of(rhs)),
    }
}

fn timestamp(time: &TimeModifiers) -> Option<i64> {
    match time.at {
        Some(At::Timestamp(millis)) => Some(millis),
        _ => None,
    }
}

fn start_or_end(time: &TimeModifiers) -> Option<&'static str> {
    match time.at {
        Some(At::Start) => Some("start"),
        Some(At::End) => Some("end"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn tree(query: &str) -> Value {
        serde_json::from_str(&ast_json(&parse(query).unwrap())).unwrap()
    }

    #[test]
    fn selectors() {
        let matchers = json!([
            {"name": "a", "type": "=~", "value": "b.*"},
            {"name": "__name__", "type": "=", "value": "foo"},
        ]);
        assert_eq!(
            tree("foo{a=~\"b.*\"} offset -5m @ 1.5"),
            json!({
                "type": "vectorSelector", "name": "foo", "offset": -300_000, "offsetExpr": null,
                "matchers": matchers,
                "timestamp": 1500, "startOrEnd": null, "anchored": false, "smoothed": false,
            })
        );
        assert_eq!(
            tree("foo{a=~\"b.*\"}[1h] smoothed @ end()"),
            json!({
                "type": "matrixSelector", "name": "foo", "range": 3_600_000, "offset": 0,
                "rangeExpr": null, "offsetExpr": null, "matchers": matchers, "timestamp": null, "startOrEnd": "end",
                "anchored": false, "smoothed": true,
            })
        );
    }

    #[test]
    fn durations_that_are_computed() {
        let number = |value: &str, duration: bool| json!({"type": "numberLiteral", "val": value, "duration": duration});
        let computed = |op: &str, lhs: Value, rhs: Value, wrapped: bool| json!({"type": "durationExpr", "op": op, "lhs": lhs, "rhs": rhs, "wrapped": wrapped});
        let step = computed("step", Value::Null, Value::Null, false);
        let matrix = tree("a[(5m+1s)*2] offset -(step()+3)");
        let sum = computed("+", number("300", true), number("1", true), true);
        assert_eq!(matrix["range"], json!(0));
        assert_eq!(
            matrix["rangeExpr"],
            computed("*", sum, number("2", false), false)
        );
        let sum = computed("+", step.clone(), number("3", false), true);
        assert_eq!(matrix["offsetExpr"], computed("-", Value::Null, sum, false));
        let subquery = tree("a[min_of(step(), 5m):(1m / 2)] offset max_of(1, 2 ^ 3)");
        assert_eq!(
            subquery["rangeExpr"],
            computed("min_of", step.clone(), number("300", true), false)
        );
        assert_eq!(
            subquery["stepExpr"],
            computed("/", number("60", true), number("2", false), true)
        );
        let power = computed("^", number("2", false), number("3", false), false);
        assert_eq!(
            subquery["offsetExpr"],
            computed("max_of", number("1", false), power, false)
        );
        assert_eq!(
            tree("a offset +step()")["offsetExpr"],
            computed("+", Value::Null, step, false)
        );
        let known = tree("a[-5m1s + 10m:] offset -5m");
        assert_eq!(known["offset"], json!(-300_000));
        assert_eq!(known["offsetExpr"], Value::Null);
    }

    #[test]
    fn numbers_in_parentheses_are_expressions() {
        let wrapped = |value: &str, duration: bool| {
            json!({
                "type": "durationExpr", "op": "+", "lhs": null, "wrapped": true,
                "rhs": {"type": "numberLiteral", "val": value, "duration": duration},
            })
        };
        let negated = |inner: Value| json!({"type": "durationExpr", "op": "-", "lhs": null, "rhs": inner, "wrapped": false});
        let subquery = tree("a[-(-5m):(60)] offset -(5m)");
        for (key, expression) in [
            ("range", negated(wrapped("-300", true))),
            ("step", wrapped("60", false)),
            ("offset", negated(wrapped("300", true))),
        ] {
            assert_eq!(subquery[key], json!(0), "{key}");
            assert_eq!(subquery[format!("{key}Expr")], expression, "{key}");
        }
        assert_eq!(
            tree("a offset +(5)")["offsetExpr"],
            tree("a offset (5)")["offsetExpr"]
        );
    }

    #[test]
    fn operators_and_calls() {
        let one = json!({"type": "numberLiteral", "val": "1"});
        assert_eq!(
            tree("-(1 > bool 1)"),
            json!({"type": "unaryExpr", "op": "-", "expr": {"type": "parenExpr", "expr": {
                "type": "binaryExpr", "op": ">", "lhs": one, "rhs": one, "matching": null, "bool": true,
            }}})
        );
        assert_eq!(
            tree("a * on(x) group_left(y) fill_right(2) b")["matching"],
            json!({
                "card": "many-to-one", "labels": ["x"], "on": true, "include": ["y"],
                "fillValues": {"lhs": null, "rhs": 2.0},
            })
        );
        assert_eq!(
            tree("vector(1)"),
            json!({"type": "call", "args": [one], "func": {
                "name": "vector", "argTypes": ["scalar"], "variadic": 0, "returnType": "vector",
            }})
        );
    }

    #[test]
    fn aggregations_and_subqueries() {
        let topk = tree("topk without(a) (1, b)");
        assert_eq!(topk["param"], json!({"type": "numberLiteral", "val": "1"}));
        assert_eq!(topk["grouping"], json!(["a"]));
        assert_eq!(topk["without"], json!(true));
        assert_eq!(tree("sum(a)")["param"], Value::Null);
        assert_eq!(tree("sum(a)")["grouping"], json!([]));
        let subquery = tree("a[10m:1m] @ start() offset 1m");
        assert_eq!(subquery["range"], json!(600_000));
        assert_eq!(subquery["step"], json!(60_000));
        assert_eq!(subquery["offset"], json!(60_000));
        assert_eq!(subquery["startOrEnd"], json!("start"));
    }
}
