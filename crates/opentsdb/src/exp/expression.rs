//! Expressions over variables, with the arithmetic, comparisons and logic of JEXL.
//!
//! Holds always:
//! - What cannot be divided is 0.
//! - Numbers without a fraction are integers among themselves; variables are floats.
//! - A value that is not a number equals itself and is below all others.

use std::cmp::Ordering;

use super::parser::parse;

/// An expression over variables.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    root: Node,
    variables: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    Constant(Value),
    Variable(usize),
    Negative(Box<Node>),
    Not(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    Choice(Box<[Node; 3]>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Integer(i64),
    Float(f64),
    Bool(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
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

impl Expression {
    /// Reads an expression; the error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (root, variables) = parse(text)?;
        Ok(Self { root, variables })
    }

    /// The variables, in the order in which values are given.
    pub(crate) fn variables(&self) -> &[String] {
        &self.variables
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    /// The result for one value of each variable.
    pub(crate) fn evaluate(&self, values: &[f64]) -> f64 {
        self.root.evaluate(values).to_f64()
    }
}

impl Node {
    /// The number that it is, if no variable is part of it.
    pub(crate) fn constant(&self) -> Option<f64> {
        self.is_constant().then(|| self.evaluate(&[]).to_f64())
    }

    fn is_constant(&self) -> bool {
        match self {
            Self::Constant(_) => true,
            Self::Variable(_) => false,
            Self::Negative(node) | Self::Not(node) => node.is_constant(),
            Self::Binary(_, left, right) => left.is_constant() && right.is_constant(),
            Self::Choice(nodes) => nodes.iter().all(Self::is_constant),
        }
    }

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
            i64::MAX as f64 + 1.0
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

    proptest! {
        #[test]
        fn any_text_is_an_expression_or_an_error(text in "[ab1.e+*/%()<>=!&|?: ä-]{0,40}") {
            if let Ok(expression) = Expression::parse(&text) {
                let values = vec![0.0; expression.variables().len()];
                expression.evaluate(&values);
            }
        }

        #[test]
        fn floats_have_the_arithmetic_of_floats(a in -1e9..1e9_f64, b in 1.0..1e9_f64) {
            prop_assert_eq!(evaluated("a + b", &[a, b]), a + b);
            prop_assert_eq!(evaluated("a - b * 2", &[a, b]), a - b * 2.0);
            prop_assert_eq!(evaluated("(a - b) / b % 3", &[a, b]), (a - b) / b % 3.0);
            prop_assert_eq!(evaluated("a <= b", &[a, b]), f64::from(u8::from(a <= b)));
        }
    }
}
