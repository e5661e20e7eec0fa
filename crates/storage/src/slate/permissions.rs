//! Other users of the machine and the storage directory.
//!
//! The process takes all rights of others away from what it creates. A directory that was there
//! before keeps its rights: they may be meant so, or a container may give no others. Closed files
//! in a directory that others can enter are safe.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::{fs, io};

use tracing::warn;

/// The rights of other users to read a file, to write to a directory, and to pass through one.
const OTHERS_READ: u32 = 0o004;
const OTHERS_WRITE: u32 = 0o002;
const OTHERS_PASS: u32 = 0o001;

/// Warns of a directory that other users can write to, or in which they can read something.
pub(super) fn warn_if_open(directory: &Path) {
    // What cannot be looked at is reported when it is used.
    if is_open_to_others(directory).unwrap_or(false) {
        let directory = directory.display();
        warn!(%directory, "other users of this machine can read or write in the storage directory; `chmod -R o= {directory}` keeps them out");
    }
}

/// Returns `true` if users who are neither owner nor in the group can get to `directory`, and write
/// to it or read something in it.
fn is_open_to_others(directory: &Path) -> io::Result<bool> {
    let directory = directory.canonicalize()?;
    for ancestor in directory.ancestors() {
        if fs::metadata(ancestor)?.mode() & OTHERS_PASS == 0 {
            return Ok(false);
        }
    }
    if fs::metadata(&directory)?.mode() & OTHERS_WRITE != 0 {
        return Ok(true);
    }
    for entry in fs::read_dir(&directory)? {
        // A file may have been removed by now, and a link may lead nowhere.
        let metadata = fs::metadata(entry?.path());
        if metadata.is_ok_and(|metadata| metadata.mode() & OTHERS_READ != 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Returns `true` if others get to a directory: where tests may write there may be a closed one
    /// above.
    fn is_reached(directory: &Path) -> bool {
        let directory = directory.canonicalize().unwrap();
        let mut ancestors = directory.ancestors();
        ancestors.all(|path| fs::metadata(path).unwrap().mode() & OTHERS_PASS != 0)
    }

    #[test]
    fn a_directory_of_closed_files_may_be_entered() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let above = is_reached(directory.parent().unwrap());
        let (file, inner) = (directory.join("icecore.lock"), directory.join("db"));
        fs::write(&file, "").unwrap();
        fs::create_dir(&inner).unwrap();
        std::os::unix::fs::symlink("nowhere", directory.join("link")).unwrap();
        for (own, of_file, of_inner, expected) in [
            (0o755, 0o640, 0o750, false),
            (0o755, 0o644, 0o750, above),
            (0o755, 0o640, 0o755, above),
            (0o757, 0o640, 0o750, above),
            (0o700, 0o644, 0o755, false),
        ] {
            set(directory, own);
            set(&file, of_file);
            set(&inner, of_inner);
            let is_open = is_open_to_others(directory).unwrap();
            assert_eq!(is_open, expected, "{own:o} {of_file:o} {of_inner:o}");
        }
    }

    #[test]
    fn one_closed_directory_on_the_way_is_enough() {
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let file = inner.join("icecore.lock");
        fs::write(&file, "").unwrap();
        set(&file, 0o644);
        let above = is_reached(outer.path().parent().unwrap());
        for (modes, expected) in [
            ([0o755, 0o755, 0o755], above),
            ([0o751, 0o711, 0o701], above),
            ([0o750, 0o755, 0o755], false),
            ([0o755, 0o750, 0o755], false),
            ([0o755, 0o755, 0o750], false),
            ([0o755, 0o755, 0o754], false),
        ] {
            let paths = [outer.path(), inner.parent().unwrap(), &inner];
            for (path, mode) in paths.into_iter().zip(modes) {
                set(path, mode);
            }
            assert_eq!(is_open_to_others(&inner).unwrap(), expected, "{modes:?}");
        }
        assert!(is_open_to_others(&inner.join("missing")).is_err());
    }
}
