//! YAML as a tree that knows where each piece was written.
//!
//! `saphyr-parser` gives events with positions; this builds a tree from them and checks what the
//! parser leaves open: duplicated keys, aliases, merge keys, depth and size. Chosen over a serde
//! front end because every problem with a setting must say line and column.
//!
//! Holds always: the tree is at most `DEPTH_MAX` deep, and with what is kept for aliases it has at
//! most `NODES_MAX` nodes with `TEXT_BYTES_MAX` of text, however the file uses aliases; so reading,
//! walking and dropping it is bounded.

use std::collections::HashMap;
use std::fmt;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag};

/// Deep enough for every Prometheus file (relabelling nests to about ten).
const DEPTH_MAX: usize = 64;

/// Above any real file (a hundred thousand static targets), below what a few lines of nested
/// aliases can expand to.
const NODES_MAX: usize = 1_000_000;

/// Most bytes of keys and values, aliases counted in full: several times what the largest real file
/// has. An alias repeats a text of any length with three characters.
const TEXT_BYTES_MAX: usize = 32 << 20;

/// Line and column, both counted from one, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {}", self.line, self.column)
    }
}

impl From<&Marker> for Position {
    fn from(marker: &Marker) -> Self {
        Self {
            line: marker.line(),
            column: marker.col().saturating_add(1),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Node {
    pub at: Position,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing at all, `~` or `null`.
    Null,
    /// `quoted` tells the string `"5"` from the number `5`.
    Scalar {
        text: String,
        quoted: bool,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    pub key_at: Position,
    pub node: Node,
}

/// What is wrong with the text as YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlError {
    pub at: Position,
    pub reason: String,
}

/// Reads the one document of `text`; an empty text is [`Value::Null`].
pub fn parse(text: &str) -> Result<Node, YamlError> {
    let mut builder = Builder::default();
    builder.read(text)?;
    Ok(builder.root.unwrap_or(Node {
        at: Position { line: 1, column: 1 },
        value: Value::Null,
    }))
}

/// Reads the first document of `text` and nothing behind it, as Prometheus does. Returns the
/// position of the second document as well, if there is one.
pub fn parse_first(text: &str) -> Result<(Node, Option<Position>), YamlError> {
    let mut builder = Builder {
        first_only: true,
        ..Builder::default()
    };
    builder.read(text)?;
    let root = builder.root.unwrap_or(Node {
        at: Position { line: 1, column: 1 },
        value: Value::Null,
    });
    Ok((root, builder.second))
}

/// Reads all documents of `text`, which `---` sets apart. The limits hold for all of them together.
pub fn parse_stream(text: &str) -> Result<Vec<Node>, YamlError> {
    let mut builder = Builder {
        earlier: Some(Vec::new()),
        ..Builder::default()
    };
    builder.read(text)?;
    let mut documents = builder.earlier.unwrap_or_default();
    documents.extend(builder.root);
    Ok(documents)
}

impl From<&ScanError> for YamlError {
    fn from(error: &ScanError) -> Self {
        Self {
            at: error.marker().into(),
            reason: error.info().into(),
        }
    }
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    /// The documents before this one; `None` where there may be only one.
    earlier: Option<Vec<Node>>,
    /// Set where reading ends with the first document.
    first_only: bool,
    /// The position of the document at which reading ended.
    second: Option<Position>,
    open: Vec<Collection>,
    anchors: HashMap<usize, (Node, Size)>,
    /// The size of the tree.
    tree: Size,
    /// The size of the copies in `anchors`: an anchor within an anchor is kept twice.
    kept: Size,
}

/// Nodes with the bytes of their texts.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    nodes: usize,
    text_bytes: usize,
}

impl Size {
    fn plus(self, other: Self) -> Self {
        Self {
            nodes: self.nodes.saturating_add(other.nodes),
            text_bytes: self.text_bytes.saturating_add(other.text_bytes),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            nodes: self.nodes.saturating_sub(other.nodes),
            text_bytes: self.text_bytes.saturating_sub(other.text_bytes),
        }
    }
}

/// A list or map whose end has not been reached.
struct Collection {
    at: Position,
    anchor: usize,
    /// The size of the tree before this collection: the difference at its end is its own.
    before: Size,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map {
        entries: Vec<Entry>,
        lines: HashMap<String, Position>,
        merges: Vec<Node>,
        key: Option<Key>,
    },
}

/// A key whose value comes next.
struct Key {
    text: String,
    at: Position,
    /// Set where it stands for the keys of other maps. One in quotes is a word like any other.
    is_merge: bool,
}

impl Builder {
    fn read(&mut self, text: &str) -> Result<(), YamlError> {
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| YamlError::from(&error))?;
            if self.first_only && self.root.is_some() && matches!(event, Event::DocumentStart(_)) {
                self.second = Some(Position::from(&span.start));
                return Ok(());
            }
            self.take(event, span)?;
        }
        Ok(())
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), YamlError> {
        let at = Position::from(&span.start);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let before = self.tree;
                self.count(1, text.len(), at)?;
                let value = scalar(text.into_owned(), style, tag.as_deref(), at)?;
                self.finish(Node { at, value }, anchor, before)
            }
            Event::SequenceStart(anchor, tag) => {
                refuse_unknown_tag(tag.as_deref(), at)?;
                self.begin(at, anchor, Content::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                refuse_unknown_tag(tag.as_deref(), at)?;
                self.begin(
                    at,
                    anchor,
                    Content::Map {
                        entries: Vec::new(),
                        lines: HashMap::new(),
                        merges: Vec::new(),
                        key: None,
                    },
                )
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => {
                // An anchor inside itself is not finished yet and so is not found here.
                let size = self.anchors.get(&anchor).map(|(_, size)| *size);
                let before = self.tree;
                let size = size.unwrap_or_default();
                self.count(size.nodes, size.text_bytes, at)?;
                let node = self.anchors.get(&anchor).map(|(node, _)| node.clone());
                let node = node.ok_or(YamlError {
                    at,
                    reason: "this alias refers to something that contains it".into(),
                })?;
                self.finish(node, 0, before)
            }
            Event::DocumentStart(_) if self.root.is_some() => {
                let Some(earlier) = &mut self.earlier else {
                    return Err(YamlError {
                        at,
                        reason: "a second document begins here; the file must hold one".into(),
                    });
                };
                earlier.extend(self.root.take());
                // An alias never refers to another document.
                self.anchors.clear();
                self.kept = Size::default();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, at: Position, anchor: usize, content: Content) -> Result<(), YamlError> {
        if self.open.len() >= DEPTH_MAX {
            return Err(YamlError {
                at,
                reason: format!("nested more than {DEPTH_MAX} deep"),
            });
        }
        let before = self.tree;
        self.count(1, 0, at)?;
        self.open.push(Collection {
            at,
            anchor,
            before,
            content,
        });
        Ok(())
    }

    fn end(&mut self) -> Result<(), YamlError> {
        let Some(collection) = self.open.pop() else {
            return Ok(());
        };
        let value = match collection.content {
            Content::List(nodes) => Value::List(nodes),
            Content::Map {
                mut entries,
                mut lines,
                merges,
                ..
            } => {
                merge(&mut entries, &mut lines, merges)?;
                Value::Map(entries)
            }
        };
        let node = Node {
            at: collection.at,
            value,
        };
        self.finish(node, collection.anchor, collection.before)
    }

    /// Puts a complete node where it belongs: the root, a list, a key, or the value of a key.
    fn finish(&mut self, node: Node, anchor: usize, before: Size) -> Result<(), YamlError> {
        if anchor != 0 {
            let size = self.tree.minus(before);
            self.kept = self.kept.plus(size);
            self.check(node.at)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        match self
            .open
            .last_mut()
            .map(|collection| &mut collection.content)
        {
            None => self.root = Some(node),
            Some(Content::List(nodes)) => nodes.push(node),
            Some(Content::Map {
                entries,
                lines,
                merges,
                key,
            }) => match key.take() {
                None => *key = Some(new_key(node, lines)?),
                Some(key) if key.is_merge => merges.push(node),
                Some(key) => entries.push(Entry {
                    key: key.text,
                    key_at: key.at,
                    node,
                }),
            },
        }
        Ok(())
    }

    /// Counts what is about to become part of the tree.
    fn count(&mut self, nodes: usize, text_bytes: usize, at: Position) -> Result<(), YamlError> {
        self.tree = self.tree.plus(Size { nodes, text_bytes });
        self.check(at)
    }

    fn check(&self, at: Position) -> Result<(), YamlError> {
        let held = self.tree.plus(self.kept);
        let reason = if held.nodes > NODES_MAX {
            format!("more than {NODES_MAX} values, aliases counted in full")
        } else if held.text_bytes > TEXT_BYTES_MAX {
            format!(
                "more than {TEXT_BYTES_MAX} bytes of text, aliases counted in full: use fewer \
                 aliases of long texts, or several files"
            )
        } else {
            return Ok(());
        };
        Err(YamlError { at, reason })
    }
}

/// `<<: *defaults` takes over the keys of another map; people use it in scrape configurations.
const MERGE: &str = "<<";

fn new_key(node: Node, lines: &mut HashMap<String, Position>) -> Result<Key, YamlError> {
    let at = node.at;
    let Value::Scalar { text, quoted } = node.value else {
        return Err(YamlError {
            at,
            reason: "a key must be a word".into(),
        });
    };
    if let Some(first) = lines.insert(text.clone(), at) {
        return Err(YamlError {
            at,
            reason: format!("the key {text:?} is given twice, first at {first}"),
        });
    }
    Ok(Key {
        is_merge: text == MERGE && !quoted,
        text,
        at,
    })
}

/// Keys of a map win over merged ones, earlier merged maps over later ones, as YAML 1.1 has it.
fn merge(
    entries: &mut Vec<Entry>,
    lines: &mut HashMap<String, Position>,
    merges: Vec<Node>,
) -> Result<(), YamlError> {
    let mut pending = merges;
    while let Some(node) = pending.pop() {
        match node.value {
            Value::Map(merged) => {
                for entry in merged {
                    if !lines.contains_key(&entry.key) {
                        lines.insert(entry.key.clone(), entry.key_at);
                        entries.push(entry);
                    }
                }
            }
            Value::List(nodes) => pending.extend(nodes.into_iter().rev()),
            _ => {
                return Err(YamlError {
                    at: node.at,
                    reason: "what is merged with << must be a map or a list of maps".into(),
                });
            }
        }
    }
    Ok(())
}

fn scalar(
    text: String,
    style: ScalarStyle,
    tag: Option<&Tag>,
    at: Position,
) -> Result<Value, YamlError> {
    refuse_unknown_tag(tag, at)?;
    let quoted = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix == "str");
    if !quoted && matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL") {
        return Ok(Value::Null);
    }
    Ok(Value::Scalar { text, quoted })
}

fn refuse_unknown_tag(tag: Option<&Tag>, at: Position) -> Result<(), YamlError> {
    match tag {
        // `!!binary` is of YAML's own schema; its bytes need not be text.
        Some(tag) if !tag.is_yaml_core_schema() || tag.suffix == "binary" => Err(YamlError {
            at,
            reason: format!("the tag {tag} has no meaning here"),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn show(node: &Node) -> String {
        match &node.value {
            Value::Null => "null".into(),
            Value::Scalar { text, quoted: true } => format!("{text:?}"),
            Value::Scalar { text, .. } => text.clone(),
            Value::List(nodes) => {
                let nodes: Vec<_> = nodes.iter().map(show).collect();
                format!("[{}]", nodes.join(","))
            }
            Value::Map(entries) => {
                let entries: Vec<_> = entries
                    .iter()
                    .map(|entry| format!("{}:{}", entry.key, show(&entry.node)))
                    .collect();
                format!("{{{}}}", entries.join(","))
            }
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(show(&parse(text).unwrap()), expected, "{text}");
    }

    #[track_caller]
    fn check_error(text: &str, line: usize, column: usize, reason: &str) {
        let error = parse(text).expect_err(text);
        assert!(error.reason.contains(reason), "{error:?}");
        assert_eq!(error.at, Position { line, column }, "{error:?}");
    }

    #[test]
    fn builds_the_tree() {
        check("", "null");
        check("# nothing\n", "null");
        check("a: 1\nb: '2'\nc:\nd: ~\n", r#"{a:1,b:"2",c:null,d:null}"#);
        check("a: {b: [1, 2], c: {}}", "{a:{b:[1,2],c:{}}}");
        check("a: !!str 5", r#"{a:"5"}"#);
        check("---\na: |\n  x\n  y\n", "{a:\"x\\ny\\n\"}");
    }

    #[test]
    fn aliases_and_merge_keys_are_resolved() {
        check("a: &x {k: 1}\nb: *x", "{a:{k:1},b:{k:1}}");
        check(
            "a: &x {k: 1, l: 2}\nb: {l: 3, <<: *x}",
            "{a:{k:1,l:2},b:{l:3,k:1}}",
        );
        check(
            "a: &x {k: 1}\nb: &y {k: 2, m: 3}\nc: {<<: [*x, *y]}",
            "{a:{k:1},b:{k:2,m:3},c:{k:1,m:3}}",
        );
        check_error("a:\n  <<: 5", 2, 7, "must be a map");
        check("a: {\"<<\": 5}", "{a:{<<:5}}");
    }

    #[test]
    fn positions_count_from_one_and_in_characters() {
        let root = parse("a:\n  é: {b: x}\n").unwrap();
        let Value::Map(entries) = root.value else {
            panic!("not a map");
        };
        let Value::Map(inner) = &entries[0].node.value else {
            panic!("not a map");
        };
        assert_eq!(inner[0].key_at, Position { line: 2, column: 3 });
        let Value::Map(innermost) = &inner[0].node.value else {
            panic!("not a map");
        };
        assert_eq!(
            innermost[0].node.at,
            Position {
                line: 2,
                column: 10
            }
        );
    }

    #[test]
    fn refuses_what_could_be_misunderstood() {
        check_error(
            "a: 1\nb: 2\na: 3\n",
            3,
            1,
            "given twice, first at line 1 column 1",
        );
        check_error("a: 1\n---\nb: 2\n", 2, 1, "second document");
        check_error("a: !vault x\n", 1, 4, "tag");
        check_error("a: !!binary eA==\n", 1, 4, "tag");
        check_error("[1, 2]: 3\n", 1, 1, "a key must be a word");
        check_error("a: &x [*x]\n", 1, 8, "contains it");
    }

    #[test]
    fn a_stream_has_all_documents_with_their_positions() {
        let documents = parse_stream("a: 1\n---\n# nothing\n---\nb: &x 2\n").unwrap();
        let shown: Vec<String> = documents.iter().map(show).collect();
        assert_eq!(shown, ["{a:1}", "null", "{b:2}"]);
        assert_eq!(documents[2].at, Position { line: 5, column: 1 });
        assert!(parse_stream("").unwrap().is_empty());
        assert!(parse_stream("a: &x 1\n---\nb: *x\n").is_err());
        let error = parse_stream("a: 1\n---\nb: 1\nb: 2\n").unwrap_err();
        assert_eq!(error.at, Position { line: 4, column: 1 });
    }

    #[test]
    fn the_first_document_is_read_alone() {
        let (root, second) = parse_first("a: 1\n---\nb: [\n").unwrap();
        assert_eq!(show(&root), "{a:1}");
        assert_eq!(second, Some(Position { line: 2, column: 1 }));
        let (root, second) = parse_first("# nothing\n").unwrap();
        assert_eq!((show(&root), second), ("null".into(), None));
        assert!(parse_first("a: [\n").is_err());
    }

    #[test]
    fn syntax_errors_have_a_position() {
        let error = parse("a: 1\n b: 2\n").unwrap_err();
        assert_eq!(error.at.line, 2, "{error:?}");
    }

    #[test]
    fn hostile_nesting_and_aliases_are_bounded() {
        let deep = "[".repeat(100_000);
        assert!(parse(&deep).is_err());
        let mut laughs = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for level in 1..10 {
            let previous = level - 1;
            let list = vec![format!("*a{previous}"); 10].join(",");
            laughs.push_str(&format!("a{level}: &a{level} [{list}]\n"));
        }
        let error = parse(&laughs).unwrap_err();
        assert!(error.reason.contains("more than"), "{error:?}");
    }

    #[test]
    fn aliases_of_long_texts_are_bounded() {
        let text = "x".repeat(1 << 20);
        let aliased = |times: usize| {
            let list = vec!["*a"; times].join(",");
            parse(&format!("a: &a \"{text}\"\nb: [{list}]\n"))
        };
        // The text itself, what is kept for aliases, and the aliases.
        assert!(aliased(29).is_ok());
        let error = aliased(1000).unwrap_err();
        assert!(
            error
                .reason
                .contains("bytes of text, aliases counted in full"),
            "{error:?}"
        );
        assert_eq!(
            error.at,
            Position {
                line: 2,
                column: 4 + 3 * 29 + 1
            }
        );
        // By way of keys and merged maps, and without any alias: anchors within anchors are kept.
        let merged = (0..40).map(|i| format!("b{i}: {{<<: *m}}\n"));
        let merged = format!("m: &m {{k: \"{text}\"}}\n{}", merged.collect::<String>());
        assert!(parse(&merged).unwrap_err().reason.contains("bytes of text"));
        let opened: String = (0..40).map(|i| format!("&a{i} [")).collect();
        let nested = format!("{opened}\"{text}\"{}", "]".repeat(40));
        assert!(parse(&nested).unwrap_err().reason.contains("bytes of text"));
        let documents = format!("a: &a \"{text}\"\nb: *a\n---\n").repeat(20);
        assert!(
            parse_stream(&documents)
                .unwrap_err()
                .reason
                .contains("bytes of text")
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-c:\\-\\[\\]{},&*!|>#'\"\n \t~<%é]{0,60}") {
            let _ = parse(&text);
        }
    }
}
