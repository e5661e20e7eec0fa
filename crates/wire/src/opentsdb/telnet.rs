//! Lines of the telnet protocol: words between single blanks.

use std::borrow::Cow;

use super::DISTINCT_TAGS_MAX;

/// A line as text: bytes are characters of ISO-8859-1.
pub fn decode_line(line: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(line) {
        Ok(text) if text.is_ascii() => Cow::Borrowed(text),
        _ => Cow::Owned(line.iter().map(|byte| char::from(*byte)).collect()),
    }
}

/// What follows `put` in a line, as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutLine<'a> {
    pub metric: &'a str,
    pub timestamp: &'a str,
    pub value: &'a str,
    /// The rest of the line: `name=value` between blanks.
    pub tags: &'a str,
}

impl<'a> PutLine<'a> {
    /// Takes the arguments of a `put` apart; where there are fewer than four, says how many.
    pub fn parse(arguments: Option<&'a str>) -> Result<Self, usize> {
        let Some(arguments) = arguments else {
            return Err(0);
        };
        let mut words = arguments.splitn(4, ' ');
        let mut count = 0usize;
        let mut next = || {
            let word = words.next().ok_or(count)?;
            count += 1;
            Ok::<_, usize>(word)
        };
        Ok(Self {
            metric: next()?,
            timestamp: next()?,
            value: next()?,
            tags: next()?,
        })
    }
}

/// The command of a line and its arguments, if there are any.
pub fn split_command(line: &str) -> (&str, Option<&str>) {
    match line.split_once(' ') {
        Some((command, arguments)) => (command, Some(arguments)),
        None => (line, None),
    }
}

/// What is wrong with the tags of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagError<'a> {
    /// Not `name=value`.
    Malformed(&'a str),
    /// A second value for a name.
    Duplicate(&'a str),
}

/// Appends the tags of a line. A tag may be there twice, but with one value.
pub fn parse_tags<'a>(
    text: &'a str,
    tags: &mut Vec<(&'a str, &'a str)>,
) -> Result<(), TagError<'a>> {
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let pair = word.split_once('=');
        let (name, value) = pair
            .filter(|(name, value)| !name.is_empty() && !value.is_empty() && !value.contains('='))
            .ok_or(TagError::Malformed(word))?;
        let mut known = tags.iter().take(DISTINCT_TAGS_MAX);
        match known.find(|tag| tag.0 == name) {
            Some(tag) if tag.1 == value => {}
            Some(_) => return Err(TagError::Duplicate(word)),
            None => tags.push((name, value)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_are_latin_letters() {
        assert_eq!(decode_line(b"put a"), "put a");
        assert_eq!(decode_line(&[b't', 0xfc]), "tü");
        // UTF-8 is two letters here.
        assert_eq!(decode_line("é".as_bytes()), "Ã©");
    }

    #[test]
    fn a_put_has_four_arguments_and_more_tags() {
        let (command, arguments) = split_command("put sys.cpu 1356998400 42.5 host=web01  cpu=0 ");
        assert_eq!(command, "put");
        let line = PutLine::parse(arguments).unwrap();
        let expected = PutLine {
            metric: "sys.cpu",
            timestamp: "1356998400",
            value: "42.5",
            tags: "host=web01  cpu=0 ",
        };
        assert_eq!(line, expected);
        let mut tags = Vec::new();
        parse_tags(line.tags, &mut tags).unwrap();
        assert_eq!(tags, [("host", "web01"), ("cpu", "0")]);
        for (line, count) in [("put", 0), ("put a", 1), ("put a 1", 2), ("put  1 ", 3)] {
            assert_eq!(PutLine::parse(split_command(line).1), Err(count), "{line}");
        }
    }

    #[test]
    fn tags_are_pairs_and_have_one_value() {
        for word in ["host", "host=", "=a", "host=a=b", "="] {
            let mut tags = Vec::new();
            assert_eq!(parse_tags(word, &mut tags), Err(TagError::Malformed(word)));
        }
        let mut tags = Vec::new();
        assert_eq!(parse_tags("a=1 a=1", &mut tags), Ok(()));
        assert_eq!(tags, [("a", "1")]);
        assert_eq!(
            parse_tags("a=2", &mut tags),
            Err(TagError::Duplicate("a=2"))
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let line = decode_line(&bytes);
            let (_, arguments) = split_command(&line);
            if let Ok(line) = PutLine::parse(arguments) {
                let _ = parse_tags(line.tags, &mut Vec::new());
            }
        }
    }
}
