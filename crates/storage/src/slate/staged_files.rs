//! Removes what crashed processes left of unfinished local writes.
//!
//! A local put goes to `name#1` first and is then renamed. After a crash such a file stays for good:
//! no listing shows it and no garbage collection knows it, but it takes space. The writer removes
//! them before it opens the database. Should the writer before it still be running, one of its
//! writes fails and is repeated, and it is about to be fenced anyway.

use std::io;
use std::path::Path;

use tracing::{info, warn};

/// Removes staged files below a database's directory. What cannot be removed is only reported.
pub(crate) fn remove_staged_files(directory: &Path) {
    let mut removed = 0_usize;
    match remove_below(directory, &mut removed) {
        Ok(()) if removed == 0 => {}
        Ok(()) => info!(removed, "removed unfinished files of an earlier run"),
        // A database that does not exist yet has none.
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
        Err(cause) => warn!(%cause, removed, "cannot remove unfinished files of an earlier run"),
    }
}

fn remove_below(directory: &Path, removed: &mut usize) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_below(&entry.path(), removed)?;
        } else if entry.file_name().to_str().is_some_and(is_staged) {
            std::fs::remove_file(entry.path())?;
            *removed += 1;
        }
    }
    Ok(())
}

/// `name#digits`, as `object_store` names them.
fn is_staged(name: &str) -> bool {
    name.rsplit_once('#').is_some_and(|(_, suffix)| {
        !suffix.is_empty() && suffix.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_staged_files_go() {
        let directory = tempfile::tempdir().unwrap();
        let wal = directory.path().join("wal");
        std::fs::create_dir(&wal).unwrap();
        for name in ["1.sst", "1.sst#1", "2.sst#17", "odd#", "odd#x1"] {
            std::fs::write(wal.join(name), b"x").unwrap();
        }
        remove_staged_files(directory.path());
        remove_staged_files(&directory.path().join("missing"));
        let mut left: Vec<_> = std::fs::read_dir(&wal)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["1.sst", "odd#", "odd#x1"]);
    }
}
