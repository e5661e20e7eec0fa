//! Filters and folds of a metric.

use std::borrow::Cow;

use icecore_settings::{Fields, Node, Value, kind_of};

use super::{checked_text, names, required_text};
use crate::Scalar;
use crate::registry::{Comparison, Filter, Fold, FoldRule};

const FILTERS_MAX: usize = 100;
const VALUES_MAX: usize = 1_000;
const RULES_MAX: usize = 1_000;

/// `filters: [{path, op, value}]`.
pub(super) fn read_filters(spec: &mut Fields<'_>) -> Vec<Filter> {
    let mut filters = Vec::new();
    for mut map in spec.maps("filters") {
        let path = checked_text(&mut map, "path", names::check_path);
        let comparison = read_comparison(&mut map);
        map.finish();
        if let Some((path, comparison)) = path.zip(comparison) {
            filters.push(Filter { path, comparison });
        }
    }
    if filters.len() > FILTERS_MAX {
        spec.report("filters", format!("has more than {FILTERS_MAX} filters"));
    }
    filters
}

fn read_comparison(map: &mut Fields<'_>) -> Option<Comparison> {
    let op = required_text(map, "op");
    let Some(value) = map.node("value") else {
        map.report("value", "is missing");
        return None;
    };
    let comparison = match op?.as_str() {
        "eq" => Comparison::Equal(read_scalar(map, value)?),
        "ne" => Comparison::NotEqual(read_scalar(map, value)?),
        "gt" => Comparison::Greater(map.factor("value")?),
        "gte" => Comparison::GreaterOrEqual(map.factor("value")?),
        "lt" => Comparison::Less(map.factor("value")?),
        "lte" => Comparison::LessOrEqual(map.factor("value")?),
        "in" => {
            let nodes = map.list("value");
            let values = nodes.iter().filter_map(|node| read_scalar(map, node));
            let values: Vec<_> = values.collect();
            if nodes.is_empty() || nodes.len() > VALUES_MAX {
                map.report("value", format!("expected 1 to {VALUES_MAX} values"));
            }
            Comparison::In(values)
        }
        other => {
            let ops = "eq, ne, gt, gte, lt, lte, in";
            map.report("op", format!("expected one of {ops}, found {other:?}"));
            return None;
        }
    };
    Some(comparison)
}

/// What is in quotes is text; otherwise numbers and the two words are what they look like.
fn read_scalar(map: &Fields<'_>, node: &Node) -> Option<Scalar<'static>> {
    let Value::Scalar { text, quoted } = &node.value else {
        let found = kind_of(&node.value);
        let reason = format!("expected a text, number or boolean, found {found}");
        map.source.report(node.at, &map.path_of("value"), reason);
        return None;
    };
    if *quoted {
        return Some(Scalar::Text(Cow::Owned(text.clone())));
    }
    let plain = match text.as_str() {
        "true" => Scalar::Boolean(true),
        "false" => Scalar::Boolean(false),
        _ => number(text).unwrap_or_else(|| Scalar::Text(Cow::Owned(text.clone()))),
    };
    Some(plain)
}

fn number(text: &str) -> Option<Scalar<'static>> {
    if let Ok(integer) = text.parse() {
        return Some(Scalar::Integer(integer));
    }
    // `inf` and `nan` are words.
    let looks_like_one = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    let number = text.parse::<f64>().ok().filter(|n| n.is_finite());
    number.filter(|_| looks_like_one).map(Scalar::Number)
}

/// `fold: {sourceAttribute, foldedAttribute, rules: [{when: {gte, lt}, output}]}`.
pub(super) fn read_fold(spec: &mut Fields<'_>) -> Option<Fold> {
    let mut fold = spec.map("fold")?;
    let source = checked_text(&mut fold, "sourceAttribute", names::check_path);
    let target = checked_text(&mut fold, "foldedAttribute", names::check_path);
    let mut rules = Vec::new();
    for mut map in fold.maps("rules") {
        let output = required_text(&mut map, "output");
        let (from, below) = map.map("when").map(read_when).unwrap_or_default();
        map.finish();
        rules.extend(output.map(|output| FoldRule {
            from,
            below,
            output,
        }));
    }
    if rules.is_empty() || rules.len() > RULES_MAX {
        fold.report("rules", format!("expected 1 to {RULES_MAX} rules"));
    }
    if source.is_some() && source == target {
        fold.report("foldedAttribute", "is the attribute that it is made from");
    }
    fold.finish();
    Some(Fold {
        source: source?,
        target: target?,
        rules,
    })
}

fn read_when(mut when: Fields<'_>) -> (Option<f64>, Option<f64>) {
    let from = when.factor("gte");
    let below = when.factor("lt");
    if let Some((from, below)) = from.zip(below)
        && from >= below
    {
        when.report("lt", format!("expected more than gte, which is {from}"));
    }
    when.finish();
    (from, below)
}
