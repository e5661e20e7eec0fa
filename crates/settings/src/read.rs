//! Files with a limit on their size, so that a wrong path (a disk image, say) is not read into
//! memory.

use std::path::Path;
use std::{fs, io};

pub fn read_bytes(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let bytes = fs::metadata(path)?.len();
    if bytes > bytes_max {
        let reason = format!("it has {bytes} bytes, more than {bytes_max}");
        return Err(io::Error::other(reason));
    }
    fs::read(path)
}

pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let bytes = read_bytes(path, bytes_max)?;
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not valid UTF-8"))
}
