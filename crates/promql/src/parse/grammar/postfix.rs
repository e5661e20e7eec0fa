//! Postfix syntax: ranges, subqueries, `offset`, `@`, `anchored`, `smoothed`.

use super::super::ast::{At, Duration, Expr, MatrixSelector, Span, Subquery, TimeModifiers};
use super::super::lexer::Fault;
use super::super::token::{Keyword, Preprocessor, TokenKind};
use super::duration::DurationContext;
use super::{Parse, Parser, Tree};

impl Parser<'_> {
    pub(super) fn postfix(&mut self, mut tree: Tree) -> Parse<Tree> {
        loop {
            match self.token.kind {
                TokenKind::LeftBracket => tree = self.range(tree)?,
                TokenKind::At => self.at_modifier(&mut tree.expr)?,
                TokenKind::Keyword(Keyword::Offset) => self.offset(&mut tree.expr)?,
                TokenKind::Keyword(keyword @ (Keyword::Anchored | Keyword::Smoothed)) => {
                    self.advance()?;
                    extend(&mut tree.expr, keyword == Keyword::Anchored)?;
                }
                _ => return Ok(tree),
            }
        }
    }

    /// `[range]` or `[range:step]`
    fn range(&mut self, tree: Tree) -> Parse<Tree> {
        let bracket = self.advance()?.span.start;
        let range = self.positive_duration(DurationContext::Range)?;
        match self.token.kind {
            TokenKind::RightBracket => {
                let end = self.advance()?.span.end;
                let expr = matrix(tree.expr, range, end)
                    .map_err(|message| Fault::new(bracket, message))?;
                self.parent(expr, tree.height)
            }
            TokenKind::Colon => {
                self.advance()?;
                self.subquery(tree, range)
            }
            _ => Err(self.unexpected("subquery or range", "\":\" or \"]\"")),
        }
    }

    fn subquery(&mut self, tree: Tree, range: Duration) -> Parse<Tree> {
        let step = match self.token.kind {
            TokenKind::RightBracket => None,
            _ => Some(self.positive_duration(DurationContext::Step)?),
        };
        if !self.at(TokenKind::RightBracket) {
            return Err(self.unexpected("subquery selector", "\"]\""));
        }
        let span = Span {
            start: tree.expr.span().start,
            end: self.advance()?.span.end,
        };
        let expr = Expr::Subquery(Subquery {
            expr: Box::new(tree.expr),
            range,
            step,
            time: TimeModifiers::default(),
            span,
        });
        self.parent(expr, tree.height)
    }

    fn offset(&mut self, expr: &mut Expr) -> Parse<()> {
        self.advance()?;
        let (offset, end) = self.offset_duration()?;
        let start = expr.span().start;
        let Some((time, expr_end)) = time_modifiers(expr) else {
            return Err(Fault::new(start, misplaced("offset")));
        };
        // An offset of zero counts as none.
        if !matches!(time.offset, Duration::Millis(0)) {
            return Err(Fault::new(start, "offset may not be set multiple times"));
        }
        time.offset = offset;
        *expr_end = end;
        Ok(())
    }

    fn at_modifier(&mut self, expr: &mut Expr) -> Parse<()> {
        self.advance()?;
        let start = expr.span().start;
        let (at, end) = match self.token.kind {
            TokenKind::Preprocessor(word @ (Preprocessor::Start | Preprocessor::End)) => {
                self.advance()?;
                self.expect_in_at(TokenKind::LeftParen)?;
                let end = self.expect_in_at(TokenKind::RightParen)?;
                match word {
                    Preprocessor::Start => (At::Start, end),
                    _ => (At::End, end),
                }
            }
            _ => self.at_timestamp(start)?,
        };
        let Some((time, expr_end)) = time_modifiers(expr) else {
            return Err(Fault::new(start, misplaced("@")));
        };
        if time.at.is_some() {
            let message = "@ <timestamp> may not be set multiple times";
            return Err(Fault::new(start, message));
        }
        time.at = Some(at);
        *expr_end = end;
        Ok(())
    }

    /// Seconds since the epoch, and their end.
    fn at_timestamp(&mut self, expr_start: usize) -> Parse<(At, usize)> {
        let (seconds, end) = self.signed_number("@", "timestamp")?;
        // Prometheus compares seconds with the largest integer, whatever their unit.
        if !seconds.is_finite() || seconds.abs() >= i64::MAX as f64 {
            let seconds = if seconds.is_finite() {
                format!("{seconds:.6}")
            } else {
                super::super::go_float(seconds)
            };
            let message = format!("timestamp out of bounds for @ modifier: {seconds}");
            return Err(Fault::new(expr_start, message));
        }
        Ok((At::Timestamp((seconds * 1000.0).round() as i64), end))
    }

    fn expect_in_at(&mut self, kind: TokenKind) -> Parse<usize> {
        if self.at(kind) {
            Ok(self.advance()?.span.end)
        } else {
            Err(self.unexpected("@", "timestamp"))
        }
    }
}

/// The selector with its range, or the message of Prometheus if it cannot have one.
fn matrix(expr: Expr, range: Duration, end: usize) -> Result<Expr, &'static str> {
    let Expr::Vector(selector) = expr else {
        return Err("ranges only allowed for vector selectors");
    };
    if !matches!(selector.time.offset, Duration::Millis(0)) {
        return Err("no offset modifiers allowed before range");
    }
    if selector.time.at.is_some() {
        return Err("no @ modifiers allowed before range");
    }
    let span = Span {
        start: selector.span.start,
        end,
    };
    Ok(Expr::Matrix(MatrixSelector {
        selector,
        range,
        span,
    }))
}

/// The modifiers `offset` and `@` of an expression, and its end, which they move.
fn time_modifiers(expr: &mut Expr) -> Option<(&mut TimeModifiers, &mut usize)> {
    match expr {
        Expr::Vector(vector) => Some((&mut vector.time, &mut vector.span.end)),
        Expr::Matrix(matrix) => Some((&mut matrix.selector.time, &mut matrix.span.end)),
        Expr::Subquery(subquery) => Some((&mut subquery.time, &mut subquery.span.end)),
        _ => None,
    }
}

fn misplaced(modifier: &str) -> String {
    format!(
        "{modifier} modifier must be preceded by an instant vector selector or range vector selector or a subquery"
    )
}

/// Applies `anchored` or `smoothed`.
fn extend(expr: &mut Expr, anchored: bool) -> Parse<()> {
    let start = expr.span().start;
    let name = if anchored { "anchored" } else { "smoothed" };
    let selector = match expr {
        Expr::Vector(vector) => vector,
        Expr::Matrix(matrix) => &mut matrix.selector,
        Expr::Subquery(_) => {
            let message = format!("{name} modifier is not supported for subqueries");
            return Err(Fault::new(start, message));
        }
        _ => {
            return Err(Fault::new(
                start,
                format!("{name} modifier not implemented"),
            ));
        }
    };
    if anchored {
        selector.anchored = true;
    } else {
        selector.smoothed = true;
    }
    if selector.anchored && selector.smoothed {
        let message = "anchored and smoothed modifiers cannot be used together";
        return Err(Fault::new(start, message));
    }
    Ok(())
}
