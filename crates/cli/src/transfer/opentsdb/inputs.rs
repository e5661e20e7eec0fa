//! What an import reads: files, the files of directories, and gateways.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use icecore_server::without_secrets;
use serde_json::{Value, json};

use crate::WrongUsage;

/// Endings of files that transfers leave beside others.
const OWN_ENDINGS: [&str; 4] = ["progress", "state", "part", "new"];

/// Something that lines or cells come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    File(PathBuf),
    /// The address of HBase's REST gateway, without a slash at its end.
    Gateway(String),
}

impl Input {
    /// As messages name it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Gateway(url) => without_secrets(url),
        }
    }

    /// What tells whether it is the same as before.
    pub(super) fn about(&self) -> anyhow::Result<Value> {
        Ok(match self {
            Self::Gateway(url) => json!({"gateway": without_secrets(url)}),
            Self::File(path) => {
                let file = fs::metadata(path);
                let file = file.with_context(|| format!("cannot read {}", path.display()))?;
                json!({"file": path, "bytes": file.len()})
            }
        })
    }
}

/// What arguments name; directories are their files, in the order of names.
pub(super) fn expand(arguments: &[String]) -> anyhow::Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for argument in arguments {
        if argument.starts_with("http://") || argument.starts_with("https://") {
            inputs.push(Input::Gateway(argument.trim_end_matches('/').to_owned()));
            continue;
        }
        let path = PathBuf::from(argument);
        if path.is_dir() {
            inputs.extend(files(&path)?.into_iter().map(Input::File));
        } else {
            inputs.push(Input::File(path));
        }
    }
    if inputs.is_empty() {
        bail!(WrongUsage("there is no file to import".into()));
    }
    Ok(inputs)
}

fn files(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read {}", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        let is_own = ending.is_some_and(|ending| OWN_ENDINGS.contains(&ending));
        let name = entry_name(&path);
        if path.is_file() && !is_own && !name.starts_with('.') {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn entry_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_of_a_gateway_is_in_no_message_and_no_state_file() {
        let inputs = expand(&["http://u:hunter2@hbase:8080/".to_owned()]).unwrap();
        assert_eq!(inputs[0].name(), "http://<secret>@hbase:8080");
        assert_eq!(inputs[0].about().unwrap()["gateway"], inputs[0].name());
    }

    #[test]
    fn directories_are_their_files() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.json", "a.gz", "a.gz.progress", ".hidden"] {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        let arguments = [
            folder.path().display().to_string(),
            "http://h:8080/".to_owned(),
        ];
        let inputs = expand(&arguments).unwrap();
        let expected = [
            Input::File(folder.path().join("a.gz")),
            Input::File(folder.path().join("b.json")),
            Input::Gateway("http://h:8080".into()),
        ];
        assert_eq!(inputs, expected);
        assert_eq!(inputs[0].about().unwrap()["bytes"], 1);
        assert!(Input::File("/does/not/exist".into()).about().is_err());
        assert!(expand(&[]).is_err());
    }
}
