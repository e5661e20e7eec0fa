//! Permissions of everything that the process creates: the store, exports, files of progress.
//!
//! A mask of the process and not a mode at each place: most files are created by libraries.

use rustix::fs::Mode;
use rustix::process::umask;

/// Takes rights away from every file and directory that is created from now on: other users get
/// none, and the group may read. Files are 0640 then, directories 0750; a mask that takes away more
/// stays in force. For the start of the process, before there are threads.
pub(crate) fn keep_from_others() {
    let taken = Mode::WGRP | Mode::RWXO;
    let before = umask(taken);
    umask(before | taken);
}
