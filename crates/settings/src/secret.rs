//! Secrets, which are never shown, and URLs and names that may hold some.

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

/// Parts of names whose values are secrets, without case and punctuation.
const SECRET_PARTS: [&str; 11] = [
    "authorization",
    "authtoken",
    "cookie",
    "credential",
    "passphrase",
    "passwd",
    "password",
    "secret",
    "session",
    "signature",
    "token",
];

/// Endings of such names: `apikey`, `api_key`, `X-Api-Key`, `subscription-key`, `key`.
const SECRET_ENDING: &str = "key";

/// Whole names that are too short to be looked for in others. `code` and `sig` are Azure's.
const SECRET_NAMES: [&str; 9] = [
    "auth", "bearer", "code", "jwt", "pass", "pw", "pwd", "sas", "sig",
];

/// Returns `true` for a name of a parameter or header whose value is most likely a secret. A value
/// that is hidden without need costs a look into the file; one that is shown costs a new secret.
pub fn is_secret_name(name: &str) -> bool {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let name: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    name.ends_with(SECRET_ENDING)
        || SECRET_NAMES.contains(&name.as_str())
        || SECRET_PARTS.iter().any(|part| name.contains(part))
}

/// Returns a URL as it may be shown: without credentials (`https://user:password@host`) and without
/// the values of parameters that [`is_secret_name`] names. Other text stays as it is.
pub fn without_secrets(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.into();
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let rest = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{SECRET_PLACEHOLDER}@{host}{path}"),
        None => rest.to_owned(),
    };
    let Some((before, query)) = rest.split_once('?') else {
        return format!("{scheme}://{rest}");
    };
    let (query, fragment) = query.split_at(query.find('#').unwrap_or(query.len()));
    let parameters: Vec<String> = query.split('&').map(shown_parameter).collect();
    format!("{scheme}://{before}?{}{fragment}", parameters.join("&"))
}

fn shown_parameter(parameter: &str) -> String {
    match parameter.split_once('=') {
        Some((name, value)) if !value.is_empty() && is_secret_name(&unescaped(name)) => {
            format!("{name}={SECRET_PLACEHOLDER}")
        }
        _ => parameter.into(),
    }
}

/// The name of a parameter without percent-encoding.
fn unescaped(name: &str) -> String {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let escaped = match (first, after) {
            (b'%', [high, low, tail @ ..]) => digit(*high).zip(digit(*low)).map(|of| (of, tail)),
            _ => None,
        };
        match escaped {
            Some(((high, low), tail)) => {
                bytes.extend(u8::try_from(high << 4 | low));
                rest = tail;
            }
            None => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(_) => f.write_str(SECRET_PLACEHOLDER),
            Self::File(path) => write!(f, "File({path:?})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets() {
        for name in [
            "apikey",
            "api_key",
            "API-Key",
            "X-Api-Key",
            "key",
            "access_token",
            "auth_token",
            "auth",
            "client.secret",
            "Password",
            "X-Amz-Credential",
            "X-Amz-Signature",
            "sig",
            "code",
            "Cookie",
            "X-Session",
            "PHPSESSIONID",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "", "module", "target", "match[]", "author", "design", "keyspace", "passive", "encode",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn urls_are_shown_without_secrets() {
        for (url, shown) in [
            ("http://a/b", "http://a/b"),
            ("http://a:1", "http://a:1"),
            ("no url?key=x", "no url?key=x"),
            ("/a/path@b", "/a/path@b"),
            ("http://u:p@a/b@c", "http://<secret>@a/b@c"),
            ("http://u:p@x@a", "http://<secret>@a"),
            ("http://a/b?apikey=x", "http://a/b?apikey=<secret>"),
            ("http://a?apikey=x/y", "http://a?apikey=<secret>"),
            (
                "http://u:p@a/b?env=x&api%5Fkey=y&%74oken=z&key&key=#top",
                "http://<secret>@a/b?env=x&api%5Fkey=<secret>&%74oken=<secret>&key&key=#top",
            ),
            ("http://a/?%=x&%4=y&%zz=z", "http://a/?%=x&%4=y&%zz=z"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }
}
