//! Where the values of settings came from.

use std::path::{Path, PathBuf};

use crate::yaml::Position;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Default,
    File(Position),
    /// The variable's name.
    Environment(String),
    /// The flag with its dashes.
    Flag(String),
}

/// Where the values of all settings of a registry came from.
#[derive(Clone, Debug)]
pub struct Sources {
    pub file: Option<PathBuf>,
    /// In the order of the registry.
    pub values: Vec<Source>,
}

impl Sources {
    pub(crate) fn describe(&self, source: &Source) -> String {
        match source {
            Source::Default => "default".into(),
            Source::File(at) => {
                let file = self.file.as_deref().unwrap_or(Path::new(""));
                format!("{} {at}", file.display())
            }
            Source::Environment(name) | Source::Flag(name) => name.clone(),
        }
    }
}
