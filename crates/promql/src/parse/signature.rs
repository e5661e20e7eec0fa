//! The functions of the language: names, arguments, results.

use super::ast::ValueType;

/// How a function may be called.
#[derive(Debug, PartialEq, Eq)]
pub struct Signature {
    pub name: &'static str,
    /// The types of the arguments; the last one repeats when `variadic` is not 0.
    pub args: &'static [ValueType],
    /// 0: exactly `args`. n > 0: the last n of `args` may be missing. −1: the last may be missing or
    /// repeat. As in Prometheus.
    pub variadic: i32,
    pub returns: ValueType,
    pub experimental: bool,
}

/// Finds a function by its name.
pub fn function(name: &str) -> Option<&'static Signature> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// All functions, sorted by name.
pub static FUNCTIONS: &[Signature] = &[];
