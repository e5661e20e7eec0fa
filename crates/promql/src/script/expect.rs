//! Expectations of an `eval`.

use icecore_model::{Labels, MatchOp, Matcher};

use super::cursor::Cursor;
use super::series::Point;
use crate::parse::parse_duration_ms;

/// The expected outcome of an evaluation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expectation {
    pub(crate) value: ExpectedValue,
    /// The order of the result is that of the lines.
    pub(crate) ordered: bool,
    pub(crate) failure: Option<TextPattern>,
    pub(crate) warnings: ExpectedAnnotations,
    pub(crate) infos: ExpectedAnnotations,
    /// The times of an expected range vector.
    pub(crate) range: Option<TimeRange>,
}

#[derive(Clone, Debug)]
pub(crate) enum ExpectedValue {
    Series(Vec<ExpectedSeries>),
    Scalar(f64),
    Text(String),
}

impl Default for ExpectedValue {
    fn default() -> Self {
        Self::Series(Vec::new())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ExpectedSeries {
    pub(crate) labels: Labels,
    pub(crate) points: Vec<Point>,
}

/// Expected warnings or infos.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectedAnnotations {
    /// Each must match an annotation; if there are any, each annotation must match one.
    pub(crate) patterns: Vec<TextPattern>,
    pub(crate) none: bool,
}

/// The times of a result: from `start_ms` to `end_ms`, `step_ms` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeRange {
    pub(crate) start_ms: i64,
    pub(crate) end_ms: i64,
    pub(crate) step_ms: i64,
}

impl TimeRange {
    /// `from 1m to 2m step 30s` at the beginning of a text, and what follows it.
    pub(crate) fn parse(text: &str) -> Result<(Self, &str), String> {
        let mut rest = text;
        let mut moment = |keyword: &str| {
            let (word, after) = first_word(rest);
            let (value, after) = first_word(after);
            rest = after;
            if word != keyword {
                return Err(format!("expected \"from … to … step …\" at {text:?}"));
            }
            parse_duration_ms(value).ok_or_else(|| format!("{value:?} is not a duration"))
        };
        let start_ms = moment("from")?;
        let end_ms = moment("to")?;
        let step_ms = moment("step")?;
        if end_ms < start_ms {
            return Err("the end is before the start".to_owned());
        }
        let range = Self {
            start_ms,
            end_ms,
            step_ms,
        };
        Ok((range, rest))
    }
}

/// The first word of a text and what follows it.
pub(crate) fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    match text.split_once([' ', '\t']) {
        Some((word, rest)) => (word, rest.trim_start()),
        None => (text, ""),
    }
}

/// A condition on a message.
#[derive(Clone, Debug)]
pub(crate) enum TextPattern {
    Any,
    Exactly(String),
    /// A regular expression that matches anywhere.
    Regex {
        source: String,
        matcher: Matcher,
    },
}

impl TextPattern {
    pub(crate) fn regex(source: &str) -> Result<Self, String> {
        // Matchers are anchored, so the pattern is extended to match anywhere.
        let matcher = Matcher::new(MatchOp::Regex, "", format!("(?s:.*)(?:{source})(?s:.*)"));
        Ok(Self::Regex {
            source: source.to_owned(),
            matcher: matcher.map_err(|error| error.to_string())?,
        })
    }

    pub(crate) fn matches(&self, message: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(text) => text == message,
            Self::Regex { matcher, .. } => matcher.matches(message),
        }
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Any => "anything".to_owned(),
            Self::Exactly(text) => format!("{text:?}"),
            Self::Regex { source, .. } => format!("/{source}/"),
        }
    }
}

impl Expectation {
    /// Adds a line that starts with the word `expect`.
    pub(crate) fn add_expect_line(&mut self, line: &str) -> Result<(), String> {
        let (_, rest) = first_word(line);
        let (kind, rest) = first_word(rest);
        match kind {
            "string" => {
                let mut cursor = Cursor::new(rest);
                self.value = ExpectedValue::Text(cursor.quoted()?);
                return if cursor.is_at_end() {
                    Ok(())
                } else {
                    Err(cursor.unexpected("the end of the line"))
                };
            }
            "range" => {
                let range = rest
                    .strip_prefix("vector")
                    .ok_or("expected \"expect range vector from … to … step …\"")?;
                self.range = Some(TimeRange::parse(range)?.0);
                return Ok(());
            }
            _ => {}
        }
        let pattern = parse_pattern(rest)?;
        match kind {
            "ordered" => self.ordered = true,
            "fail" if self.failure.is_some() => {
                return Err("multiple \"expect fail\" lines".to_owned());
            }
            "fail" => self.failure = Some(pattern),
            "warn" => self.warnings.patterns.push(pattern),
            "info" => self.infos.patterns.push(pattern),
            "no_warn" => self.warnings.none = true,
            "no_info" => self.infos.none = true,
            _ => return Err(format!("unknown expectation {kind:?}")),
        }
        for (annotations, kind) in [(&self.warnings, "warn"), (&self.infos, "info")] {
            if annotations.none && !annotations.patterns.is_empty() {
                return Err(format!("{kind} and no_{kind} cannot be used together"));
            }
        }
        Ok(())
    }

    /// Adds a line with the values of a series. The last of several lines for one series counts.
    pub(crate) fn add_series(&mut self, labels: Labels, points: Vec<Point>) {
        if !matches!(self.value, ExpectedValue::Series(_)) {
            self.value = ExpectedValue::default();
        }
        if let ExpectedValue::Series(series) = &mut self.value {
            series.retain(|s| s.labels != labels);
            series.push(ExpectedSeries { labels, points });
        }
    }
}

fn parse_pattern(text: &str) -> Result<TextPattern, String> {
    if text.is_empty() {
        return Ok(TextPattern::Any);
    }
    if let Some(message) = text.strip_prefix("msg:") {
        return Ok(TextPattern::Exactly(message.trim().to_owned()));
    }
    if let Some(source) = text.strip_prefix("regex:") {
        return TextPattern::regex(source.trim());
    }
    Err(format!("expected \"msg:\" or \"regex:\" at {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(lines: &[&str]) -> Result<Expectation, String> {
        let mut expected = Expectation::default();
        for line in lines {
            expected.add_expect_line(line)?;
        }
        Ok(expected)
    }

    #[test]
    fn lines() {
        let all = expected(&[
            "expect fail msg:no way",
            "expect warn",
            "expect warn regex: got [0-9]+ \\(1:2\\)$",
            "expect no_info",
            "expect ordered",
            "expect range vector from 10s to 1m step 10s",
        ])
        .unwrap();
        assert!(all.failure.unwrap().matches("no way"));
        assert!(all.warnings.patterns[0].matches("x"));
        assert!(all.warnings.patterns[1].matches("we got 15 (1:2)"));
        assert!(!all.warnings.patterns[1].matches("we got 15 (1:2) "));
        assert!(all.infos.none && all.ordered);
        let range = TimeRange {
            start_ms: 10_000,
            end_ms: 60_000,
            step_ms: 10_000,
        };
        assert_eq!(all.range, Some(range));
        let text = expected(&["expect string \" Foo \""]).unwrap();
        assert!(matches!(text.value, ExpectedValue::Text(t) if t == " Foo "));
    }

    #[test]
    fn what_cannot_be_expected() {
        for lines in [
            &["expect"][..],
            &["expect joy"],
            &["expect warn text: x"],
            &["expect warn regex: ("],
            &["expect string foo"],
            &["expect string \"a\" b"],
            &["expect range vector"],
            &["expect range vector from 2m to 1m step 1s"],
            &["expect warn", "expect no_warn"],
            &["expect fail", "expect fail"],
        ] {
            assert!(expected(lines).is_err(), "{lines:?}");
        }
    }
}
