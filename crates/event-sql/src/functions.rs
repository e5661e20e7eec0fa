//! Which functions queries may call: those on the lists here, and no others.
//!
//! ```text
//! plan of a text ─► each function: on a list? ─► works on texts? ─► bounded
//!                        └ no: an error               └ no: as DataFusion has it
//! ```
//!
//! Holds always: a function that makes texts, or whose work grows with texts, runs within the
//! memory and the time of its query ([`Bounded`]). Patterns are literals: each is compiled once,
//! and its size is known before the query runs.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, ScalarUDF, WindowFunctionDefinition};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use regex::RegexBuilder;

use crate::bounded::{Bounded, Cost};
use crate::text_functions::{CONCAT_TEXTS, concat_texts, levenshtein};

/// Functions whose results and work are small for any argument.
const PLAIN: [&str; 36] = [
    "arrow_cast",
    "arrow_typeof",
    "ascii",
    "bit_length",
    "character_length",
    "chr",
    "coalesce",
    "contains",
    "current_date",
    "current_time",
    "date_bin",
    "date_part",
    "date_trunc",
    "ends_with",
    "from_unixtime",
    "greatest",
    "least",
    "make_date",
    "make_time",
    "now",
    "nullif",
    "nvl",
    "nvl2",
    "octet_length",
    "starts_with",
    "to_date",
    "to_hex",
    "to_local_time",
    "to_time",
    "to_timestamp",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_timestamp_nanos",
    "to_timestamp_seconds",
    "to_unixtime",
    "uuid",
];

/// Functions that make texts or work on them for long, with what a row costs.
const BOUNDED: [(&str, Cost); 26] = [
    ("btrim", compared(once)),
    ("concat", Cost::of_text(once)),
    ("concat_ws", Cost::of_text(separated)),
    ("find_in_set", compared(number)),
    ("initcap", Cost::of_text(other_case)),
    ("json_get", Cost::of_text(once)),
    ("left", Cost::of_text(once)),
    ("levenshtein", compared(distance_bytes)),
    ("lower", Cost::of_text(other_case)),
    ("ltrim", compared(once)),
    ("overlay", Cost::of_text(once)),
    (
        "regexp_count",
        Cost {
            bytes: number,
            work: iterating,
        },
    ),
    (
        "regexp_instr",
        Cost {
            bytes: number,
            work: iterating,
        },
    ),
    (
        "regexp_like",
        Cost {
            bytes: number,
            work: matching,
        },
    ),
    (
        "regexp_replace",
        Cost {
            bytes: replaced_groups,
            work: replacing,
        },
    ),
    ("replace", Cost::of_text(replaced)),
    ("reverse", Cost::of_text(once)),
    ("right", Cost::of_text(once)),
    ("rtrim", compared(once)),
    ("split_part", Cost::of_text(once)),
    ("strpos", compared(number)),
    ("substr", Cost::of_text(once)),
    ("substr_index", Cost::of_text(once)),
    ("to_char", Cost::of_text(formatted)),
    ("translate", Cost::of_text(other_characters)),
    ("upper", Cost::of_text(other_case)),
];

/// Aggregations. Their state is a part of the query's memory.
const AGGREGATES: [&str; 38] = [
    "any_value",
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "first_value",
    "grouping",
    "last_value",
    "max",
    "median",
    "min",
    "nth_value",
    "percentile_cont",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "string_agg",
    "sum",
    "var",
    "var_pop",
];

/// Aggregations that are none of windows: each row would have a copy of all values before it.
const COLLECTING: [&str; 2] = ["array_agg", "string_agg"];

/// Beginnings of the types that `arrow_cast` may name: values of others may have any length.
const CAST_TYPES: [&str; 6] = ["Date", "Float", "Int", "Time", "Timestamp", "UInt"];

const WINDOWS: [&str; 11] = [
    "cume_dist",
    "dense_rank",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "nth_value",
    "ntile",
    "percent_rank",
    "rank",
    "row_number",
];

/// Most centroids of `approx_percentile_cont`, each of which takes memory ahead.
const CENTROIDS_MAX: i64 = 10_000;

/// Most bytes of a compiled regular expression.
const REGEX_BYTES_MAX: usize = 256 << 10;

/// Most bytes of a regular expression that is compiled for ASCII, where classes of letters are
/// small: the work for a text grows with them.
const REGEX_STATES_MAX: usize = 16 << 10;

/// Work for a byte of a text that a regular expression looks at.
const REGEX_STEPS: usize = 128;

/// Most characters of a pattern of `LIKE`.
const LIKE_CHARACTERS_MAX: usize = 1_024;

/// Most `_` of a pattern of `LIKE`: they multiply the states between two `%`.
const LIKE_ANY_MAX: usize = 16;

/// All arguments, one after the other.
fn once(lengths: &[usize]) -> usize {
    lengths.iter().copied().fold(0, usize::saturating_add)
}

/// With a separator, the first argument, between them.
fn separated(lengths: &[usize]) -> usize {
    let separator = lengths.first().copied().unwrap_or(0);
    once(lengths).saturating_add(separator.saturating_mul(lengths.len()))
}

/// A character of another case takes at most three times as many bytes.
fn other_case(lengths: &[usize]) -> usize {
    once(lengths).saturating_mul(3)
}

/// Any character may become one of four bytes.
fn other_characters(lengths: &[usize]) -> usize {
    once(lengths).saturating_mul(4)
}

/// An item of a format, of two bytes, gives at most so much.
fn formatted(lengths: &[usize]) -> usize {
    once(lengths).saturating_mul(24).saturating_add(64)
}

/// The third argument at each byte of the first one, where the second one is empty.
fn replaced(lengths: &[usize]) -> usize {
    let at = |place: usize| lengths.get(place).copied().unwrap_or(0);
    let matches = match at(1) {
        0 => at(0).saturating_add(1),
        pattern => at(0) / pattern,
    };
    at(0).saturating_add(matches.saturating_mul(at(2)))
}

/// A replacement at each byte, each of whose bytes may name a group that caught everything.
fn replaced_groups(lengths: &[usize]) -> usize {
    let at = |place: usize| lengths.get(place).copied().unwrap_or(0);
    let once = at(0).saturating_add(1).saturating_mul(at(2));
    at(0).saturating_add(once.saturating_mul(2))
}

fn number(_: &[usize]) -> usize {
    16
}

/// A regular expression looks at each byte in several states.
fn matching(lengths: &[usize]) -> usize {
    once(lengths).saturating_mul(REGEX_STEPS)
}

/// Each match may look at the rest of the text.
fn iterating(lengths: &[usize]) -> usize {
    let text = lengths.first().copied().unwrap_or(0).saturating_add(1);
    text.saturating_mul(text)
        .saturating_mul(REGEX_STEPS / 2)
        .saturating_add(matching(lengths))
}

/// Only with flags there is more than one match.
fn replacing(lengths: &[usize]) -> usize {
    if lengths.len() > 3 {
        iterating(lengths)
    } else {
        matching(lengths)
    }
}

fn distance_bytes(lengths: &[usize]) -> usize {
    once(lengths).saturating_mul(8)
}

/// The cost of a function that compares each character with each one of the other text.
const fn compared(bytes: fn(&[usize]) -> usize) -> Cost {
    Cost {
        bytes,
        work: distance,
    }
}

/// Each character is compared with each one of the other text.
fn distance(lengths: &[usize]) -> usize {
    let characters = lengths.iter().map(|length| length.saturating_add(1));
    characters.fold(1, usize::saturating_mul)
}

/// The functions of one query.
#[derive(Debug)]
pub(crate) struct Functions {
    bounded: HashMap<&'static str, Arc<ScalarUDF>>,
    concat_texts: Arc<ScalarUDF>,
}

impl Functions {
    /// The functions of a context, bounded by its memory. `json_get` is registered already.
    pub(crate) fn new(context: &SessionContext, pool: &Arc<dyn MemoryPool>) -> Self {
        let state = context.state();
        let bound = |inner: Arc<ScalarUDF>, cost: Cost| {
            Arc::new(ScalarUDF::new_from_impl(Bounded::new(inner, cost, pool)))
        };
        let known = |name: &str| match name {
            "levenshtein" => Some(Arc::new(levenshtein())),
            _ => state.scalar_functions().get(name).cloned(),
        };
        let bounded = BOUNDED
            .into_iter()
            .filter_map(|(name, cost)| Some((name, bound(known(name)?, cost))));
        Self {
            bounded: bounded.collect(),
            concat_texts: bound(Arc::new(concat_texts()), Cost::of_text(once)),
        }
    }

    /// The plan with bounded functions; an error if it has one that is on no list.
    pub(crate) fn bound(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let bounded = plan.transform_up_with_subqueries(|node| {
            if matches!(node, LogicalPlan::Unnest(_)) {
                return Err(refused("unnest"));
            }
            node.map_expressions(|expr| expr.transform_up(|expr| self.bound_one(expr)))
        })?;
        Ok(bounded.data)
    }

    fn bound_one(&self, expr: Expr) -> Result<Transformed<Expr>> {
        match expr {
            Expr::ScalarFunction(call) => {
                let call = self.bound_call(call)?;
                return Ok(Transformed::yes(Expr::ScalarFunction(call)));
            }
            Expr::AggregateFunction(ref call) => check_aggregate(call)?,
            Expr::WindowFunction(ref call) => match &call.fun {
                WindowFunctionDefinition::AggregateUDF(function) => {
                    check_listed(function.name(), &AGGREGATES)?;
                    check_window(function.name())?;
                }
                WindowFunctionDefinition::WindowUDF(function) => {
                    check_listed(function.name(), &WINDOWS)?;
                }
            },
            Expr::Like(ref like) => check_like(&like.pattern)?,
            Expr::SimilarTo(_) => return Err(refused("SIMILAR TO")),
            Expr::BinaryExpr(ref operation) => match operation.op {
                // Those that are written are planned as functions.
                Operator::StringConcat
                | Operator::RegexMatch
                | Operator::RegexIMatch
                | Operator::RegexNotMatch
                | Operator::RegexNotIMatch
                | Operator::LikeMatch
                | Operator::ILikeMatch
                | Operator::NotLikeMatch
                | Operator::NotILikeMatch => return Err(refused(&operation.op.to_string())),
                _ => {}
            },
            _ => {}
        }
        Ok(Transformed::no(expr))
    }

    fn bound_call(&self, call: ScalarFunction) -> Result<ScalarFunction> {
        let name = call.func.name();
        if name == "arrow_cast" {
            check_cast(&call.args)?;
        }
        if name == self.concat_texts.name() || PLAIN.contains(&name) {
            return Ok(call);
        }
        let bounded = self.bounded.get(name).ok_or_else(|| refused(name))?;
        if name.starts_with("regexp_") {
            check_pattern(name, &call.args)?;
        }
        Ok(ScalarFunction {
            func: Arc::clone(bounded),
            args: call.args,
        })
    }

    fn call(&self, name: &str, args: Vec<Expr>) -> Result<Expr> {
        let func = self.bounded.get(name).ok_or_else(|| refused(name))?;
        Ok(Expr::ScalarFunction(ScalarFunction {
            func: Arc::clone(func),
            args,
        }))
    }
}

/// Operators on texts become functions, which are bounded.
impl ExprPlanner for Functions {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        _: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let (is_negated, ignores_case) = match expr.op {
            BinaryOperator::StringConcat => {
                return Ok(PlannerResult::Planned(Expr::ScalarFunction(
                    ScalarFunction {
                        func: Arc::clone(&self.concat_texts),
                        args: vec![expr.left, expr.right],
                    },
                )));
            }
            BinaryOperator::PGRegexMatch => (false, false),
            BinaryOperator::PGRegexIMatch => (false, true),
            BinaryOperator::PGRegexNotMatch => (true, false),
            BinaryOperator::PGRegexNotIMatch => (true, true),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let mut args = vec![expr.left, expr.right];
        if ignores_case {
            let flags = ScalarValue::Utf8(Some("i".into()));
            args.push(Expr::Literal(flags, None));
        }
        let matches = self.call("regexp_like", args)?;
        Ok(PlannerResult::Planned(if is_negated {
            Expr::Not(Box::new(matches))
        } else {
            matches
        }))
    }
}

/// The error for a function that is on no list.
fn refused(name: &str) -> DataFusionError {
    DataFusionError::Plan(format!(
        "{name} is none of the functions of queries: docs/events.md lists them"
    ))
}

fn check_listed(name: &str, list: &[&str]) -> Result<()> {
    if list.contains(&name) {
        Ok(())
    } else {
        Err(refused(name))
    }
}

fn check_aggregate(call: &AggregateFunction) -> Result<()> {
    let name = call.func.name();
    check_listed(name, &AGGREGATES)?;
    if name != "approx_percentile_cont" {
        return Ok(());
    }
    let few = |expr: &Expr| match expr {
        Expr::Literal(ScalarValue::Int64(Some(count)), _) => *count <= CENTROIDS_MAX,
        _ => false,
    };
    match call.params.args.get(2) {
        Some(count) if !few(count) => Err(DataFusionError::Plan(format!(
            "{name} has at most {CENTROIDS_MAX} centroids, written as a number"
        ))),
        _ => Ok(()),
    }
}

fn check_window(name: &str) -> Result<()> {
    if COLLECTING.contains(&name) {
        return Err(DataFusionError::Plan(format!(
            "{name} is none of the functions of windows: docs/events.md lists them"
        )));
    }
    Ok(())
}

/// Casts by a name of Arrow make numbers and times.
fn check_cast(args: &[Expr]) -> Result<()> {
    let name = args.get(1).and_then(literal_text).unwrap_or_default();
    if CAST_TYPES.iter().any(|begin| name.starts_with(begin)) {
        return Ok(());
    }
    Err(DataFusionError::Plan(
        "arrow_cast makes numbers and times, and names their type in quotes".into(),
    ))
}

/// The text of a literal, or of literals that `||` joins: they are folded before they are used.
fn literal_text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(
            ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text),
            _,
        ) => Some(text.clone().unwrap_or_default()),
        Expr::Literal(ScalarValue::Null, _) => Some(String::new()),
        Expr::ScalarFunction(call) if call.func.name() == CONCAT_TEXTS => {
            call.args.iter().map(literal_text).collect()
        }
        _ => None,
    }
}

fn check_literal(what: &str, pattern: &Expr) -> Result<String> {
    literal_text(pattern).ok_or_else(|| {
        DataFusionError::Plan(format!("the pattern of {what} must be a text in quotes"))
    })
}

fn check_like(pattern: &Expr) -> Result<()> {
    let pattern = check_literal("LIKE", pattern)?;
    if pattern.chars().count() > LIKE_CHARACTERS_MAX || pattern.matches('_').count() > LIKE_ANY_MAX
    {
        return Err(DataFusionError::Plan(format!(
            "a pattern of LIKE has at most {LIKE_CHARACTERS_MAX} characters and {LIKE_ANY_MAX} _"
        )));
    }
    Ok(())
}

/// Patterns, and what else says how to match, are written in the query: patterns of each row would
/// all be compiled and kept.
fn check_pattern(name: &str, args: &[Expr]) -> Result<()> {
    let Some(pattern) = args.get(1) else {
        return Ok(());
    };
    let pattern = check_literal(name, pattern)?;
    let wrong = |error: regex::Error| DataFusionError::Plan(format!("{name}: {error}"));
    RegexBuilder::new(&pattern)
        .size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(wrong)?;
    let of_ascii = regex::bytes::RegexBuilder::new(&pattern)
        .unicode(false)
        .size_limit(REGEX_STATES_MAX)
        .build();
    // A pattern that has no meaning for ASCII is small all the same.
    if let Err(error @ regex::Error::CompiledTooBig(_)) = of_ascii {
        return Err(wrong(error));
    }
    let others = args.iter().enumerate().skip(2);
    let is_replacement = |place: usize| place == 2 && name == "regexp_replace";
    for (_, other) in others.filter(|(place, _)| !is_replacement(*place)) {
        if !matches!(other, Expr::Literal(..)) {
            return Err(DataFusionError::Plan(format!(
                "the flags and numbers of {name} must be written in the query"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::json_get::json_get;

    #[test]
    fn every_listed_function_is_there() {
        let context = SessionContext::new();
        context.register_udf(json_get());
        let state = context.state();
        let pool = Arc::clone(&context.runtime_env().memory_pool);
        let functions = Functions::new(&context, &pool);
        for (name, _) in BOUNDED {
            assert_eq!(functions.bounded[name].name(), name);
        }
        for name in PLAIN {
            assert_eq!(state.scalar_functions()[name].name(), name);
        }
        for name in AGGREGATES {
            assert_eq!(state.aggregate_functions()[name].name(), name);
        }
        for name in COLLECTING {
            assert!(AGGREGATES.contains(&name));
        }
        for name in WINDOWS {
            assert_eq!(state.window_functions()[name].name(), name);
        }
    }

    #[test]
    fn no_function_is_on_both_lists() {
        let plain: BTreeSet<&str> = PLAIN.into_iter().collect();
        assert!(BOUNDED.iter().all(|(name, _)| !plain.contains(name)));
    }

    #[test]
    fn costs_are_upper_bounds() {
        // An empty pattern is found between all characters.
        assert_eq!("abc".replace("", "xy").len(), replaced(&[3, 0, 2]));
        assert_eq!("aaa".replace('a', "xy").len(), replaced(&[3, 1, 2]) - 3);
        assert_eq!(replaced(&[3, 4, 100]), 3);
        assert_eq!(separated(&[2, 1, 1, 1]), 2 + 3 + 8);
        assert!("ΐΰ".to_uppercase().len() <= other_case(&["ΐΰ".len()]));
        assert!("İ".to_lowercase().len() <= other_case(&["İ".len()]));
        assert_eq!(distance(&[1000, 1000]), 1_002_001);
        assert_eq!(replaced_groups(&[usize::MAX, 1, usize::MAX]), usize::MAX);
        assert!(iterating(&[5_000, 1]) > 1 << 30);
        assert_eq!(iterating(&[usize::MAX, 1]), usize::MAX);
        assert_eq!(replacing(&[5_000, 1, 1]), matching(&[5_000, 1, 1]));
        assert_eq!(replacing(&[9, 1, 1, 1]), iterating(&[9, 1, 1, 1]));
    }

    /// Documents list what queries may call, by name.
    #[test]
    fn the_document_lists_all_functions() {
        let document = include_str!("../../../docs/events.md");
        let (_, section) = document.split_once("### Functions of SQL\n").unwrap();
        let section = section.split("\n## ").next().unwrap();
        let listed: BTreeSet<&str> = section
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|word| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
            .collect();
        let bounded = BOUNDED.map(|(name, _)| name);
        let known = [&PLAIN[..], &bounded[..], &AGGREGATES[..], &WINDOWS[..]].concat();
        let known: BTreeSet<&str> = known.into_iter().collect();
        assert_eq!(listed, known);
    }
}
