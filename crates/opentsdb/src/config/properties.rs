//! The format of Java's properties files.

/// A key with its value, and the line where it begins, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Property {
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: String,
}

/// All properties in their order; of an escape that is none, the line.
pub(super) fn parse(text: &str) -> Vec<Result<Property, usize>> {
    let mut properties = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let start = line.trim_start_matches(is_blank);
        if start.is_empty() || start.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = start.to_owned();
        while ends_open(&logical) {
            logical.pop();
            let Some((_, next)) = lines.next() else {
                break;
            };
            logical.push_str(next.trim_start_matches(is_blank));
        }
        let line = number + 1;
        properties.push(property(&logical, line).ok_or(line));
    }
    properties
}

/// Whether the last backslash escapes the line's end.
fn ends_open(line: &str) -> bool {
    let backslashes = line.bytes().rev().take_while(|byte| *byte == b'\\').count();
    backslashes % 2 == 1
}

fn property(line: &str, number: usize) -> Option<Property> {
    let end = key_end(line);
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(is_blank);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    Some(Property {
        line: number,
        key: unescape(key)?,
        value: unescape(value.trim_start_matches(is_blank))?,
    })
}

/// A key ends with the first blank, `=` or `:` that is not escaped.
fn key_end(line: &str) -> usize {
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        if !escaped && (is_blank(c) || matches!(c, '=' | ':')) {
            return at;
        }
        escaped = c == '\\' && !escaped;
    }
    line.len()
}

fn unescape(text: &str) -> Option<String> {
    let mut unescaped = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            unescaped.push(c);
            continue;
        }
        match rest.next() {
            None => {}
            Some('n') => unescaped.push('\n'),
            Some('r') => unescaped.push('\r'),
            Some('t') => unescaped.push('\t'),
            Some('f') => unescaped.push('\u{c}'),
            Some('u') => {
                let digits = rest.as_str().get(..4)?;
                let code = u32::from_str_radix(digits, 16).ok()?;
                // Halves of pairs are no characters; nobody has them in settings.
                unescaped.push(char::from_u32(code)?);
                rest = rest.as_str().get(4..)?.chars();
            }
            Some(other) => unescaped.push(other),
        }
    }
    Some(unescaped)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let properties = parse(text).into_iter().map(Result::unwrap);
        properties.map(|p| (p.key, p.value)).collect()
    }

    #[test]
    fn keys_end_with_blanks_equals_or_colons() {
        let text = "# a comment\n  ! another\n\na=1\nb : 2\r\n c  3\nd\nlong = one, \\\n   two\\\\\n\
                    k\\:e\\ y=\\u00fc\\tx\n";
        let expected = [
            ("a", "1"),
            ("b", "2"),
            ("c", "3"),
            ("d", ""),
            ("long", "one, two\\"),
            ("k:e y", "ü\tx"),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(pairs(text), expected);
    }

    #[test]
    fn lines_are_counted_and_bad_escapes_named() {
        let properties = parse("a=1\n#\nb=\\\n2\nc=\\u12\n");
        let lines: Vec<_> = properties
            .iter()
            .map(|p| p.as_ref().map(|p| p.line))
            .collect();
        assert_eq!(lines, [Ok(1), Ok(3), Err(&5)]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z=: \\\\\n\r#!uü0-9]{0,60}") {
            parse(&text);
        }
    }
}
