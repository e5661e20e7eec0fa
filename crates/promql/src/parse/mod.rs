//! Text to syntax tree.

mod ast;
mod go_float;
mod position;
mod signature;

use std::fmt;

pub use ast::*;
pub use go_float::go_float;
pub use position::line_and_column;
pub use signature::{FUNCTIONS, Signature, function};

/// Why a text is not a query, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in bytes, as Prometheus counts.
    pub column: usize,
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: parse error: {}",
            self.line, self.column, self.message
        )
    }
}

impl std::error::Error for ParseError {}
