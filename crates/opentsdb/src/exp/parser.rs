//! The language of expressions.
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

use super::expression::{Node, Operator, Value};

/// Longest expression, in bytes. It bounds how long evaluation descends.
const TEXT_BYTES_MAX: usize = 4096;

/// Parentheses, signs and choices within each other.
const DEPTH_MAX: usize = 64;

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

/// Reads an expression: what it computes, and its variables.
pub(super) fn parse(text: &str) -> Result<(Node, Vec<String>), String> {
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
    Ok((root, parser.variables))
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
