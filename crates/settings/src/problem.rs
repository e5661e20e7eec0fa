//! Problems with a configuration: which setting, what was expected, what was found, where, and what
//! would be right.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::yaml::Position;

/// Why a configuration cannot be used. All problems are reported at once.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}", ProblemList(.0))]
    Invalid(Vec<Problem>),
}

/// One problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key, flag or variable as the user wrote it.
    pub subject: String,
    pub reason: String,
    /// Where in the configuration file; `None` for flags and the environment.
    pub location: Option<(PathBuf, Position)>,
    /// What would be right, where that can be guessed.
    pub hint: Option<String>,
}

impl Problem {
    pub fn new(subject: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            reason: reason.into(),
            location: None,
            hint: None,
        }
    }

    pub fn unknown_key(path: impl Into<String>, near: Option<&str>) -> Self {
        Self::new(path, "unknown key").did_you_mean(near)
    }

    pub fn at(mut self, file: &Path, position: Position) -> Self {
        self.location = Some((file.into(), position));
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn did_you_mean(mut self, near: Option<&str>) -> Self {
        self.hint = near.map(|near| format!("did you mean {near}?"));
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.subject.is_empty() {
            write!(f, "{}: ", self.subject)?;
        }
        f.write_str(&self.reason)?;
        if let Some((file, position)) = &self.location {
            write!(f, ", at {position} of {}", file.display())?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

/// A part of a configuration file that is valid and has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The path of the key: `scrape_configs[2].kubernetes_sd_configs`.
    pub subject: String,
    pub file: PathBuf,
    pub at: Position,
    /// The consequence: `the job "a" is left out`.
    pub effect: String,
    /// The replacement.
    pub instead: String,
}

impl Unsupported {
    /// Returns the part as a problem, for readers that accept nothing without effect.
    pub fn into_problem(self) -> Problem {
        Problem::new(self.subject, "is not supported")
            .at(&self.file, self.at)
            .hint(self.instead)
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subject,
            file,
            at,
            effect,
            instead,
        } = self;
        let file = file.display();
        write!(
            f,
            "{subject} is not supported, at {at} of {file}: {effect}; {instead}"
        )
    }
}

struct ProblemList<'a>(&'a [Problem]);

impl fmt::Display for ProblemList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0 {
            return only.fmt(f);
        }
        write!(f, "{} problems in the configuration:", self.0.len())?;
        for problem in self.0 {
            write!(f, "\n  {problem}")?;
        }
        Ok(())
    }
}

/// A text as error messages show it: quoted, and cut where it is long.
pub fn quoted(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 60;
    if text.chars().count() <= SHOWN_CHARS_MAX {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    format!("{start:?}…")
}

/// The known word that a misspelt one most likely means, or none when nothing is near: a wrong
/// suggestion costs more time than no suggestion.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let tolerance = (word.len() / 3).clamp(1, 4);
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
