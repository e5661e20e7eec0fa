//! Reading a map of a configuration file key by key.
//!
//! Holds always: which keys a map may have is what was asked for, so that no list of known keys can
//! be out of step with what is read; a problem never stops the reading, so that all are found at
//! once.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::duration;
use crate::problem::{Problem, Unsupported, nearest, quoted};
use crate::secret::Secret;
use crate::yaml::{self, Entry, Node, Position, Value};

/// The file that is being read, what is wrong with it, and what of it is not supported.
pub struct SourceFile<'f> {
    pub file: &'f Path,
    /// Relative paths are meant from here.
    pub directory: PathBuf,
    problems: RefCell<Vec<Problem>>,
    unsupported: RefCell<Vec<Unsupported>>,
}

/// The result of reading a file beside its values.
#[derive(Debug, Default)]
pub struct Findings {
    /// Reasons for which the file is invalid.
    pub problems: Vec<Problem>,
    /// Valid parts that have no effect.
    pub unsupported: Vec<Unsupported>,
}

impl<'f> SourceFile<'f> {
    pub fn new(file: &'f Path) -> Self {
        let directory = file.parent().unwrap_or(Path::new(""));
        // A relative path stays right when it is used later, wherever the process then is.
        let directory = std::path::absolute(directory.join(".")).unwrap_or(directory.into());
        Self {
            file,
            directory,
            problems: RefCell::default(),
            unsupported: RefCell::default(),
        }
    }

    pub fn report(&self, at: Position, subject: &str, reason: impl Into<String>) {
        self.report_problem(at, Problem::new(subject, reason));
    }

    pub fn report_problem(&self, at: Position, problem: Problem) {
        self.problems.borrow_mut().push(problem.at(self.file, at));
    }

    /// Records a part that is valid and has no effect.
    pub fn report_unsupported(&self, part: Unsupported) {
        self.unsupported.borrow_mut().push(part);
    }

    /// Returns the number of unsupported parts that were recorded.
    pub fn unsupported_count(&self) -> usize {
        self.unsupported.borrow().len()
    }

    /// Removes and returns the unsupported parts that were recorded after the first `count`.
    pub fn take_unsupported(&self, count: usize) -> Vec<Unsupported> {
        let mut unsupported = self.unsupported.borrow_mut();
        let first = count.min(unsupported.len());
        unsupported.split_off(first)
    }

    /// Adds the findings of a file that this one names.
    pub fn include(&self, other: SourceFile<'_>) {
        let findings = other.into_findings();
        self.problems.borrow_mut().extend(findings.problems);
        self.unsupported.borrow_mut().extend(findings.unsupported);
    }

    /// The document in `text`; none, and a problem, where it is not YAML.
    pub fn parse(&self, text: &str) -> Option<Node> {
        match yaml::parse(text) {
            Ok(root) => Some(root),
            Err(error) => {
                self.report(error.at, "", error.reason);
                None
            }
        }
    }

    /// Reads the first document in `text`, as Prometheus does, and returns the position of a second
    /// one. There is no document, and a problem, where the text is not YAML.
    pub fn parse_first(&self, text: &str) -> Option<(Node, Option<Position>)> {
        match yaml::parse_first(text) {
            Ok(found) => Some(found),
            Err(error) => {
                self.report(error.at, "", error.reason);
                None
            }
        }
    }

    /// All problems in the order in which a person goes through the file; those of included files
    /// come last.
    pub fn into_problems(self) -> Vec<Problem> {
        self.into_findings().problems
    }

    /// Returns all findings, in the order of [`SourceFile::into_problems`].
    pub fn into_findings(self) -> Findings {
        let own = self.file;
        let place = |path: &Path, at: Position| {
            let other = (path != own).then(|| path.to_path_buf());
            (other, at.line, at.column)
        };
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| {
            let (path, at) = problem.location.as_ref()?;
            Some(place(path, *at))
        });
        let mut unsupported = self.unsupported.into_inner();
        unsupported.sort_by_key(|part| place(&part.file, part.at));
        Findings {
            problems,
            unsupported,
        }
    }

    /// A path of the file; an empty one stays empty.
    pub fn path(&self, text: &str) -> PathBuf {
        if text.is_empty() {
            return PathBuf::new();
        }
        self.directory.join(text)
    }
}

/// A value and where it was written, for problems that are found later.
pub struct Spanned<T> {
    pub value: T,
    pub at: Position,
}

/// One map. What is null in it counts as not given.
pub struct Fields<'a> {
    pub source: &'a SourceFile<'a>,
    /// Where the map is: `scrape_configs[2].tls_config`.
    pub path: String,
    pub at: Position,
    entries: &'a [Entry],
    asked: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// The map that `node` is. Anything else is a problem and read as an empty map.
    pub fn of(node: &'a Node, path: impl Into<String>, source: &'a SourceFile<'a>) -> Self {
        let path = path.into();
        let entries = match &node.value {
            Value::Map(entries) => entries.as_slice(),
            Value::Null => &[],
            other => {
                let reason = format!(
                    "expected a map of keys and values, found {}",
                    kind_of(other)
                );
                source.report(node.at, &path, reason);
                &[]
            }
        };
        Self {
            source,
            path,
            at: node.at,
            entries,
            asked: Vec::new(),
        }
    }

    /// All of them, whatever their keys.
    pub fn entries(&self) -> &'a [Entry] {
        self.entries
    }

    /// The node of a key, null included.
    pub fn raw(&mut self, key: &'static str) -> Option<&'a Node> {
        self.asked.push(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(&entry.node)
    }

    pub fn node(&mut self, key: &'static str) -> Option<&'a Node> {
        self.raw(key)
            .filter(|node| !matches!(node.value, Value::Null))
    }

    pub fn position(&self, key: &str) -> Position {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        entry.map_or(self.at, |entry| entry.node.at)
    }

    /// Returns the position of a key itself, or of the map without it.
    pub fn key_position(&self, key: &str) -> Position {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        entry.map_or(self.at, |entry| entry.key_at)
    }

    /// Reports a problem with the value of a key, or with its absence.
    pub fn report(&self, key: &str, reason: impl Into<String>) {
        let subject = self.path_of(key);
        self.source.report(self.position(key), &subject, reason);
    }

    pub fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.into()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    fn expected(&self, key: &str, what: &str, node: &Node) {
        let found = shown(&node.value);
        self.report(key, format!("expected {what}, found {found}"));
    }

    pub fn text(&mut self, key: &'static str) -> Option<String> {
        let node = self.node(key)?;
        let Value::Scalar { text, .. } = &node.value else {
            self.expected(key, "text", node);
            return None;
        };
        Some(text.clone())
    }

    /// A text with its position; an empty one counts as not given.
    pub fn spanned_text(&mut self, key: &'static str) -> Option<Spanned<String>> {
        let value = self.text(key).filter(|text| !text.is_empty())?;
        let at = self.position(key);
        Some(Spanned { value, at })
    }

    pub fn spanned_texts(&mut self, key: &'static str) -> Vec<Spanned<String>> {
        let nodes = self.list(key);
        let path = self.path_of(key);
        let text = |(index, node): (usize, &Node)| {
            let at = node.at;
            let value = text_of(node, &format!("{path}[{index}]"), self.source)?;
            Some(Spanned { value, at })
        };
        nodes.iter().enumerate().filter_map(text).collect()
    }

    /// Text that is read by `parse`, whose error says what was expected.
    pub fn parsed<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(key)?;
        match parse(&text) {
            Ok(value) => Some(value),
            Err(what) => {
                let found = quoted(&text);
                self.report(key, format!("expected {what}, found {found}"));
                None
            }
        }
    }

    pub fn duration(&mut self, key: &'static str) -> Option<Duration> {
        self.parsed(key, |text| {
            duration::parse(text).map_err(|bad| bad.expected)
        })
    }

    /// A duration for which zero means that it was not given.
    pub fn duration_or_unset(&mut self, key: &'static str) -> Option<Duration> {
        self.duration(key).filter(|duration| !duration.is_zero())
    }

    pub fn boolean(&mut self, key: &'static str) -> Option<bool> {
        let node = self.node(key)?;
        // The words of YAML 1.1, which is what Prometheus reads. A string in quotes is none of
        // them.
        let value = match &node.value {
            Value::Scalar {
                text,
                quoted: false,
            } => match text.as_str() {
                "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y"
                | "Y" => Some(true),
                "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n"
                | "N" => Some(false),
                _ => None,
            },
            _ => None,
        };
        if value.is_none() {
            self.expected(key, "true or false", node);
        }
        value
    }

    pub fn number(&mut self, key: &'static str) -> Option<u64> {
        let node = self.node(key)?;
        let value = match &node.value {
            Value::Scalar {
                text,
                quoted: false,
            } if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
            _ => None,
        };
        if value.is_none() {
            self.expected(key, "a number", node);
        }
        value
    }

    pub fn factor(&mut self, key: &'static str) -> Option<f64> {
        let node = self.node(key)?;
        let value = match &node.value {
            Value::Scalar {
                text,
                quoted: false,
            } => text.parse().ok().filter(|factor: &f64| factor.is_finite()),
            _ => None,
        };
        if value.is_none() {
            self.expected(key, "a number", node);
        }
        value
    }

    pub fn list(&mut self, key: &'static str) -> &'a [Node] {
        let Some(node) = self.node(key) else {
            return &[];
        };
        match &node.value {
            Value::List(nodes) => nodes,
            _ => {
                let found = kind_of(&node.value);
                self.report(key, format!("expected a list, found {found}"));
                &[]
            }
        }
    }

    pub fn texts(&mut self, key: &'static str) -> Vec<String> {
        let nodes = self.list(key);
        let path = self.path_of(key);
        texts_of(nodes, &path, self.source)
    }

    pub fn map(&mut self, key: &'static str) -> Option<Fields<'a>> {
        let node = self.node(key)?;
        Some(Fields::of(node, self.path_of(key), self.source))
    }

    /// The maps of a list; an empty element is a problem.
    pub fn maps(&mut self, key: &'static str) -> Vec<Fields<'a>> {
        let nodes = self.list(key);
        let mut maps = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let path = format!("{}[{index}]", self.path_of(key));
            if matches!(node.value, Value::Null) {
                let reason = "expected a map of keys and values, found nothing";
                self.source.report(node.at, &path, reason);
            } else {
                maps.push(Fields::of(node, path, self.source));
            }
        }
        maps
    }

    /// The entries of a map whose keys are free.
    pub fn free_map(&mut self, key: &'static str) -> &'a [Entry] {
        let Some(fields) = self.map(key) else {
            return &[];
        };
        fields.entries
    }

    /// A map from names to text.
    pub fn text_map(&mut self, key: &'static str) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for entry in self.free_map(key) {
            match &entry.node.value {
                Value::Scalar { text, .. } => pairs.push((entry.key.clone(), text.clone())),
                Value::Null => pairs.push((entry.key.clone(), String::new())),
                other => {
                    let path = format!("{}.{}", self.path_of(key), entry.key);
                    let reason = format!("expected text, found {}", shown(other));
                    self.source.report(entry.node.at, &path, reason);
                }
            }
        }
        pairs
    }

    /// A secret, which no message repeats.
    pub fn secret(&mut self, key: &'static str) -> Option<Secret> {
        self.secret_text(key).map(Secret::Inline)
    }

    pub fn secret_text(&mut self, key: &'static str) -> Option<String> {
        let node = self.node(key)?;
        secret_text_of(node, &self.path_of(key), self.source)
    }

    pub fn secret_file(&mut self, key: &'static str) -> Option<Secret> {
        let path = self.text(key).filter(|path| !path.is_empty())?;
        Some(Secret::File(self.source.path(&path)))
    }

    /// A secret that is given as it is or as the file that holds it, but not both.
    pub fn secret_or_file(&mut self, key: &'static str, file_key: &'static str) -> Option<Secret> {
        let given = self.secret(key);
        let file = self.secret_file(file_key);
        let is_empty = |secret: &Secret| matches!(secret, Secret::Inline(text) if text.is_empty());
        if file.is_some() && given.as_ref().is_some_and(|given| !is_empty(given)) {
            self.report(
                file_key,
                format!("{key} is given as well; one of them is enough"),
            );
        }
        file.or(given)
    }

    /// Records a key that has a value and is not supported. `effect` says what follows from that,
    /// `instead` what to use.
    pub fn unsupported(
        &mut self,
        key: &'static str,
        effect: impl Into<String>,
        instead: impl Into<String>,
    ) {
        if self.node(key).is_some() {
            let at = self.key_position(key);
            self.unsupported_at(at, &self.path_of(key), effect, instead);
        }
    }

    /// Records a part of the file that is not supported.
    pub fn unsupported_at(
        &self,
        at: Position,
        subject: &str,
        effect: impl Into<String>,
        instead: impl Into<String>,
    ) {
        self.source.report_unsupported(Unsupported {
            subject: subject.into(),
            file: self.source.file.into(),
            at,
            effect: effect.into(),
            instead: instead.into(),
        });
    }

    /// Whether a key is there with a value.
    pub fn has(&self, key: &str) -> bool {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        entry.is_some_and(|entry| !matches!(entry.node.value, Value::Null))
    }

    /// Reports every key that was not read. `explain` may say more about some.
    pub fn finish_with(self, explain: impl Fn(&str, Problem) -> Problem) {
        for entry in self.entries {
            if self.asked.contains(&entry.key.as_str()) {
                continue;
            }
            let near = nearest(&entry.key, self.asked.iter().copied());
            let problem = Problem::unknown_key(self.path_of(&entry.key), near);
            let problem = explain(&entry.key, problem);
            self.source.report_problem(entry.key_at, problem);
        }
    }

    pub fn finish(self) {
        self.finish_with(|_, problem| problem);
    }
}

/// The texts of a list; anything else in it is a problem.
pub fn texts_of(nodes: &[Node], path: &str, source: &SourceFile<'_>) -> Vec<String> {
    let nodes = nodes.iter().enumerate();
    let texts = nodes.filter_map(|(at, node)| text_of(node, &format!("{path}[{at}]"), source));
    texts.collect()
}

fn text_of(node: &Node, path: &str, source: &SourceFile<'_>) -> Option<String> {
    match &node.value {
        Value::Scalar { text, .. } => Some(text.clone()),
        other => {
            let reason = format!("expected text, found {}", shown(other));
            source.report(node.at, path, reason);
            None
        }
    }
}

/// A text that no message repeats.
pub fn secret_text_of(node: &Node, path: &str, source: &SourceFile<'_>) -> Option<String> {
    match &node.value {
        Value::Scalar { text, .. } => Some(text.clone()),
        Value::Null => None,
        Value::List(_) | Value::Map(_) => {
            source.report(node.at, path, "expected text");
            None
        }
    }
}

/// What a value is, without the value: where a list or map is expected, it may be a secret.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Scalar { .. } => "text",
        Value::List(_) => "a list",
        Value::Map(_) => "a map",
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Scalar { text, quoted: true } => format!("the string {}", quoted(text)),
        Value::Scalar { text, .. } => quoted(text),
        Value::List(_) => "a list".into(),
        Value::Map(_) => "a map".into(),
    }
}
