//! Files that are read, with a note of when each was last changed.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use icecore_settings::yaml::Position;
use icecore_settings::{Problem, read_bytes};

use crate::file;

/// The file and what it names are a few kilobytes each.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// The identity and the times of a file; `None` while there is none.
pub(crate) type Stamp = Option<FileState>;

/// A file as the system describes it. Not the time of modification alone: a repaired permission
/// leaves it as it was, and so may a copy that is put in the place of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// The last change of content, owner, permissions or links, by the system's own clock.
    changed: (i64, i64),
}

pub(crate) fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some(FileState {
        device: metadata.dev(),
        inode: metadata.ino(),
        bytes: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    })
}

/// What was read so far for the web configuration file at `main`.
pub(crate) struct Files<'a> {
    pub(crate) main: &'a Path,
    pub(crate) seen: Vec<(PathBuf, Stamp)>,
    regular_only: bool,
}

impl<'a> Files<'a> {
    pub(crate) fn new(main: &'a Path) -> Self {
        Self {
            main,
            seen: Vec::new(),
            regular_only: false,
        }
    }

    /// Reads the files once more. A pipe can be read at the start, when its content is there; later
    /// it is empty, or nothing ever comes out of it.
    pub(crate) fn again(main: &'a Path) -> Self {
        Self {
            regular_only: true,
            ..Self::new(main)
        }
    }

    pub(crate) fn problem(&self, subject: &str, reason: String, at: Position) -> Problem {
        file::problem(self.main, subject, reason, at)
    }

    /// The bytes of a file that the key `subject` names.
    pub(crate) fn read(
        &mut self,
        path: &Path,
        subject: &str,
        at: Position,
    ) -> Result<Vec<u8>, Problem> {
        self.bytes(path).map_err(|error| {
            let reason = format!("cannot read {}: {error}", path.display());
            self.problem(subject, reason, at)
        })
    }

    /// Reads a file like [`Self::read`], for a key under which the secret itself may be written by
    /// mistake: the message does not repeat the path.
    pub(crate) fn read_secret(
        &mut self,
        path: &Path,
        subject: &str,
        at: Position,
    ) -> Result<Vec<u8>, Problem> {
        self.bytes(path).map_err(|error| {
            let reason = format!("cannot read the file that is named here: {error}");
            self.problem(subject, reason, at)
        })
    }

    /// The stamp is taken before the bytes are, so that a change in between is seen later.
    pub(crate) fn bytes(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        self.seen.push((path.into(), stamp(path)));
        if self.regular_only && !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        read_bytes(path, FILE_BYTES_MAX)
    }
}
