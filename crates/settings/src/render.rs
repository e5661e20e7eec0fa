//! YAML out of values.
//!
//! Holds always: what is written reads back as the same values.

use std::fmt::Write as _;
use std::time::Duration;

use crate::duration;

/// A value of a configuration file.
#[derive(Clone, Debug)]
pub enum Tree {
    Text(String),
    List(Vec<Tree>),
    Map(Map),
}

/// A map of a configuration file, in the order in which it is written.
#[derive(Clone, Debug, Default)]
pub struct Map(Vec<(String, Tree)>);

impl Map {
    /// The map as a whole file.
    pub fn into_text(self) -> String {
        let mut text = String::new();
        write_map(&mut text, &self, 0, false);
        text
    }

    /// The map within a file, every line indented.
    pub(crate) fn into_indented_text(self, indent: usize) -> String {
        let mut text = String::new();
        write_map(&mut text, &self, indent, false);
        text
    }

    /// The map in one line: `{a: b, c: [d, e]}`.
    pub fn into_line(self) -> String {
        let mut line = String::new();
        write_flow(&mut line, &Tree::Map(self));
        line
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

fn write_flow(out: &mut String, tree: &Tree) {
    match tree {
        Tree::Text(text) => out.push_str(&yaml_text(text)),
        Tree::List(list) => {
            out.push('[');
            for (index, tree) in list.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_flow(out, tree);
            }
            out.push(']');
        }
        Tree::Map(map) => {
            out.push('{');
            for (index, (key, tree)) in map.0.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                out.push_str(&yaml_text(key));
                out.push_str(": ");
                write_flow(out, tree);
            }
            out.push('}');
        }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::yaml::{self, Node, Value};

    fn any_tree() -> impl Strategy<Value = Tree> {
        let text = "\\PC{0,8}|[ -~]{0,8}|[\\[\\]{}:,#]{1,3}|null|~|0|true";
        let leaf = text.prop_map(Tree::Text);
        leaf.prop_recursive(3, 16, 4, |inner| {
            let maps = proptest::collection::btree_map("[a-z :,]{1,4}", inner, 1..4);
            maps.prop_map(|maps| {
                let mut map = Map::default();
                for (key, tree) in maps {
                    map.put(&key, tree);
                }
                // Lists of texts and of maps are what there is.
                Tree::List(vec![Tree::Map(map), Tree::Text("x".into())])
            })
        })
    }

    fn is_same(tree: &Tree, node: &Node) -> bool {
        match (tree, &node.value) {
            (Tree::Text(text), Value::Scalar { text: found, .. }) => text == found,
            (Tree::List(trees), Value::List(nodes)) => {
                trees.len() == nodes.len()
                    && std::iter::zip(trees, nodes).all(|(tree, node)| is_same(tree, node))
            }
            (Tree::Map(map), Value::Map(entries)) => {
                map.0.len() == entries.len()
                    && std::iter::zip(&map.0, entries)
                        .all(|((key, tree), entry)| *key == entry.key && is_same(tree, &entry.node))
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn written_maps_read_back(trees in proptest::collection::vec(any_tree(), 1..4)) {
            let mut map = Map::default();
            for (index, tree) in trees.into_iter().enumerate() {
                map.put(&format!("k{index}"), tree);
            }
            let mut line = String::new();
            let tree = Tree::Map(map);
            write_flow(&mut line, &tree);
            prop_assert!(is_same(&tree, &yaml::parse(&line).unwrap()), "{line}");
            let Tree::Map(map) = &tree else { unreachable!("a map was put there") };
            let mut text = "top:\n".to_owned();
            write_map(&mut text, map, 4, false);
            let Value::Map(entries) = yaml::parse(&text).unwrap().value else {
                panic!("no map: {text}");
            };
            prop_assert!(is_same(&tree, &entries[0].node), "{text}");
        }
    }
}
