//! From the files to the rules, with a note of what was read and when it was last changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::Rules;
use crate::credentials::{Credentials, Digest};
use crate::file::{self, TokenSecret, WebConfig, token_digest};
use crate::rate::Rate;
use crate::roles::Roles;
use crate::tls;
use icecore_settings::yaml::Position;
use icecore_settings::{ConfigError, Problem};

/// The file and what it names are a few kilobytes each; this keeps a wrong path from being read into
/// memory.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// When a file was changed and how long it is; `None` while there is none.
pub(crate) type Stamp = Option<(SystemTime, u64)>;

pub(crate) fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// What was read so far for the web configuration file at `main`.
pub(crate) struct Files<'a> {
    main: &'a Path,
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
    fn bytes(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let found = stamp(path);
        self.seen.push((path.into(), found));
        if let Some((_, bytes)) = found
            && bytes > FILE_BYTES_MAX
        {
            let reason = format!("it has {bytes} bytes, more than {FILE_BYTES_MAX}");
            return Err(io::Error::other(reason));
        }
        fs::read(path)
    }

    /// Reads everything. What was seen until an error is kept, because a change there may mend it.
    pub(crate) fn load(&mut self) -> Result<Rules, ConfigError> {
        let unreadable = |source| ConfigError::Read {
            path: self.main.into(),
            source,
        };
        let main = self.main;
        let bytes = self.bytes(main).map_err(unreadable)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| unreadable(io::Error::other("it is not valid UTF-8")))?;
        let config = file::interpret(&text, main).map_err(ConfigError::Invalid)?;
        self.rules(config)
            .map_err(|problem| ConfigError::Invalid(vec![problem]))
    }

    fn rules(&mut self, config: WebConfig) -> Result<Rules, Problem> {
        let tls = match &config.tls {
            Some(section) => Some(tls::build(section, config.http1_only, self)?),
            None => None,
        };
        let verifies = tls.as_ref().is_some_and(|tls| tls.clients.verifies());
        if !config.certificates.is_empty() && !verifies {
            let reason = "needs a tls_server_config whose client_auth_type verifies certificates";
            let problem = Problem::new("icecore.client_certificates", reason);
            let start = Position { line: 1, column: 1 };
            let at = config.tls.as_ref().map_or(start, |section| section.at);
            return Err(problem.at(self.main, at));
        }
        let tokens = self.tokens(config.tokens)?;
        Ok(Rules {
            tls,
            http1_only: config.http1_only,
            headers: config.headers,
            rate: config.rate_limit.map(Rate::new),
            credentials: Credentials::new(config.users, tokens, config.certificates),
        })
    }

    fn tokens(&mut self, tokens: Vec<file::Token>) -> Result<Vec<(Digest, Roles)>, Problem> {
        let mut digests = Vec::with_capacity(tokens.len());
        for token in tokens {
            let digest = match token.secret {
                TokenSecret::Digest(digest) => digest,
                TokenSecret::File(path) => {
                    let subject = "icecore.tokens.token_file";
                    let bytes = self.read(&path.value, subject, path.at)?;
                    let wrong = |reason| self.problem(subject, reason, path.at);
                    let text = str::from_utf8(&bytes)
                        .map_err(|_| wrong("the file is not valid UTF-8".into()))?;
                    token_digest(text.trim()).map_err(wrong)?
                }
            };
            digests.push((digest, token.roles));
        }
        Ok(digests)
    }
}
