//! From the web configuration file, and the files that it names, to the rules.

use std::io;

use icecore_settings::yaml::Position;
use icecore_settings::{ConfigError, Problem};

use crate::Rules;
use crate::credentials::{Credentials, Digest};
use crate::file::{self, TokenSecret, WebConfig, token_digest};
use crate::files::Files;
use crate::rate::RateLimiter;
use crate::roles::Roles;
use crate::tls;

/// Reads everything. What was seen until an error is kept, because a change there may fix it.
pub(crate) fn load(files: &mut Files<'_>) -> Result<Rules, ConfigError> {
    let unreadable = |source| ConfigError::Read {
        path: files.main.into(),
        source,
    };
    let main = files.main;
    let bytes = files.bytes(main).map_err(unreadable)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| unreadable(io::Error::other("it is not valid UTF-8")))?;
    let config = file::interpret(&text, main).map_err(ConfigError::Invalid)?;
    rules(files, config).map_err(|problem| ConfigError::Invalid(vec![problem]))
}

fn rules(files: &mut Files<'_>, config: WebConfig) -> Result<Rules, Problem> {
    let tls = match &config.tls {
        Some(section) => Some(tls::build(section, config.http1_only, files)?),
        None => None,
    };
    let verifies = tls.as_ref().is_some_and(|tls| tls.clients.verifies());
    if !config.certificates.is_empty() && !verifies {
        let reason = "needs a tls_server_config whose client_auth_type verifies certificates";
        let problem = Problem::new("icecore.client_certificates", reason);
        let start = Position { line: 1, column: 1 };
        let at = config.tls.as_ref().map_or(start, |section| section.at);
        return Err(problem.at(files.main, at));
    }
    let tokens = tokens(files, config.tokens)?;
    Ok(Rules {
        tls,
        http1_only: config.http1_only,
        headers: config.headers,
        rate: config.rate_limit.map(RateLimiter::new),
        credentials: Credentials::new(config.users, tokens, config.certificates),
    })
}

fn tokens(
    files: &mut Files<'_>,
    tokens: Vec<file::Token>,
) -> Result<Vec<(Digest, Roles)>, Problem> {
    let mut digests = Vec::with_capacity(tokens.len());
    for token in tokens {
        let digest = match token.secret {
            TokenSecret::Digest(digest) => digest,
            TokenSecret::File(path) => {
                let subject = "icecore.tokens.token_file";
                let bytes = files.read_secret(&path.value, subject, path.at)?;
                let wrong = |reason| files.problem(subject, reason, path.at);
                let text = str::from_utf8(&bytes)
                    .map_err(|_| wrong("the file is not valid UTF-8".into()))?;
                token_digest(text.trim()).map_err(wrong)?
            }
        };
        digests.push((digest, token.roles));
    }
    Ok(digests)
}
