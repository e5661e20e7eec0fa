//! Positions of bytes as line and column.

/// Line and column of a byte, both counted from 1; columns count bytes, as Prometheus does.
pub fn line_and_column(query: &str, offset: usize) -> (usize, usize) {
    let before = &query.as_bytes()[..offset.min(query.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = before
        .iter()
        .rev()
        .take_while(|byte| **byte != b'\n')
        .count()
        + 1;
    (line, column)
}
