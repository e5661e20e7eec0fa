//! The language of expressions: the arithmetic, comparisons and logic of JEXL.
//!
//! ```text
//! choice  := or ('?' choice ':' choice)?
//! or      := and ('||' and)*          also `or`
//! and     := equal ('&&' equal)*      also `and`
//! equal   := less (('=='|'!=') less)*                  also `eq`, `ne`
//! less    := sum (('<'|'<='|'>'|'>=') sum)*            also `lt`, `le`, `gt`, `ge`
//! sum     := product (('+'|'-') product)*
//! product := unary (('*'|'/'|'%') unary)*              also `div`, `mod`
//! unary   := ('-'|'+'|'!') unary | number | variable | '(' choice ')'      also `not`
//! ```
//!
//! Holds always:
//! - What cannot be divided is 0.
//! - Numbers without a fraction are integers among themselves; variables are floats.
//! - A value that is not a number equals itself and is below all others.

use std::cmp::Ordering;

/// Longest expression, in bytes. It bounds how long evaluation descends.
const TEXT_BYTES_MAX: usize = 4096;

/// Parentheses, signs and choices within each other.
const DEPTH_MAX: usize = 64;

/// An expression over variables.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    root: Node,
    variables: Vec<String>,
}

#[derive(Clone, Debug)]
enum Node {
    Constant(Value),
    Variable(usize),
    Negative(Box<Node>),
    Not(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    Choice(Box<[Node; 3]>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Integer(i64),
    Float(f64),
    Bool(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Plus,
    Minus,
    Times,
    Divide,
    Modulo,
}

/// Operators from those that bind least to those that bind most.
const LEVELS: [&[(&str, Operator)]; 6] = [
    &[("||", Operator::Or), ("or", Operator::Or)],
    &[("&&", Operator::And), ("and", Operator::And)],
    &[
        ("==", Operator::Equal),
        ("eq", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("ne", Operator::NotEqual),
    ],
    &[
        ("<=", Operator::LessOrEqual),
        ("le", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("ge", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        ("lt", Operator::Less),
        (">", Operator::Greater),
        ("gt", Operator::Greater),
    ],
    &[("+", Operator::Plus), ("-", Operator::Minus)],
    &[
        ("*", Operator::Times),
        ("/", Operator::Divide),
        ("div", Operator::Divide),
        ("%", Operator::Modulo),
        ("mod", Operator::Modulo),
    ],
];

/// Words that are no variables.
const WORDS: [&str; 13] = [
    "or", "and", "eq", "ne", "le", "ge", "lt", "gt", "div", "mod", "not", "true", "false",
];

impl Expression {
    /// Reads an expression; the error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!(
                "Expressions must not be longer than {TEXT_BYTES_MAX} bytes"
            ));
        }
        let mut parser = Parser {
            text,
            position: 0,
            depth: 0,
            variables: Vec::new(),
        };
        let root = parser.choice()?;
        parser.skip_blanks();
        if parser.position < text.len() {
            return Err(parser.unexpected());
        }
        Ok(Self {
            root,
            variables: parser.variables,
        })
    }

    /// The variables, in the order in which values are given.
    pub(crate) fn variables(&self) -> &[String] {
        &self.variables
    }

    /// The result for one value of each variable.
    pub(crate) fn evaluate(&self, values: &[f64]) -> f64 {
        self.root.evaluate(values).to_f64()
    }
}

impl Node {
    fn evaluate(&self, values: &[f64]) -> Value {
        match self {
            Self::Constant(value) => *value,
            Self::Variable(index) => Value::Float(values[*index]),
            Self::Negative(node) => match node.evaluate(values) {
                Value::Integer(value) => Value::Integer(value.wrapping_neg()),
                value => Value::Float(-value.to_f64()),
            },
            Self::Not(node) => Value::Bool(!node.evaluate(values).is_true()),
            Self::Choice(nodes) => {
                let [condition, then, otherwise] = &**nodes;
                if condition.evaluate(values).is_true() {
                    then.evaluate(values)
                } else {
                    otherwise.evaluate(values)
                }
            }
            Self::Binary(Operator::And, left, right) => {
                Value::Bool(left.evaluate(values).is_true() && right.evaluate(values).is_true())
            }
            Self::Binary(Operator::Or, left, right) => {
                Value::Bool(left.evaluate(values).is_true() || right.evaluate(values).is_true())
            }
            Self::Binary(operator, left, right) => {
                operator.apply(left.evaluate(values), right.evaluate(values))
            }
        }
    }
}

impl Operator {
    fn apply(self, left: Value, right: Value) -> Value {
        let order = || left.order(right);
        match self {
            Self::Equal => Value::Bool(order().is_eq()),
            Self::NotEqual => Value::Bool(order().is_ne()),
            Self::Less => Value::Bool(order().is_lt()),
            Self::LessOrEqual => Value::Bool(order().is_le()),
            Self::Greater => Value::Bool(order().is_gt()),
            Self::GreaterOrEqual => Value::Bool(order().is_ge()),
            Self::And => Value::Bool(left.is_true() && right.is_true()),
            Self::Or => Value::Bool(left.is_true() || right.is_true()),
            Self::Plus | Self::Minus | Self::Times | Self::Divide | Self::Modulo => {
                match (left.as_integer(), right.as_integer()) {
                    (Some(left), Some(right)) => self.of_integers(left, right),
                    _ => Value::Float(self.of_floats(left.to_f64(), right.to_f64())),
                }
            }
        }
    }

    fn of_integers(self, left: i64, right: i64) -> Value {
        let result = match self {
            Self::Plus => left.checked_add(right),
            Self::Minus => left.checked_sub(right),
            Self::Times => left.checked_mul(right),
            Self::Divide => left.checked_div(right),
            _ => left.checked_rem(right),
        };
        // Beyond 64 bits, and where nothing can be divided, floats take over.
        let float = || Value::Float(self.of_floats(left as f64, right as f64));
        result.map_or_else(float, Value::Integer)
    }

    fn of_floats(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Plus => left + right,
            Self::Minus => left - right,
            Self::Times => left * right,
            _ if right == 0.0 => 0.0,
            Self::Divide => left / right,
            _ => left % right,
        }
    }
}

impl Value {
    fn to_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
            Self::Bool(value) => f64::from(u8::from(value)),
        }
    }

    fn as_integer(self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(value),
            Self::Bool(value) => Some(i64::from(value)),
            Self::Float(_) => None,
        }
    }

    fn is_true(self) -> bool {
        let value = self.to_f64();
        value != 0.0 && !value.is_nan()
    }

    fn order(self, other: Self) -> Ordering {
        let (left, right) = (self.to_f64(), other.to_f64());
        left.partial_cmp(&right)
            .unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
    }
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
    depth: usize,
    variables: Vec<String>,
}

impl<'a> Parser<'a> {
    fn choice(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!(
                "Expressions must not be nested deeper than {DEPTH_MAX}"
            ));
        }
        let mut node = self.level(0)?;
        if self.take("?") {
            let then = self.choice()?;
            self.expect(":")?;
            node = Node::Choice(Box::new([node, then, self.choice()?]));
        }
        self.depth -= 1;
        Ok(node)
    }

    fn level(&mut self, level: usize) -> Result<Node, String> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.level(level + 1)?;
        while let Some(operator) = self.operator(operators) {
            let right = self.level(level + 1)?;
            left = Node::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn operator(&mut self, operators: &[(&str, Operator)]) -> Option<Operator> {
        let found = operators.iter().find(|(text, _)| self.take(text));
        found.map(|(_, operator)| *operator)
    }

    fn unary(&mut self) -> Result<Node, String> {
        // Signs are counted, not descended into: there may be many.
        let mut signs = Vec::new();
        loop {
            if self.take("-") {
                signs.push('-');
            } else if self.take("!") || self.take("not") {
                signs.push('!');
            } else if !self.take("+") {
                break;
            }
            if signs.len() > DEPTH_MAX {
                return Err(self.unexpected());
            }
        }
        let mut node = self.operand()?;
        while let Some(sign) = signs.pop() {
            node = if sign == '-' {
                Node::Negative(Box::new(node))
            } else {
                Node::Not(Box::new(node))
            };
        }
        Ok(node)
    }

    fn operand(&mut self) -> Result<Node, String> {
        if self.take("(") {
            let node = self.choice()?;
            self.expect(")")?;
            return Ok(node);
        }
        let rest = self.rest();
        let first = rest.chars().next();
        if first.is_some_and(|c| c.is_ascii_digit() || c == '.') {
            return self.number();
        }
        let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        let name = &rest[..end];
        let node = match name {
            "true" | "false" => Node::Constant(Value::Bool(name == "true")),
            _ if name.is_empty() || WORDS.contains(&name) => return Err(self.unexpected()),
            _ => {
                let known = self.variables.iter().position(|known| known == name);
                Node::Variable(known.unwrap_or_else(|| {
                    self.variables.push(name.to_owned());
                    self.variables.len() - 1
                }))
            }
        };
        self.position += end;
        Ok(node)
    }

    fn number(&mut self) -> Result<Node, String> {
        let rest = self.rest();
        let mut end = 0;
        for (i, c) in rest.char_indices() {
            let is_sign = matches!(c, '+' | '-') && rest[..i].ends_with(['e', 'E']);
            if !c.is_ascii_digit() && !matches!(c, '.' | 'e' | 'E') && !is_sign {
                break;
            }
            end = i + 1;
        }
        let text = &rest[..end];
        let integer = || text.parse().map(Value::Integer);
        let value = integer().or_else(|_| text.parse().map(Value::Float));
        let value = value.map_err(|_| self.unexpected())?;
        if rest[end..].starts_with(is_word) {
            return Err(self.unexpected());
        }
        self.position += end;
        Ok(Node::Constant(value))
    }

    fn rest(&mut self) -> &'a str {
        self.skip_blanks();
        &self.text[self.position..]
    }

    fn skip_blanks(&mut self) {
        let rest = &self.text[self.position..];
        self.position += rest.len() - rest.trim_start().len();
    }

    /// Whether a text is next; a word ends where no letter follows.
    fn take(&mut self, text: &str) -> bool {
        let Some(behind) = self.rest().strip_prefix(text) else {
            return false;
        };
        if text.starts_with(is_word) && behind.starts_with(is_word) {
            return false;
        }
        // `!=` is no `!`.
        if text == "!" && behind.starts_with('=') {
            return false;
        }
        self.position += text.len();
        true
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.take(text) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    fn unexpected(&mut self) -> String {
        match self.rest().chars().next() {
            None => format!("Unexpected end of the expression {}", self.text),
            Some(c) => format!(
                "Unexpected '{c}' at position {} of the expression {}",
                self.position, self.text
            ),
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluated(text: &str, values: &[f64]) -> f64 {
        Expression::parse(text).unwrap().evaluate(values)
    }

    #[test]
    fn operators_bind_as_in_jexl() {
        for (text, expected) in [
            ("a + b * 2", 16.0),
            ("(a + b) * 2", 26.0),
            ("a - b - 1", 6.0),
            ("-a + b", -7.0),
            ("a % b", 1.0),
            ("a mod b", 1.0),
            ("a / b * 3", 10.0),
            ("a > b", 1.0),
            ("a le b", 0.0),
            ("a == 10 && b != 4", 1.0),
            ("!(a > b) || b < 0", 0.0),
            ("not a or b ge 3", 1.0),
            ("a > b ? a : b", 10.0),
            ("a < b ? a : b < 2 ? 7 : 8", 8.0),
            ("a * 1.5e0 + .5", 15.5),
            ("- -a", 10.0),
            ("a+-b", 7.0),
        ] {
            assert_eq!(evaluated(text, &[10.0, 3.0]), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_divided_is_zero() {
        assert_eq!(evaluated("a / b", &[5.0, 0.0]), 0.0);
        assert_eq!(evaluated("a % b", &[5.0, 0.0]), 0.0);
        assert_eq!(evaluated("a + 1 / 0", &[5.0]), 5.0);
        // Integers divide toward zero.
        assert_eq!(evaluated("a + 7 / 2", &[0.0]), 3.0);
        assert_eq!(evaluated("a + 7 / 2.0", &[0.0]), 3.5);
        assert_eq!(
            evaluated("a + 9223372036854775807 + 1", &[0.0]),
            9.223_372_036_854_775_807e18 + 1.0
        );
    }

    #[test]
    fn values_that_are_no_numbers_have_an_order() {
        let nan = f64::NAN;
        assert_eq!(evaluated("a == b", &[nan, nan]), 1.0);
        assert_eq!(evaluated("a < b", &[nan, 1.0]), 1.0);
        assert_eq!(evaluated("a > b", &[1.0, nan]), 1.0);
        assert_eq!(evaluated("a && b", &[1.0, nan]), 0.0);
        assert!(evaluated("a + b", &[1.0, nan]).is_nan());
    }

    #[test]
    fn variables_are_named_once() {
        let expression = Expression::parse("b + a * b - order").unwrap();
        assert_eq!(expression.variables(), ["b", "a", "order"]);
    }

    #[test]
    fn broken_expressions_are_refused() {
        for text in [
            "",
            " ",
            "a +",
            "a b",
            "(a",
            "a)",
            "1x",
            "a ? b",
            "1.2.3",
            "a = b",
            "a & b",
            "or",
            "ä",
            "a.b",
            "f(a)",
            &"(".repeat(3000),
            &"-".repeat(3000),
            &"a?".repeat(1000),
            &"a+".repeat(3000),
        ] {
            assert!(Expression::parse(text).is_err(), "{text}");
        }
        let long = format!("a{}", "+a".repeat(2000));
        assert_eq!(evaluated(&long, &[1.0]), 2001.0);
    }
}
