//! Calls of functions.

use super::super::ast::{Call, Expr, Span};
use super::super::lexer::Fault;
use super::super::signature::function;
use super::super::text::quoted;
use super::super::token::{Keyword, Token, TokenKind};
use super::{Parse, Parser, Tree};

impl Parser<'_> {
    /// The name has been consumed and a parenthesis follows.
    pub(super) fn call(&mut self, name: Token<'_>) -> Parse<Tree> {
        let (args, end) = self.args()?;
        let Some(function) = function(name.text) else {
            let message = format!("unknown function with name {}", quoted(name.text));
            return Err(Fault::new(name.span.start, message));
        };
        let height = args.iter().map(|arg| arg.height).max().unwrap_or(0);
        let expr = Expr::Call(Call {
            function,
            args: args.into_iter().map(|arg| arg.expr).collect(),
            span: Span {
                start: name.span.start,
                end,
            },
        });
        self.grown(expr, height)
    }

    /// `(a, b, …)`, and where it ends.
    pub(super) fn args(&mut self) -> Parse<(Vec<Tree>, usize)> {
        self.expect(TokenKind::LeftParen)?;
        let mut args = Vec::new();
        if self.at(TokenKind::RightParen) {
            return Ok((args, self.advance()?.span.end));
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
                _ => return Ok((args, self.expect(TokenKind::RightParen)?.span.end)),
            }
        }
    }

    fn starts_expression(&self) -> bool {
        !matches!(
            self.token.kind,
            TokenKind::EndOfInput
                | TokenKind::Comma
                | TokenKind::Colon
                | TokenKind::RightParen
                | TokenKind::RightBrace
                | TokenKind::RightBracket
                | TokenKind::Keyword(Keyword::On | Keyword::Ignoring | Keyword::Bool)
        )
    }
}
