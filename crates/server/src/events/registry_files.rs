//! The directory of registry documents: read at the start, at a reload, and when it has changed.
//!
//! Holds always:
//! - Documents of the directory are applied as a whole or not at all.
//! - What could not be applied is said once, and tried again when a file changes.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use icecore_events::{Documents, Events, Problem};
use tracing::{error, info};

/// Bytes of all documents: as many as a request may have.
const BYTES_MAX: u64 = 16 << 20;

/// Files that are looked at.
const FILES_MAX: usize = 100_000;

/// Directories in directories; documents are at the sixth.
const DEPTH_MAX: usize = 16;

/// A file, and what changes when it is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileState {
    path: PathBuf,
    bytes: u64,
    written: Option<SystemTime>,
}

/// Applies the documents of a directory when they change.
pub(crate) struct RegistryFiles {
    directory: PathBuf,
    /// What was read last.
    seen: Option<Vec<FileState>>,
}

impl RegistryFiles {
    pub(crate) fn new(directory: &str) -> Self {
        Self {
            directory: directory.into(),
            seen: None,
        }
    }

    /// Applies what is there, if it has changed. What is wrong is in the log, too.
    pub(crate) async fn apply(&mut self, events: &Events) -> Result<(), Problem> {
        let applied = self.apply_changes(events).await;
        let directory = self.directory.display();
        match &applied {
            Ok(Some(version)) => info!(%directory, version, "registry documents applied"),
            Ok(None) => {}
            Err(problem) => {
                error!(%directory, reason = problem.detail, "cannot apply registry documents");
            }
        }
        applied.map(drop)
    }

    async fn apply_changes(&mut self, events: &Events) -> Result<Option<u64>, Problem> {
        let directory = self.directory.clone();
        let listed = blocking(move || list(&directory)).await?;
        if self.seen.as_ref() == Some(&listed) {
            return Ok(None);
        }
        let files = listed.clone();
        let directory = self.directory.clone();
        let documents = blocking(move || parse(&directory, &files)).await;
        // Also if they are wrong: nothing changes until a file does.
        self.seen = Some(listed);
        let documents = documents?;
        if documents.is_empty() {
            return Ok(None);
        }
        let applied = match events.apply(documents, false).await {
            Err(problem) if problem.status == 503 => {
                self.seen = None;
                return Err(problem);
            }
            applied => applied?,
        };
        Ok(applied.is_changed.then_some(applied.registry.version))
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::new(500, "internal", error.to_string()))?
}

fn unreadable(path: &Path, cause: &dyn std::fmt::Display) -> Problem {
    let detail = format!("cannot read {}: {cause}", path.display());
    Problem::new(400, "config.invalid", detail)
}

/// The documents below a directory, sorted by path.
fn list(directory: &Path) -> Result<Vec<FileState>, Problem> {
    let mut files = Vec::new();
    let mut bytes = 0_u64;
    let mut rest = vec![(directory.to_path_buf(), 0)];
    while let Some((directory, depth)) = rest.pop() {
        let entries = std::fs::read_dir(&directory);
        for entry in entries.map_err(|cause| unreadable(&directory, &cause))? {
            let entry = entry.map_err(|cause| unreadable(&directory, &cause))?;
            let path = entry.path();
            // As the link says, so that what is mounted from a ConfigMap is found.
            let about = std::fs::metadata(&path).map_err(|cause| unreadable(&path, &cause))?;
            // Kubernetes keeps versions of a mounted directory in one with such a name.
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if about.is_dir() && !is_hidden {
                if depth == DEPTH_MAX {
                    return Err(unreadable(&path, &"directories are nested too deep"));
                }
                rest.push((path, depth + 1));
            } else if about.is_file() && !is_hidden && is_document(&path) {
                bytes = bytes.saturating_add(about.len());
                files.push(FileState {
                    path,
                    bytes: about.len(),
                    written: about.modified().ok(),
                });
            }
            if files.len() > FILES_MAX || bytes > BYTES_MAX {
                return Err(unreadable(&directory, &"there is too much of it"));
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn is_document(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    matches!(ending, Some("yaml" | "yml" | "json"))
}

fn parse(directory: &Path, files: &[FileState]) -> Result<Documents, Problem> {
    let mut texts = Vec::with_capacity(files.len());
    for file in files {
        let text = std::fs::read_to_string(&file.path);
        let text = text.map_err(|cause| unreadable(&file.path, &cause))?;
        let name = file.path.strip_prefix(directory).unwrap_or(&file.path);
        texts.push((name.display().to_string(), text));
    }
    let texts = texts
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()));
    Documents::parse_files(texts).map_err(|faults| Problem::invalid_documents(&faults))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_found_and_changes_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("services/shop/events/a");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir_all(folder.path().join("..data")).unwrap();
        std::fs::write(deep.join("event.yaml"), "a").unwrap();
        std::fs::write(deep.join("README.md"), "no document").unwrap();
        std::fs::write(folder.path().join("..data/event.yaml"), "a version").unwrap();
        let listed = list(folder.path()).unwrap();
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!(list(folder.path()).unwrap(), listed);
        std::fs::write(deep.join("event.yaml"), "longer").unwrap();
        assert_ne!(list(folder.path()).unwrap(), listed);
        let problem = list(&folder.path().join("nothing")).unwrap_err();
        assert_eq!((problem.status, problem.code), (400, "config.invalid"));
    }
}
