//! YAML out of a document.
//!
//! Holds always: texts that could be read as another type are in quotes, which makes them JSON.

use icecore_wire::prometheus::api_json::write_string;

/// A part of a document.
#[derive(Clone, Debug)]
pub(super) enum Yaml {
    Text(String),
    Bool(bool),
    List(Vec<Yaml>),
    /// In the order in which it is written.
    Map(Vec<(String, Yaml)>),
}

impl Yaml {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn map<K: Into<String>>(entries: impl IntoIterator<Item = (K, Yaml)>) -> Self {
        let entries = entries.into_iter();
        Self::Map(entries.map(|(key, value)| (key.into(), value)).collect())
    }

    pub(super) fn texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        Self::List(texts.into_iter().map(Self::text).collect())
    }

    /// A map of one key whose value names another place of the document.
    pub(super) fn reference(place: &str) -> Self {
        Self::map([("$ref", Self::text(place))])
    }

    /// The document as a file.
    pub(super) fn into_file(self) -> String {
        let mut out = String::new();
        self.write(&mut out, 0);
        out
    }

    fn is_block(&self) -> bool {
        match self {
            Self::Text(_) | Self::Bool(_) => false,
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
        }
    }

    /// Writes a block whose first line is indented already.
    fn write(&self, out: &mut String, indent: usize) {
        match self {
            Self::List(list) if !list.is_empty() => {
                for (i, item) in list.iter().enumerate() {
                    begin_line(out, i, indent);
                    out.push_str("- ");
                    item.write(out, indent + 2);
                }
            }
            Self::Map(map) if !map.is_empty() => {
                for (i, (key, value)) in map.iter().enumerate() {
                    begin_line(out, i, indent);
                    push_scalar(out, key);
                    out.push(':');
                    if value.is_block() {
                        out.push('\n');
                        out.extend(std::iter::repeat_n(' ', indent + 2));
                        value.write(out, indent + 2);
                    } else {
                        out.push(' ');
                        value.write(out, indent + 2);
                    }
                }
            }
            Self::List(_) => out.push_str("[]\n"),
            Self::Map(_) => out.push_str("{}\n"),
            Self::Bool(value) => out.push_str(if *value { "true\n" } else { "false\n" }),
            Self::Text(text) => {
                push_scalar(out, text);
                out.push('\n');
            }
        }
    }
}

fn begin_line(out: &mut String, line: usize, indent: usize) {
    if line > 0 {
        out.extend(std::iter::repeat_n(' ', indent));
    }
}

fn push_scalar(out: &mut String, text: &str) {
    /// Words that YAML reads as something else than text.
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ' ');
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(is_plain)
        && !text.ends_with(' ')
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if is_word {
        out.push_str(text);
        return;
    }
    let mut quoted = Vec::new();
    write_string(&mut quoted, text);
    out.push_str(&String::from_utf8_lossy(&quoted));
}

#[cfg(test)]
mod tests {
    use icecore_settings::yaml::parse;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let inner = Yaml::map([
            ("a", Yaml::text("x: y # z")),
            ("200", Yaml::List(vec![Yaml::text("no"), Yaml::Bool(true)])),
            ("/b/{c}", Yaml::List(Vec::new())),
            ("d", Yaml::Map(Vec::new())),
        ]);
        let document = Yaml::map([
            ("list", Yaml::List(vec![inner.clone(), inner])),
            ("last", Yaml::texts(["1", "true"])),
        ]);
        let expected = "list:
  - a: \"x: y # z\"
    \"200\":
      - \"no\"
      - true
    \"/b/{c}\": []
    d: {}
  - a: \"x: y # z\"
    \"200\":
      - \"no\"
      - true
    \"/b/{c}\": []
    d: {}
last:
  - \"1\"
  - \"true\"
";
        let text = document.into_file();
        assert_eq!(text, expected);
        parse(&text).unwrap();
    }
}
