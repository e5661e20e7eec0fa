//! Where a database lies: a path or URL given by a person, taken apart.
//!
//! Holds always:
//! - Nothing here touches the store; parsing is pure.
//! - A location holds no credentials, so it can be printed and logged. A URL that carries some is
//!   refused without repeating it.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};

const KNOWN: &str = "a directory, file:///dir, memory://, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix";

/// A parsed storage location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreLocation {
    /// A directory of this machine.
    Local(PathBuf),
    /// Lives and dies with the process.
    Memory,
    /// A bucket or container of an object store.
    Remote {
        service: RemoteService,
        bucket: String,
        /// Without slashes at either end; may be empty.
        prefix: String,
    },
}

/// The object stores that can hold a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemoteService {
    S3,
    Gcs,
    Azure,
}

impl RemoteService {
    fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gcs => "gs",
            Self::Azure => "az",
        }
    }
}

impl StoreLocation {
    /// Parses what a person wrote for `--storage`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::Invalid(
                format!("the storage location is empty; expected {KNOWN}").into(),
            ));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(Self::Local(PathBuf::from(text)));
        };
        match scheme.to_ascii_lowercase().as_str() {
            "file" => parse_file(rest),
            "memory" => parse_memory(rest),
            "s3" => parse_remote(RemoteService::S3, rest),
            "gs" => parse_remote(RemoteService::Gcs, rest),
            "az" => parse_remote(RemoteService::Azure, rest),
            _ => Err(Error::Invalid(
                format!("unknown storage scheme `{scheme}://`; expected {KNOWN}").into(),
            )),
        }
    }

    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    pub(crate) fn is_memory(&self) -> bool {
        matches!(self, Self::Memory)
    }

    /// The directory of a local database.
    pub(crate) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Local(directory) => Some(directory),
            _ => None,
        }
    }

    /// The one spelling of the place: of a directory the path without links and detours, also of
    /// one that is not there yet. Two locations of one place have equal ones.
    pub(crate) fn canonical(&self) -> Self {
        match self {
            Self::Local(directory) => Self::Local(canonical(directory)),
            other => other.clone(),
        }
    }

    /// Path of SlateDB's files below the directory or bucket. A level of its own leaves room for
    /// files that are not SlateDB's beside it.
    pub(crate) fn database_path(&self) -> String {
        self.path_of("db")
    }

    /// Path of something else below the directory or bucket.
    pub(crate) fn path_of(&self, name: &str) -> String {
        match self {
            Self::Remote { prefix, .. } if !prefix.is_empty() => format!("{prefix}/{name}"),
            _ => name.to_owned(),
        }
    }
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(directory) => write!(f, "{}", directory.display()),
            Self::Memory => write!(f, "memory://"),
            Self::Remote {
                service,
                bucket,
                prefix,
            } => {
                write!(f, "{}://{bucket}", service.scheme())?;
                if !prefix.is_empty() {
                    write!(f, "/{prefix}")?;
                }
                Ok(())
            }
        }
    }
}

/// What is there of a path as the file system knows it, with the rest behind it.
fn canonical(directory: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    let whole = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    for part in whole.components() {
        match part {
            // Below what is not there, no link can lead elsewhere.
            Component::ParentDir => {
                found.pop();
            }
            part => found.push(part),
        }
        if let Ok(known) = found.canonicalize() {
            found = known;
        }
    }
    found
}

fn parse_file(rest: &str) -> Result<StoreLocation> {
    // RFC 8089: the host may be left out or be `localhost`.
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return Err(Error::Invalid(format!(
            "`file://{rest}` names no absolute path; write file:///absolute/dir, or a plain relative path"
        ).into()));
    }
    let decoded = percent_decode(path).ok_or_else(|| {
        Error::Invalid(format!(
            "`file://{rest}` holds a percent sign that is not followed by two hex digits of UTF-8"
        ).into())
    })?;
    Ok(StoreLocation::Local(PathBuf::from(decoded)))
}

fn parse_memory(rest: &str) -> Result<StoreLocation> {
    if rest.trim_matches('/').is_empty() {
        Ok(StoreLocation::Memory)
    } else {
        Err(Error::Invalid(
            "memory:// takes no path: each process has one memory store".into(),
        ))
    }
}

fn parse_remote(service: RemoteService, rest: &str) -> Result<StoreLocation> {
    let scheme = service.scheme();
    // Not repeated in the message, because what stands before the @ is a secret.
    if rest.contains('@') {
        return Err(Error::Invalid(format!(
            "credentials do not belong into a {scheme}:// URL; give them as settings or in the environment"
        ).into()));
    }
    if rest.contains(['?', '#']) {
        return Err(Error::Invalid(format!(
            "`{scheme}://{rest}` has a query or fragment; endpoint and region are settings of their own"
        ).into()));
    }
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() {
        return Err(Error::Invalid(
            format!("`{scheme}://{rest}` names no bucket; write {scheme}://bucket/prefix").into(),
        ));
    }
    let parts = prefix.split('/').filter(|part| !part.is_empty());
    Ok(StoreLocation::Remote {
        service,
        bucket: bucket.to_owned(),
        // As the object store reads it.
        prefix: parts.collect::<Vec<_>>().join("/"),
    })
}

fn percent_decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let high = char::from(bytes.next()?).to_digit(16)?;
        let low = char::from(bytes.next()?).to_digit(16)?;
        decoded.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, shown: &str, database_path: &str) {
        let location = StoreLocation::parse(text).unwrap();
        assert_eq!(location.to_string(), shown, "{text}");
        assert_eq!(location.database_path(), database_path, "{text}");
        // What is shown can be given again and means the same.
        assert_eq!(StoreLocation::parse(shown).unwrap(), location, "{text}");
    }

    fn refused(text: &str) -> String {
        StoreLocation::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn every_form_is_understood() {
        check("./icecore-data", "./icecore-data", "db");
        check("/var/lib/icecore", "/var/lib/icecore", "db");
        check("file:///var/lib/ice%20core", "/var/lib/ice core", "db");
        check("file://localhost/srv", "/srv", "db");
        check("memory://", "memory://", "db");
        check("s3://bucket", "s3://bucket", "db");
        check("S3://bucket/a/b/", "s3://bucket/a/b", "a/b/db");
        check("s3://bucket//a//b", "s3://bucket/a/b", "a/b/db");
        check("gs://bucket/x", "gs://bucket/x", "x/db");
        check("az://container/x", "az://container/x", "x/db");
    }

    #[test]
    fn a_place_has_one_canonical_spelling() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink(root.join("a"), root.join("link")).unwrap();
        let canonical = |text: &str| StoreLocation::parse(text).unwrap().canonical();
        let of = |path: &str| canonical(root.join(path).to_str().unwrap());
        for path in ["a/b/", "a/./b", "link/b", "link/b/../b", "new/../a/b"] {
            assert_eq!(of(path), of("a/b"), "{path}");
        }
        let url = format!("file://{}/link/b", root.display());
        assert_eq!(canonical(&url), of("a/b"));
        // Not there yet.
        assert_eq!(of("link/c/d/../e"), of("a/c/e"));
        assert_ne!(of("a/c"), of("a/b"));
        assert_eq!(canonical("s3://bucket/a/"), canonical("s3://bucket//a"));
    }

    #[test]
    fn errors_say_what_is_expected() {
        assert!(refused("ftp://host/dir").contains("s3://bucket/prefix"));
        assert!(refused("").contains("memory://"));
        assert!(refused("s3://").contains("names no bucket"));
        assert!(refused("s3:///prefix").contains("names no bucket"));
        assert!(refused("file://relative/dir").contains("absolute"));
        assert!(refused("file:///a%zz").contains("percent"));
        assert!(refused("memory://x").contains("no path"));
        assert!(refused("s3://bucket?region=x").contains("settings"));
    }

    #[test]
    fn secrets_are_never_repeated() {
        let message = refused("s3://key:hunter2@bucket/prefix");
        assert!(!message.contains("hunter2"), "{message}");
        assert!(message.contains("credentials"), "{message}");
    }
}
