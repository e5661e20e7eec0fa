//! A compiled pattern: the cheapest thing that accepts exactly what the anchored regex accepts.
//!
//! Most patterns that people write are lists of values or a word with `.*` around it. Those never
//! run a regex, and the lists are not even compiled to one.

use regex_syntax::hir::{self, Hir};
use regex_syntax::{ParserBuilder, ast};

use super::MatcherError;
use super::analysis::{common_prefix, enumerate, glob_of, without_edge_anchors};
use super::go_syntax::translate;
use super::recent::{self, Compiled};

/// Longest pattern. A dashboard may list thousands of values in one pattern, so this is generous.
pub const MAX_PATTERN_BYTES: usize = 1 << 20;

/// Longest pattern that is more than a list of values. A parsed regex takes hundreds of bytes for
/// each of its own, which are counted nowhere.
pub(super) const MAX_PARSED_BYTES: usize = 128 << 10;

/// Most values to which a pattern is written out, unless the pattern itself lists more: beyond
/// this, trying each stored value once is cheaper than looking all of them up.
const MAX_EXPANDED_LITERALS: usize = 256;

pub(super) struct Pattern {
    shape: Shape,
}

pub(super) enum Shape {
    /// Exactly these values, sorted and unique.
    Literals(Vec<String>),
    Glob(Glob),
    /// `prefix` is what every accepted value begins with.
    Regex {
        prefix: String,
        compiled: Compiled,
    },
}

impl Pattern {
    pub(super) fn new(pattern: &str) -> Result<Self, MatcherError> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(MatcherError::TooLong);
        }
        if let Some(literals) = listed_values(pattern) {
            let shape = Shape::Literals(literals);
            return Ok(Self { shape });
        }
        if pattern.len() > MAX_PARSED_BYTES {
            return Err(MatcherError::TooComplex);
        }
        let translated = translate(pattern)?;
        let hir = without_edge_anchors(&parse(pattern, &translated)?);
        let cap = MAX_EXPANDED_LITERALS.max(pattern.len());
        let shape = if let Some(literals) = enumerate(&hir, cap) {
            Shape::Literals(literals)
        } else if let Some(glob) = glob_of(&hir) {
            Shape::Glob(glob)
        } else {
            Shape::Regex {
                prefix: common_prefix(&hir),
                compiled: compile(pattern, &translated)?,
            }
        };
        Ok(Self { shape })
    }

    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(super) fn matches(&self, value: &str) -> bool {
        match &self.shape {
            Shape::Literals(literals) => literals
                .binary_search_by(|literal| literal.as_str().cmp(value))
                .is_ok(),
            Shape::Glob(glob) => glob.matches(value),
            Shape::Regex { prefix, compiled } => {
                value.starts_with(prefix.as_str()) && compiled.regex.is_match(value)
            }
        }
    }

    /// Most bytes held, for accounting.
    pub(super) fn heap_bytes(&self) -> usize {
        let shape = match &self.shape {
            Shape::Literals(literals) => {
                let bytes = literals.iter().map(|l| size_of::<String>() + l.len());
                bytes.sum::<usize>()
            }
            Shape::Glob(glob) => {
                let pieces = glob.pieces.iter();
                let bytes = pieces.map(|piece| size_of::<GlobPiece>() + piece.text.len());
                glob.prefix.len() + bytes.sum::<usize>()
            }
            Shape::Regex { prefix, compiled } => prefix.len() + compiled.heap_bytes(),
        };
        size_of::<Self>() + shape
    }

    /// Bytes of the compiled regex, unless it is small: small ones are shared by all users.
    pub(super) fn unshared_bytes(&self) -> usize {
        match &self.shape {
            Shape::Regex { compiled, .. } => compiled.unshared_bytes(),
            _ => 0,
        }
    }
}

impl Shape {
    /// What every accepted value begins with, as far as it is known. Not for literals.
    pub(super) fn prefix(&self) -> &str {
        match self {
            Self::Literals(_) => "",
            Self::Glob(glob) => &glob.prefix,
            Self::Regex { prefix, .. } => prefix,
        }
    }
}

/// The values of a pattern that lists them and does nothing else (`a|b\.c`, maybe in parentheses),
/// sorted and unique. Lists are long where dashboards make them, and need no parser.
fn listed_values(pattern: &str) -> Option<Vec<String>> {
    let opened = pattern.strip_prefix("(?:").or(pattern.strip_prefix('('));
    let mut rest = opened.unwrap_or(pattern).chars();
    let mut is_open = opened.is_some();
    let (mut values, mut value) = (Vec::new(), String::new());
    while let Some(next) = rest.next() {
        match next {
            '|' => values.push(std::mem::take(&mut value)),
            '\\' => value.push(rest.next().filter(char::is_ascii_punctuation)?),
            ')' if is_open && rest.as_str().is_empty() => is_open = false,
            '.' | '+' | '*' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '^' | '$' => return None,
            _ => value.push(next),
        }
    }
    if is_open {
        return None;
    }
    values.push(value);
    values.sort_unstable();
    values.dedup();
    Some(values)
}

fn parse(pattern: &str, translated: &str) -> Result<Hir, MatcherError> {
    let parsed = ParserBuilder::new()
        .dot_matches_new_line(true)
        .build()
        .parse(translated);
    parsed.map_err(|error| syntax_error(pattern, translated, &error))
}

/// What translation leaves to be found here, in the words of Go. The place is quoted where it reads
/// the same as in the pattern.
fn syntax_error(pattern: &str, translated: &str, error: &regex_syntax::Error) -> MatcherError {
    let (reason, at) = match error {
        regex_syntax::Error::Parse(error) => match error.kind() {
            ast::ErrorKind::RepetitionMissing => {
                let at = translated.get(error.span().start.offset..);
                (
                    "missing argument to repetition operator".to_owned(),
                    at.map(first_operator),
                )
            }
            ast::ErrorKind::NestLimitExceeded(_) => {
                ("expression nests too deeply".to_owned(), None)
            }
            other => (other.to_string(), None),
        },
        regex_syntax::Error::Translate(error) => match error.kind() {
            hir::ErrorKind::UnicodePropertyNotFound => {
                let span = error.span();
                let at = translated.get(span.start.offset..span.end.offset);
                ("invalid character class range".to_owned(), at)
            }
            other => (other.to_string(), None),
        },
        other => (other.to_string(), None),
    };
    MatcherError::syntax(&reason, at.unwrap_or(pattern))
}

/// The repetition operator that `rest` begins with.
fn first_operator(rest: &str) -> &str {
    let length = if rest.starts_with('{') {
        rest.find('}').map_or(1, |end| end + 1)
    } else {
        1
    };
    rest.get(..length).unwrap_or(rest)
}

/// Compiles a translated pattern with anchors at both ends.
pub(super) fn compile(pattern: &str, translated: &str) -> Result<Compiled, MatcherError> {
    let compiled = recent::compile(format!(r"\A(?s:{translated})\z"));
    compiled.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => MatcherError::TooLarge,
        other => MatcherError::syntax(&other.to_string(), pattern),
    })
}

/// Text with gaps: `prefix`, then each piece after a gap, the last piece at the end of the value.
/// `.*foo.+` is the empty prefix, `foo` after any gap, and the empty text after a gap of at least
/// one character.
pub(super) struct Glob {
    pub(super) prefix: String,
    /// Never empty; the last one must end the value.
    pub(super) pieces: Vec<GlobPiece>,
}

pub(super) struct GlobPiece {
    /// Whether the gap before the text holds at least one character.
    pub(super) gap_not_empty: bool,
    pub(super) text: String,
}

impl Glob {
    pub(super) fn is_all(&self) -> bool {
        self.is_one_gap() && self.pieces.iter().all(|piece| !piece.gap_not_empty)
    }

    pub(super) fn is_non_empty(&self) -> bool {
        self.is_one_gap() && self.pieces.iter().all(|piece| piece.gap_not_empty)
    }

    fn is_one_gap(&self) -> bool {
        self.prefix.is_empty() && self.pieces.len() == 1 && self.pieces[0].text.is_empty()
    }

    /// Takes each piece at its leftmost place: if any way to place them exists, this one does,
    /// because a piece further left only leaves more room to those after it.
    fn matches(&self, value: &str) -> bool {
        let Some(mut rest) = value.strip_prefix(self.prefix.as_str()) else {
            return false;
        };
        let Some((last, middle)) = self.pieces.split_last() else {
            return rest.is_empty();
        };
        for piece in middle {
            let Some(after_gap) = piece.skip_gap(rest) else {
                return false;
            };
            let Some(at) = after_gap.find(piece.text.as_str()) else {
                return false;
            };
            rest = &after_gap[at + piece.text.len()..];
        }
        last.skip_gap(rest)
            .is_some_and(|rest| rest.ends_with(last.text.as_str()))
    }
}

impl GlobPiece {
    /// What is left after the part of the gap that has to be there.
    fn skip_gap<'v>(&self, rest: &'v str) -> Option<&'v str> {
        if !self.gap_not_empty {
            return Some(rest);
        }
        let mut chars = rest.chars();
        chars.next().map(|_| chars.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_need_no_parser() {
        let values = |pattern: &str| listed_values(pattern).map(|values| values.join(" "));
        for (pattern, expected) in [
            ("b|a|b", Some("a b")),
            ("(a|b\\.c)", Some("a b.c")),
            ("(?:a|)", Some(" a")),
            ("ä ö", Some("ä ö")),
            ("", Some("")),
            ("(a|b\\)", None),
            ("(a)|b", None),
            ("a.b", None),
            ("\\d", None),
            ("(?i)a", None),
            ("^a$", None),
            ("a{2}", None),
            ("a\\", None),
        ] {
            assert_eq!(values(pattern).as_deref(), expected, "{pattern}");
        }
        let long = "value|".repeat(100_000);
        assert!(Pattern::new(&long).is_ok());
        let longer_than_lists = format!("{}.*", "value|".repeat(30_000));
        let refused = Pattern::new(&longer_than_lists).err();
        assert_eq!(refused, Some(MatcherError::TooComplex));
    }

    proptest! {
        #[test]
        fn lists_are_what_the_parser_finds(pattern in "[ab|()?:\\\\.\\-_]{0,10}") {
            if let Some(listed) = listed_values(&pattern) {
                let translated = translate(&pattern).unwrap();
                let hir = without_edge_anchors(&parse(&pattern, &translated).unwrap());
                prop_assert_eq!(enumerate(&hir, 1000), Some(listed));
            }
        }
    }
}
