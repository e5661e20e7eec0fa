//! Small files that say how far a transfer is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;

/// A file beside another one.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// A note; it is replaced as a whole, so that it is never half written.
pub(crate) struct Note {
    path: PathBuf,
    /// What the transfer is about: a note about another one is not gone on with.
    about: Value,
}

impl Note {
    pub(crate) fn new(path: PathBuf, about: Value) -> Self {
        Self { path, about }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What was noted last; `None` when there is no note.
    pub(crate) fn read(&self) -> anyhow::Result<Option<Value>> {
        let shown = self.path.display();
        let text = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read {shown}"))?,
        };
        let noted: Value =
            serde_json::from_slice(&text).with_context(|| format!("{shown} cannot be read"))?;
        if noted["about"] != self.about {
            bail!(
                "{shown} is about {}, this would be {}: give the same flags, or remove it",
                noted["about"],
                self.about
            );
        }
        Ok(Some(noted["state"].clone()))
    }

    pub(crate) fn write(&self, state: &Value) -> anyhow::Result<()> {
        let shown = self.path.display();
        let note = serde_json::json!({"about": self.about, "state": state});
        let new = beside(&self.path, ".new");
        fs::write(&new, format!("{note}\n")).with_context(|| format!("cannot write {shown}"))?;
        fs::rename(&new, &self.path).with_context(|| format!("cannot write {shown}"))
    }

    pub(crate) fn remove(&self) {
        // It may never have been written.
        let _ = fs::remove_file(&self.path);
    }
}
