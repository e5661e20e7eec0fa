//! The web configuration file: Prometheus' own format, and a section `icecore:` with roles.
//!
//! Holds always:
//! - An unknown key is an error with its line and column; all problems are reported at once.
//! - No message shows a password, its hash, a token or a key, and what is kept of a token is its
//!   digest.
//! - Paths are taken from the directory of the file, as Prometheus takes them.
//! - A file without a document is an error, not a file without rules: it was emptied by accident.
//!
//! Elsewhere: what TLS makes of it (`tls`), what requests are checked against (`credentials`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use icecore_settings::yaml::{Entry, Node, Position, Value};
use icecore_settings::{Fields, Problem, Secret, SourceFile, Spanned, quoted, secret_text_of};

use crate::credentials::{CertificateRule, Digest, PasswordHash, digest};
use crate::roles::Roles;

/// Shorter ones can be guessed: their digest is fast to compute.
const TOKEN_CHARS_MIN: usize = 16;

/// The headers that Prometheus lets one add, with the values it takes; none means any.
const HEADERS: [(&str, &[&str]); 5] = [
    ("Content-Security-Policy", &[]),
    ("Strict-Transport-Security", &[]),
    ("X-Content-Type-Options", &["nosniff"]),
    ("X-Frame-Options", &["deny", "sameorigin"]),
    ("X-XSS-Protection", &[]),
];

/// What the file says.
#[derive(Default)]
pub(crate) struct WebConfig {
    pub(crate) tls: Option<TlsSection>,
    pub(crate) http1_only: bool,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) rate_limit: Option<RateLimit>,
    pub(crate) users: Vec<(String, PasswordHash, Roles)>,
    pub(crate) tokens: Vec<Token>,
    pub(crate) certificates: Vec<CertificateRule>,
}

/// `tls_server_config`, with what is written there not yet read or interpreted.
pub(crate) struct TlsSection {
    pub(crate) at: Position,
    /// PEM text, or the file that has it.
    pub(crate) certificate: Option<Spanned<Secret>>,
    pub(crate) key: Option<Spanned<Secret>>,
    pub(crate) client_ca: Option<Spanned<Secret>>,
    pub(crate) client_auth: Option<Spanned<String>>,
    pub(crate) client_sans: Option<Spanned<Vec<String>>>,
    pub(crate) min_version: Option<Spanned<String>>,
    pub(crate) max_version: Option<Spanned<String>>,
    pub(crate) cipher_suites: Vec<Spanned<String>>,
    pub(crate) curves: Vec<Spanned<String>>,
    pub(crate) server_order: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RateLimit {
    pub(crate) interval: Duration,
    pub(crate) burst: u32,
}

pub(crate) struct Token {
    pub(crate) secret: TokenSecret,
    pub(crate) roles: Roles,
}

pub(crate) enum TokenSecret {
    Digest(Digest),
    File(Spanned<PathBuf>),
}

/// Reads the text of the file at `path`.
pub(crate) fn interpret(text: &str, path: &Path) -> Result<WebConfig, Vec<Problem>> {
    let source = SourceFile::new(path);
    let mut config = WebConfig::default();
    if let Some(root) = source.parse(text) {
        if matches!(root.value, Value::Null) {
            return Err(vec![empty(path)]);
        }
        read(&root, &source, &mut config);
    }
    let problems = source.into_problems();
    if problems.is_empty() {
        Ok(config)
    } else {
        Err(problems)
    }
}

/// A truncated file must not open a server that is started again.
fn empty(path: &Path) -> Problem {
    let reason = "is empty: requests would need no credential";
    Problem::new(path.display().to_string(), reason)
        .hint("write {} into it, or leave --web.config.file out, to run without access control")
}

/// A problem with something in the file at `path`.
pub(crate) fn problem(path: &Path, subject: &str, reason: String, at: Position) -> Problem {
    Problem::new(subject, reason).at(path, at)
}

fn read(root: &Node, source: &SourceFile<'_>, config: &mut WebConfig) {
    let mut top = Fields::of(root, "", source);
    config.tls = top.map("tls_server_config").and_then(tls);
    if let Some(http) = top.map("http_server_config") {
        read_http(http, config);
    }
    config.rate_limit = top.map("rate_limit").and_then(rate_limit);
    for entry in top.free_map("basic_auth_users") {
        let hash = password(entry, &entry.node, "basic_auth_users", source);
        let user = hash.map(|hash| (entry.key.clone(), hash, Roles::ALL));
        config.users.extend(user);
    }
    if let Some(ours) = top.map("icecore") {
        read_ours(ours, config);
    }
    let mut names: Vec<_> = config.users.iter().map(|(name, ..)| name).collect();
    names.sort();
    if let Some([twice, _]) = names.array_windows().find(|[one, two]| one == two) {
        let reason = format!("the user {} is also among basic_auth_users", quoted(twice));
        source.report(root.at, "icecore.users", reason);
    }
    top.finish();
}

fn tls(mut fields: Fields<'_>) -> Option<TlsSection> {
    let tls = TlsSection {
        at: fields.at,
        certificate: pem(&mut fields, "cert", "cert_file"),
        key: pem(&mut fields, "key", "key_file"),
        client_ca: pem(&mut fields, "client_ca", "client_ca_file"),
        client_auth: fields.spanned_text("client_auth_type"),
        client_sans: fields.node("client_allowed_sans").map(|node| Spanned {
            value: fields.texts("client_allowed_sans"),
            at: node.at,
        }),
        min_version: fields.spanned_text("min_version"),
        max_version: fields.spanned_text("max_version"),
        cipher_suites: fields.spanned_texts("cipher_suites"),
        curves: fields.spanned_texts("curve_preferences"),
        server_order: fields
            .boolean("prefer_server_cipher_suites")
            .unwrap_or(true),
    };
    fields.finish();
    // Prometheus takes a section without any of these for none.
    let given = tls.certificate.is_some()
        || tls.key.is_some()
        || tls.client_ca.is_some()
        || tls.client_auth.is_some();
    given.then_some(tls)
}

/// PEM text under one key, or the path of a file under another.
fn pem(
    fields: &mut Fields<'_>,
    key: &'static str,
    file_key: &'static str,
) -> Option<Spanned<Secret>> {
    let value = fields.secret_or_file(key, file_key)?;
    // An empty text counts as not given, as it does for Prometheus.
    if matches!(&value, Secret::Inline(text) if text.is_empty()) {
        return None;
    }
    let at = match value {
        Secret::Inline(_) => fields.position(key),
        Secret::File(_) => fields.position(file_key),
    };
    Some(Spanned { value, at })
}

fn read_http(mut fields: Fields<'_>, config: &mut WebConfig) {
    config.http1_only = fields.boolean("http2") == Some(false);
    if let Some(mut headers) = fields.map("headers") {
        for (name, allowed) in HEADERS {
            config.headers.extend(header(&mut headers, name, allowed));
        }
        headers.finish();
    }
    fields.finish();
}

fn header(
    fields: &mut Fields<'_>,
    name: &'static str,
    allowed: &[&str],
) -> Option<(HeaderName, HeaderValue)> {
    let text = fields.spanned_text(name)?.value;
    if !allowed.is_empty() && !allowed.contains(&text.as_str()) {
        let expected = allowed.join(" or ");
        fields.report(
            name,
            format!("expected {expected}, found {}", quoted(&text)),
        );
        return None;
    }
    let header = HeaderName::from_bytes(name.as_bytes()).ok();
    let header = header.zip(HeaderValue::from_str(&text).ok());
    if header.is_none() {
        fields.report(name, "cannot be sent as a header");
    }
    header
}

fn rate_limit(mut fields: Fields<'_>) -> Option<RateLimit> {
    let interval = fields.duration_or_unset("interval");
    let burst = fields.parsed("burst", |text| {
        text.parse().map_err(|_| "a whole number".to_owned())
    });
    fields.finish();
    Some(RateLimit {
        interval: interval?,
        burst: burst.unwrap_or_default(),
    })
}

fn read_ours(mut fields: Fields<'_>, config: &mut WebConfig) {
    for entry in fields.free_map("users") {
        config.users.extend(user(entry, fields.source));
    }
    for fields in fields.maps("tokens") {
        config.tokens.extend(token(fields));
    }
    for fields in fields.maps("client_certificates") {
        config.certificates.extend(certificate(fields));
    }
    fields.finish();
}

fn user(entry: &Entry, source: &SourceFile<'_>) -> Option<(String, PasswordHash, Roles)> {
    let section = "icecore.users";
    let path = format!("{section}.{}", entry.key);
    let mut fields = Fields::of(&entry.node, &path, source);
    let hash = match fields.node("password") {
        Some(node) => password(entry, node, section, source),
        None => {
            source.report(entry.key_at, &path, "needs a password");
            None
        }
    };
    let roles = roles(&mut fields, entry.key_at);
    fields.finish();
    Some((entry.key.clone(), hash?, roles?))
}

/// The hash of a user's password; `entry` has the name.
fn password(
    entry: &Entry,
    node: &Node,
    section: &str,
    source: &SourceFile<'_>,
) -> Option<PasswordHash> {
    if entry.key.contains(':') || entry.key.is_empty() {
        let reason = "a user name must not be empty or contain a colon";
        source.report(entry.key_at, section, reason);
        return None;
    }
    let path = format!("{section}.{}", entry.key);
    // An empty one is an error: it would otherwise turn access control off.
    if matches!(node.value, Value::Null) {
        source.report(node.at, &path, "needs a bcrypt hash");
        return None;
    }
    let text = secret_text_of(node, &path, source)?;
    let hash = PasswordHash::parse(&text);
    hash.map_err(|reason| source.report(node.at, &path, reason))
        .ok()
}

fn token(mut fields: Fields<'_>) -> Option<Token> {
    // Only for readers of the file.
    fields.text("name");
    let at = fields.at;
    let roles = roles(&mut fields, at);
    let keys = ["token", "token_file", "token_sha256"];
    let given = keys.iter().filter(|key| fields.has(key)).count();
    let file = fields.spanned_text("token_file").map(|text| {
        let value = fields.source.path(&text.value);
        TokenSecret::File(Spanned { value, at: text.at })
    });
    let token = digest_of(&mut fields, "token", token_digest);
    let sum = digest_of(&mut fields, "token_sha256", parse_digest);
    if fields
        .text("token_file")
        .is_some_and(|path| path.is_empty())
    {
        fields.report("token_file", "needs a path");
    }
    if given != 1 {
        let reason = "needs one of token, token_file and token_sha256";
        fields.source.report(fields.at, &fields.path, reason);
    }
    fields.finish();
    Some(Token {
        secret: file.or(token).or(sum)?,
        roles: roles?,
    })
}

fn digest_of(
    fields: &mut Fields<'_>,
    key: &'static str,
    parse: fn(&str) -> Result<Digest, String>,
) -> Option<TokenSecret> {
    let text = fields.secret_text(key)?;
    let digest = parse(&text).map_err(|reason| fields.report(key, reason));
    digest.ok().map(TokenSecret::Digest)
}

fn certificate(mut fields: Fields<'_>) -> Option<CertificateRule> {
    let at = fields.at;
    let roles = roles(&mut fields, at);
    let san = fields.spanned_text("san");
    let name = fields.spanned_text("common_name");
    let rule = match (san, name) {
        (Some(san), None) => roles.map(|roles| CertificateRule::of_san(san.value, roles)),
        (None, Some(name)) => roles.map(|roles| CertificateRule::of_common_name(name.value, roles)),
        _ => {
            let reason = "needs one of san and common_name";
            fields.source.report(fields.at, &fields.path, reason);
            None
        }
    };
    fields.finish();
    rule
}

/// `at` is where their absence is reported.
fn roles(fields: &mut Fields<'_>, at: Position) -> Option<Roles> {
    let expected = format!("some of {}", Roles::WORDS.join(", "));
    let path = fields.path_of("roles");
    if fields.node("roles").is_none() {
        let reason = format!("expected {expected}");
        fields.source.report(at, &path, reason);
        return None;
    }
    let mut roles = Roles::NONE;
    let words = fields.spanned_texts("roles");
    for word in &words {
        match Roles::from_word(&word.value) {
            Some(role) => roles = roles.and(role),
            None => {
                let reason = format!("expected {expected}, found {}", quoted(&word.value));
                fields.source.report(word.at, &path, reason);
            }
        }
    }
    if words.is_empty() {
        fields.report("roles", format!("expected {expected}"));
    }
    Some(roles)
}

/// The digest of a token, if that is long enough.
pub(crate) fn token_digest(token: &str) -> Result<Digest, String> {
    if token.chars().count() < TOKEN_CHARS_MIN {
        return Err(format!(
            "a token must have at least {TOKEN_CHARS_MIN} characters"
        ));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a token must be of visible ASCII characters".into());
    }
    Ok(digest(token.as_bytes()))
}

/// A digest as `sha256sum` writes it.
fn parse_digest(text: &str) -> Result<Digest, String> {
    let expected = || "expected 64 hexadecimal digits".to_owned();
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| u8::try_from(digit.to_digit(16)?).ok())
        .collect();
    let digits = digits.ok_or_else(expected)?;
    let bytes: Vec<u8> = digits
        .as_chunks::<2>()
        .0
        .iter()
        .map(|[high, low]| high << 4 | low)
        .collect();
    match digits.len() {
        64 => bytes.try_into().map_err(|_| expected()),
        _ => Err(expected()),
    }
}
