//! Binary operators and their modifiers.

use super::super::ast::{Binary, BinaryOp, Cardinality, Expr, VectorMatching};
use super::super::token::{Keyword, TokenKind};
use super::selector::join;
use super::{Parse, Parser, Tree};

impl Parser<'_> {
    /// The modifiers and the right side of an operator that has been consumed.
    pub(super) fn binary(&mut self, left: Tree, op: BinaryOp) -> Parse<Tree> {
        let return_bool = self.at_keyword(Keyword::Bool);
        if return_bool {
            self.advance()?;
        }
        let mut matching = self.matching()?;
        self.fill(&mut matching)?;
        let right = self.expression(op.right_precedence())?;
        let height = left.height.max(right.height);
        let span = join(left.expr.span(), right.expr.span());
        let expr = Expr::Binary(Binary {
            op,
            lhs: Box::new(left.expr),
            rhs: Box::new(right.expr),
            matching: Some(matching),
            return_bool,
            span,
        });
        self.parent(expr, height)
    }

    fn matching(&mut self) -> Parse<VectorMatching> {
        let mut matching = VectorMatching::default();
        matching.on = match self.token.kind {
            TokenKind::Keyword(Keyword::On) => true,
            TokenKind::Keyword(Keyword::Ignoring) => false,
            _ => return Ok(matching),
        };
        self.advance()?;
        (matching.labels, _) = self.labels()?;
        matching.cardinality = match self.token.kind {
            TokenKind::Keyword(Keyword::GroupLeft) => Cardinality::ManyToOne,
            TokenKind::Keyword(Keyword::GroupRight) => Cardinality::OneToMany,
            _ => return Ok(matching),
        };
        self.advance()?;
        // A parenthesis here starts the labels, never the right side.
        let omitted =
            !self.at(TokenKind::LeftParen) && (self.starts_expression() || self.at_fill());
        if !omitted {
            (matching.include, _) = self.labels()?;
        }
        Ok(matching)
    }

    fn at_fill(&self) -> bool {
        matches!(
            self.token.kind,
            TokenKind::Keyword(Keyword::Fill | Keyword::FillLeft | Keyword::FillRight)
        )
    }

    /// `fill(v)`, or `fill_left(v)` and `fill_right(v)` in either order.
    fn fill(&mut self, matching: &mut VectorMatching) -> Parse<()> {
        if self.at_keyword(Keyword::Fill) {
            let value = Some(self.fill_value()?);
            matching.fill_left = value;
            matching.fill_right = value;
            return Ok(());
        }
        loop {
            match self.token.kind {
                TokenKind::Keyword(Keyword::FillLeft) if matching.fill_left.is_none() => {
                    matching.fill_left = Some(self.fill_value()?);
                }
                TokenKind::Keyword(Keyword::FillRight) if matching.fill_right.is_none() => {
                    matching.fill_right = Some(self.fill_value()?);
                }
                _ => return Ok(()),
            }
        }
    }

    fn fill_value(&mut self) -> Parse<f64> {
        self.advance()?;
        self.expect(TokenKind::LeftParen)?;
        let (value, _) = self.signed_number("", "")?;
        self.expect(TokenKind::RightParen)?;
        Ok(value)
    }

    /// A number or duration with an optional sign, and its end.
    pub(super) fn signed_number(&mut self, context: &str, expected: &str) -> Parse<(f64, usize)> {
        let negative = match self.token.kind {
            TokenKind::Operator(BinaryOp::Subtract) => Some(true),
            TokenKind::Operator(BinaryOp::Add) => Some(false),
            _ => None,
        };
        if negative.is_some() {
            self.advance()?;
        }
        if !matches!(self.token.kind, TokenKind::Number | TokenKind::Duration) {
            return Err(self.unexpected(context, expected));
        }
        let number = self.number()?;
        Ok(match negative {
            Some(true) => (-number.value, number.span.end),
            _ => (number.value, number.span.end),
        })
    }
}
