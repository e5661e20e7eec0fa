//! Secrets, which are shown to nobody.

use std::fmt;
use std::path::PathBuf;

/// What is shown in place of a secret, and therefore refused as one: somebody pasted what
/// `icecore config` printed.
pub const SECRET_SHOWN: &str = "<secret>";

/// A secret, or the file that holds it, which is read anew whenever the secret is needed.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    Given(String),
    File(PathBuf),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str(SECRET_SHOWN),
            Self::File(path) => write!(f, "File({path:?})"),
        }
    }
}
