//! How a client speaks HTTP, as it is written: credentials, TLS, proxies, headers. The keys lie
//! beside the others of a scrape configuration or of `http_sd_configs`.

use reqwest::Url;

use super::shown::refuse_placeholder;
use super::{
    Credentials, HeaderConfig, HttpClientConfig, ProxyConfig, Secret, TlsClientConfig, TlsVersion,
};
use icecore_settings::keys::{Flag, FlagIfTrue, Key, OptionalText, read_keys};
use icecore_settings::yaml::{Entry, Value};
use icecore_settings::{Fields, SourceFile, key, texts_of};

/// The way around secret managers, which are not supported.
const NO_SECRET_MANAGER: &str = "give the secret or a file that holds it";

const NO_OAUTH2: &str = "use basic_auth or authorization, or a proxy that adds the token";

const NO_OLD_TLS: &str = "use TLS12 or TLS13, as older versions are not secure";

const NO_OTHER_PROXY: &str = "use a proxy with http, https or socks5";

const SCRAPE_TIMEOUT: &str = "x-prometheus-scrape-timeout-seconds";

/// Headers that the client sets itself, or that have a key of their own.
const RESERVED_HEADERS: [&str; 18] = [
    "authorization",
    "host",
    "content-encoding",
    "content-length",
    "content-type",
    "user-agent",
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "www-authenticate",
    "accept-encoding",
    "x-prometheus-remote-write-version",
    "x-prometheus-remote-read-version",
    SCRAPE_TIMEOUT,
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-content-sha256",
];

/// Returns `true` for headers that remote storage and tracing must not set.
pub(super) fn is_reserved(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    header != SCRAPE_TIMEOUT && RESERVED_HEADERS.contains(&header.as_str())
}

pub(super) const CLIENT_KEYS: [Key<HttpClientConfig>; 2] = [
    key!("follow_redirects", Flag, follow_redirects),
    key!("enable_http2", Flag, enable_http2),
];

pub(super) const TLS_KEYS: [Key<TlsClientConfig>; 2] = [
    key!("server_name", OptionalText, server_name),
    key!("insecure_skip_verify", FlagIfTrue, insecure_skip_verify),
];

pub(super) const PROXY_KEYS: [Key<ProxyConfig>; 2] = [
    key!("no_proxy", OptionalText, no_proxy),
    key!("proxy_from_environment", FlagIfTrue, from_environment),
];

/// Reads the keys of a client. Parts that are not supported are recorded without their effect: the
/// caller knows what cannot be reached without them.
pub(super) fn read(fields: &mut Fields<'_>) -> HttpClientConfig {
    let mut config = HttpClientConfig {
        credentials: credentials(fields),
        tls: fields.map("tls_config").map(tls).unwrap_or_default(),
        proxy: proxy(fields),
        headers: headers(fields),
        ..HttpClientConfig::default()
    };
    read_keys(&CLIENT_KEYS, fields, &mut config);
    config
}

fn credentials(fields: &mut Fields<'_>) -> Option<Credentials> {
    fields.unsupported("oauth2", "", NO_OAUTH2);
    if let Some(oauth2) = fields.map("oauth2") {
        check_oauth2(oauth2);
    }
    let ways = ["basic_auth", "authorization", "oauth2"];
    let bearer = ["bearer_token", "bearer_token_file"];
    let mut given = ways.into_iter().filter(|key| fields.has(key)).count();
    given += usize::from(bearer.iter().any(|key| fields.has(key)));
    if given > 1 {
        let reason = "at most one of basic_auth, authorization and bearer_token may be given";
        let mut there = ways.into_iter().chain(bearer).filter(|key| fields.has(key));
        let last = there.next_back().unwrap_or_default();
        fields.report(last, reason);
    }
    let basic = fields.map("basic_auth").map(basic);
    let authorization = fields.map("authorization").and_then(authorization);
    let token = fields.secret_or_file("bearer_token", "bearer_token_file");
    let token = token
        .filter(is_there)
        .map(|credentials| Credentials::Header {
            kind: "Bearer".into(),
            credentials,
        });
    basic.or(authorization).or(token)
}

fn is_there(secret: &Secret) -> bool {
    !matches!(secret, Secret::Inline(text) if text.is_empty())
}

fn basic(mut fields: Fields<'_>) -> Credentials {
    let username = fields.secret_or_file("username", "username_file");
    let password = fields.secret_or_file("password", "password_file");
    secret_reference(&mut fields, "username_ref", ["username", "username_file"]);
    secret_reference(&mut fields, "password_ref", ["password", "password_file"]);
    fields.finish();
    Credentials::Basic {
        username: username.unwrap_or(Secret::Inline(String::new())),
        password: password.unwrap_or(Secret::Inline(String::new())),
    }
}

fn authorization(mut fields: Fields<'_>) -> Option<Credentials> {
    let kind = fields.text("type").map(|kind| kind.trim().to_owned());
    let kind = kind.filter(|kind| !kind.is_empty());
    let kind = kind.unwrap_or("Bearer".into());
    if kind.eq_ignore_ascii_case("basic") {
        fields.report("type", "cannot be basic; use basic_auth");
    } else if !is_token(&kind) {
        fields.report("type", format!("{kind:?} is no word"));
    }
    let credentials = fields.secret_or_file("credentials", "credentials_file");
    secret_reference(
        &mut fields,
        "credentials_ref",
        ["credentials", "credentials_file"],
    );
    fields.finish();
    let credentials = credentials.filter(is_there)?;
    Some(Credentials::Header { kind, credentials })
}

/// Reads a key that names a secret of a secret manager, beside two other ways to give it.
fn secret_reference(fields: &mut Fields<'_>, key: &'static str, others: [&str; 2]) {
    fields.unsupported(key, "", NO_SECRET_MANAGER);
    if fields.has(key)
        && let Some(other) = others.into_iter().find(|other| fields.has(other))
    {
        let reason = format!("{other} is given as well; one of them is enough");
        fields.report(key, reason);
    }
}

/// Checks OAuth 2 as Prometheus does. It is not supported.
fn check_oauth2(mut fields: Fields<'_>) {
    let source = fields.source;
    let before = source.unsupported_count();
    for key in ["client_id", "token_url"] {
        if fields.text(key).is_none_or(|text| text.is_empty()) {
            fields.report(key, "is missing");
        }
    }
    fields.secret_or_file("client_secret", "client_secret_file");
    secret_reference(
        &mut fields,
        "client_secret_ref",
        ["client_secret", "client_secret_file"],
    );
    fields.secret_or_file("client_certificate_key", "client_certificate_key_file");
    secret_reference(
        &mut fields,
        "client_certificate_key_ref",
        ["client_certificate_key", "client_certificate_key_file"],
    );
    for key in ["client_certificate_key_id", "grant_type", "iss", "audience"] {
        fields.text(key);
    }
    fields.parsed("signature_algorithm", |text| match text {
        "" | "RS256" | "RS384" | "RS512" => Ok(()),
        _ => Err("RS256, RS384 or RS512".into()),
    });
    fields.free_map("claims");
    fields.texts("scopes");
    fields.text_map("endpoint_params");
    if let Some(config) = fields.map("tls_config") {
        tls(config);
    }
    proxy(&mut fields);
    fields.finish();
    // It is unsupported as a whole.
    source.take_unsupported(before);
}

/// A token of HTTP: what a header's name or an authorization scheme may be.
fn is_token(text: &str) -> bool {
    let is_token_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token_byte)
}

pub(super) fn tls(mut fields: Fields<'_>) -> TlsClientConfig {
    let least = fields.parsed("min_version", version);
    let most = fields.parsed("max_version", version);
    let mut config = TlsClientConfig {
        ca: fields.secret_or_file("ca", "ca_file").filter(is_there),
        cert: fields.secret_or_file("cert", "cert_file").filter(is_there),
        key: fields.secret_or_file("key", "key_file").filter(is_there),
        min_version: least.and_then(TlsNumber::supported),
        max_version: most.and_then(TlsNumber::supported),
        ..TlsClientConfig::default()
    };
    read_keys(&TLS_KEYS, &mut fields, &mut config);
    secret_reference(&mut fields, "ca_ref", ["ca", "ca_file"]);
    secret_reference(&mut fields, "cert_ref", ["cert", "cert_file"]);
    secret_reference(&mut fields, "key_ref", ["key", "key_file"]);
    let has_cert = config.cert.is_some() || fields.has("cert_ref");
    let has_key = config.key.is_some() || fields.has("key_ref");
    if has_cert && !has_key {
        fields.report("key", "a certificate needs its key: key or key_file");
    } else if has_key && !has_cert {
        fields.report("cert", "a key needs its certificate: cert or cert_file");
    }
    if most.is_some_and(|most| least.is_some_and(|least| least > most)) {
        fields.report("max_version", "must not be below min_version");
    } else if most.is_some_and(|most| most.supported().is_none()) {
        fields.unsupported("max_version", "", NO_OLD_TLS);
    }
    fields.finish();
    config
}

/// A version of TLS as it is written, in tenths: 12 is `TLS12`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TlsNumber(u8);

impl TlsNumber {
    /// Returns the version if it is spoken. Allowing older ones beside it changes nothing.
    fn supported(self) -> Option<TlsVersion> {
        match self.0 {
            12 => Some(TlsVersion::Tls12),
            13 => Some(TlsVersion::Tls13),
            _ => None,
        }
    }
}

fn version(text: &str) -> Result<TlsNumber, String> {
    match text {
        "TLS10" => Ok(TlsNumber(10)),
        "TLS11" => Ok(TlsNumber(11)),
        "TLS12" => Ok(TlsNumber(12)),
        "TLS13" => Ok(TlsNumber(13)),
        _ => Err("one of TLS10, TLS11, TLS12, TLS13".into()),
    }
}

fn proxy(fields: &mut Fields<'_>) -> ProxyConfig {
    let url = fields.text("proxy_url").filter(|url| !url.is_empty());
    // The URL may hold a password, so it is not repeated.
    match &url {
        Some(url) if Url::parse(url).is_err() => {
            fields.report("proxy_url", "expected a URL with http, https or socks5");
        }
        Some(url) if !is_url(url, &["http", "https", "socks5", "socks5h"]) => {
            fields.unsupported("proxy_url", "", NO_OTHER_PROXY);
        }
        _ => {}
    }
    let mut config = ProxyConfig {
        url,
        connect_headers: connect_headers(fields),
        ..ProxyConfig::default()
    };
    read_keys(&PROXY_KEYS, fields, &mut config);
    let has_proxy = config.url.is_some() || config.from_environment;
    if config.from_environment && config.url.is_some() {
        fields.report("proxy_from_environment", "proxy_url must not be given then");
    }
    if config.from_environment && config.no_proxy.is_some() {
        fields.report("proxy_from_environment", "no_proxy must not be given then");
    } else if config.no_proxy.is_some() && config.url.is_none() {
        fields.report("no_proxy", "needs proxy_url");
    }
    if !config.connect_headers.is_empty() && !has_proxy {
        let reason = "needs proxy_url or proxy_from_environment";
        fields.report("proxy_connect_header", reason);
    }
    config
}

/// Whether a text is a URL with a host and one of these schemes.
pub(super) fn is_url(text: &str, schemes: &[&str]) -> bool {
    Url::parse(text).is_ok_and(|url| schemes.contains(&url.scheme()) && url.has_host())
}

fn connect_headers(fields: &mut Fields<'_>) -> Vec<(String, Vec<Secret>)> {
    const KEY: &str = "proxy_connect_header";
    let path = fields.path_of(KEY);
    let mut headers = Vec::new();
    for entry in fields.free_map(KEY) {
        let name = header_name(entry, &path, &[], fields.source);
        let values = match &entry.node.value {
            Value::List(nodes) => nodes.as_slice(),
            _ => {
                let subject = format!("{path}.{}", entry.key);
                let reason = "expected a list of values";
                fields.source.report(entry.node.at, &subject, reason);
                continue;
            }
        };
        let values = texts_of(values, &format!("{path}.{}", entry.key), fields.source);
        headers.push((name, values.into_iter().map(Secret::Inline).collect()));
    }
    headers
}

fn headers(fields: &mut Fields<'_>) -> Vec<HeaderConfig> {
    const KEY: &str = "http_headers";
    let path = fields.path_of(KEY);
    let mut headers = Vec::new();
    for entry in fields.free_map(KEY) {
        let name = header_name(entry, &path, &RESERVED_HEADERS, fields.source);
        let mut header = Fields::of(&entry.node, format!("{path}.{}", entry.key), fields.source);
        let values = header.texts("values");
        refuse_placeholder(&header, "values", &values);
        let given = secret_texts(&mut header);
        let files = header.texts("files");
        let files = files
            .iter()
            .map(|path| Secret::File(fields.source.path(path)));
        headers.push(HeaderConfig {
            name,
            values,
            secrets: given.into_iter().chain(files).collect(),
        });
        header.finish();
    }
    headers
}

/// `secrets` of a header: none of them is repeated by a message, not even one of the wrong type.
fn secret_texts(header: &mut Fields<'_>) -> Vec<Secret> {
    let mut secrets = Vec::new();
    for node in header.list("secrets") {
        match &node.value {
            Value::Scalar { text, .. } => secrets.push(Secret::Inline(text.clone())),
            _ => header.report("secrets", "expected a list of text"),
        }
    }
    secrets
}

fn header_name(entry: &Entry, path: &str, reserved: &[&str], source: &SourceFile<'_>) -> String {
    let subject = format!("{path}.{}", entry.key);
    let lower = entry.key.to_ascii_lowercase();
    if !is_token(&entry.key) {
        source.report(entry.key_at, &subject, "is no name of a header");
    } else if reserved.contains(&lower.as_str()) {
        source.report(entry.key_at, &subject, "this header must not be set here");
    }
    entry.key.clone()
}
