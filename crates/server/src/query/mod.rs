//! Routes that evaluate PromQL.

pub(crate) mod answer;
pub(crate) mod evaluate;
pub(crate) mod expression;
