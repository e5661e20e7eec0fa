//! Documents of `/api/query/exp`: arithmetic with the results of queries.

use std::collections::HashMap;

use super::condition::{Condition, add};
use super::gexp::{check_alike, merge};
use super::options::TranslateOptions;
use super::promql::Vector;
use super::refusal::Refusal;
use super::sub_query::{Built, Surroundings, build};
use super::translation::Translation;
use super::variables::Variables;
use crate::exp::{
    ExpQuery, Expression, ExpressionEntry, Join, Node, Operator, SetOperator, in_order, request,
};
use crate::json::Json;
use crate::query::SubQuery;

/// An output of a document by its name.
pub(super) type Outputs = Vec<(String, Result<Translation, Refusal>)>;

/// The expressions of all outputs of a document.
pub(super) fn translate_exp(
    document: &Json<'_>,
    options: &TranslateOptions,
    variables: &Variables,
) -> Result<Outputs, Refusal> {
    let query = ExpQuery::parse(document)?;
    let asked = request(&query);
    let around = Surroundings::new(&asked, options, variables)?;
    let mut known: HashMap<&str, Result<Variable, Refusal>> = HashMap::new();
    for (metric, sub_query) in query.metrics().iter().zip(&asked.sub_queries) {
        let variable = build(sub_query, &around).map(|mut built| {
            // What has no value where others have one is filled, whatever is done with it.
            if built.keys.as_ref().is_none_or(|keys| !keys.is_empty()) {
                add(&mut built.conditions, [Condition::ValuesAtAllTimes]);
            }
            Variable {
                built,
                query_keys: Some(query_keys(sub_query)),
            }
        });
        known.insert(&metric.id, variable);
    }
    for entry in in_order(query.expressions())? {
        let built = entry_of(entry, &known);
        known.insert(&entry.id, built);
    }
    let metrics = query.metrics().iter().map(|metric| &metric.id);
    let expressions = query.expressions().iter().map(|entry| &entry.id);
    let named: Vec<(&String, Option<&String>)> = match &query.outputs {
        Some(outputs) => {
            let outputs = outputs.iter();
            outputs.map(|o| (&o.id, o.alias.as_ref())).collect()
        }
        None if query.expressions().is_empty() => metrics.map(|id| (id, None)).collect(),
        None => expressions.map(|id| (id, None)).collect(),
    };
    let outputs = named.into_iter().map(|(id, alias)| {
        let variable = match known.get(id.as_str()) {
            Some(variable) => variable.clone(),
            None => Err(Refusal::new(format!(
                "there is no metric or expression {id}"
            ))),
        };
        let translation = variable.and_then(|variable| {
            let legend = alias.cloned();
            Translation::new(variable.built, legend, options, variables)
        });
        (id.clone(), translation)
    });
    Ok(outputs.collect())
}

/// A metric or an expression.
#[derive(Clone, Debug)]
struct Variable {
    built: Built,
    /// The keys that its query filters by; `None` of an expression.
    query_keys: Option<Vec<String>>,
}

fn query_keys(sub_query: &SubQuery) -> Vec<String> {
    let mut keys: Vec<String> = sub_query.filters.iter().map(|f| f.tagk.clone()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn entry_of(
    entry: &ExpressionEntry,
    known: &HashMap<&str, Result<Variable, Refusal>>,
) -> Result<Variable, Refusal> {
    let (Some(expression), Some(join)) = (&entry.expression, entry.join) else {
        return Err(Refusal::new(format!("{} is no expression", entry.text)));
    };
    let mut variables = Vec::new();
    for name in expression.variables() {
        match known.get(name.as_str()) {
            Some(Ok(variable)) => variables.push(variable.clone()),
            Some(Err(refusal)) => return Err(Refusal::new(format!("{name}: {refusal}"))),
            None => return Err(Refusal::new(format!("there is no variable {name}"))),
        }
    }
    Ok(Variable {
        built: built_of(expression, join, &variables)?,
        query_keys: None,
    })
}

fn built_of(expression: &Expression, join: Join, variables: &[Variable]) -> Result<Built, Refusal> {
    let first = variables.first();
    let mut found = first
        .map(|variable| variable.built.clone())
        .ok_or_else(|| Refusal::new("it has no variables"))?;
    for variable in &variables[1..] {
        check_alike(&found, &variable.built)?;
        merge(&mut found, &variable.built);
    }
    if variables.len() > 1 {
        add(&mut found.conditions, [Condition::ValuesAtAllTimes]);
    }
    if variables.len() > 1 && !joins_by_keys(join, variables) {
        add(&mut found.conditions, [Condition::SameTags]);
    }
    let operands: Vec<Vector> = variables.iter().map(|v| v.built.vector.clone()).collect();
    let is_filled = join.operator == SetOperator::Union && variables.len() > 1;
    let operands = if is_filled {
        filled(&operands)
    } else {
        operands
    };
    found.vector = text_of(expression.root(), &operands)?;
    Ok(found)
}

/// Whether series belong together by the labels that they have here.
fn joins_by_keys(join: Join, variables: &[Variable]) -> bool {
    let is_exact = |variable: &Variable| match &variable.built.keys {
        // Series of their own have all their tags, and none was aggregated.
        None => !join.use_query_tags,
        Some(keys) => {
            let mut keys = keys.clone();
            keys.sort_unstable();
            join.use_query_tags
                && !join.include_agg_tags
                && !keys.is_empty()
                && variable.query_keys.as_ref() == Some(&keys)
        }
    };
    variables.iter().all(is_exact)
}

/// Variables with 0 for series that only others have.
fn filled(operands: &[Vector]) -> Vec<Vector> {
    let all: Vec<String> = operands.iter().map(Vector::operand).collect();
    let of = |(i, operand): (usize, &String)| {
        let others = all.iter().enumerate().filter(|(other, _)| *other != i);
        let zeros: Vec<String> = others.map(|(_, other)| format!("0 * {other}")).collect();
        Vector::binary(format!("{operand} or {}", zeros.join(" or ")))
    };
    all.iter().enumerate().map(of).collect()
}

fn text_of(node: &Node, operands: &[Vector]) -> Result<Vector, Refusal> {
    if let Some(number) = node.constant() {
        return Ok(Vector::atom(number_text(number)));
    }
    let text = |node: &Node| text_of(node, operands).map(|vector| vector.operand());
    Ok(match node {
        Node::Constant(_) => return Err(Refusal::new("a constant has no number")),
        Node::Variable(index) => operands[*index].clone(),
        Node::Negative(node) => Vector::binary(format!("-{}", text(node)?)),
        Node::Not(node) => Vector::binary(format!("{} == bool 0", text(node)?)),
        Node::Choice(_) => {
            return Err(Refusal::new(
                "PromQL has no choice between two values (? :)",
            ));
        }
        Node::Binary(operator, left, right) => {
            let (a, b) = (text(left)?, text(right)?);
            let divided = |sign: &str| match (left.constant(), right.constant()) {
                // What cannot be divided is 0.
                (_, Some(0.0)) => format!("0 * {a}"),
                (_, Some(_)) => format!("{a} {sign} {b}"),
                (Some(_), None) => format!("{a} {sign} ({b} != 0) or 0 * {b}"),
                (None, None) => format!("{a} {sign} ({b} != 0) or 0 * ({a} + {b})"),
            };
            Vector::binary(match operator {
                Operator::Plus => format!("{a} + {b}"),
                Operator::Minus => format!("{a} - {b}"),
                Operator::Times => format!("{a} * {b}"),
                Operator::Divide => divided("/"),
                Operator::Modulo => divided("%"),
                Operator::Equal => format!("{a} == bool {b}"),
                Operator::NotEqual => format!("{a} != bool {b}"),
                Operator::Less => format!("{a} < bool {b}"),
                Operator::LessOrEqual => format!("{a} <= bool {b}"),
                Operator::Greater => format!("{a} > bool {b}"),
                Operator::GreaterOrEqual => format!("{a} >= bool {b}"),
                Operator::And => format!("({a} != bool 0) * ({b} != bool 0)"),
                Operator::Or => format!("({a} != bool 0) + ({b} != bool 0) > bool 0"),
            })
        }
    })
}

fn number_text(number: f64) -> String {
    if number < 0.0 {
        format!("({number})")
    } else {
        number.to_string()
    }
}
