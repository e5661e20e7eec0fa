//! Where everything in a document was written, for problems that are found when it is compared with
//! others.

use std::path::{Path, PathBuf};

use icecore_settings::{Node, Position, Problem, Value};

#[derive(Clone, Debug)]
pub(crate) struct Places {
    file: PathBuf,
    start: Position,
    prefix: String,
    values: Vec<Place>,
}

#[derive(Clone, Debug)]
struct Place {
    path: String,
    at: Position,
    text: Option<String>,
}

impl Places {
    pub(super) fn of(node: &Node, prefix: &str, file: &Path) -> Self {
        let mut places = Self {
            file: file.into(),
            start: node.at,
            prefix: prefix.into(),
            values: Vec::new(),
        };
        places.add(node, prefix);
        places
    }

    fn add(&mut self, node: &Node, path: &str) {
        let text = match &node.value {
            Value::Scalar { text, .. } => Some(text.clone()),
            _ => None,
        };
        self.values.push(Place {
            path: path.into(),
            at: node.at,
            text,
        });
        match &node.value {
            Value::Map(entries) => {
                for entry in entries {
                    self.add(&entry.node, &joined(path, &entry.key));
                }
            }
            Value::List(nodes) => {
                for (index, node) in nodes.iter().enumerate() {
                    self.add(node, &format!("{path}[{index}]"));
                }
            }
            Value::Null | Value::Scalar { .. } => {}
        }
    }

    /// A problem with the value `text` somewhere in `within`, or with all of `within`, or with the
    /// document, whichever there is.
    pub(crate) fn problem(&self, within: &str, text: &str, reason: String) -> Problem {
        let within = match within {
            "" => self.prefix.clone(),
            within => joined(&self.prefix, within),
        };
        let below = |place: &&Place| {
            let rest = place.path.strip_prefix(&within);
            rest.is_some_and(|rest| {
                within.is_empty() || rest.is_empty() || rest.starts_with(['.', '['])
            })
        };
        let mut candidates = self.values.iter().filter(below);
        let exact = candidates
            .clone()
            .find(|place| place.text.as_deref() == Some(text));
        match exact.or(candidates.next()) {
            Some(place) => Problem::new(place.path.clone(), reason).at(&self.file, place.at),
            None => Problem::new(within, reason).at(&self.file, self.start),
        }
    }
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.into()
    } else {
        format!("{path}.{key}")
    }
}
