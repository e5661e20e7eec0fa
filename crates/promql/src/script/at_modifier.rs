//! Queries pinned to a time: `@` appended to every selector, so that the answer does not depend on
//! the time of evaluation.

use crate::parse::{At, Expr, TimeModifiers};

/// A query with `@` inserted.
#[derive(Debug)]
pub(crate) struct PinnedQuery {
    pub(crate) text: String,
    /// Positions in the original text and the bytes inserted there, in order.
    insertions: Vec<(usize, usize)>,
}

/// Functions whose result depends on the time of evaluation for any arguments.
const TIME_DEPENDENT: [&str; 13] = [
    "day_of_month",
    "day_of_week",
    "day_of_year",
    "days_in_month",
    "end",
    "hour",
    "minute",
    "month",
    "predict_linear",
    "start",
    "time",
    "timestamp",
    "year",
];

/// Pins a query to a time; `None` if its answer would depend on the time of evaluation anyway.
pub(crate) fn pin(query: &str, expr: &Expr, time_ms: i64) -> Option<PinnedQuery> {
    let mut places = Vec::new();
    if !collect(expr, &mut places) {
        return None;
    }
    places.sort_unstable();
    let sign = if time_ms < 0 { "-" } else { "" };
    let magnitude = time_ms.unsigned_abs();
    let modifier = format!(" @ {sign}{}.{:03}", magnitude / 1000, magnitude % 1000);
    let mut pinned = PinnedQuery {
        text: String::with_capacity(query.len() + places.len() * modifier.len()),
        insertions: Vec::with_capacity(places.len()),
    };
    let mut copied = 0;
    for place in places {
        pinned.text.push_str(query.get(copied..place)?);
        pinned.text.push_str(&modifier);
        pinned.insertions.push((place, modifier.len()));
        copied = place;
    }
    pinned.text.push_str(query.get(copied..)?);
    Some(pinned)
}

/// Collects the ends of selectors and subqueries without `@`. The times within a subquery follow
/// from those of the subquery. False if the query cannot be pinned.
fn collect(expr: &Expr, places: &mut Vec<usize>) -> bool {
    match expr {
        Expr::Number(_) | Expr::String(_) => true,
        Expr::Vector(vector) => collect_modifiers(&vector.time, vector.span.end, places),
        Expr::Matrix(matrix) => collect_modifiers(&matrix.selector.time, matrix.span.end, places),
        Expr::Subquery(subquery) => collect_modifiers(&subquery.time, subquery.span.end, places),
        Expr::Aggregate(aggregate) => {
            aggregate.parameter.iter().all(|p| collect(p, places))
                && collect(&aggregate.expr, places)
        }
        Expr::Binary(binary) => collect(&binary.lhs, places) && collect(&binary.rhs, places),
        Expr::Call(call) => {
            !TIME_DEPENDENT.contains(&call.function.name)
                && call.args.iter().all(|arg| collect(arg, places))
        }
        Expr::Paren(paren) => collect(&paren.expr, places),
        Expr::Unary(unary) => collect(&unary.expr, places),
    }
}

fn collect_modifiers(time: &TimeModifiers, end: usize, places: &mut Vec<usize>) -> bool {
    match time.at {
        None => {
            places.push(end);
            true
        }
        Some(At::Timestamp(_)) => true,
        // These depend on the time of evaluation, and a second `@` is not allowed.
        Some(At::Start | At::End) => false,
    }
}

impl PinnedQuery {
    /// An annotation with its position in the original query.
    pub(crate) fn original_annotation(&self, annotation: &str) -> String {
        let moved = || {
            let (message, position) = annotation.strip_suffix(')')?.rsplit_once(" (1:")?;
            let column: usize = position.parse().ok()?;
            let original = self.original_offset(column.checked_sub(1)?);
            Some(format!("{message} (1:{})", original + 1))
        };
        moved().unwrap_or_else(|| annotation.to_owned())
    }

    fn original_offset(&self, offset: usize) -> usize {
        let mut inserted = 0;
        for (place, length) in &self.insertions {
            if place + inserted + length > offset {
                break;
            }
            inserted += length;
        }
        offset - inserted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, expected: Option<&str>) {
        let expr = crate::parse::parse(query).unwrap();
        let pinned = pin(query, &expr, 61_500);
        assert_eq!(pinned.as_ref().map(|p| p.text.as_str()), expected);
        if let Some(pinned) = pinned {
            crate::parse::parse(&pinned.text).unwrap();
        }
    }

    #[test]
    fn selectors_get_the_time() {
        check("m", Some("m @ 61.500"));
        check("m{a=\"}\"} # all", Some("m{a=\"}\"} @ 61.500 # all"));
        check(
            "rate(m[5m]) + on(a) sum by (a) (n offset 5m)",
            Some("rate(m[5m] @ 61.500) + on(a) sum by (a) (n offset 5m @ 61.500)"),
        );
        check("m @ 5 - -(n)", Some("m @ 5 - -(n @ 61.500)"));
        check(
            "topk(scalar(k), m)",
            Some("topk(scalar(k @ 61.500), m @ 61.500)"),
        );
        check(
            "max_over_time(timestamp(m)[5m:1m])",
            Some("max_over_time(timestamp(m)[5m:1m] @ 61.500)"),
        );
        check(
            "increase(m[5m] anchored)",
            Some("increase(m[5m] @ 61.500 anchored)"),
        );
        check("1 + 1", Some("1 + 1"));
    }

    #[test]
    fn what_depends_on_the_time() {
        check("time() - m", None);
        check("timestamp(m)", None);
        check("m @ end()", None);
        check("predict_linear(m[5m], 60)", None);
    }

    #[test]
    fn positions_go_back() {
        let query = "sum(m) + sum(n)";
        let pinned = pin(query, &crate::parse::parse(query).unwrap(), 61_500).unwrap();
        assert_eq!(pinned.text, "sum(m @ 61.500) + sum(n @ 61.500)");
        let annotation =
            |column: usize| pinned.original_annotation(&format!("PromQL info: x (1:{column})"));
        assert_eq!(annotation(5), "PromQL info: x (1:5)");
        assert_eq!(annotation(19), "PromQL info: x (1:10)");
        assert_eq!(annotation(23), "PromQL info: x (1:14)");
        assert_eq!(pinned.original_annotation("no position"), "no position");
        assert_eq!(pinned.original_annotation("odd (1:x)"), "odd (1:x)");
    }
}
