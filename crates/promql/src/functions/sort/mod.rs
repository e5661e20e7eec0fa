//! Sorting by value, or by labels in natural order (`2` before `10`).
//!
//! Holds always: only instant queries are sorted. In range queries the functions warn and leave the
//! order alone; `sort` and `sort_desc` still drop histograms.

mod natural;

use std::cmp::Ordering;

use super::{CallContext, VectorFunction};
use crate::annotations::Annotation;
use crate::exec::Row;
use natural::natural_order;

pub(super) fn function(name: &str) -> Option<VectorFunction> {
    let function: VectorFunction = match name {
        "sort" => |ctx, _, rows| Ok(by_value(ctx, rows, |a, b| a.total_cmp(&b))),
        "sort_desc" => |ctx, _, rows| Ok(by_value(ctx, rows, |a, b| b.total_cmp(&a))),
        "sort_by_label" => |ctx, _, rows| Ok(by_label(ctx, rows, |order| order)),
        "sort_by_label_desc" => |ctx, _, rows| Ok(by_label(ctx, rows, Ordering::reverse)),
        _ => return None,
    };
    Some(function)
}

/// NaN comes last in both directions.
fn by_value(
    ctx: &CallContext<'_>,
    mut rows: Vec<Row>,
    order: impl Fn(f64, f64) -> Ordering,
) -> Vec<Row> {
    for row in &mut rows {
        row.values.histograms = Vec::new();
    }
    if has_order(ctx) {
        let value = |row: &Row| row.values.float(0).unwrap_or(f64::NAN);
        rows.retain(|row| row.values.is_present(0));
        rows.sort_by(|a, b| {
            let (a, b) = (value(a), value(b));
            match (a.is_nan(), b.is_nan()) {
                // Adding zero makes −0 and 0 equal.
                (false, false) => order(a + 0.0, b + 0.0),
                (a_is_nan, b_is_nan) => a_is_nan.cmp(&b_is_nan),
            }
        });
    }
    rows
}

/// Ties are broken by all labels.
fn by_label(
    ctx: &CallContext<'_>,
    mut rows: Vec<Row>,
    direction: impl Fn(Ordering) -> Ordering,
) -> Vec<Row> {
    if has_order(ctx) {
        let names: Vec<&str> = (1..ctx.args.len()).map(|index| ctx.text(index)).collect();
        rows.sort_by(|a, b| {
            let mut orders = names
                .iter()
                .map(|name| natural_order(label(a, name), label(b, name)));
            let by_names = orders.find(|order| order.is_ne());
            direction(by_names.unwrap_or_else(|| a.labels.iter().cmp(b.labels.iter())))
        });
    }
    rows
}

fn label<'r>(row: &'r Row, name: &str) -> &'r str {
    row.labels.get(name).unwrap_or_default()
}

/// Whether the answer can have an order; warns if it cannot.
fn has_order(ctx: &CallContext<'_>) -> bool {
    let is_range = ctx.is_range_query || ctx.grid.steps > 1;
    if is_range {
        ctx.annotate(ctx.call.span, Annotation::SortInRangeQuery);
    }
    !is_range
}

#[cfg(test)]
mod tests {
    use super::super::testing::Setup;
    use super::*;

    fn order(name: &str, texts: &[&str], rows: &[(&str, f64)]) -> Vec<String> {
        let setup = Setup::new(1).series().texts(texts);
        let rows = rows
            .iter()
            .map(|(series, value)| Setup::row(series, &[*value]));
        let sorted = setup.vector(name, rows.collect()).unwrap();
        assert!(setup.annotations().is_empty());
        let shown = |row: &Row| row.labels.to_string().replace('"', "");
        sorted.iter().map(shown).collect()
    }

    #[test]
    fn by_value_with_nan_last() {
        let rows = [
            ("a", 2.0),
            ("b", f64::NAN),
            ("c", -1.0),
            ("d", f64::INFINITY),
            ("e", 0.0),
        ];
        assert_eq!(order("sort", &[], &rows), ["c", "e", "a", "d", "b"]);
        assert_eq!(order("sort_desc", &[], &rows), ["d", "a", "e", "c", "b"]);
    }

    #[test]
    fn by_value_without_histograms() {
        let mut histogram = Setup::row("h", &[crate::exec::ABSENT]);
        histogram.values.set_histogram(0, Default::default());
        let setup = Setup::new(1).series();
        let rows = vec![histogram.clone(), Setup::row("a", &[1.0])];
        assert_eq!(setup.vector("sort", rows.clone()).unwrap().len(), 1);
        assert_eq!(setup.vector("sort_by_label", rows).unwrap().len(), 2);
    }

    #[test]
    fn by_label_as_people_read() {
        let rows = [
            ("c{cpu=10}", 1.0),
            ("c{cpu=2}", 1.0),
            ("c{cpu=100}", 1.0),
            ("c{cpu=0}", 1.0),
        ];
        let ascending = ["c{cpu=0}", "c{cpu=2}", "c{cpu=10}", "c{cpu=100}"];
        assert_eq!(order("sort_by_label", &["cpu"], &rows), ascending);
        let mut descending = ascending;
        descending.reverse();
        assert_eq!(order("sort_by_label_desc", &["cpu"], &rows), descending);
    }

    #[test]
    fn equal_labels_leave_it_to_all_labels() {
        let rows = [
            ("r{group=production,instance=0,job=api}", 1.0),
            ("r{group=canary,instance=0,job=app}", 1.0),
            ("r{group=canary,instance=1,job=api}", 1.0),
            ("r{group=canary,instance=0,job=api}", 1.0),
        ];
        let expected = [
            "r{group=canary, instance=0, job=api}",
            "r{group=canary, instance=0, job=app}",
            "r{group=production, instance=0, job=api}",
            "r{group=canary, instance=1, job=api}",
        ];
        assert_eq!(order("sort_by_label", &["instance"], &rows), expected);
        let mut descending = expected;
        descending.reverse();
        assert_eq!(
            order("sort_by_label_desc", &["instance"], &rows),
            descending
        );
    }

    #[test]
    fn a_range_query_has_no_order() {
        for name in ["sort", "sort_desc", "sort_by_label", "sort_by_label_desc"] {
            let setup = Setup::new(2).series();
            let rows = vec![Setup::row("b", &[2.0, 1.0]), Setup::row("a", &[1.0, 2.0])];
            let found = setup.vector(name, rows).unwrap();
            assert_eq!(found[0].labels.metric_name(), "b");
            assert_eq!(
                setup.annotations(),
                [
                    "PromQL warning: sort is ineffective for range queries since results are always ordered by labels (1:1)"
                ]
            );
        }
    }
}
