//! The retention policy as text: a map in the file, and short forms everywhere.
//!
//! ```text
//! icecore: {retention: {levels: …}} ─┐
//! a policy file: levels: …           ├─► keys with positions ─► RetentionPolicy::new
//! --retention '{levels: …}'         ─┘        └── problems, each where it is ──┘
//! --retention none | default | 90d
//! ```
//!
//! Holds always: what is shown or rendered reads back as the same policy.

mod read;

use std::path::Path;

use icecore_model::retention::{ColumnSet, LateData, Level, Override, RetentionPolicy};
use icecore_model::{format_duration_ms, parse_duration_ms};
use icecore_settings::{
    BadValue, Choice as _, ConfigError, Fields, Format, Inputs, Kind, Map, SourceFile, choice,
    read_text,
};

use super::Config;
use super::file::FILE_BYTES_MAX;
pub(super) use read::read;

/// The keys of a policy: a file that has one of them at its top is a policy.
pub(super) const KEYS: [&str; 4] = ["levels", "rollup_delay", "late_data", "overrides"];

/// In place of a policy: there is none.
const NONE: &str = "none";

/// In place of a policy: the levels that suit most.
const DEFAULT: &str = "default";

struct ColumnWords;

choice!(ColumnWords for ColumnSet { "full" => Full, "lean" => Lean });

struct LateDataWords;

choice!(LateDataWords for LateData { "reject" => Reject, "merge" => Merge });

pub(crate) fn column_word(columns: ColumnSet) -> &'static str {
    ColumnWords::word(columns)
}

pub(crate) fn late_data_word(late_data: LateData) -> &'static str {
    LateDataWords::word(late_data)
}

/// The text form in flags and variables: a short form, or the map in one line.
pub(super) struct PolicyText;

impl Format for PolicyText {
    type Native = Option<RetentionPolicy>;
    const KIND: Kind = Kind::Map(&[NONE, DEFAULT, "duration"]);

    fn parse(text: &str) -> Result<Self::Native, BadValue> {
        match text {
            NONE => Ok(None),
            DEFAULT => Ok(Some(RetentionPolicy::default_levels())),
            _ if text.starts_with('{') => parse_line(text).map(Some),
            _ => raw_for(text).map(Some),
        }
    }

    fn show(value: &Self::Native) -> String {
        let Some(policy) = value else {
            return NONE.into();
        };
        if *policy == RetentionPolicy::default_levels() {
            return DEFAULT.into();
        }
        let raw_ms = policy.levels().first().and_then(|raw| raw.retain.ms());
        match raw_ms {
            Some(ms) if RetentionPolicy::raw_for(ms).as_ref() == Ok(policy) => {
                format_duration_ms(ms)
            }
            _ => render(policy).into_line(),
        }
    }
}

fn raw_for(text: &str) -> Result<RetentionPolicy, BadValue> {
    let what = "none, default, a time such as 90d, or a policy";
    let ms = parse_duration_ms(text).map_err(|_| BadValue::expected(what))?;
    RetentionPolicy::raw_for(ms).map_err(|_| BadValue::expected("a whole number of hours"))
}

fn parse_line(text: &str) -> Result<RetentionPolicy, BadValue> {
    let source = SourceFile::new(Path::new(""));
    let root = source.parse(text);
    let policy = root.and_then(|root| read(Fields::of(&root, "", &source)));
    let problems = source.into_problems();
    match (policy, problems.first()) {
        (Some(policy), None) => Ok(policy),
        (_, problem) => {
            let problem = problem.map(|problem| match problem.subject.as_str() {
                "" => problem.reason.clone(),
                subject => format!("{subject}: {}", problem.reason),
            });
            let problem = problem.unwrap_or_default();
            Err(BadValue::expected(format!("a valid policy ({problem})")))
        }
    }
}

/// The policy of a file: either of a whole configuration, of which everything is checked, or of a
/// file with nothing but a policy.
pub fn read_policy_file(path: &Path) -> Result<Option<RetentionPolicy>, ConfigError> {
    let text = read_text(path, FILE_BYTES_MAX).map_err(|source| ConfigError::Read {
        path: path.into(),
        source,
    })?;
    let source = SourceFile::new(path);
    let Some(root) = source.parse(&text) else {
        return Err(ConfigError::Invalid(source.into_problems()));
    };
    let fields = Fields::of(&root, "", &source);
    if !KEYS.iter().any(|key| fields.has(key)) {
        let config = Config::load(&Inputs {
            file: Some(path.into()),
            ..Inputs::default()
        });
        return Ok(config?.retention_policy());
    }
    let policy = read(fields);
    let problems = source.into_problems();
    if problems.is_empty() {
        Ok(policy)
    } else {
        Err(ConfigError::Invalid(problems))
    }
}

/// The policy as a map that [`read`] reads.
pub(super) fn render(policy: &RetentionPolicy) -> Map {
    let mut map = Map::default();
    map.maps("levels", policy.levels().iter().map(render_level));
    map.text("rollup_delay", format_duration_ms(policy.rollup_delay_ms()));
    map.text("late_data", LateDataWords::word(policy.late_data()));
    map.maps("overrides", policy.overrides().iter().map(render_override));
    map
}

fn render_level(level: &Level) -> Map {
    let mut map = Map::default();
    map.text("resolution", level.resolution.name());
    map.text("retain", level.retain.to_string());
    if !level.resolution.is_raw() {
        map.text("columns", ColumnWords::word(level.columns));
    }
    map
}

fn render_override(exception: &Override) -> Map {
    let mut map = Map::default();
    map.text("match", exception.to_string());
    for (resolution, retain) in &exception.retain {
        map.text(resolution.name(), retain.to_string());
    }
    map
}

#[cfg(test)]
mod tests;
