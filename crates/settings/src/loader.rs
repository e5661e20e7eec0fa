//! The values of settings, written from the weakest source to the strongest.
//!
//! ```text
//! default  <  file, section `icecore:`  <  environment variable  <  flag
//! ```
//!
//! Holds always: each value comes with where it was given, and all problems are kept, so that they
//! can be reported at once.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::fields::{Fields, SourceFile};
use crate::format::Kind;
use crate::problem::{Problem, nearest, quoted};
use crate::registry::{Registry, SECTION, Setting, VARIABLE_PREFIX};
use crate::sources::{Source, Sources};
use crate::yaml::{Node, Value};

/// Names the configuration file where no flag does.
pub const FILE_VARIABLE: &str = "ICECORE_CONFIG";

/// What settings are loaded from. The environment is passed in, not looked up, so that tests
/// decide it.
#[derive(Clone, Default)]
pub struct Inputs {
    /// The file named by a flag; without one, the variable [`FILE_VARIABLE`] counts.
    pub file: Option<PathBuf>,
    /// As `std::env::vars_os` gives it; everything that does not begin with `ICECORE_` is ignored.
    pub environment: Vec<(OsString, OsString)>,
    /// Key of the setting and the text given for it.
    pub flags: Vec<(String, String)>,
}

/// A configuration that is being put together.
pub struct Loader<C: 'static> {
    pub config: C,
    pub sources: Sources,
    /// What a person should know although the configuration is valid.
    pub warnings: Vec<String>,
    pub problems: Vec<Problem>,
    registry: &'static Registry<C>,
    variables: HashMap<String, String>,
}

impl<C: Default> Loader<C> {
    pub fn new(registry: &'static Registry<C>, inputs: &Inputs) -> Self {
        let mut problems = Vec::new();
        let variables = variables(&inputs.environment, &mut problems);
        let file = inputs.file.clone();
        let file = file.or_else(|| variables.get(FILE_VARIABLE).map(PathBuf::from));
        Self {
            config: C::default(),
            sources: Sources {
                file,
                ..registry.default_sources()
            },
            warnings: Vec::new(),
            problems,
            registry,
            variables,
        }
    }

    /// Reads a section of the file. `prefix` is its path from the top of the file: `icecore`, then
    /// `icecore.storage`.
    pub fn section(&mut self, prefix: &str, node: &Node, source: &SourceFile<'_>) {
        for entry in Fields::of(node, prefix, source).entries() {
            let path = format!("{prefix}.{}", entry.key);
            let key = without_section(&path);
            if let Some(index) = self.registry.index_of(key) {
                self.setting(index, &path, &entry.node, source);
            } else if self.registry.is_section(key) {
                self.section(&path, &entry.node, source);
            } else {
                let near = self.registry.suggest(key);
                let near = near.map(|near| format!("{SECTION}.{near}"));
                let problem = Problem::unknown_key(path, near.as_deref());
                source.report_problem(entry.key_at, problem);
            }
        }
    }

    /// Reads a setting that stands at another path of the file, as in a file of another program.
    pub fn other_name(&mut self, key: &str, path: &str, node: &Node, source: &SourceFile<'_>) {
        if let Some(index) = self.registry.index_of(key) {
            self.setting(index, path, node, source);
        }
    }

    fn setting(&mut self, index: usize, path: &str, node: &Node, source: &SourceFile<'_>) {
        let Some(setting) = self.registry.settings.get(index) else {
            return;
        };
        if let (Some(form), Value::Map(_)) = (&setting.map, &node.value) {
            (form.read)(&mut self.config, Fields::of(node, path, source));
            self.came_from(index, Source::File(node.at));
            return;
        }
        let result = text_of(node, setting.kind)
            .map_err(|found| format!("expected {}, found {found}", setting.kind))
            .and_then(|text| self.write(index, &text, Source::File(node.at)));
        if let Err(reason) = result {
            source.report(node.at, path, reason);
        }
    }

    /// Reads the environment. `others` are variables with our prefix that are no settings.
    pub fn environment(&mut self, others: &[&str]) {
        let variables = std::mem::take(&mut self.variables);
        let mut known: Vec<String> = others.iter().map(|name| (*name).into()).collect();
        known.push(FILE_VARIABLE.into());
        for (index, setting) in self.registry.settings.iter().enumerate() {
            let names = [setting.short_variable(), Some(setting.variable())];
            let mut first: Option<(String, &String)> = None;
            for name in names.into_iter().flatten() {
                known.push(name.clone());
                match (variables.get(&name), &first) {
                    (Some(value), None) => first = Some((name, value)),
                    (Some(value), Some((other, other_value))) if value != *other_value => {
                        let problem = Problem::new(name, format!("contradicts {other}"));
                        self.problems.push(problem.hint("set one of them"));
                    }
                    _ => {}
                }
            }
            if let Some((name, value)) = first {
                self.write_or_report(index, &name, value, Source::Environment(name.clone()));
            }
        }
        self.warn_of_unknown(&variables, &known);
    }

    /// Unknown variables are no errors: Kubernetes sets some that begin like ours when a service is
    /// called icecore.
    fn warn_of_unknown(&mut self, variables: &HashMap<String, String>, known: &[String]) {
        let mut unknown: Vec<_> = variables
            .keys()
            .filter(|name| !known.contains(name))
            .map(
                |name| match nearest(name, known.iter().map(String::as_str)) {
                    Some(near) => format!("{name} (did you mean {near}?)"),
                    None => name.clone(),
                },
            )
            .collect();
        unknown.sort();
        if !unknown.is_empty() {
            let unknown = unknown.join(", ");
            self.warnings
                .push(format!("unknown environment variables: {unknown}"));
        }
    }

    pub fn flags(&mut self, flags: &[(String, String)]) {
        for (key, text) in flags {
            match self.registry.index_of(key) {
                Some(index) => {
                    let flag = self.registry.settings.get(index).map(Setting::flag);
                    let flag = format!("--{}", flag.unwrap_or_default());
                    self.write_or_report(index, &flag, text, Source::Flag(flag.clone()));
                }
                None => self.problems.push(Problem::new(key, "unknown setting")),
            }
        }
    }

    fn write_or_report(&mut self, index: usize, subject: &str, text: &str, source: Source) {
        if let Err(reason) = self.write(index, text, source) {
            self.problems.push(Problem::new(subject, reason));
        }
    }

    fn write(&mut self, index: usize, text: &str, source: Source) -> Result<(), String> {
        let Some(setting) = self.registry.settings.get(index) else {
            return Ok(());
        };
        (setting.write)(&mut self.config, text).map_err(|bad| {
            if setting.is_secret() {
                format!("expected {}", bad.expected)
            } else {
                format!("expected {}, found {}", bad.expected, quoted(text))
            }
        })?;
        self.came_from(index, source);
        Ok(())
    }

    fn came_from(&mut self, index: usize, source: Source) {
        if let Some(slot) = self.sources.values.get_mut(index) {
            *slot = source;
        }
    }
}

/// Our variables as text. An empty one counts as not given: that is how container tools pass on
/// what was not set.
fn variables(
    environment: &[(OsString, OsString)],
    problems: &mut Vec<Problem>,
) -> HashMap<String, String> {
    let mut variables = HashMap::new();
    for (name, value) in environment {
        let name = name.to_str();
        let Some(name) = name.filter(|name| name.starts_with(VARIABLE_PREFIX)) else {
            continue;
        };
        match value.to_str() {
            Some("") => {}
            Some(value) => {
                variables.insert(name.to_owned(), value.to_owned());
            }
            None => problems.push(Problem::new(name, "is not valid UTF-8")),
        }
    }
    variables
}

/// The text of a value in the file, or what was found instead.
fn text_of(node: &Node, kind: Kind) -> Result<String, String> {
    match &node.value {
        // A number or a boolean in quotes is a string: what goes in must be what was meant.
        Value::Scalar { text, quoted: true } if matches!(kind, Kind::Bool | Kind::Integer) => {
            Err(format!("the string {}", quoted(text)))
        }
        Value::Scalar { text, .. } => Ok(text.clone()),
        Value::List(nodes) if kind == Kind::Names => joined(nodes),
        Value::Null => Err("nothing".into()),
        Value::List(_) => Err("a list".into()),
        Value::Map(_) => Err("a map".into()),
    }
}

/// A list of names as flags and variables have it, or what is in it instead.
fn joined(nodes: &[Node]) -> Result<String, String> {
    let mut names = Vec::with_capacity(nodes.len());
    for node in nodes {
        match &node.value {
            Value::Scalar { text, .. } if !text.contains(',') => names.push(text.as_str()),
            Value::Scalar { text, .. } => return Err(format!("{} in a list", quoted(text))),
            Value::Null | Value::List(_) | Value::Map(_) => {
                return Err("a list of something else".into());
            }
        }
    }
    Ok(names.join(","))
}

/// `icecore.storage.fsync` → `storage.fsync`.
fn without_section(path: &str) -> &str {
    path.strip_prefix(SECTION)
        .and_then(|rest| rest.strip_prefix('.'))
        .unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Format, Integer, SecretText, Text};
    use crate::registry::MapForm;
    use crate::render::Map;
    use crate::setting;
    use crate::text::BadValue;

    #[derive(Default)]
    struct Config {
        name: String,
        limit: usize,
        password: String,
        pair: Option<Pair>,
    }

    #[derive(Clone)]
    struct Pair(String, String);

    /// `none` or `a-b`.
    struct PairText;

    impl Format for PairText {
        type Native = Option<Pair>;
        const KIND: Kind = Kind::Map(&["none", "A-B"]);

        fn parse(text: &str) -> Result<Option<Pair>, BadValue> {
            if text == "none" {
                return Ok(None);
            }
            let (a, b) = text.split_once('-').ok_or(BadValue::expected("A-B"))?;
            Ok(Some(Pair(a.into(), b.into())))
        }

        fn show(value: &Option<Pair>) -> String {
            let shown = value.as_ref().map(|Pair(a, b)| format!("{a}-{b}"));
            shown.unwrap_or_else(|| "none".into())
        }
    }

    static REGISTRY: Registry<Config> = Registry {
        sections: &[("part", "Part"), ("pair", "Pair")],
        settings: &[
            setting!("part.name", Text, name, "A name."),
            setting!("part.limit", Integer, limit, "1" to "9", "A limit."),
            setting!("part.password", SecretText, password, "A password."),
            Setting {
                map: Some(MapForm {
                    read: |config, mut fields| {
                        let (a, b) = (fields.text("a"), fields.text("b"));
                        config.pair = a.zip(b).map(|(a, b)| Pair(a, b));
                        fields.finish();
                    },
                    render: |config| {
                        let mut map = Map::default();
                        let Pair(a, b) = config.pair.clone()?;
                        map.text("a", a);
                        map.text("b", b);
                        Some(map)
                    },
                }),
                ..setting!("pair", PairText, pair, "A pair.")
            },
        ],
    };

    fn load(file: &str, variable: (&str, &str), flags: &[(&str, &str)]) -> Loader<Config> {
        let inputs = Inputs {
            file: Some("x.yml".into()),
            environment: vec![(variable.0.into(), variable.1.into())],
            flags: flags
                .iter()
                .map(|(key, text)| ((*key).into(), (*text).into()))
                .collect(),
        };
        let mut loader = Loader::new(&REGISTRY, &inputs);
        let source = SourceFile::new("x.yml".as_ref());
        if let Some(root) = source.parse(file) {
            loader.section(SECTION, &root, &source);
        }
        loader.problems.extend(source.into_problems());
        loader.environment(&[]);
        loader.flags(&inputs.flags);
        loader
    }

    #[test]
    fn the_strongest_source_wins() {
        let file = "part: {name: a, limit: 2, password: p}";
        let loader = load(file, ("ICECORE_PART_LIMIT", "3"), &[("part.password", "q")]);
        assert!(loader.problems.is_empty(), "{:?}", loader.problems);
        let rendered = REGISTRY.render(&loader.config, &loader.sources);
        let lines: Vec<_> = rendered
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let expected = [
            "icecore:",
            "part:",
            "name: a # x.yml line 1 column 14",
            "limit: 3 # ICECORE_PART_LIMIT",
            "password: \"<secret>\" # --part.password",
            "pair: none # default",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_setting_may_be_a_map_or_a_word() {
        let none = ("", "");
        let shown = |loader: &Loader<Config>| {
            assert!(loader.problems.is_empty(), "{:?}", loader.problems);
            let rendered = REGISTRY.render(&loader.config, &loader.sources);
            let (_, pair) = rendered.split_once("  pair:").unwrap();
            pair.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let loader = load("pair: {a: x, b: y}", none, &[]);
        assert_eq!(shown(&loader), "# x.yml line 1 column 7 a: x b: y");
        let rendered = REGISTRY.render(&loader.config, &loader.sources);
        let section = rendered.strip_prefix("icecore:\n").unwrap();
        let again = load(section, none, &[]);
        assert_eq!(PairText::show(&again.config.pair), "x-y");
        let loader = load("pair: {a: x, b: y}", ("ICECORE_PAIR", "c-d"), &[]);
        assert_eq!(shown(&loader), "# ICECORE_PAIR a: c b: d");
        let loader = load("pair: c-d", none, &[("pair", "none")]);
        assert_eq!(shown(&loader), "none # --pair");
        let problem = |file| load(file, none, &[]).problems[0].to_string();
        assert_eq!(
            problem("pair: {a: x, c: y}"),
            "icecore.pair.c: unknown key, at line 1 column 14 of x.yml; did you mean a?"
        );
        assert_eq!(
            problem("pair: [x]"),
            "icecore.pair: expected none or A-B or map, found a list, at line 1 column 7 of x.yml"
        );
        assert_eq!(
            problem("pair: x"),
            "icecore.pair: expected A-B, found \"x\", at line 1 column 7 of x.yml"
        );
    }

    #[test]
    fn all_problems_are_found() {
        let file = "part: {nam: a, limit: [2], password: {p: q}}";
        let loader = load(file, ("ICECORE_PART_LIMIT", "77"), &[("part.size", "q")]);
        let problems: Vec<_> = loader.problems.iter().map(ToString::to_string).collect();
        let expected = [
            "icecore.part.nam: unknown key, at line 1 column 8 of x.yml; did you mean icecore.part.name?",
            "icecore.part.limit: expected number, found a list, at line 1 column 23 of x.yml",
            "icecore.part.password: expected secret, found a map, at line 1 column 38 of x.yml",
            "ICECORE_PART_LIMIT: expected at most 9, found \"77\"",
            "part.size: unknown setting",
        ];
        assert_eq!(problems, expected);
    }
}
