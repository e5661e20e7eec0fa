//! Filters of tags as matchers of labels.

use super::promql::{escaped, label_name, quoted};
use super::variables::has_variables;
use crate::query::{FilterKind, TagFilter};

/// The selector of a metric's series that pass all filters, and lack some keys.
pub(super) fn selector(metric: &str, filters: &[TagFilter], absent: &[String]) -> String {
    let mut parts = vec![quoted(metric)];
    let mut done: Vec<&str> = Vec::new();
    for filter in filters {
        let tagk = filter.tagk.as_str();
        if done.contains(&tagk) {
            continue;
        }
        done.push(tagk);
        let of_key = || filters.iter().filter(|f| f.tagk == tagk);
        let mut matchers = Matchers::new(tagk);
        // Values of all filters that name values: OpenTSDB unites them.
        let literals = of_key().filter(|f| f.kind() == FilterKind::LiteralOr);
        let literals: Vec<&str> = literals.flat_map(|f| values(&f.text)).collect();
        if !literals.is_empty() {
            matchers.one_of(&literals, false);
        }
        of_key().for_each(|filter| matchers.add(filter));
        parts.extend(matchers.finish());
    }
    parts.extend(absent.iter().map(|key| format!("{}=\"\"", label_name(key))));
    format!("{{{}}}", parts.join(","))
}

/// The keys whose values make groups.
pub(super) fn group_keys(filters: &[TagFilter]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for filter in filters.iter().filter(|filter| filter.group_by) {
        if !keys.contains(&filter.tagk) {
            keys.push(filter.tagk.clone());
        }
    }
    keys
}

/// The values that a filter names.
fn values(text: &str) -> impl Iterator<Item = &str> {
    text.trim_end_matches('|').split('|')
}

/// The matchers of one label.
struct Matchers {
    label: String,
    found: Vec<String>,
    /// Whether they accept only series that have the label.
    is_required: bool,
}

impl Matchers {
    fn new(tagk: &str) -> Self {
        Self {
            label: label_name(tagk),
            found: Vec::new(),
            is_required: false,
        }
    }

    fn push(&mut self, operator: &str, value: &str) {
        let matcher = format!("{}{operator}{}", self.label, quoted(value));
        if !self.found.contains(&matcher) {
            self.found.push(matcher);
        }
    }

    fn one_of(&mut self, values: &[&str], ignores_case: bool) {
        // What a variable stands for is not known: it may be several values, or any.
        let is_variable = values.iter().any(|value| has_variables(value));
        self.is_required |= !is_variable && !values.contains(&"");
        match values {
            [value] if !is_variable && !ignores_case => self.push("=", value),
            _ => self.push("=~", &alternatives(values, ignores_case)),
        }
    }

    fn none_of(&mut self, values: &[&str], ignores_case: bool) {
        match values {
            [value] if !has_variables(value) && !ignores_case => self.push("!=", value),
            _ => self.push("!~", &alternatives(values, ignores_case)),
        }
    }

    fn add(&mut self, filter: &TagFilter) {
        let text = filter.text.as_str();
        let named: Vec<&str> = values(text).collect();
        match filter.kind() {
            FilterKind::LiteralOr => {}
            FilterKind::IliteralOr => self.one_of(&named, true),
            FilterKind::NotLiteralOr => self.none_of(&named, false),
            FilterKind::NotIliteralOr => self.none_of(&named, true),
            FilterKind::Wildcard | FilterKind::Iwildcard => {
                if let Some(pattern) = glob(text) {
                    let pattern = cased(&pattern, filter.ignores_case());
                    self.push("=~", &pattern);
                    self.is_required |= !has_variables(text);
                }
            }
            // OpenTSDB looks for it anywhere in a value.
            FilterKind::Regexp => self.push("=~", &format!(".*(?:{text}).*")),
        }
    }

    /// A key that is filtered has to be there, whatever its value may be.
    fn finish(mut self) -> Vec<String> {
        if !self.is_required {
            self.push("!=", "");
        }
        self.found
    }
}

fn alternatives(values: &[&str], ignores_case: bool) -> String {
    let mut found: Vec<String> = Vec::new();
    for value in values.iter().map(|value| escaped(value)) {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    cased(&found.join("|"), ignores_case)
}

fn cased(pattern: &str, ignores_case: bool) -> String {
    if ignores_case {
        format!("(?i:{pattern})")
    } else {
        pattern.to_owned()
    }
}

/// A pattern with asterisks; `None` where it accepts everything. OpenTSDB anchors a pattern only
/// where exactly one of its ends is an asterisk.
fn glob(text: &str) -> Option<String> {
    let pieces = text.split('*').filter(|piece| !piece.is_empty());
    let pieces: Vec<String> = pieces.map(escaped).collect();
    if pieces.is_empty() {
        return None;
    }
    let (starts, ends) = (text.starts_with('*'), text.ends_with('*'));
    let head = if starts || !ends { ".*" } else { "" };
    let tail = if ends || !starts { ".*" } else { "" };
    Some(format!("{head}{}{tail}", pieces.join(".*")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_has_its_matcher() {
        for (filter, matchers) in [
            ("*", r#"host!="""#),
            ("web01", r#"host="web01""#),
            ("web01|web02|", r#"host=~"web01|web02""#),
            ("a.b|a.b", r#"host=~"a\\.b""#),
            ("iliteral_or(Web01)", r#"host=~"(?i:Web01)""#),
            ("not_literal_or(a)", r#"host!="a",host!="""#),
            ("not_literal_or(a|b)", r#"host!~"a|b",host!="""#),
            ("not_iliteral_or(a)", r#"host!~"(?i:a)",host!="""#),
            ("wildcard(web*)", r#"host=~"web.*""#),
            ("wildcard(*01)", r#"host=~".*01""#),
            ("wildcard(*e*1)", r#"host=~".*e.*1""#),
            // Without an asterisk at either end nothing is anchored.
            ("wildcard(w*1)", r#"host=~".*w.*1.*""#),
            ("wildcard(*b*)", r#"host=~".*b.*""#),
            ("iwildcard(WEB*)", r#"host=~"(?i:WEB.*)""#),
            ("web*", r#"host=~"(?i:web.*)""#),
            ("regexp(^web[0-9])", r#"host=~".*(?:^web[0-9]).*",host!="""#),
        ] {
            let filter = TagFilter::short("host", filter, true).unwrap();
            let found = selector("sys.cpu", &[filter], &[]);
            assert_eq!(found, format!(r#"{{"sys.cpu",{matchers}}}"#));
        }
        assert_eq!(selector("m", &[], &["dc".into()]), r#"{"m",dc=""}"#);
    }

    #[test]
    fn values_of_one_key_are_united_and_everything_else_must_hold() {
        let filter = |tagk, text| TagFilter::short(tagk, text, tagk == "host").unwrap();
        let filters = [
            filter("host", "a"),
            filter("data.center", "*"),
            filter("host", "b"),
            filter("host", "not_literal_or(c)"),
        ];
        assert_eq!(
            selector("m", &filters, &[]),
            r#"{"m",host=~"a|b",host!="c","data.center"!=""}"#
        );
        assert_eq!(group_keys(&filters), ["host"]);
    }

    #[test]
    fn variables_are_patterns() {
        let filter = |text| TagFilter::short("host", text, true).unwrap();
        assert_eq!(
            selector("m", &[filter("\u{e000}")], &[]),
            "{\"m\",host=~\"\u{e000}\",host!=\"\"}"
        );
        assert_eq!(
            selector("m", &[filter("not_literal_or(\u{e000})")], &[]),
            "{\"m\",host!~\"\u{e000}\",host!=\"\"}"
        );
    }
}
