//! Tokens to tree, by precedence climbing.
//!
//! ```text
//! expression ─► operand ─► sign | primary ─► postfix: [range], offset, @, anchored, smoothed
//!     ▲                            │
//!     └── operators, by how tightly they bind ── call, aggregation, parentheses
//! ```
//!
//! Holds always:
//! - One token of look-ahead; the first error ends the parse, with the message of Prometheus.
//! - Recursion is limited to [`MAX_NESTING`] and trees to [`MAX_HEIGHT`], so that nothing that
//!   walks a tree can overflow the stack. Compiled patterns are limited by [`MatcherBudget`].
//!
//! Elsewhere: type checks (`check`).

mod aggregate;
mod binary;
mod call;
mod duration;
mod postfix;
mod selector;

use icecore_model::MatcherBudget;

use super::ast::{Expr, NumberLiteral, Paren, Span, StringLiteral, Unary};
use super::lexer::{Fault, Lexer};
use super::literal::{parse_duration, parse_number};
use super::names::POWER_PRECEDENCE;
use super::text::unquote;
use super::token::{Keyword, Token, TokenKind};
use super::{BinaryOp, MAX_HEIGHT, MAX_NESTING};

pub(super) type Parse<T> = Result<T, Fault>;

pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The next token, not yet consumed.
    token: Token<'a>,
    nesting: usize,
    /// Number of enclosing aggregations: errors within one are reported as "in aggregation".
    aggregations: usize,
    /// Bounds what the matchers of all selectors take.
    budget: MatcherBudget,
}

/// An expression and the number of nodes on its longest branch.
pub(super) struct Tree {
    pub(super) expr: Expr,
    pub(super) height: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Parse<Self> {
        let mut lexer = Lexer::new(text);
        let token = lexer.next_token()?;
        Ok(Self {
            lexer,
            token,
            nesting: 0,
            aggregations: 0,
            budget: MatcherBudget::default(),
        })
    }

    /// A whole query.
    pub(super) fn query(&mut self) -> Parse<Expr> {
        if self.at(TokenKind::EndOfInput) {
            return Err(Fault::new(0, "no expression found in input"));
        }
        let tree = self.expression(0)?;
        self.expect_end()?;
        Ok(tree.expr)
    }

    /// An expression of operators that bind at least as tightly as `lowest`.
    fn expression(&mut self, lowest: u8) -> Parse<Tree> {
        self.nested(|parser| {
            let mut left = parser.operand()?;
            while let TokenKind::Operator(op) = parser.token.kind {
                if op.precedence() < lowest {
                    break;
                }
                parser.advance()?;
                left = parser.binary(left, op)?;
            }
            Ok(left)
        })
    }

    fn operand(&mut self) -> Parse<Tree> {
        match self.token.kind {
            TokenKind::Operator(BinaryOp::Add) => self.signed(false),
            TokenKind::Operator(BinaryOp::Subtract) => self.signed(true),
            _ => {
                let primary = self.primary()?;
                self.postfix(primary)
            }
        }
    }

    /// A sign binds less tightly than `^` and more than `*`; it becomes part of a number.
    fn signed(&mut self, negative: bool) -> Parse<Tree> {
        let start = self.advance()?.span.start;
        let mut tree = self.expression(POWER_PRECEDENCE)?;
        if let Expr::Number(number) = &mut tree.expr {
            number.span.start = start;
            if negative {
                number.value = -number.value;
            }
            return Ok(tree);
        }
        let span = Span {
            start,
            end: tree.expr.span().end,
        };
        let expr = Expr::Unary(Unary {
            negative,
            expr: Box::new(tree.expr),
            span,
        });
        self.parent(expr, tree.height)
    }

    fn primary(&mut self) -> Parse<Tree> {
        let token = self.token;
        let expr = match token.kind {
            TokenKind::Number | TokenKind::Duration => Expr::Number(self.number()?),
            TokenKind::String => Expr::String(self.string()?),
            TokenKind::LeftParen => return self.parenthesised(),
            TokenKind::LeftBrace => Expr::Vector(self.selector(None)?),
            TokenKind::Identifier | TokenKind::Preprocessor(_) => {
                self.advance()?;
                match self.token.kind {
                    TokenKind::LeftParen => return self.call(token),
                    _ => Expr::Vector(self.selector(Some(token))?),
                }
            }
            TokenKind::Aggregate(op) => {
                self.advance()?;
                return self.aggregate_or_selector(token, op);
            }
            _ if is_metric_name(token.kind) => {
                self.advance()?;
                Expr::Vector(self.selector(Some(token))?)
            }
            _ => return Err(self.unexpected("", "")),
        };
        Ok(Tree { expr, height: 1 })
    }

    fn parenthesised(&mut self) -> Parse<Tree> {
        let start = self.advance()?.span.start;
        let inner = self.expression(0)?;
        let end = self.expect(TokenKind::RightParen)?.span.end;
        let expr = Expr::Paren(Paren {
            expr: Box::new(inner.expr),
            span: Span { start, end },
        });
        self.parent(expr, inner.height)
    }

    /// The number or duration that the current token is.
    fn number(&mut self) -> Parse<NumberLiteral> {
        let token = self.token;
        let is_duration = token.kind == TokenKind::Duration;
        let value = if is_duration {
            parse_duration(token.text)
        } else {
            parse_number(token.text)
        };
        let value = value.map_err(|message| Fault::new(token.span.start, message))?;
        self.advance()?;
        Ok(NumberLiteral {
            value,
            is_duration,
            span: token.span,
        })
    }

    fn string(&mut self) -> Parse<StringLiteral> {
        let token = self.advance()?;
        let bytes = unquote(token.text);
        Ok(match String::from_utf8(bytes) {
            Ok(value) => StringLiteral {
                value,
                not_utf8: None,
                span: token.span,
            },
            Err(error) => StringLiteral {
                value: String::from_utf8_lossy(error.as_bytes()).into_owned(),
                not_utf8: Some(error.into_bytes()),
                span: token.span,
            },
        })
    }

    /// A node whose highest operand has the height `below`.
    fn parent(&self, expr: Expr, below: usize) -> Parse<Tree> {
        let height = below + 1;
        if height > MAX_HEIGHT {
            let start = expr.span().start;
            return Err(Fault::new(start, too_deep(MAX_HEIGHT)));
        }
        Ok(Tree { expr, height })
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.nesting >= MAX_NESTING {
            return Err(Fault::new(self.token.span.start, too_deep(MAX_NESTING)));
        }
        self.nesting += 1;
        let parsed = parse(self);
        self.nesting -= 1;
        parsed
    }

    fn at(&self, kind: TokenKind) -> bool {
        self.token.kind == kind
    }

    fn at_keyword(&self, keyword: Keyword) -> bool {
        self.at(TokenKind::Keyword(keyword))
    }

    /// Consumes the current token and returns it.
    fn advance(&mut self) -> Parse<Token<'a>> {
        let next = self.lexer.next_token()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn expect(&mut self, kind: TokenKind) -> Parse<Token<'a>> {
        if self.at(kind) {
            self.advance()
        } else {
            Err(self.unexpected("", ""))
        }
    }

    pub(super) fn expect_end(&mut self) -> Parse<()> {
        self.expect(TokenKind::EndOfInput)?;
        Ok(())
    }

    /// The error for the current token.
    fn unexpected(&self, context: &str, expected: &str) -> Fault {
        let mut message = format!("unexpected {}", self.token.describe());
        let context = match context {
            "" if self.aggregations > 0 => "aggregation",
            context => context,
        };
        if !context.is_empty() {
            message.push_str(" in ");
            message.push_str(context);
        }
        if !expected.is_empty() {
            message.push_str(", expected ");
            message.push_str(expected);
        }
        Fault::new(self.token.span.start, message)
    }
}

/// Keywords that are also metric names.
fn is_metric_name(kind: TokenKind) -> bool {
    match kind {
        TokenKind::MetricIdentifier => true,
        TokenKind::Operator(op) => op.is_set(),
        TokenKind::Keyword(keyword) => matches!(
            keyword,
            Keyword::By
                | Keyword::Without
                | Keyword::Offset
                | Keyword::Anchored
                | Keyword::Smoothed
        ),
        _ => false,
    }
}

fn too_deep(limit: usize) -> String {
    format!("expression is nested more than {limit} levels deep")
}
