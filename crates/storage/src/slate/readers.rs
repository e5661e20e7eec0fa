//! Readers of other processes that leave no trace in the store.
//!
//! A reader writes nothing, no checkpoint either, so a store cannot tell of one. On a directory the
//! operating system can: each reader has a shared lock on the directory of the database, which goes
//! with it. On a store over the network there may always be one.
//!
//! Holds always: a reader of a directory that was there before a look is seen by it.

use std::fs::{File, TryLockError};
use std::path::Path;

use super::location::StoreLocation;
use super::lock_file::LockedFile;

/// Tells writers that a reader is there, for as long as it is kept.
#[derive(Debug)]
pub(super) struct ReaderLock(
    #[expect(dead_code, reason = "the lock goes with the file")] LockedFile,
);

impl ReaderLock {
    /// `None` where there is nothing to lock, or no locks: writers then expect readers.
    pub(super) fn acquire(location: &StoreLocation) -> Option<Self> {
        let file = File::open(location.directory()?.join(DATABASE)).ok()?;
        // A writer that looks has it for a moment.
        file.lock_shared().ok()?;
        Some(Self(LockedFile(file)))
    }
}

/// The directory that SlateDB has within the one of the store.
const DATABASE: &str = "db";

/// Returns `true` if another program may be reading a database without a checkpoint.
pub(super) fn may_be_read(location: &StoreLocation) -> bool {
    match location {
        StoreLocation::Memory => false,
        StoreLocation::Remote { .. } => true,
        StoreLocation::Local(directory) => is_locked(&directory.join(DATABASE)),
    }
}

fn is_locked(directory: &Path) -> bool {
    match File::open(directory) {
        Ok(file) => match file.try_lock() {
            // The lock goes at once.
            Ok(()) => {
                drop(LockedFile(file));
                false
            }
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
        },
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_of_a_directory_is_seen_until_it_ends() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(DATABASE)).unwrap();
        let location = StoreLocation::Local(directory.path().to_owned());
        assert!(!may_be_read(&location));
        let first = ReaderLock::acquire(&location).unwrap();
        let second = ReaderLock::acquire(&location).unwrap();
        assert!(may_be_read(&location));
        drop(first);
        assert!(may_be_read(&location));
        drop(second);
        assert!(!may_be_read(&location));
    }

    #[test]
    fn others_of_a_store_over_the_network_are_not_seen() {
        assert!(may_be_read(&StoreLocation::parse("s3://bucket/x").unwrap()));
        assert!(!may_be_read(&StoreLocation::Memory));
    }
}
