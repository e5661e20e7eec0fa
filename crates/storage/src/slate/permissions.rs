//! Other users of the machine and the storage directory.
//!
//! The process takes all rights of others away from what it creates. A directory that was there
//! before keeps its rights: they may be meant so.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::{fs, io};

use tracing::warn;

/// The right of other users to pass through a directory.
const OTHERS_PASS: u32 = 0o001;

/// Warns of a directory that other users can enter.
pub(super) fn warn_if_open(directory: &Path) {
    // What cannot be looked at is reported when it is used.
    if is_open_to_others(directory).unwrap_or(false) {
        let directory = directory.display();
        warn!(%directory, "other users of this machine can enter the storage directory; `chmod -R o= {directory}` keeps them out");
    }
}

/// Returns `true` if users who are neither owner nor in the group can get to files in `directory`.
fn is_open_to_others(directory: &Path) -> io::Result<bool> {
    let directory = directory.canonicalize()?;
    for ancestor in directory.ancestors() {
        if fs::metadata(ancestor)?.mode() & OTHERS_PASS == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn one_closed_directory_on_the_way_is_enough() {
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        // Where tests may write there may be a closed directory above.
        let above = is_open_to_others(outer.path().parent().unwrap()).unwrap();
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
