//! YAML out of values.
//!
//! Holds always: what is written reads back as the same values.

use std::fmt::Write as _;
use std::time::Duration;

use crate::duration;
use crate::secret::SECRET_PLACEHOLDER;

/// A value of a configuration file.
pub enum Tree {
    Text(String),
    List(Vec<Tree>),
    Map(Map),
}

/// A map of a configuration file, in the order in which it is written.
#[derive(Default)]
pub struct Map(Vec<(String, Tree)>);

impl Map {
    /// The map as a whole file.
    pub fn into_text(self) -> String {
        let mut text = String::new();
        write_map(&mut text, &self, 0, false);
        text
    }

    pub fn put(&mut self, key: &str, tree: Tree) {
        self.0.push((key.into(), tree));
    }

    pub fn text(&mut self, key: &str, text: impl Into<String>) {
        self.put(key, Tree::Text(text.into()));
    }

    pub fn text_if(&mut self, key: &str, text: Option<impl Into<String>>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    pub fn duration(&mut self, key: &str, duration: &Duration) {
        self.text(key, duration::show(duration));
    }

    pub fn boolean(&mut self, key: &str, value: bool) {
        self.text(key, if value { "true" } else { "false" });
    }

    pub fn list(&mut self, key: &str, texts: impl Iterator<Item = String>) {
        let list: Vec<_> = texts.map(Tree::Text).collect();
        if !list.is_empty() {
            self.put(key, Tree::List(list));
        }
    }

    pub fn map(&mut self, key: &str, map: Map) {
        if !map.0.is_empty() {
            self.put(key, Tree::Map(map));
        }
    }

    pub fn maps(&mut self, key: &str, maps: impl Iterator<Item = Map>) {
        let list: Vec<_> = maps.map(Tree::Map).collect();
        if !list.is_empty() {
            self.put(key, Tree::List(list));
        }
    }
}

fn write_map(out: &mut String, map: &Map, indent: usize, first_is_placed: bool) {
    for (index, (key, tree)) in map.0.iter().enumerate() {
        if index > 0 || !first_is_placed {
            out.extend(std::iter::repeat_n(' ', indent));
        }
        out.push_str(&yaml_text(key));
        out.push(':');
        match tree {
            Tree::Text(text) => {
                let _ = writeln!(out, " {}", yaml_text(text));
            }
            Tree::List(list) if list.is_empty() => out.push_str(" []\n"),
            Tree::Map(map) if map.0.is_empty() => out.push_str(" {}\n"),
            Tree::List(list) => {
                out.push('\n');
                write_list(out, list, indent);
            }
            Tree::Map(map) => {
                out.push('\n');
                write_map(out, map, indent + 2, false);
            }
        }
    }
}

fn write_list(out: &mut String, list: &[Tree], indent: usize) {
    for tree in list {
        out.extend(std::iter::repeat_n(' ', indent));
        out.push_str("- ");
        match tree {
            Tree::Text(text) => {
                let _ = writeln!(out, "{}", yaml_text(text));
            }
            Tree::Map(map) if map.0.is_empty() => out.push_str("{}\n"),
            Tree::Map(map) => write_map(out, map, indent + 2, true),
            // No list of lists exists in these files.
            Tree::List(_) => out.push_str("[]\n"),
        }
    }
}

/// A URL may carry credentials (`https://user:password@host`), which must not be shown.
pub fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.into();
    };
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, ""),
    };
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{SECRET_PLACEHOLDER}@{host}{path}"),
        None => text.into(),
    }
}

/// A YAML scalar that reads back as this text: plain where nothing in it could be misread.
pub fn yaml_text(text: &str) -> String {
    let plain_char =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_' | '-' | ':');
    let plain = text.chars().all(plain_char)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/'))
        && !text.ends_with(':')
        && !text.eq_ignore_ascii_case("null")
        && !text.starts_with("...");
    if plain {
        return text.into();
    }
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            ' '..='~' => quoted.push(c),
            _ => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(c));
            }
        }
    }
    quoted.push('"');
    quoted
}
