//! `/api/query/exp`: expressions over the results of queries.
//!
//! ```text
//! document ─► ExpQuery ─► metrics: sub queries ─► variables
//!                         expressions, in the order of what they need:
//!                             series joined by tags ─► computed at all times ─► outputs
//! ```
//!
//! Holds always:
//! - Timestamps are the union of what goes in; nothing is interpolated. A variable counts as its
//!   fill where it has no point, and as 0 where it has no series.
//! - An expression needs only what is not made of it.

mod answer;
mod document;
mod endpoint;
mod evaluation;
mod expression;
mod join;
mod parser;
mod reader;

pub(crate) use document::{ExpQuery, ExpressionEntry};
pub(crate) use endpoint::exp;
pub(crate) use evaluation::{in_order, request};
pub(crate) use expression::{Expression, Node, Operator};
pub(crate) use join::{
    Cells, Columns, Identity, Join, SetOperator, Variable, column, compute, union_of_times,
};
