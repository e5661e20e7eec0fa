//! The web configuration file: Prometheus' own format, and a section `icecore:` with roles.
//!
//! Holds always:
//! - A key that nobody knows is an error with its line and column; all problems are reported at once.
//! - No complaint shows a password, its hash, a token or a key, and what is kept of a token is its digest.
//! - Paths are taken from the directory of the file, as Prometheus takes them.
//!
//! Elsewhere: what TLS makes of it (`tls`), what requests are checked against (`credentials`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};

use super::credentials::{CertificateRule, Digest, PasswordHash, digest};
use super::roles::Roles;
use crate::config::yaml::{self, Entry, Node, Position, Value};
use crate::config::{Problem, duration, nearest, quoted};

/// Shorter ones can be guessed: their digest is fast to compute.
const TOKEN_CHARS_MIN: usize = 16;

const TOP_KEYS: [&str; 5] = [
    "tls_server_config",
    "http_server_config",
    "basic_auth_users",
    "rate_limit",
    "icecore",
];

const TLS_KEYS: [&str; 13] = [
    "cert",
    "cert_file",
    "key",
    "key_file",
    "client_ca",
    "client_ca_file",
    "client_auth_type",
    "client_allowed_sans",
    "min_version",
    "max_version",
    "cipher_suites",
    "curve_preferences",
    "prefer_server_cipher_suites",
];

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
pub(super) struct WebConfig {
    pub(super) tls: Option<TlsSection>,
    pub(super) http1_only: bool,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) rate_limit: Option<RateLimit>,
    pub(super) users: Vec<(String, PasswordHash, Roles)>,
    pub(super) tokens: Vec<Token>,
    pub(super) certificates: Vec<CertificateRule>,
}

/// A value, and where it was written, for complaints that come later.
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) at: Position,
}

/// `tls_server_config`, with what is written there not yet read or interpreted.
pub(super) struct TlsSection {
    pub(super) at: Position,
    pub(super) certificate: Option<Placed<Source>>,
    pub(super) key: Option<Placed<Source>>,
    pub(super) client_ca: Option<Placed<Source>>,
    pub(super) client_auth: Option<Placed<String>>,
    pub(super) client_sans: Option<Placed<Vec<String>>>,
    pub(super) min_version: Option<Placed<String>>,
    pub(super) max_version: Option<Placed<String>>,
    pub(super) cipher_suites: Vec<Placed<String>>,
    pub(super) curves: Vec<Placed<String>>,
    pub(super) server_order: bool,
}

/// PEM text: here, or in a file.
pub(super) enum Source {
    Inline(String),
    File(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RateLimit {
    pub(super) interval: Duration,
    pub(super) burst: u32,
}

pub(super) struct Token {
    pub(super) secret: TokenSecret,
    pub(super) roles: Roles,
}

pub(super) enum TokenSecret {
    Digest(Digest),
    File(Placed<PathBuf>),
}

/// Reads the text of the file at `path`.
pub(super) fn interpret(text: &str, path: &Path) -> Result<WebConfig, Vec<Problem>> {
    let mut reader = Reader {
        path,
        problems: Vec::new(),
    };
    let mut config = WebConfig::default();
    match yaml::parse(text) {
        Ok(root) => reader.top_level(&root, &mut config),
        Err(error) => reader.complain("", error.reason, error.at),
    }
    if reader.problems.is_empty() {
        return Ok(config);
    }
    // In the order in which a person goes through the file.
    reader.problems.sort_by_key(|problem| {
        let place = problem.place.as_ref();
        place.map(|(_, at)| (at.line, at.column))
    });
    Err(reader.problems)
}

/// A problem with something in the file at `path`.
pub(super) fn problem(path: &Path, subject: &str, reason: String, at: Position) -> Problem {
    Problem::new(subject, reason).at(path, at)
}

struct Reader<'a> {
    path: &'a Path,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn top_level(&mut self, root: &Node, config: &mut WebConfig) {
        for entry in self.entries(root, "", &TOP_KEYS) {
            let (name, node) = (entry.key.as_str(), &entry.node);
            match name {
                "tls_server_config" => config.tls = self.tls(node),
                "http_server_config" => self.http(node, config),
                "basic_auth_users" => self.prometheus_users(node, config),
                "rate_limit" => config.rate_limit = self.rate_limit(node),
                "icecore" => self.icecore(node, config),
                // It was complained about.
                _ => {}
            }
        }
        let mut names: Vec<_> = config.users.iter().map(|(name, ..)| name).collect();
        names.sort();
        if let Some([twice, _]) = names.array_windows().find(|[one, two]| one == two) {
            let reason = format!("the user {} is also among basic_auth_users", quoted(twice));
            self.complain("icecore.users", reason, root.at);
        }
    }

    fn tls(&mut self, node: &Node) -> Option<TlsSection> {
        let section = "tls_server_config";
        let entries = self.entries(node, section, &TLS_KEYS);
        let mut tls = TlsSection {
            at: node.at,
            certificate: self.source(entries, section, "cert"),
            key: self.source(entries, section, "key"),
            client_ca: self.source(entries, section, "client_ca"),
            client_auth: None,
            client_sans: None,
            min_version: None,
            max_version: None,
            cipher_suites: Vec::new(),
            curves: Vec::new(),
            server_order: true,
        };
        for entry in entries {
            let path = format!("{section}.{}", entry.key);
            let node = &entry.node;
            match entry.key.as_str() {
                "client_auth_type" => tls.client_auth = self.text(node, &path),
                "client_allowed_sans" => {
                    let value = self.texts(node, &path);
                    let value = value.into_iter().map(|placed| placed.value).collect();
                    tls.client_sans = Some(Placed { value, at: node.at });
                }
                "min_version" => tls.min_version = self.text(node, &path),
                "max_version" => tls.max_version = self.text(node, &path),
                "cipher_suites" => tls.cipher_suites = self.texts(node, &path),
                "curve_preferences" => tls.curves = self.texts(node, &path),
                "prefer_server_cipher_suites" => {
                    tls.server_order = self.boolean(node, &path).unwrap_or(true);
                }
                _ => {}
            }
        }
        // Prometheus takes a section without any of these for none.
        let given = tls.certificate.is_some()
            || tls.key.is_some()
            || tls.client_ca.is_some()
            || tls.client_auth.is_some();
        given.then_some(tls)
    }

    /// `name` holds the text itself, `name_file` where it lies; not both.
    fn source(&mut self, entries: &[Entry], section: &str, name: &str) -> Option<Placed<Source>> {
        let file = format!("{name}_file");
        let mut found: Option<Placed<Source>> = None;
        for entry in entries {
            let path = format!("{section}.{}", entry.key);
            let source = match entry.key.as_str() {
                key if key == name => self.secret(&entry.node, &path).map(Source::Inline),
                key if key == file => {
                    let text = self.text(&entry.node, &path);
                    text.map(|text| Source::File(self.absolute(&text.value)))
                }
                _ => continue,
            };
            let Some(value) = source else { continue };
            if found.is_some() {
                let reason = format!("give {name} or {file}, not both");
                self.complain(&path, reason, entry.key_at);
            }
            let at = entry.node.at;
            found = Some(Placed { value, at });
        }
        found
    }

    fn http(&mut self, node: &Node, config: &mut WebConfig) {
        let section = "http_server_config";
        for entry in self.entries(node, section, &["http2", "headers"]) {
            let path = format!("{section}.{}", entry.key);
            match entry.key.as_str() {
                "http2" => config.http1_only = self.boolean(&entry.node, &path) == Some(false),
                "headers" => config.headers = self.headers(&entry.node, &path),
                _ => {}
            }
        }
    }

    fn headers(&mut self, node: &Node, path: &str) -> Vec<(HeaderName, HeaderValue)> {
        let names = HEADERS.map(|(name, _)| name);
        let mut headers = Vec::new();
        for entry in self.entries(node, path, &names) {
            let path = format!("{path}.{}", entry.key);
            let Some(text) = self.text(&entry.node, &path) else {
                continue;
            };
            let allowed = HEADERS.iter().find(|(name, _)| *name == entry.key);
            let allowed = allowed.map_or(&[][..], |(_, values)| values);
            if !allowed.is_empty() && !allowed.contains(&text.value.as_str()) {
                let expected = allowed.join(" or ");
                let reason = format!("expected {expected}, found {}", quoted(&text.value));
                self.complain(&path, reason, text.at);
                continue;
            }
            let name = HeaderName::from_bytes(entry.key.as_bytes());
            match (name, HeaderValue::from_str(&text.value)) {
                (Ok(name), Ok(value)) => headers.push((name, value)),
                _ => self.complain(&path, "cannot be sent as a header".into(), text.at),
            }
        }
        headers
    }

    fn rate_limit(&mut self, node: &Node) -> Option<RateLimit> {
        let section = "rate_limit";
        let mut limit = RateLimit {
            interval: Duration::ZERO,
            burst: 0,
        };
        for entry in self.entries(node, section, &["interval", "burst"]) {
            let path = format!("{section}.{}", entry.key);
            let Some(text) = self.text(&entry.node, &path) else {
                continue;
            };
            let wrong = if entry.key == "interval" {
                let parsed = duration::parse(&text.value);
                parsed
                    .map(|interval| limit.interval = interval)
                    .map_err(|bad| bad.expected)
            } else {
                let parsed = text.value.parse::<u32>();
                parsed
                    .map(|burst| limit.burst = burst)
                    .map_err(|_| "a whole number".into())
            };
            if let Err(expected) = wrong {
                let reason = format!("expected {expected}, found {}", quoted(&text.value));
                self.complain(&path, reason, text.at);
            }
        }
        (!limit.interval.is_zero()).then_some(limit)
    }

    fn prometheus_users(&mut self, node: &Node, config: &mut WebConfig) {
        let section = "basic_auth_users";
        for entry in self.any_entries(node, section) {
            let hash = self.password(entry, &entry.node, section);
            let user = hash.map(|hash| (entry.key.clone(), hash, Roles::ALL));
            config.users.extend(user);
        }
    }

    fn icecore(&mut self, node: &Node, config: &mut WebConfig) {
        let keys = ["users", "tokens", "client_certificates"];
        for entry in self.entries(node, "icecore", &keys) {
            match entry.key.as_str() {
                "users" => self.users(&entry.node, config),
                "tokens" => {
                    for (index, node) in self.list(&entry.node, "icecore.tokens").iter().enumerate()
                    {
                        let token = self.token(node, &format!("icecore.tokens[{index}]"));
                        config.tokens.extend(token);
                    }
                }
                "client_certificates" => {
                    let path = "icecore.client_certificates";
                    for (index, node) in self.list(&entry.node, path).iter().enumerate() {
                        let rule = self.certificate(node, &format!("{path}[{index}]"));
                        config.certificates.extend(rule);
                    }
                }
                _ => {}
            }
        }
    }

    fn users(&mut self, node: &Node, config: &mut WebConfig) {
        let section = "icecore.users";
        for entry in self.any_entries(node, section) {
            let path = format!("{section}.{}", entry.key);
            let entries = self.entries(&entry.node, &path, &["password", "roles"]);
            let hash = match find(entries, "password") {
                Some(node) => self.password(entry, node, section),
                None => {
                    self.complain(&path, "needs a password".into(), entry.key_at);
                    None
                }
            };
            let roles = self.roles(entries, &path, entry.key_at);
            let user = hash.zip(roles);
            let user = user.map(|(hash, roles)| (entry.key.clone(), hash, roles));
            config.users.extend(user);
        }
    }

    /// The hash of a user's password; `entry` has the name.
    fn password(&mut self, entry: &Entry, node: &Node, section: &str) -> Option<PasswordHash> {
        let path = format!("{section}.{}", entry.key);
        if entry.key.contains(':') || entry.key.is_empty() {
            let reason = "a user name must not be empty or contain a colon".into();
            self.complain(section, reason, entry.key_at);
            return None;
        }
        let text = self.secret(node, &path)?;
        match PasswordHash::parse(&text) {
            Ok(hash) => Some(hash),
            Err(reason) => {
                self.complain(&path, reason, node.at);
                None
            }
        }
    }

    fn token(&mut self, node: &Node, path: &str) -> Option<Token> {
        let keys = ["name", "token", "token_file", "token_sha256", "roles"];
        let entries = self.entries(node, path, &keys);
        let roles = self.roles(entries, path, node.at);
        let mut secrets = Vec::new();
        for entry in entries {
            let path = format!("{path}.{}", entry.key);
            let node = &entry.node;
            match entry.key.as_str() {
                "name" => {
                    // It is there for whoever reads the file.
                    self.text(node, &path);
                }
                "token_file" => {
                    let text = self.text(node, &path);
                    secrets.extend(text.map(|text| {
                        let value = self.absolute(&text.value);
                        TokenSecret::File(Placed { value, at: text.at })
                    }));
                }
                "token" | "token_sha256" => {
                    let parse = match entry.key.as_str() {
                        "token" => token_digest,
                        _ => parse_digest,
                    };
                    match self.secret(node, &path).map(|text| parse(&text)) {
                        Some(Ok(digest)) => secrets.push(TokenSecret::Digest(digest)),
                        Some(Err(reason)) => self.complain(&path, reason, node.at),
                        None => {}
                    }
                }
                _ => {}
            }
        }
        let given = |entry: &Entry| entry.key.starts_with("token");
        match entries.iter().filter(|entry| given(entry)).count() {
            1 => Some(Token {
                secret: secrets.pop()?,
                roles: roles?,
            }),
            _ => {
                let reason = "needs one of token, token_file and token_sha256".into();
                self.complain(path, reason, node.at);
                None
            }
        }
    }

    fn certificate(&mut self, node: &Node, path: &str) -> Option<CertificateRule> {
        let entries = self.entries(node, path, &["san", "common_name", "roles"]);
        let roles = self.roles(entries, path, node.at);
        let mut word = |key: &str| {
            let node = find(entries, key)?;
            let text = self.text(node, &format!("{path}.{key}"))?;
            Some(text.value)
        };
        let rule = match (word("san"), word("common_name")) {
            (Some(name), None) => CertificateRule::of_san(name, roles?),
            (None, Some(name)) => CertificateRule::of_common_name(name, roles?),
            _ => {
                let reason = "needs one of san and common_name".into();
                self.complain(path, reason, node.at);
                return None;
            }
        };
        Some(rule)
    }

    fn roles(&mut self, entries: &[Entry], path: &str, at: Position) -> Option<Roles> {
        let expected = format!("some of {}", Roles::WORDS.join(", "));
        let path = format!("{path}.roles");
        let Some(node) = find(entries, "roles") else {
            self.complain(&path, format!("expected {expected}"), at);
            return None;
        };
        let mut roles = Roles::NONE;
        let words = self.texts(node, &path);
        for word in &words {
            match Roles::from_word(&word.value) {
                Some(role) => roles = roles.and(role),
                None => {
                    let reason = format!("expected {expected}, found {}", quoted(&word.value));
                    self.complain(&path, reason, word.at);
                }
            }
        }
        if words.is_empty() {
            self.complain(&path, format!("expected {expected}"), node.at);
        }
        Some(roles)
    }

    /// The entries of a map with these keys; nothing at all is an empty one.
    fn entries<'n>(&mut self, node: &'n Node, path: &str, known: &[&str]) -> &'n [Entry] {
        let entries = self.any_entries(node, path);
        for entry in entries {
            if !known.contains(&entry.key.as_str()) {
                let near = nearest(&entry.key, known.iter().copied());
                let cure = match near {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("known here: {}", known.join(", ")),
                };
                let subject = match path {
                    "" => entry.key.clone(),
                    _ => format!("{path}.{}", entry.key),
                };
                let problem = Problem::new(subject, "unknown key").cure(Some(cure));
                self.problems.push(problem.at(self.path, entry.key_at));
            }
        }
        entries
    }

    fn any_entries<'n>(&mut self, node: &'n Node, path: &str) -> &'n [Entry] {
        match &node.value {
            Value::Map(entries) => entries,
            Value::Null => &[],
            Value::List(_) | Value::Scalar { .. } => {
                self.complain(path, "expected a map of keys and values".into(), node.at);
                &[]
            }
        }
    }

    fn list<'n>(&mut self, node: &'n Node, path: &str) -> &'n [Node] {
        match &node.value {
            Value::List(nodes) => nodes,
            Value::Null => &[],
            Value::Map(_) | Value::Scalar { .. } => {
                self.complain(path, "expected a list".into(), node.at);
                &[]
            }
        }
    }

    fn texts(&mut self, node: &Node, path: &str) -> Vec<Placed<String>> {
        let nodes = self.list(node, path);
        nodes
            .iter()
            .filter_map(|node| self.text(node, path))
            .collect()
    }

    /// A text; an empty one counts as not given, as it does for Prometheus.
    fn text(&mut self, node: &Node, path: &str) -> Option<Placed<String>> {
        let value = self.secret(node, path)?;
        Some(Placed { value, at: node.at })
    }

    fn secret(&mut self, node: &Node, path: &str) -> Option<String> {
        match &node.value {
            Value::Scalar { text, .. } => Some(text.clone()).filter(|text| !text.is_empty()),
            Value::Null => None,
            Value::List(_) | Value::Map(_) => {
                self.complain(path, "expected a text".into(), node.at);
                None
            }
        }
    }

    fn boolean(&mut self, node: &Node, path: &str) -> Option<bool> {
        match &node.value {
            Value::Scalar {
                text,
                quoted: false,
            } if text == "true" => Some(true),
            Value::Scalar {
                text,
                quoted: false,
            } if text == "false" => Some(false),
            Value::Null => None,
            _ => {
                self.complain(path, "expected true or false".into(), node.at);
                None
            }
        }
    }

    fn absolute(&self, path: &str) -> PathBuf {
        match self.path.parent() {
            Some(directory) => directory.join(path),
            None => path.into(),
        }
    }

    fn complain(&mut self, subject: &str, reason: String, at: Position) {
        self.problems.push(problem(self.path, subject, reason, at));
    }
}

fn find<'n>(entries: &'n [Entry], key: &str) -> Option<&'n Node> {
    let entry = entries.iter().find(|entry| entry.key == key)?;
    Some(&entry.node)
}

/// The digest of a token, if that is long enough.
pub(super) fn token_digest(token: &str) -> Result<Digest, String> {
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
