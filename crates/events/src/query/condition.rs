//! Conditions on events: clauses on attributes and columns, joined by `and` and `or`.

use crate::Scalar;

#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Clause(Clause),
}

/// One comparison. An event without the subject does not satisfy it, whatever the operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause {
    pub subject: Subject,
    pub operator: Operator,
    pub operand: Operand,
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The path of an attribute. Of a list any element may satisfy the clause.
    Attribute(String),
    /// A column that every event has, by its name in answers: `outcome`, `trace_id`, …
    Column(String),
    /// A path of what is kept as JSON: `resource.…`, `status.…`, `traceState`. Of a list any
    /// element may satisfy the clause.
    Kept(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Equal,
    NotEqual,
    /// `%` stands for any text, `_` for one character.
    Like,
    /// The same for any case of letters.
    LikeAnyCase,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    In,
    Exists,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    None,
    One(Scalar<'static>),
    Several(Vec<Scalar<'static>>),
}
