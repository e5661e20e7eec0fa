//! Metadata beside the first series of each metric family.

use std::collections::HashSet;

use icecore_model::{Labels, Metadata};
use icecore_storage::Database;

/// What the names of series have behind the name of their family.
const SUFFIXES: [&str; 6] = ["_total", "_bucket", "_count", "_sum", "_created", "_info"];

/// Families whose metadata was sent; there are at most `limits.metadata_max`.
pub(super) struct Families {
    wanted: bool,
    last_name: String,
    announced: HashSet<String>,
}

impl Families {
    pub(super) fn new(wanted: bool) -> Self {
        Self {
            wanted,
            last_name: String::new(),
            announced: HashSet::new(),
        }
    }

    /// The metadata of the family that a series belongs to, the first time it is asked for.
    pub(super) fn first_of(
        &mut self,
        database: &Database,
        labels: &Labels,
    ) -> Option<(String, Metadata)> {
        let name = labels.metric_name();
        if !self.wanted || name == self.last_name {
            return None;
        }
        name.clone_into(&mut self.last_name);
        let stripped = SUFFIXES.iter().filter_map(|end| name.strip_suffix(end));
        let known = std::iter::once(name)
            .chain(stripped)
            .find_map(|family| database.metadata(Some(family)).pop())?;
        self.announced.insert(known.0.clone()).then_some(known)
    }
}
