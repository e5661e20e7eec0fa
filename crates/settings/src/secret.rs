//! Secrets, which are never shown.

use std::fmt;
use std::path::PathBuf;

/// Shown in place of a secret, and refused as one: it was pasted from what `icecore config`
/// printed.
pub const SECRET_PLACEHOLDER: &str = "<secret>";

/// A secret, or the file that holds it, which is read anew whenever the secret is needed.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    Inline(String),
    File(PathBuf),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(_) => f.write_str(SECRET_PLACEHOLDER),
            Self::File(path) => write!(f, "File({path:?})"),
        }
    }
}
