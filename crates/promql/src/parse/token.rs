//! The words of the language.
//!
//! Holds always: a token's text is the piece of the query that its span names.

use super::ast::{AggregateOp, BinaryOp, Span};

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind,
    pub(super) span: Span,
    pub(super) text: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    EndOfInput,
    Comma,
    Colon,
    LeftParen,
    RightParen,
    LeftBrace,
    RightBrace,
    LeftBracket,
    RightBracket,
    /// `=` of matchers.
    Assign,
    RegexMatch,
    RegexNotMatch,
    /// A name without a colon: a metric, a function or a label.
    Identifier,
    /// A name with a colon.
    MetricIdentifier,
    Number,
    Duration,
    String,
    At,
    Operator(BinaryOp),
    Aggregate(AggregateOp),
    Keyword(Keyword),
    Preprocessor(Preprocessor),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    Offset,
    Anchored,
    Smoothed,
    By,
    Without,
    On,
    Ignoring,
    GroupLeft,
    GroupRight,
    Fill,
    FillLeft,
    FillRight,
    Bool,
}

/// Words for the times of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preprocessor {
    Start,
    End,
    Step,
    Range,
}

/// What a word means outside braces, whatever its case. `Inf` and `NaN` are numbers.
pub(super) fn keyword(word: &str) -> Option<TokenKind> {
    use TokenKind as T;
    const LONGEST: usize = "count_values".len();
    if word.len() > LONGEST {
        return None;
    }
    Some(match word.to_ascii_lowercase().as_str() {
        "and" => T::Operator(BinaryOp::And),
        "or" => T::Operator(BinaryOp::Or),
        "unless" => T::Operator(BinaryOp::Unless),
        "atan2" => T::Operator(BinaryOp::Atan2),
        "offset" => T::Keyword(Keyword::Offset),
        "anchored" => T::Keyword(Keyword::Anchored),
        "smoothed" => T::Keyword(Keyword::Smoothed),
        "by" => T::Keyword(Keyword::By),
        "without" => T::Keyword(Keyword::Without),
        "on" => T::Keyword(Keyword::On),
        "ignoring" => T::Keyword(Keyword::Ignoring),
        "group_left" => T::Keyword(Keyword::GroupLeft),
        "group_right" => T::Keyword(Keyword::GroupRight),
        "fill" => T::Keyword(Keyword::Fill),
        "fill_left" => T::Keyword(Keyword::FillLeft),
        "fill_right" => T::Keyword(Keyword::FillRight),
        "bool" => T::Keyword(Keyword::Bool),
        "start" => T::Preprocessor(Preprocessor::Start),
        "end" => T::Preprocessor(Preprocessor::End),
        "step" => T::Preprocessor(Preprocessor::Step),
        "range" => T::Preprocessor(Preprocessor::Range),
        "inf" | "nan" => T::Number,
        lower => T::Aggregate(AggregateOp::by_name(lower)?),
    })
}

impl Token<'_> {
    /// The token as error messages name it.
    pub(super) fn describe(&self) -> String {
        use TokenKind as T;
        let text = self.text;
        match self.kind {
            T::EndOfInput => "end of input".to_string(),
            T::Identifier => format!("identifier {}", quoted(text)),
            T::MetricIdentifier => format!("metric identifier {}", quoted(text)),
            T::Number => format!("number {}", shortened(text)),
            T::Duration => format!("duration {}", shortened(text)),
            T::String => format!("string {}", shortened(text)),
            T::Keyword(_) => format!("<{text}>"),
            T::Aggregate(_) => format!("<aggr:{text}>"),
            T::Operator(_) | T::At | T::RegexMatch | T::RegexNotMatch => format!("<op:{text}>"),
            _ => quoted(text),
        }
    }

    /// Whether the token may be a label in the parentheses of `by`, `on` and their like: keywords
    /// are names there.
    pub(super) fn is_label(&self) -> bool {
        use TokenKind as T;
        match self.kind {
            T::Identifier | T::MetricIdentifier | T::Aggregate(_) | T::Preprocessor(_) => true,
            T::Operator(op) => op.is_set() || op == BinaryOp::Atan2,
            T::Keyword(keyword) => keyword != Keyword::Without,
            _ => false,
        }
    }
}

/// Long texts are cut in messages, as Go's `%.10q...` does.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 10;
    if text.len() <= SHOWN {
        return quoted(text);
    }
    let shown: String = text.chars().take(SHOWN).collect();
    format!("{}...", quoted(&shown))
}

fn quoted(text: &str) -> String {
    super::text::quoted(text)
}
