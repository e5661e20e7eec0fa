//! Small files with the state of a transfer, for resuming it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;

/// The path of a file in the same directory with `ending` after its name.
pub(crate) fn sibling_path(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Replaced as a whole, so that it is never half written.
pub(crate) struct StateFile {
    path: PathBuf,
    /// Source and flags of the transfer: the state of another one is not resumed.
    about: Value,
}

impl StateFile {
    pub(crate) fn new(path: PathBuf, about: Value) -> Self {
        Self { path, about }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The last state; `None` when there is no file.
    pub(crate) fn read(&self) -> anyhow::Result<Option<Value>> {
        let shown = self.path.display();
        let text = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read {shown}"))?,
        };
        let noted: Value =
            serde_json::from_slice(&text).with_context(|| format!("cannot parse {shown}"))?;
        if noted["about"] != self.about {
            bail!(
                "{shown} belongs to another transfer ({} instead of {}): use the same flags, or remove it",
                noted["about"],
                self.about
            );
        }
        Ok(Some(noted["state"].clone()))
    }

    pub(crate) fn write(&self, state: &Value) -> anyhow::Result<()> {
        let shown = self.path.display();
        let text = serde_json::json!({"about": self.about, "state": state});
        let new = sibling_path(&self.path, ".new");
        fs::write(&new, format!("{text}\n")).with_context(|| format!("cannot write {shown}"))?;
        fs::rename(&new, &self.path).with_context(|| format!("cannot write {shown}"))
    }

    pub(crate) fn remove(&self) {
        // It may never have been written.
        let _ = fs::remove_file(&self.path);
    }
}
