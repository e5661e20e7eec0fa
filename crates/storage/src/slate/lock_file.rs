//! Keeps a second process from taking over a local directory by mistake.
//!
//! On an object store whoever opens last is the writer: processes move between machines, and nobody
//! could remove the lock of one that died. On a directory two processes are nearly always a
//! mistake, and the operating system knows which of them lives: the lock is one of the kernel's,
//! which goes with the process that holds it, however that ends. The file stays and is no obstacle.
//!
//! Holds always:
//! - The file is never removed: somebody could hold a lock on the removed one.
//! - Who takes over has the lock as soon as the process before it has ended.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tracing::warn;

use crate::error::{Error, Result};

/// Beside the database's own directory, so that a copy of that is a copy of the data alone.
pub(crate) const LOCK_FILE: &str = "icecore.lock";

/// The lock on a directory, held or (after a take-over) waited for.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    path: PathBuf,
    state: Mutex<State>,
}

/// A file that is locked. Its lock goes with this, also while a process that is being started has a
/// copy of the file, as all files of its parent until its program begins.
#[derive(Debug)]
pub(super) struct LockedFile(pub(super) File);

impl Drop for LockedFile {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            warn!(%error, "a lock may last until processes that are being started have begun");
        }
    }
}

#[derive(Debug)]
enum State {
    Held(#[expect(dead_code, reason = "the lock goes with the file")] LockedFile),
    /// Another process, which is being fenced, has it.
    Wanted(File),
    Released,
}

impl DirectoryLock {
    /// Locks a directory that exists. `None` where the file system has no locks.
    pub(crate) fn acquire(directory: &Path, take_over: bool) -> Result<Option<Self>> {
        let path = directory.join(LOCK_FILE);
        let refused = |cause: io::Error| {
            Error::Invalid(format!("cannot open the lock file {}: {cause}", path.display()).into())
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(refused)?;
        let state = match file.try_lock() {
            Ok(()) => {
                sign(&file);
                State::Held(LockedFile(file))
            }
            Err(TryLockError::WouldBlock) if take_over => {
                let holder = holder(&file);
                warn!(holder, "taking the directory over from another process");
                State::Wanted(file)
            }
            Err(TryLockError::WouldBlock) => return Err(in_use(directory, &file)),
            Err(TryLockError::Error(error)) => {
                warn!(%error, path = %path.display(), "the file system has no locks: a second process on this directory would take over");
                return Ok(None);
            }
        };
        Ok(Some(Self {
            path,
            state: Mutex::new(state),
        }))
    }

    /// After a take-over: takes the lock if the process before has ended.
    pub(crate) fn retry(&self) {
        let mut state = self.state.lock();
        let taken = match &*state {
            State::Wanted(file) => file.try_lock().is_ok(),
            State::Held(_) | State::Released => false,
        };
        if taken && let State::Wanted(file) = std::mem::replace(&mut *state, State::Released) {
            sign(&file);
            *state = State::Held(LockedFile(file));
        }
    }

    /// Lets the next process in.
    pub(crate) fn release(&self) {
        *self.state.lock() = State::Released;
    }

    /// Returns `true` if no other process has the directory.
    pub(super) fn is_held(&self) -> bool {
        matches!(&*self.state.lock(), State::Held(_))
    }
}

impl std::fmt::Display for DirectoryLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

fn in_use(directory: &Path, file: &File) -> Error {
    Error::Invalid(format!(
        "{} is in use by {} (lock file {LOCK_FILE}); stop it first, or take the directory over from it with --take-over",
        directory.display(),
        holder(file)
    ).into())
}

/// Who has the lock, by what it wrote.
fn holder(mut file: &File) -> String {
    let mut text = String::new();
    // For people only; who cannot be named has the lock all the same.
    let _ = file.read_to_string(&mut text);
    match text.trim() {
        "" => "another process".to_owned(),
        pid => format!("process {pid}"),
    }
}

/// Writes who has the lock.
fn sign(file: &File) {
    let pid = format!("{}\n", std::process::id());
    let written = file
        .set_len(0)
        .and_then(|()| file.write_all_at(pid.as_bytes(), 0));
    if let Err(error) = written {
        warn!(%error, "cannot write the process id into the lock file");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_directory_is_refused_and_its_holder_named() {
        let directory = tempfile::tempdir().unwrap();
        let acquire = |take_over| DirectoryLock::acquire(directory.path(), take_over);
        let first = acquire(false).unwrap().unwrap();
        let refused = acquire(false).unwrap_err().to_string();
        let pid = std::process::id();
        assert!(refused.contains(&format!("process {pid}")), "{refused}");
        assert!(refused.contains("--take-over"), "{refused}");
        first.release();
        acquire(false).unwrap().unwrap();
    }

    #[test]
    fn a_copy_of_the_file_keeps_no_lock() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(directory.path().join(LOCK_FILE)).unwrap();
        file.try_lock().unwrap();
        // As a process has it that was forked and has not begun its program.
        let _copy = file.try_clone().unwrap();
        drop(LockedFile(file));
        DirectoryLock::acquire(directory.path(), false)
            .unwrap()
            .unwrap();
    }

    #[test]
    fn a_lock_file_of_a_dead_process_is_no_obstacle() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(LOCK_FILE), "4194304\n").unwrap();
        let lock = DirectoryLock::acquire(directory.path(), false).unwrap();
        assert!(lock.unwrap().is_held());
        let signed = std::fs::read_to_string(directory.path().join(LOCK_FILE)).unwrap();
        assert_eq!(signed.trim(), std::process::id().to_string());
    }

    #[test]
    fn who_takes_over_gets_the_lock_later() {
        let directory = tempfile::tempdir().unwrap();
        let acquire = |take_over| DirectoryLock::acquire(directory.path(), take_over);
        let first = acquire(false).unwrap().unwrap();
        let second = acquire(true).unwrap().unwrap();
        second.retry();
        assert!(!second.is_held());
        drop(first);
        second.retry();
        assert!(second.is_held());
        assert!(acquire(false).is_err());
    }
}
