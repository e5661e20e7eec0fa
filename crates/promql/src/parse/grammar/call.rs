//! Function calls.

use super::super::ast::{BinaryOp, Call, Expr, Span};
use super::super::lexer::Fault;
use super::super::signature::function;
use super::super::text::quoted;
use super::super::token::{Token, TokenKind};
use super::{Parse, Parser, Tree, is_metric_name};

impl Parser<'_> {
    /// The name has been consumed and a parenthesis follows.
    pub(super) fn call(&mut self, name: Token<'_>) -> Parse<Tree> {
        let args = self.args()?;
        // Before the parenthesis is consumed, so that this error precedes those of the text after
        // it.
        let Some(function) = function(name.text) else {
            let message = format!("unknown function with name {}", quoted(name.text));
            return Err(Fault::new(name.span.start, message));
        };
        let end = self.advance()?.span.end;
        let height = args.iter().map(|arg| arg.height).max().unwrap_or(0);
        let expr = Expr::Call(Call {
            function,
            args: args.into_iter().map(|arg| arg.expr).collect(),
            span: Span {
                start: name.span.start,
                end,
            },
        });
        self.parent(expr, height)
    }

    /// `(a, b, …` up to the closing parenthesis, which stays the current token.
    pub(super) fn args(&mut self) -> Parse<Vec<Tree>> {
        self.expect(TokenKind::LeftParen)?;
        let mut args = Vec::new();
        if self.at(TokenKind::RightParen) {
            return Ok(args);
        }
        loop {
            args.push(self.expression(0)?);
            match self.token.kind {
                TokenKind::Comma => {
                    let comma = self.advance()?;
                    if !self.starts_expression() {
                        return Err(Fault::new(
                            comma.span.start,
                            "trailing commas not allowed in function call args",
                        ));
                    }
                }
                TokenKind::RightParen => return Ok(args),
                _ => return Err(self.unexpected("", "")),
            }
        }
    }

    pub(super) fn starts_expression(&self) -> bool {
        match self.token.kind {
            TokenKind::Number
            | TokenKind::Duration
            | TokenKind::String
            | TokenKind::Identifier
            | TokenKind::LeftParen
            | TokenKind::LeftBrace
            | TokenKind::Aggregate(_)
            | TokenKind::Preprocessor(_)
            | TokenKind::Operator(BinaryOp::Add | BinaryOp::Subtract) => true,
            kind => is_metric_name(kind),
        }
    }
}
