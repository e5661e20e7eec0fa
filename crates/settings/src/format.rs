//! How each kind of setting is read from text and shown again.
//!
//! File, environment and flags all arrive here as text, so that a value means the same wherever it
//! was written. Holds always: `parse(show(x)) == x`, and a [`SecretText`] is never shown.

use std::fmt;
use std::time::Duration;

use crate::secret::SECRET_PLACEHOLDER;
use crate::text::{BadValue, whole_number};
use crate::{duration, size};

/// What a setting holds; decides the documentation's type column and the placeholder in `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Duration,
    /// A duration, or `auto` where the right one depends on the rest of the configuration.
    AutoDuration,
    Size,
    /// A size, or `auto` where the right one depends on the machine.
    AutoSize,
    Integer,
    Bool,
    Text,
    /// A directory or the URL of a store.
    Location,
    /// `HOST:PORT`.
    Address,
    /// `HOST:PORT`, or `off`.
    OptionalAddress,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Words, as a list in the file and separated by commas elsewhere.
    Names,
    /// Text that is never shown.
    Secret,
    /// A map in the file, which elsewhere is one line of YAML, or one of these words.
    Map(&'static [&'static str]),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duration => f.write_str("duration"),
            Self::AutoDuration => f.write_str("duration or auto"),
            Self::Size => f.write_str("size"),
            Self::AutoSize => f.write_str("size or auto"),
            Self::Integer => f.write_str("number"),
            Self::Bool => f.write_str("true or false"),
            Self::Text => f.write_str("text"),
            Self::Location => f.write_str("path or URL"),
            Self::Address => f.write_str("address:port"),
            Self::OptionalAddress => f.write_str("address:port or off"),
            Self::Choice(words) => f.write_str(&words.join(" or ")),
            Self::Names => f.write_str("names"),
            Self::Secret => f.write_str("secret"),
            Self::Map(words) => write!(f, "{} or map", words.join(" or ")),
        }
    }
}

/// Text form of one kind of value. `bounds` in the registry are written in the same form.
pub trait Format {
    type Native;
    const KIND: Kind;

    fn parse(text: &str) -> Result<Self::Native, BadValue>;
    fn show(value: &Self::Native) -> String;
}

/// Reads a value and holds it against the setting's bounds; an empty bound is none.
pub fn parse_within<F: Format>(
    text: &str,
    (least, most): (&str, &str),
) -> Result<F::Native, BadValue>
where
    F::Native: PartialOrd,
{
    let value = F::parse(text)?;
    // What is chosen later has no bounds now.
    if text == AUTO {
        return Ok(value);
    }
    let bound = |text: &str| (!text.is_empty()).then(|| F::parse(text)).transpose();
    if bound(least)?.is_some_and(|least| value < least) {
        return Err(BadValue::expected(format!("at least {least}")));
    }
    if bound(most)?.is_some_and(|most| value > most) {
        return Err(BadValue::expected(format!("at most {most}")));
    }
    Ok(value)
}

pub struct Time;
pub struct AutoTime;
pub struct Size;
pub struct AutoSize;
pub struct Integer;
pub struct Bool;
pub struct Text;
pub struct Location;
pub struct Names;
pub struct SecretText;
pub struct Address;
pub struct OptionalAddress;

/// In place of a value: the one that fits the machine or the rest of the configuration.
const AUTO: &str = "auto";

/// In place of an address: there is none.
const OFF: &str = "off";

pub struct OneOf<C>(std::marker::PhantomData<C>);

impl Format for Time {
    type Native = Duration;
    const KIND: Kind = Kind::Duration;

    fn parse(text: &str) -> Result<Duration, BadValue> {
        duration::parse(text)
    }

    fn show(value: &Duration) -> String {
        duration::show(value)
    }
}

impl Format for AutoTime {
    type Native = Option<Duration>;
    const KIND: Kind = Kind::AutoDuration;

    fn parse(text: &str) -> Result<Option<Duration>, BadValue> {
        match text {
            AUTO => Ok(None),
            _ => duration::parse(text)
                .map(Some)
                .map_err(|bad| BadValue::expected(format!("auto or {}", bad.expected))),
        }
    }

    fn show(value: &Option<Duration>) -> String {
        value.as_ref().map_or_else(|| AUTO.into(), duration::show)
    }
}

impl Format for Size {
    type Native = usize;
    const KIND: Kind = Kind::Size;

    fn parse(text: &str) -> Result<usize, BadValue> {
        size::parse(text)
    }

    fn show(value: &usize) -> String {
        size::show(value)
    }
}

impl Format for AutoSize {
    type Native = Option<usize>;
    const KIND: Kind = Kind::AutoSize;

    fn parse(text: &str) -> Result<Option<usize>, BadValue> {
        match text {
            AUTO => Ok(None),
            _ => size::parse(text)
                .map(Some)
                .map_err(|bad| BadValue::expected(format!("auto or {}", bad.expected))),
        }
    }

    fn show(value: &Option<usize>) -> String {
        value.as_ref().map_or_else(|| AUTO.into(), size::show)
    }
}

impl Format for Integer {
    type Native = usize;
    const KIND: Kind = Kind::Integer;

    fn parse(text: &str) -> Result<usize, BadValue> {
        whole_number(text)
            .and_then(|number| usize::try_from(number).ok())
            .ok_or_else(|| BadValue::expected("a whole number"))
    }

    fn show(value: &usize) -> String {
        value.to_string()
    }
}

impl Format for Bool {
    type Native = bool;
    const KIND: Kind = Kind::Bool;

    fn parse(text: &str) -> Result<bool, BadValue> {
        match text {
            "true" => Ok(true),
            "false" => Ok(false),
            // `yes` and `on` are booleans in YAML 1.1 and words in 1.2: refusing them is clearer.
            _ => Err(BadValue::expected("true or false")),
        }
    }

    fn show(value: &bool) -> String {
        value.to_string()
    }
}

impl Format for Text {
    type Native = String;
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Result<String, BadValue> {
        Ok(text.into())
    }

    fn show(value: &String) -> String {
        value.clone()
    }
}

impl Format for Names {
    type Native = Vec<String>;
    const KIND: Kind = Kind::Names;

    fn parse(text: &str) -> Result<Vec<String>, BadValue> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let names = text.split(',').map(str::trim).map(Into::into);
        let names: Vec<String> = names.collect();
        if names.iter().any(String::is_empty) {
            return Err(BadValue::expected("names, none of them empty"));
        }
        Ok(names)
    }

    fn show(value: &Vec<String>) -> String {
        value.join(",")
    }
}

impl Format for Location {
    type Native = String;
    const KIND: Kind = Kind::Location;

    fn parse(text: &str) -> Result<String, BadValue> {
        if text.is_empty() {
            return Err(BadValue::expected("a path or a URL"));
        }
        Ok(text.into())
    }

    fn show(value: &String) -> String {
        value.clone()
    }
}

impl Format for SecretText {
    type Native = String;
    const KIND: Kind = Kind::Secret;

    fn parse(text: &str) -> Result<String, BadValue> {
        if text == SECRET_PLACEHOLDER {
            return Err(BadValue::expected(
                "the secret itself, not the placeholder that is printed for it",
            ));
        }
        Ok(text.into())
    }

    fn show(value: &String) -> String {
        if value.is_empty() {
            String::new()
        } else {
            SECRET_PLACEHOLDER.into()
        }
    }
}

/// Where a server listens: a host name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListenAddress {
    /// As `TcpListener::bind((host, port))` takes it: IPv6 addresses without brackets.
    pub host: String,
    /// 0 lets the operating system choose.
    pub port: u16,
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Format for OptionalAddress {
    type Native = Option<ListenAddress>;
    const KIND: Kind = Kind::OptionalAddress;

    fn parse(text: &str) -> Result<Option<ListenAddress>, BadValue> {
        match text {
            OFF => Ok(None),
            _ => Address::parse(text)
                .map(Some)
                .map_err(|bad| BadValue::expected(format!("{OFF} or {}", bad.expected))),
        }
    }

    fn show(value: &Option<ListenAddress>) -> String {
        value
            .as_ref()
            .map_or_else(|| OFF.into(), ListenAddress::to_string)
    }
}

impl Format for Address {
    type Native = ListenAddress;
    const KIND: Kind = Kind::Address;

    fn parse(text: &str) -> Result<ListenAddress, BadValue> {
        let malformed =
            || BadValue::expected("ADDRESS:PORT such as 127.0.0.1:9090, [::1]:9090 or :9090");
        let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
        let port = whole_number(port)
            .and_then(|port| u16::try_from(port).ok())
            .ok_or_else(malformed)?;
        let in_brackets = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = match in_brackets {
            Some(v6) if v6.parse::<std::net::Ipv6Addr>().is_ok() => v6,
            // `:9090` means every interface, as it does for Prometheus.
            None if host.is_empty() => "0.0.0.0",
            None if host.bytes().all(is_host_name_byte) => host,
            _ => return Err(malformed()),
        };
        Ok(ListenAddress {
            host: host.into(),
            port,
        })
    }

    fn show(value: &ListenAddress) -> String {
        value.to_string()
    }
}

fn is_host_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')
}

/// An enumeration and the words for it. Implemented by [`choice!`](crate::choice).
pub trait Choice {
    /// The enumeration itself, unless that belongs to another crate.
    type Value: Copy + PartialEq + 'static;
    const WORDS: &'static [&'static str];
    /// In the order of `WORDS`.
    const VALUES: &'static [Self::Value];

    fn word(value: Self::Value) -> &'static str {
        std::iter::zip(Self::WORDS, Self::VALUES)
            .find_map(|(word, choice)| (*choice == value).then_some(*word))
            .unwrap_or_default()
    }

    /// The value of a word, or what was expected.
    fn parse_word(text: &str) -> Result<Self::Value, String> {
        std::iter::zip(Self::WORDS, Self::VALUES)
            .find_map(|(word, value)| (*word == text).then_some(*value))
            .ok_or_else(|| match Self::WORDS {
                [one, other] => format!("{one} or {other}"),
                words => format!("one of {}", words.join(", ")),
            })
    }
}

/// The words for the variants of an enumeration; `Words for Enumeration` where that belongs to
/// another crate.
#[macro_export]
macro_rules! choice {
    ($words:ident for $value:ident { $($word:literal => $variant:ident),+ $(,)? }) => {
        impl $crate::Choice for $words {
            type Value = $value;
            const WORDS: &'static [&'static str] = &[$($word),+];
            const VALUES: &'static [$value] = &[$($value::$variant),+];
        }
    };
    ($value:ident $variants:tt) => {
        $crate::choice!($value for $value $variants);
    };
}

impl<C: Choice> Format for OneOf<C> {
    type Native = C::Value;
    const KIND: Kind = Kind::Choice(C::WORDS);

    fn parse(text: &str) -> Result<C::Value, BadValue> {
        C::parse_word(text).map_err(BadValue::expected)
    }

    fn show(value: &C::Value) -> String {
        C::word(*value).into()
    }
}
