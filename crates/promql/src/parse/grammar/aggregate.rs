//! Aggregations and lists of labels.

use super::super::ast::{Aggregate, AggregateOp, Expr, Span};
use super::super::lexer::Fault;
use super::super::text::{quoted, unquote};
use super::super::token::{Keyword, Token, TokenKind};
use super::{Parse, Parser, Tree};

const LABELS: &str = "grouping opts";

#[derive(Default)]
struct Grouping {
    labels: Vec<String>,
    without: bool,
    end: usize,
}

impl Parser<'_> {
    /// `op` has been consumed: it starts an aggregation or names a metric.
    pub(super) fn aggregate_or_selector(
        &mut self,
        op: Token<'_>,
        kind: AggregateOp,
    ) -> Parse<Tree> {
        match self.token.kind {
            TokenKind::LeftParen | TokenKind::Keyword(Keyword::By | Keyword::Without) => {
                self.aggregations += 1;
                let parsed = self.aggregate(op, kind);
                self.aggregations -= 1;
                parsed
            }
            _ => Ok(Tree {
                expr: Expr::Vector(self.selector(Some(op))?),
                height: 1,
            }),
        }
    }

    fn aggregate(&mut self, token: Token<'_>, op: AggregateOp) -> Parse<Tree> {
        let mut grouping = self.grouping()?;
        let args = self.args()?;
        let mut end = self.advance()?.span.end;
        if grouping.is_none() {
            grouping = self.grouping()?;
            end = grouping.as_ref().map_or(end, |grouping| grouping.end);
        }
        let grouping = grouping.unwrap_or_default();
        let span = Span {
            start: token.span.start,
            end,
        };
        let height = args.iter().map(|arg| arg.height).max().unwrap_or(0);
        let (parameter, expr) =
            operands(op, args).map_err(|message| Fault::new(span.start, message))?;
        let expr = Expr::Aggregate(Aggregate {
            op,
            expr: Box::new(expr),
            parameter: parameter.map(Box::new),
            grouping: grouping.labels,
            without: grouping.without,
            span,
        });
        self.parent(expr, height)
    }

    /// `by (…)` or `without (…)`, if present.
    fn grouping(&mut self) -> Parse<Option<Grouping>> {
        let without = match self.token.kind {
            TokenKind::Keyword(Keyword::By) => false,
            TokenKind::Keyword(Keyword::Without) => true,
            _ => return Ok(None),
        };
        self.advance()?;
        let (labels, end) = self.labels()?;
        Ok(Some(Grouping {
            labels,
            without,
            end,
        }))
    }

    /// `(a, "b.c", …)`, and its end.
    pub(super) fn labels(&mut self) -> Parse<(Vec<String>, usize)> {
        if !self.at(TokenKind::LeftParen) {
            return Err(self.unexpected(LABELS, "\"(\""));
        }
        self.advance()?;
        let mut labels = Vec::new();
        loop {
            if self.at(TokenKind::RightParen) {
                return Ok((labels, self.advance()?.span.end));
            }
            labels.push(self.label()?);
            match self.token.kind {
                TokenKind::Comma => {
                    self.advance()?;
                }
                TokenKind::RightParen => {}
                _ => return Err(self.unexpected(LABELS, "\",\" or \")\"")),
            }
        }
    }

    fn label(&mut self) -> Parse<String> {
        let token = self.token;
        let name = match token.kind {
            TokenKind::String => String::from_utf8(unquote(token.text)).ok(),
            _ if token.is_label() => Some(token.text.to_string()),
            _ => return Err(self.unexpected(LABELS, "label")),
        };
        match name {
            Some(name) if !name.is_empty() => {
                self.advance()?;
                Ok(name)
            }
            name => {
                let name = quoted(&name.unwrap_or_default());
                let message = format!("invalid label name for grouping: {name}");
                Err(Fault::new(token.span.start, message))
            }
        }
    }
}

/// The parameter, if the operator has one, and the vector.
fn operands(op: AggregateOp, args: Vec<Tree>) -> Result<(Option<Expr>, Expr), String> {
    let wanted = 1 + usize::from(op.has_parameter());
    let given = args.len();
    let mut args = args.into_iter().map(|arg| arg.expr);
    let (first, second) = (args.next(), args.next());
    match (first, second) {
        (None, _) => Err("no arguments for aggregate expression provided".to_string()),
        (Some(expr), None) if wanted == 1 => Ok((None, expr)),
        (parameter, Some(expr)) if wanted == 2 && given == 2 => Ok((parameter, expr)),
        _ => Err(format!(
            "wrong number of arguments for aggregate expression provided, expected {wanted}, got {given}"
        )),
    }
}
