//! Removes what crashed processes left of unfinished local writes.
//!
//! A local put goes to `name#1` first and is then renamed. After a crash such a file stays for
//! good: no listing shows it and no garbage collection knows it, but it takes space. The writer
//! removes them before it opens the database, unless it takes that over from another one.
//!
//! Holds always: a file that another process may still be writing stays. Names of staged files
//! count from 1, so if the file of a running writer were removed, the next one of that name would
//! be made by this process, and the other writer would then publish our bytes as its own and
//! acknowledge what it never stored.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tracing::{info, warn};

/// Younger files may belong to a writer that is still running, stopped or on a slow disk; a put
/// takes seconds at most.
const AGE_MIN: Duration = Duration::from_secs(3600);

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
        } else if entry.file_name().to_str().is_some_and(is_staged)
            && is_abandoned(entry.metadata()?.modified()?)
        {
            std::fs::remove_file(entry.path())?;
            *removed += 1;
        }
    }
    Ok(())
}

/// Whether nobody can be writing a file any more that was last changed then. The clock of files is
/// the machine's, so it is asked here.
fn is_abandoned(modified: SystemTime) -> bool {
    let age = SystemTime::now().duration_since(modified);
    age.is_ok_and(|age| age >= AGE_MIN)
}

/// `name#digits`, as `object_store` names them.
pub(super) fn is_staged(name: &str) -> bool {
    name.rsplit_once('#').is_some_and(|(_, suffix)| {
        !suffix.is_empty() && suffix.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_abandoned_staged_files_go() {
        let directory = tempfile::tempdir().unwrap();
        let wal = directory.path().join("wal");
        std::fs::create_dir(&wal).unwrap();
        let long_ago = SystemTime::now() - 2 * AGE_MIN;
        for name in ["1.sst", "1.sst#1", "2.sst#17", "odd#", "odd#x1"] {
            std::fs::write(wal.join(name), b"x").unwrap();
            let file = std::fs::File::options().write(true).open(wal.join(name));
            file.unwrap().set_modified(long_ago).unwrap();
        }
        std::fs::write(wal.join("3.sst#1"), b"being written").unwrap();
        remove_staged_files(directory.path());
        remove_staged_files(&directory.path().join("missing"));
        let mut left: Vec<_> = std::fs::read_dir(&wal)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["1.sst", "3.sst#1", "odd#", "odd#x1"]);
    }
}
