//! Files that are read, with a note of when each was last changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use icecore_settings::yaml::Position;
use icecore_settings::{Problem, read_bytes};

use crate::file;

/// The file and what it names are a few kilobytes each.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// When a file was changed and how long it is; `None` while there is none.
pub(crate) type Stamp = Option<(SystemTime, u64)>;

pub(crate) fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// What was read so far for the web configuration file at `main`.
pub(crate) struct Files<'a> {
    pub(crate) main: &'a Path,
    pub(crate) seen: Vec<(PathBuf, Stamp)>,
}

impl<'a> Files<'a> {
    pub(crate) fn new(main: &'a Path) -> Self {
        Self {
            main,
            seen: Vec::new(),
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

    /// The stamp is taken before the bytes are, so that a change in between is seen later.
    pub(crate) fn bytes(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        self.seen.push((path.into(), stamp(path)));
        read_bytes(path, FILE_BYTES_MAX)
    }
}
