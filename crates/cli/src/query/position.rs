//! Where in a query something is wrong.

use crate::WrongUsage;

/// What the server says about a query, with the query and a mark under the place it names.
pub(super) fn point_at(error: anyhow::Error, query: &str) -> anyhow::Error {
    let Some(WrongUsage(message)) = error.downcast_ref() else {
        return error;
    };
    let Some((line, column)) = position_in(message) else {
        return error;
    };
    let Some(text) = query.lines().nth(line - 1) else {
        return error;
    };
    let indent = " ".repeat(column - 1);
    WrongUsage(format!("{message}\n  {text}\n  {indent}^")).into()
}

/// Line and column of `…: 1:7: parse error: …`, both from 1.
fn position_in(message: &str) -> Option<(usize, usize)> {
    let (before, _) = message.split_once(": parse error")?;
    let place = before.rsplit(' ').next()?;
    let (line, column) = place.split_once(':')?;
    let (line, column) = (line.parse().ok()?, column.parse().ok()?);
    (line > 0 && column > 0 && column < 10_000).then_some((line, column))
}
