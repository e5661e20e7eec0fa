//! `absent`: 1 at steps without a value, with the labels of the argument's selector.

use icecore_model::{Labels, LabelsBuilder, METRIC_NAME, MatchOp};

use super::CallContext;
use crate::error::Result;
use crate::exec::{ABSENT, LabelMaker, Row, Values};
use crate::parse::Expr;

/// Has a value at each step where no row has one.
pub(super) fn absent(
    ctx: &CallContext<'_>,
    _: &LabelMaker<'_>,
    rows: Vec<Row>,
) -> Result<Vec<Row>> {
    let mut floats = vec![1.0; ctx.grid.steps];
    for row in &rows {
        for (step, float) in floats.iter_mut().enumerate() {
            if row.values.is_present(step) {
                *float = ABSENT;
            }
        }
    }
    let values = Values {
        floats,
        histograms: Vec::new(),
    };
    if values.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![Row {
        labels: ctx
            .call
            .args
            .first()
            .map_or_else(Labels::empty, absent_labels),
        drop_name: false,
        values,
    }])
}

/// The labels with an equality matcher in a selector, except those with several matchers. Other
/// expressions have none.
pub(crate) fn absent_labels(argument: &Expr) -> Labels {
    let matchers = match argument.unwrapped() {
        Expr::Vector(selector) => &selector.matchers,
        Expr::Matrix(matrix) => &matrix.selector.matchers,
        _ => return Labels::empty(),
    };
    let mut builder = LabelsBuilder::default();
    let mut seen: Vec<&str> = Vec::new();
    for matcher in matchers.iter().filter(|m| m.name() != METRIC_NAME) {
        if matcher.op() == MatchOp::Equal && !seen.contains(&matcher.name()) {
            builder.set(matcher.name(), matcher.value());
            seen.push(matcher.name());
        } else {
            builder.set(matcher.name(), "");
        }
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use icecore_model::Matcher;

    use super::super::testing::{Setup, check_floats, labels};
    use super::*;
    use crate::parse::{Paren, Span, VectorSelector};

    fn selector(matchers: &[(MatchOp, &str, &str)]) -> Expr {
        let matcher =
            |(op, name, value): &(MatchOp, &str, &str)| Matcher::new(*op, *name, *value).unwrap();
        Expr::Vector(VectorSelector {
            name: None,
            matchers: matchers.iter().map(matcher).collect(),
            time: Default::default(),
            anchored: false,
            smoothed: false,
            span: Span::default(),
        })
    }

    fn of(argument: Expr, rows: Vec<Row>, steps: usize) -> Vec<Row> {
        let mut setup = Setup::new(steps).series();
        setup.call.args = vec![argument];
        setup.vector("absent", rows).unwrap()
    }

    #[test]
    fn one_where_nothing_is() {
        let mut histogram = Setup::row("b", &[ABSENT; 4]);
        histogram.values.set_histogram(3, Default::default());
        let rows = vec![
            Setup::row("a", &[ABSENT, f64::NAN, ABSENT, ABSENT]),
            histogram,
        ];
        let found = of(selector(&[]), rows, 4);
        check_floats(&found[0].values.floats, &[1.0, ABSENT, 1.0, ABSENT]);
        assert!(!found[0].drop_name);
        check_floats(
            &of(selector(&[]), Vec::new(), 2)[0].values.floats,
            &[1.0, 1.0],
        );
        assert!(of(selector(&[]), vec![Setup::row("a", &[1.0, 2.0])], 2).is_empty());
    }

    #[test]
    fn labels_of_the_selector() {
        use MatchOp::{Equal, NotEqual, Regex};
        let name = (Equal, "__name__", "nonexistent");
        for (matchers, expected) in [
            (vec![], "{}"),
            (
                vec![
                    (Equal, "job", "j"),
                    (Equal, "instance", "i"),
                    (Regex, "method", ".x"),
                ],
                "{job=j,instance=i}",
            ),
            (
                vec![
                    (Equal, "job", "a"),
                    (Equal, "job", "b"),
                    (Equal, "foo", "bar"),
                ],
                "{foo=bar}",
            ),
            (
                vec![
                    (Equal, "job", "a"),
                    (Equal, "job", "b"),
                    (Equal, "job", "c"),
                    (Equal, "foo", "bar"),
                ],
                "{foo=bar}",
            ),
            (vec![(NotEqual, "job", "a"), (Equal, "job", "b")], "{job=b}"),
            (vec![(Equal, "job", "b"), (NotEqual, "job", "a")], "{}"),
            (vec![(Equal, "job", "")], "{}"),
        ] {
            let matchers: Vec<_> = matchers.into_iter().chain([name]).collect();
            let wrapped = Expr::Paren(Paren {
                expr: Box::new(selector(&matchers)),
                span: Span::default(),
            });
            assert_eq!(of(wrapped, Vec::new(), 1)[0].labels, labels(expected));
        }
    }
}
