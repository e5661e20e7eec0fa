//! Type checks of a tree, with the error messages of Prometheus.
//!
//! Checking also completes what depends on types: set operators match many to many, and only
//! operators between two vectors keep a matching.

use icecore_model::METRIC_NAME;

use super::ast::{
    Aggregate, AggregateOp, Binary, Call, Cardinality, Expr, ValueType, VectorMatching,
    VectorSelector,
};
use super::grammar::Parse;
use super::lexer::Fault;
use super::text::quoted;

/// Checks a tree and returns the type of its value. `text` is what it was parsed from.
pub(super) fn check(expr: &mut Expr, text: &str) -> Parse<ValueType> {
    let start = expr.span().start;
    match expr {
        Expr::Number(_) => Ok(ValueType::Scalar),
        Expr::String(_) => Ok(ValueType::String),
        Expr::Vector(selector) => {
            check_selector(selector)?;
            Ok(ValueType::Vector)
        }
        Expr::Matrix(matrix) => {
            check_selector(&matrix.selector)?;
            Ok(ValueType::Matrix)
        }
        Expr::Paren(paren) => check(&mut paren.expr, text),
        Expr::Aggregate(aggregate) => check_aggregate(aggregate, text),
        Expr::Binary(binary) => check_binary(binary, text),
        Expr::Call(call) => check_call(call, text),
        Expr::Unary(unary) => match check(&mut unary.expr, text)? {
            given @ (ValueType::Scalar | ValueType::Vector) => Ok(given),
            given => Err(Fault::new(
                start,
                format!(
                    "unary expression only allowed on expressions of type scalar or instant vector, got {}",
                    quoted(given.documented())
                ),
            )),
        },
        Expr::Subquery(subquery) => match check(&mut subquery.expr, text)? {
            ValueType::Vector => Ok(ValueType::Matrix),
            given => Err(Fault::new(
                start,
                format!(
                    "subquery is only allowed on instant vector, got {} instead",
                    given.name()
                ),
            )),
        },
    }
}

fn check_selector(selector: &VectorSelector) -> Parse<()> {
    let start = selector.span.start;
    let Some(name) = &selector.name else {
        return if selector
            .matchers
            .iter()
            .all(|matcher| matcher.matches_empty())
        {
            Err(Fault::new(
                start,
                "vector selector must contain at least one non-empty matcher",
            ))
        } else {
            Ok(())
        };
    };
    // The last matcher is that of the name before the braces.
    let others = selector
        .matchers
        .split_last()
        .map_or(&[][..], |(_, rest)| rest);
    match others.iter().find(|matcher| matcher.name() == METRIC_NAME) {
        Some(other) => Err(Fault::new(
            start,
            format!(
                "metric name must not be set twice: {} or {}",
                quoted(name),
                quoted(other.value())
            ),
        )),
        None => Ok(()),
    }
}

fn check_aggregate(aggregate: &mut Aggregate, text: &str) -> Parse<ValueType> {
    expect(
        &mut aggregate.expr,
        ValueType::Vector,
        "aggregation expression",
        text,
    )?;
    if let Some(parameter) = &mut aggregate.parameter {
        let wanted = match aggregate.op {
            AggregateOp::CountValues => ValueType::String,
            _ => ValueType::Scalar,
        };
        expect(parameter, wanted, "aggregation parameter", text)?;
    }
    Ok(ValueType::Vector)
}

fn check_call(call: &mut Call, text: &str) -> Parse<ValueType> {
    let function = call.function;
    let start = call.span.start;
    if let Some(message) = wrong_count(call) {
        return Err(Fault::new(start, message));
    }
    let context = format!("call to function {}", quoted(function.name));
    let is_info = function.name == "info";
    for (place, arg) in call.args.iter_mut().enumerate() {
        let Some(wanted) = function.arg_type(place) else {
            break;
        };
        if is_info && place == 1 {
            check_info_labels(arg, start, &context)?;
            continue;
        }
        expect(arg, wanted, &context, text)?;
    }
    Ok(function.returns)
}

fn wrong_count(call: &Call) -> Option<String> {
    let function = call.function;
    let given = call.args.len();
    let name = quoted(function.name);
    if function.variadic == 0 {
        let wanted = function.args.len();
        return (given != wanted)
            .then(|| format!("expected {wanted} argument(s) in call to {name}, got {given}"));
    }
    let least = function.args.len().saturating_sub(1);
    if given < least {
        let message =
            format!("expected at least {least} argument(s) in call to {name}, got {given}");
        return Some(message);
    }
    let most = least + usize::try_from(function.variadic).ok()?;
    (given > most)
        .then(|| format!("expected at most {most} argument(s) in call to {name}, got {given}"))
}

/// The second argument of `info` has only matchers, which may match everything.
fn check_info_labels(arg: &Expr, call_start: usize, context: &str) -> Parse<()> {
    let start = arg.span().start;
    match arg {
        Expr::Vector(selector) if selector.name.is_none() => Ok(()),
        Expr::Vector(_) => Err(Fault::new(
            start,
            "expected label selectors only, got vector selector instead",
        )),
        _ if arg.value_type() != ValueType::Vector => Err(Fault::new(
            call_start,
            mismatch(ValueType::Vector, context, arg.value_type()),
        )),
        _ => Err(Fault::new(start, "expected label selectors only")),
    }
}

fn check_binary(binary: &mut Binary, text: &str) -> Parse<ValueType> {
    let left = check(&mut binary.lhs, text)?;
    let right = check(&mut binary.rhs, text)?;
    let op = binary.op;
    let at_operator = |message: &str| Err(Fault::new(operator_start(binary, text), message));
    if binary.return_bool && !op.is_comparison() {
        return at_operator("bool modifier can only be used on comparison operators");
    }
    let scalars = left == ValueType::Scalar && right == ValueType::Scalar;
    if op.is_comparison() && !binary.return_bool && scalars {
        return at_operator("comparisons between scalars must use BOOL modifier");
    }
    let matching = binary.matching.clone().unwrap_or_default();
    if let Some(label) = label_on_both_sides(&matching) {
        let label = quoted(label);
        return at_operator(&format!(
            "label {label} must not occur in ON and GROUP clause at once"
        ));
    }
    for (side, given) in [(&binary.lhs, left), (&binary.rhs, right)] {
        if !matches!(given, ValueType::Scalar | ValueType::Vector) {
            let message = "binary expression must contain only scalar and instant vector types";
            return Err(Fault::new(side.span().start, message));
        }
    }
    let both_vectors = left == ValueType::Vector && right == ValueType::Vector;
    binary.matching = if both_vectors {
        vector_matching(binary, matching)?
    } else {
        no_matching(binary, &matching)?
    };
    Ok(if scalars {
        ValueType::Scalar
    } else {
        ValueType::Vector
    })
}

fn label_on_both_sides(matching: &VectorMatching) -> Option<&str> {
    let shared = matching
        .labels
        .iter()
        .find(|label| matching.include.contains(label));
    shared.filter(|_| matching.on).map(String::as_str)
}

fn vector_matching(binary: &Binary, mut matching: VectorMatching) -> Parse<Option<VectorMatching>> {
    if binary.op.is_set() {
        let fault = |message: String| Err(Fault::new(binary.span.start, message));
        if matching.cardinality != Cardinality::OneToOne {
            let op = quoted(binary.op.symbol());
            return fault(format!("no grouping allowed for {op} operation"));
        }
        if is_filled(&matching) {
            return fault("filling in missing series not allowed for set operators".to_string());
        }
        matching.cardinality = Cardinality::ManyToMany;
    }
    Ok(Some(matching))
}

fn no_matching(binary: &Binary, matching: &VectorMatching) -> Parse<Option<VectorMatching>> {
    let fault = |message: String| Err(Fault::new(binary.span.start, message));
    if !matching.labels.is_empty() {
        return fault("vector matching only allowed between instant vectors".to_string());
    }
    if is_filled(matching) {
        return fault("filling in missing series only allowed between instant vectors".to_string());
    }
    if binary.op.is_set() {
        let op = quoted(binary.op.symbol());
        return fault(format!(
            "set operator {op} not allowed in binary scalar expression"
        ));
    }
    Ok(None)
}

fn is_filled(matching: &VectorMatching) -> bool {
    matching.fill_left.is_some() || matching.fill_right.is_some()
}

/// The position of the operator: after the left side and the space that follows it.
fn operator_start(binary: &Binary, text: &str) -> usize {
    let end = binary.lhs.span().end;
    let rest = text.get(end..).unwrap_or("");
    let space = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    end + space
}

fn expect(expr: &mut Expr, wanted: ValueType, context: &str, text: &str) -> Parse<()> {
    let given = check(expr, text)?;
    if given == wanted {
        Ok(())
    } else {
        Err(Fault::new(
            expr.span().start,
            mismatch(wanted, context, given),
        ))
    }
}

fn mismatch(wanted: ValueType, context: &str, given: ValueType) -> String {
    format!(
        "expected type {} in {context}, got {}",
        wanted.documented(),
        given.documented()
    )
}
