//! Durations and expressions of them.
//!
//! Brackets allow full arithmetic; `offset` takes only a single term, so that `foo offset 5m * 2`
//! doubles the samples. Parentheses make any expression a term.

use super::super::ast::{Duration, DurationExpr, DurationExprKind as Kind, DurationOp, Span};
use super::super::lexer::Fault;
use super::super::literal::{is_out_of_range, seconds_to_millis};
use super::super::names::POWER_PRECEDENCE;
use super::super::token::{Preprocessor, TokenKind};
use super::selector::join;
use super::{BinaryOp, MAX_NESTING, Parse, Parser, too_deep};

/// The syntax around a duration, which decides the wording of errors.
#[derive(Clone, Copy)]
pub(super) enum DurationContext {
    Range,
    Step,
    Offset,
}

struct Tree {
    expr: DurationExpr,
    /// Number of nodes on the longest branch.
    height: usize,
    /// The end of the text including parentheses, which the span of the expression excludes.
    end: usize,
}

impl Parser<'_> {
    /// The range of a selector or the range or step of a subquery.
    pub(super) fn positive_duration(&mut self, context: DurationContext) -> Parse<Duration> {
        let tree = self.durations(0, context)?;
        if literal(&tree.expr).is_some_and(|seconds| seconds <= 0.0) {
            let message = "duration must be greater than 0";
            return Err(Fault::new(tree.expr.span.start, message));
        }
        Ok(resolved(tree.expr))
    }

    /// The duration after `offset`, and its end.
    pub(super) fn offset_duration(&mut self) -> Parse<(Duration, usize)> {
        let tree = match self.sign() {
            Some(negative) => {
                let start = self.advance()?.span.start;
                let term = self.duration_term(DurationContext::Offset)?;
                let is_call = matches!(
                    term.expr.kind,
                    Kind::Step | Kind::Range | Kind::MinOf(..) | Kind::MaxOf(..)
                );
                if is_call && !negative && !term.expr.wrapped {
                    // Prometheus keeps a plus here, and nowhere else.
                    let span = Span {
                        start,
                        end: term.end,
                    };
                    parent(Kind::Plus(Box::new(term.expr)), span, term.height)?
                } else {
                    signed(start, negative, term)?
                }
            }
            None => self.duration_term(DurationContext::Offset)?,
        };
        Ok((resolved(tree.expr), tree.end))
    }

    fn durations(&mut self, lowest: u8, context: DurationContext) -> Parse<Tree> {
        self.nested(|parser| {
            let mut left = match parser.sign() {
                Some(negative) => {
                    let start = parser.advance()?.span.start;
                    let operand = parser.durations(POWER_PRECEDENCE, context)?;
                    signed(start, negative, operand)?
                }
                None => parser.duration_term(context)?,
            };
            while let TokenKind::Operator(op) = parser.token.kind {
                let Some(duration_op) = op.of_durations() else {
                    break;
                };
                if op.precedence() < lowest {
                    break;
                }
                let position = parser.advance()?.span.start;
                let right = parser.durations(op.right_precedence(), context)?;
                left = combined(left, duration_op, right, position)?;
            }
            Ok(left)
        })
    }

    fn sign(&self) -> Option<bool> {
        match self.token.kind {
            TokenKind::Operator(BinaryOp::Add) => Some(false),
            TokenKind::Operator(BinaryOp::Subtract) => Some(true),
            _ => None,
        }
    }

    fn duration_term(&mut self, context: DurationContext) -> Parse<Tree> {
        match self.token.kind {
            TokenKind::Number | TokenKind::Duration => {
                let number = self.number()?;
                if is_out_of_range(number.value) {
                    return Err(Fault::new(number.span.start, "duration out of range"));
                }
                let span = number.span;
                Ok(leaf(Kind::Number(number), span))
            }
            TokenKind::Preprocessor(word @ (Preprocessor::Step | Preprocessor::Range)) => {
                let start = self.advance()?.span.start;
                self.expect_in_duration(TokenKind::LeftParen, context)?;
                let end = self.expect_in_duration(TokenKind::RightParen, context)?;
                let kind = match word {
                    Preprocessor::Step => Kind::Step,
                    _ => Kind::Range,
                };
                Ok(leaf(kind, Span { start, end }))
            }
            TokenKind::Identifier if self.token.text.eq_ignore_ascii_case("min_of") => {
                self.min_or_max(Kind::MinOf, context)
            }
            TokenKind::Identifier if self.token.text.eq_ignore_ascii_case("max_of") => {
                self.min_or_max(Kind::MaxOf, context)
            }
            TokenKind::LeftParen => {
                self.advance()?;
                let mut tree = self.durations(0, context)?;
                tree.end = self.expect_in_duration(TokenKind::RightParen, context)?;
                tree.expr.wrapped = true;
                Ok(tree)
            }
            _ => Err(self.unexpected_in_duration(context)),
        }
    }

    /// `min_of(a, b)` or `max_of(a, b)`
    fn min_or_max(
        &mut self,
        kind: fn(Box<DurationExpr>, Box<DurationExpr>) -> Kind,
        context: DurationContext,
    ) -> Parse<Tree> {
        let start = self.advance()?.span.start;
        self.expect_in_duration(TokenKind::LeftParen, context)?;
        let left = self.durations(0, context)?;
        self.expect_in_duration(TokenKind::Comma, context)?;
        let right = self.durations(0, context)?;
        let end = self.expect_in_duration(TokenKind::RightParen, context)?;
        let height = left.height.max(right.height);
        let kind = kind(Box::new(left.expr), Box::new(right.expr));
        parent(kind, Span { start, end }, height)
    }

    fn expect_in_duration(&mut self, kind: TokenKind, context: DurationContext) -> Parse<usize> {
        if self.at(kind) {
            Ok(self.advance()?.span.end)
        } else {
            Err(self.unexpected_in_duration(context))
        }
    }

    fn unexpected_in_duration(&self, context: DurationContext) -> Fault {
        match context {
            DurationContext::Range => self.unexpected(
                "subquery or range selector",
                "number, duration, step(), or range()",
            ),
            DurationContext::Step => self.unexpected(
                "subquery selector",
                "number, duration, step(), range(), or \"]\"",
            ),
            DurationContext::Offset => {
                self.unexpected("offset", "number, duration, step(), or range()")
            }
        }
    }
}

fn leaf(kind: Kind, span: Span) -> Tree {
    Tree {
        expr: DurationExpr {
            kind,
            span,
            wrapped: false,
        },
        height: 1,
        end: span.end,
    }
}

fn parent(kind: Kind, span: Span, below: usize) -> Parse<Tree> {
    let mut tree = leaf(kind, span);
    tree.height = below + 1;
    if tree.height > MAX_NESTING {
        Err(Fault::new(span.start, too_deep(MAX_NESTING)))
    } else {
        Ok(tree)
    }
}

/// A minus becomes part of a number; a plus changes nothing.
fn signed(start: usize, negative: bool, mut tree: Tree) -> Parse<Tree> {
    let plain = !tree.expr.wrapped;
    match &mut tree.expr.kind {
        Kind::Number(number) if plain => {
            number.span.start = start;
            if negative {
                number.value = -number.value;
            }
            tree.expr.span.start = start;
            Ok(tree)
        }
        _ if negative => {
            let end = tree.end;
            let kind = Kind::Negate(Box::new(tree.expr));
            parent(kind, Span { start, end }, tree.height)
        }
        _ => Ok(tree),
    }
}

fn combined(left: Tree, op: DurationOp, right: Tree, position: usize) -> Parse<Tree> {
    if literal(&right.expr) == Some(0.0) {
        match op {
            DurationOp::Divide => return Err(Fault::new(position, "division by zero")),
            DurationOp::Modulo => return Err(Fault::new(position, "modulo by zero")),
            _ => {}
        }
    }
    let end = right.end;
    let span = join(left.expr.span, right.expr.span);
    let height = left.height.max(right.height);
    let kind = Kind::Binary(op, Box::new(left.expr), Box::new(right.expr));
    let tree = parent(kind, span, height)?;
    Ok(Tree { end, ..tree })
}

/// The seconds of a plain number.
fn literal(expr: &DurationExpr) -> Option<f64> {
    match &expr.kind {
        Kind::Number(number) if !expr.wrapped => Some(number.value),
        _ => None,
    }
}

/// A literal is resolved now; other expressions are kept, for printing and for the query's step.
fn resolved(expr: DurationExpr) -> Duration {
    match literal(&expr) {
        Some(seconds) => Duration::Millis(seconds_to_millis(seconds)),
        None => Duration::Expr(Box::new(expr)),
    }
}
