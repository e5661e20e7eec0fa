//! The syntax tree, with the span of every node.
//!
//! Holds always: durations and timestamps are milliseconds; a span is a half-open range of bytes of
//! the query's text; a tree that [`parse`](super::parse) returned is well typed.

use icecore_model::Matcher;

use super::signature::Signature;

/// A half-open range of bytes in the text of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

/// The type of an expression's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    Scalar,
    Vector,
    Matrix,
    String,
}

#[derive(Clone, Debug)]
pub enum Expr {
    Number(NumberLiteral),
    String(StringLiteral),
    Vector(VectorSelector),
    Matrix(MatrixSelector),
    Subquery(Subquery),
    Aggregate(Aggregate),
    Binary(Binary),
    Call(Call),
    Paren(Paren),
    Unary(Unary),
}

#[derive(Clone, Debug)]
pub struct NumberLiteral {
    pub value: f64,
    /// Written as a duration, `5m` for 300.
    pub is_duration: bool,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct StringLiteral {
    pub value: String,
    /// The bytes if escapes such as `\xff` make the string invalid UTF-8; `value` then has
    /// replacement characters.
    pub not_utf8: Option<Vec<u8>>,
    pub span: Span,
}

/// `name{matchers} offset … @ …`
#[derive(Clone, Debug)]
pub struct VectorSelector {
    /// The metric name before the braces. One quoted within them is only among the matchers, as in
    /// Prometheus.
    pub name: Option<String>,
    /// All matchers, that of the name included (as `__name__`), in the order written, that of the
    /// name before the braces last.
    pub matchers: Vec<Matcher>,
    pub time: TimeModifiers,
    pub anchored: bool,
    pub smoothed: bool,
    pub span: Span,
}

/// `offset` and `@`, of selectors and subqueries.
#[derive(Clone, Debug, Default)]
pub struct TimeModifiers {
    pub offset: Duration,
    pub at: Option<At>,
}

/// The time given with `@`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Timestamp(i64),
    Start,
    End,
}

/// A literal duration, or an expression to be evaluated with the step and range of the query.
#[derive(Clone, Debug)]
pub enum Duration {
    Millis(i64),
    Expr(Box<DurationExpr>),
}

impl Default for Duration {
    fn default() -> Self {
        Self::Millis(0)
    }
}

/// A duration computed from numbers (in seconds), `step()` and `range()`.
#[derive(Clone, Debug)]
pub struct DurationExpr {
    pub kind: DurationExprKind,
    pub span: Span,
    /// Written in parentheses.
    pub wrapped: bool,
}

#[derive(Clone, Debug)]
pub enum DurationExprKind {
    Number(NumberLiteral),
    /// The step of the query, 0 for instant queries.
    Step,
    /// The range of the query, 0 for instant queries.
    Range,
    Plus(Box<DurationExpr>),
    Negate(Box<DurationExpr>),
    Binary(DurationOp, Box<DurationExpr>, Box<DurationExpr>),
    /// `min_of(a, b)` and `max_of(a, b)`.
    MinOf(Box<DurationExpr>, Box<DurationExpr>),
    MaxOf(Box<DurationExpr>, Box<DurationExpr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurationOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
}

/// `selector[range]`
#[derive(Clone, Debug)]
pub struct MatrixSelector {
    /// Its time modifiers are those after the range.
    pub selector: VectorSelector,
    pub range: Duration,
    pub span: Span,
}

/// `expr[range:step]`
#[derive(Clone, Debug)]
pub struct Subquery {
    pub expr: Box<Expr>,
    pub range: Duration,
    /// `None` for the engine's default.
    pub step: Option<Duration>,
    pub time: TimeModifiers,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Aggregate {
    pub op: AggregateOp,
    pub expr: Box<Expr>,
    /// The first argument of those that take two.
    pub parameter: Option<Box<Expr>>,
    /// The labels of `by` or `without`, in the order written.
    pub grouping: Vec<String>,
    pub without: bool,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AggregateOp {
    Sum,
    Avg,
    Count,
    Min,
    Max,
    Group,
    Stddev,
    Stdvar,
    TopK,
    BottomK,
    CountValues,
    Quantile,
    LimitK,
    LimitRatio,
}

impl AggregateOp {
    /// Whether it selects rows, which keep all their labels.
    pub(crate) fn selects_rows(self) -> bool {
        matches!(
            self,
            Self::TopK | Self::BottomK | Self::LimitK | Self::LimitRatio
        )
    }
}

#[derive(Clone, Debug)]
pub struct Binary {
    pub op: BinaryOp,
    pub lhs: Box<Expr>,
    pub rhs: Box<Expr>,
    /// Present when both sides are vectors.
    pub matching: Option<VectorMatching>,
    pub return_bool: bool,
    /// From the start of the left side to the end of the right one.
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
    Atan2,
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    And,
    Or,
    Unless,
    /// `</`: a histogram without what lies above a value.
    TrimUpper,
    /// `>/`: a histogram without what lies below a value.
    TrimLower,
}

#[derive(Clone, Debug, Default)]
pub struct VectorMatching {
    pub cardinality: Cardinality,
    /// The labels of `on` or `ignoring`.
    pub labels: Vec<String>,
    /// `on` rather than `ignoring`.
    pub on: bool,
    /// The labels in the parentheses of `group_left` or `group_right`.
    pub include: Vec<String>,
    /// The value for a missing sample of either side.
    pub fill_left: Option<f64>,
    pub fill_right: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cardinality {
    #[default]
    OneToOne,
    /// `group_left`
    ManyToOne,
    /// `group_right`
    OneToMany,
    /// Set operators.
    ManyToMany,
}

#[derive(Clone, Debug)]
pub struct Call {
    pub function: &'static Signature,
    pub args: Vec<Expr>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Paren {
    pub expr: Box<Expr>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Unary {
    /// `-` rather than `+`.
    pub negative: bool,
    pub expr: Box<Expr>,
    pub span: Span,
}

impl Expr {
    pub fn span(&self) -> Span {
        match self {
            Self::Number(e) => e.span,
            Self::String(e) => e.span,
            Self::Vector(e) => e.span,
            Self::Matrix(e) => e.span,
            Self::Subquery(e) => e.span,
            Self::Aggregate(e) => e.span,
            Self::Binary(e) => e.span,
            Self::Call(e) => e.span,
            Self::Paren(e) => e.span,
            Self::Unary(e) => e.span,
        }
    }

    pub fn value_type(&self) -> ValueType {
        match self {
            Self::Number(_) => ValueType::Scalar,
            Self::String(_) => ValueType::String,
            Self::Vector(_) | Self::Aggregate(_) => ValueType::Vector,
            Self::Matrix(_) | Self::Subquery(_) => ValueType::Matrix,
            Self::Call(call) => call.function.returns,
            Self::Paren(paren) => paren.expr.value_type(),
            Self::Unary(unary) => unary.expr.value_type(),
            Self::Binary(binary) => {
                let scalars = [&binary.lhs, &binary.rhs]
                    .iter()
                    .all(|side| side.value_type() == ValueType::Scalar);
                if scalars {
                    ValueType::Scalar
                } else {
                    ValueType::Vector
                }
            }
        }
    }

    /// The expression without the parentheses around it.
    pub fn unwrapped(&self) -> &Expr {
        let mut expr = self;
        while let Self::Paren(paren) = expr {
            expr = &paren.expr;
        }
        expr
    }
}

impl BinaryOp {
    pub fn is_comparison(self) -> bool {
        matches!(
            self,
            Self::Equal
                | Self::NotEqual
                | Self::Greater
                | Self::Less
                | Self::GreaterOrEqual
                | Self::LessOrEqual
        )
    }

    /// Yields a new quantity, so the metric name is dropped.
    pub fn is_arithmetic(self) -> bool {
        matches!(
            self,
            Self::Add
                | Self::Subtract
                | Self::Multiply
                | Self::Divide
                | Self::Modulo
                | Self::Power
                | Self::Atan2
        )
    }

    pub fn is_set(self) -> bool {
        matches!(self, Self::And | Self::Or | Self::Unless)
    }
}
