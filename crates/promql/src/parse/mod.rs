//! Text to syntax tree, and back.
//!
//! ```text
//! text ─ lexer ─► tokens ─ grammar ─► Expr ─ check ─► Expr, well typed
//!                                      ├─ Display, pretty ─► text
//!                                      └─ ast_json ─► JSON
//! ```
//!
//! Holds always:
//! - The language is that of Prometheus 3.15 with every experimental part enabled; errors have its
//!   words.
//! - No text panics or exhausts the stack: length, nesting and height are limited by named
//!   constants.

mod ast;
mod check;
mod display;
mod grammar;
mod json;
mod lexer;
mod literal;
mod names;
mod position;
mod pretty;
mod resolve;
mod signature;
mod text;
mod token;

#[cfg(test)]
mod tests;

use std::fmt;

use icecore_model::Matcher;

pub use ast::*;
pub use icecore_model::go_float;
pub(crate) use icecore_model::go_float_of_digits;
pub use json::ast_json;
pub(crate) use literal::{format_duration, parse_duration_ms, parse_signed_number};
pub use position::line_and_column;
pub use pretty::pretty;
pub use resolve::DurationError;
pub use signature::{FUNCTIONS, Signature, function};
pub(crate) use text::quoted;

use grammar::Parser;
use lexer::{Fault, Lexer};

/// Most bytes of a query.
pub const MAX_QUERY_BYTES: usize = 1 << 20;

/// Deepest nesting of parentheses, calls and signs.
pub const MAX_NESTING: usize = 128;

/// Most nodes on a branch of a tree; more than the nesting because chains such as `a or b or c` add
/// to a branch without nesting. Bounds the recursion of everything that walks a tree.
pub const MAX_HEIGHT: usize = 500;

/// Parses a query and checks its types.
pub fn parse(text: &str) -> Result<Expr, ParseError> {
    check_length(text)?;
    let parsed = Parser::new(text).and_then(|mut parser| {
        let mut expr = parser.query()?;
        check::check(&mut expr, text)?;
        Ok(expr)
    });
    parsed.map_err(|fault| ParseError::locate(fault, text))
}

/// Parses a series selector such as those of `match[]`. It may match every series; the caller
/// decides whether that is allowed.
pub fn parse_selector(text: &str) -> Result<Vec<Matcher>, ParseError> {
    check_length(text)?;
    let parsed = Parser::new(text).and_then(|mut parser| parser.lone_selector());
    parsed
        .map(|selector| selector.matchers)
        .map_err(|fault| ParseError::locate(fault, text))
}

/// The value of the string literal at the start of a text, and the rest of the text.
pub(crate) fn leading_string(text: &str) -> Option<(String, &str)> {
    let literal = Lexer::new(text).leading_string()?;
    let value = String::from_utf8(text::unquote(literal)).ok()?;
    Some((value, &text[literal.len()..]))
}

fn check_length(text: &str) -> Result<(), ParseError> {
    if text.len() > MAX_QUERY_BYTES {
        Err(ParseError {
            line: 1,
            column: 1,
            message: format!("query is longer than {MAX_QUERY_BYTES} bytes"),
        })
    } else {
        Ok(())
    }
}

/// Why a text is not a query, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Counted from 1; 0 for the empty text, which has no places.
    pub line: usize,
    /// Counted from 1, in bytes, as Prometheus counts.
    pub column: usize,
    pub message: String,
}

impl ParseError {
    fn locate(fault: Fault, text: &str) -> Self {
        let (line, column) = if text.is_empty() {
            (0, 0)
        } else {
            line_and_column(text, fault.position)
        };
        Self {
            line,
            column,
            message: fault.message,
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "unknown position")?,
            line => write!(f, "{line}:{}", self.column)?,
        }
        write!(f, ": parse error: {}", self.message)
    }
}

impl std::error::Error for ParseError {}
