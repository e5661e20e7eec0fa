//! Rules: which name of a series becomes the name of a branch, and how.

use regex::{Regex, RegexBuilder};

use crate::json::Json;
use crate::json_object::ObjectWriter;
use crate::record_field::{integer, text};

/// Bytes of compiled expressions that are tried one after the other: an expression counts for the
/// first that admits it. The larger one has room for a few classes of Unicode's letters, as `\w`
/// is.
const PATTERN_BYTES: [usize; 2] = [32 << 10, 256 << 10];

/// Bytes of the table with which an expression is matched.
const PATTERN_CACHE_BYTES_MAX: usize = 128 << 10;

/// Which name of a series a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleType {
    Metric,
    MetricCustom,
    Tagk,
    TagkCustom,
    TagvCustom,
}

impl RuleType {
    const ALL: [Self; 5] = [
        Self::Metric,
        Self::MetricCustom,
        Self::Tagk,
        Self::TagkCustom,
        Self::TagvCustom,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Metric => "METRIC",
            Self::MetricCustom => "METRIC_CUSTOM",
            Self::Tagk => "TAGK",
            Self::TagkCustom => "TAGK_CUSTOM",
            Self::TagvCustom => "TAGV_CUSTOM",
        }
    }

    /// In any case.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut types = Self::ALL.into_iter();
        types.find(|kind| kind.name().eq_ignore_ascii_case(text))
    }
}

/// A rule of a level of a tree.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) tree: u16,
    pub(crate) level: u32,
    pub(crate) order: u32,
    pub(crate) kind: RuleType,
    pub(crate) field: String,
    pub(crate) custom_field: String,
    pub(crate) regex: String,
    pub(crate) regex_group: u32,
    pub(crate) separator: String,
    pub(crate) display_format: String,
    pub(crate) description: String,
    pub(crate) notes: String,
    /// The expression of `regex`, or where that is empty of `separator`.
    pub(super) pattern: Option<Regex>,
    /// The bytes that the expression counts for.
    pub(super) pattern_bytes: usize,
}

/// What a request changes. An empty text or 0 is as good as not given, as in the original.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleEdit {
    pub(crate) kind: Option<RuleType>,
    pub(crate) field: Option<String>,
    pub(crate) custom_field: Option<String>,
    pub(crate) regex: Option<String>,
    pub(crate) regex_group: Option<u32>,
    pub(crate) separator: Option<String>,
    pub(crate) display_format: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) notes: Option<String>,
}

impl RuleEdit {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Its texts, whose length is limited.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let texts = [
            &self.field,
            &self.custom_field,
            &self.regex,
            &self.separator,
            &self.display_format,
            &self.description,
            &self.notes,
        ];
        texts.into_iter().flatten().map(String::as_str)
    }

    /// The rule that results from this, and what it was before; the error says what is missing.
    pub(crate) fn apply(
        self,
        (tree, level, order): (u16, u32, u32),
        before: Option<&Rule>,
    ) -> Result<Rule, String> {
        let kind = self.kind.or(before.map(|rule| rule.kind));
        let kind = kind.ok_or("Missing rule type")?;
        let text = |given: Option<String>, before: Option<&String>| {
            given.or(before.cloned()).unwrap_or_default()
        };
        let rule = Rule {
            tree,
            level,
            order,
            kind,
            field: text(self.field, before.map(|rule| &rule.field)),
            custom_field: text(self.custom_field, before.map(|rule| &rule.custom_field)),
            regex: text(self.regex, before.map(|rule| &rule.regex)),
            regex_group: self
                .regex_group
                .or(before.map(|rule| rule.regex_group))
                .unwrap_or(0),
            separator: text(self.separator, before.map(|rule| &rule.separator)),
            display_format: text(self.display_format, before.map(|rule| &rule.display_format)),
            description: text(self.description, before.map(|rule| &rule.description)),
            notes: text(self.notes, before.map(|rule| &rule.notes)),
            pattern: None,
            pattern_bytes: 0,
        };
        rule.checked(&PATTERN_BYTES)
    }
}

impl Rule {
    /// The rule with its expression, if it has all that its type needs and the expression takes no
    /// more bytes than the last of these limits.
    fn checked(mut self, limits: &[usize]) -> Result<Self, String> {
        let kind = self.kind.name();
        if self.kind != RuleType::Metric && self.field.is_empty() {
            return Err(format!("Missing field name required for {kind} rule"));
        }
        let is_custom = !matches!(self.kind, RuleType::Metric | RuleType::Tagk);
        if is_custom && self.custom_field.is_empty() {
            return Err(format!(
                "Missing custom field name required for {kind} rule"
            ));
        }
        let pattern = if self.regex.is_empty() {
            &self.separator
        } else {
            &self.regex
        };
        if !pattern.is_empty() {
            let (compiled, bytes) = compile(pattern, limits)?;
            self.pattern = Some(compiled);
            self.pattern_bytes = bytes;
        }
        Ok(self)
    }

    /// As messages name it.
    pub(crate) fn label(&self) -> String {
        let Self {
            tree,
            level,
            order,
            kind,
            ..
        } = self;
        format!("[{tree}:{level}:{order}:{}]", kind.name())
    }

    pub(crate) fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::new(out);
        object.text("type", self.kind.name());
        object.text("field", &self.field);
        object.text("regex", &self.regex);
        object.text("separator", &self.separator);
        object.text("description", &self.description);
        object.text("notes", &self.notes);
        object.plain("level", self.level);
        object.plain("order", self.order);
        object.plain("treeId", self.tree);
        object.text("customField", &self.custom_field);
        object.plain("regexGroupIdx", self.regex_group);
        object.text("displayFormat", &self.display_format);
    }

    pub(super) fn decode(json: &Json<'_>) -> Option<Self> {
        let rule = Self {
            tree: integer(json, "treeId")?,
            level: integer(json, "level")?,
            order: integer(json, "order")?,
            kind: RuleType::parse(&text(json, "type")?)?,
            field: text(json, "field")?,
            custom_field: text(json, "customField")?,
            regex: text(json, "regex")?,
            regex_group: integer(json, "regexGroupIdx")?,
            separator: text(json, "separator")?,
            display_format: text(json, "displayFormat")?,
            description: text(json, "description")?,
            notes: text(json, "notes")?,
            pattern: None,
            pattern_bytes: 0,
        };
        // Larger ones that were stored before there was a limit are read.
        rule.checked(&[32 << 10, 256 << 10, 10 << 20]).ok()
    }
}

/// Compiles an expression within the first limit that admits it, which is returned as well.
fn compile(pattern: &str, limits: &[usize]) -> Result<(Regex, usize), String> {
    for bytes_max in limits {
        let mut builder = RegexBuilder::new(pattern);
        builder.size_limit(*bytes_max);
        builder.dfa_size_limit(PATTERN_CACHE_BYTES_MAX);
        match builder.build() {
            Ok(regex) => return Ok((regex, *bytes_max)),
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(_) => return Err(format!("Invalid expression: {pattern}")),
        }
    }
    let most = limits.last().copied().unwrap_or_default();
    Err(format!(
        "Invalid expression: it takes more than {most} bytes: {pattern}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_says_what_it_needs() {
        let edit = |kind, field: &str, custom: &str| {
            let edit = RuleEdit {
                kind,
                field: (!field.is_empty()).then(|| field.into()),
                custom_field: (!custom.is_empty()).then(|| custom.into()),
                ..RuleEdit::default()
            };
            edit.apply((1, 0, 0), None).map(|rule| rule.label())
        };
        assert_eq!(
            edit(Some(RuleType::Metric), "", ""),
            Ok("[1:0:0:METRIC]".into())
        );
        assert_eq!(edit(None, "", ""), Err("Missing rule type".into()));
        for (kind, field, custom, message) in [
            (
                RuleType::Tagk,
                "",
                "",
                "Missing field name required for TAGK rule",
            ),
            (
                RuleType::TagkCustom,
                "host",
                "",
                "Missing custom field name required for TAGK_CUSTOM rule",
            ),
            (
                RuleType::TagvCustom,
                "",
                "x",
                "Missing field name required for TAGV_CUSTOM rule",
            ),
        ] {
            assert_eq!(edit(Some(kind), field, custom), Err(message.into()));
        }
        assert_eq!(RuleType::parse("tagk_custom"), Some(RuleType::TagkCustom));
        assert_eq!(RuleType::parse("tagv"), None);
    }
}
