//! Names and precedence of operators and types.

use super::ast::{AggregateOp, BinaryOp, Cardinality, DurationOp, ValueType};

impl AggregateOp {
    const NAMES: [(&'static str, AggregateOp); 14] = [
        ("sum", Self::Sum),
        ("avg", Self::Avg),
        ("count", Self::Count),
        ("min", Self::Min),
        ("max", Self::Max),
        ("group", Self::Group),
        ("stddev", Self::Stddev),
        ("stdvar", Self::Stdvar),
        ("topk", Self::TopK),
        ("bottomk", Self::BottomK),
        ("count_values", Self::CountValues),
        ("quantile", Self::Quantile),
        ("limitk", Self::LimitK),
        ("limit_ratio", Self::LimitRatio),
    ];

    pub(super) fn by_name(name: &str) -> Option<Self> {
        let found = Self::NAMES.iter().find(|(written, _)| *written == name)?;
        Some(found.1)
    }

    /// As it is written in a query.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::Count => "count",
            Self::Min => "min",
            Self::Max => "max",
            Self::Group => "group",
            Self::Stddev => "stddev",
            Self::Stdvar => "stdvar",
            Self::TopK => "topk",
            Self::BottomK => "bottomk",
            Self::CountValues => "count_values",
            Self::Quantile => "quantile",
            Self::LimitK => "limitk",
            Self::LimitRatio => "limit_ratio",
        }
    }

    /// Whether it takes a parameter before its vector.
    pub fn has_parameter(self) -> bool {
        matches!(
            self,
            Self::TopK
                | Self::BottomK
                | Self::CountValues
                | Self::Quantile
                | Self::LimitK
                | Self::LimitRatio
        )
    }
}

impl BinaryOp {
    /// As it is written in a query.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Power => "^",
            Self::Atan2 => "atan2",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Greater => ">",
            Self::Less => "<",
            Self::GreaterOrEqual => ">=",
            Self::LessOrEqual => "<=",
            Self::And => "and",
            Self::Or => "or",
            Self::Unless => "unless",
            Self::TrimUpper => "</",
            Self::TrimLower => ">/",
        }
    }

    /// The precedence; only the power is right-associative.
    pub(super) fn precedence(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And | Self::Unless => 2,
            Self::Equal
            | Self::NotEqual
            | Self::Greater
            | Self::Less
            | Self::GreaterOrEqual
            | Self::LessOrEqual
            | Self::TrimUpper
            | Self::TrimLower => 3,
            Self::Add | Self::Subtract => 4,
            Self::Multiply | Self::Divide | Self::Modulo | Self::Atan2 => 5,
            Self::Power => POWER_PRECEDENCE,
        }
    }

    /// The lowest precedence of an operator that its right side may contain.
    pub(super) fn right_precedence(self) -> u8 {
        match self {
            Self::Power => POWER_PRECEDENCE,
            other => other.precedence() + 1,
        }
    }

    /// The same operator between durations, where there is one.
    pub(super) fn of_durations(self) -> Option<DurationOp> {
        Some(match self {
            Self::Add => DurationOp::Add,
            Self::Subtract => DurationOp::Subtract,
            Self::Multiply => DurationOp::Multiply,
            Self::Divide => DurationOp::Divide,
            Self::Modulo => DurationOp::Modulo,
            Self::Power => DurationOp::Power,
            _ => return None,
        })
    }
}

/// The precedence of `^`, the only operator that binds tighter than a sign.
pub(super) const POWER_PRECEDENCE: u8 = 6;

impl DurationOp {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Power => "^",
        }
    }
}

impl ValueType {
    /// The name that the API uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Vector => "vector",
            Self::Matrix => "matrix",
            Self::String => "string",
        }
    }

    /// The name that error messages and the documentation use.
    pub fn documented(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Vector => "instant vector",
            Self::Matrix => "range vector",
            Self::String => "string",
        }
    }
}

impl Cardinality {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OneToOne => "one-to-one",
            Self::ManyToOne => "many-to-one",
            Self::OneToMany => "one-to-many",
            Self::ManyToMany => "many-to-many",
        }
    }
}
