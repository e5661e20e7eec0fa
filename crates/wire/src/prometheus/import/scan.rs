//! Finds the end of a JSON value in a text of which more may follow, without reading the value.

use super::{DEPTH_MAX, Problem};

type Result<T> = std::result::Result<T, Problem>;

/// Where a value that begins at the start of `input` ends: `None` when more must be read.
pub(super) fn value_end(input: &[u8]) -> Result<Option<usize>> {
    let Some(first) = input.first() else {
        return Ok(None);
    };
    match first {
        b'"' => string_end(input),
        b'{' | b'[' => nested_end(input),
        b',' | b'}' | b']' | b':' => Err("a value is missing".into()),
        // A number or a word ends where something follows that is no part of it.
        _ => Ok(input.iter().position(|byte| {
            matches!(
                byte,
                b',' | b'}' | b']' | b':' | b' ' | b'\t' | b'\r' | b'\n'
            )
        })),
    }
}

fn string_end(input: &[u8]) -> Result<Option<usize>> {
    let mut at = 1;
    while let Some(byte) = input.get(at) {
        match byte {
            b'"' => return Ok(Some(at + 1)),
            b'\n' => return Err("the line ends within a string".into()),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    Ok(None)
}

fn nested_end(input: &[u8]) -> Result<Option<usize>> {
    let (mut at, mut depth) = (0, 0usize);
    while let Some(byte) = input.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' if depth == DEPTH_MAX => return Err("values nest too deep".into()),
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => return Ok(Some(at)),
            b'}' | b']' => depth -= 1,
            b'\n' => return Err("the line ends within a value".into()),
            b'"' => match string_end(input.get(at - 1..).unwrap_or_default())? {
                Some(length) => at += length - 1,
                None => return Ok(None),
            },
            _ => {}
        }
    }
    Ok(None)
}
