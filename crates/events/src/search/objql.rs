//! Searches as text, translated into the request that JSON is read as.
//!
//! ```text
//! service:"shop" event:"order.placed" where attr.order.channel = "web" and trace_id = "5b8a…"
//!     since -1h order by started_at desc limit 50
//! ```

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::answer::push_rows;
use super::fields::{self, Fields};
use super::request::{MAX_LIMIT, SearchRequest};
use super::source::EventRows;
use super::{find, on_thread};
use crate::Problem;

/// The period, if the text has none.
const DEFAULT_PERIOD: &str = "24h";

/// Events of an answer, unless the request says otherwise.
const DEFAULT_LIMIT: usize = 100;

/// The longest text.
const TEXT_MAX: usize = 16 * 1024;

/// Parentheses within parentheses.
const DEPTH_MAX: usize = 12;

/// Answers the body of `POST /api/objql/query` with a list of events.
pub async fn query_objql(rows: Arc<dyn EventRows>, body: &[u8]) -> Result<String, Problem> {
    let body = fields::parse(body)?;
    let text = fields::required(&body, "q")?;
    let mut translated = translate(text)?;
    let offset = fields::count(&body, "offset")?.unwrap_or(0);
    let page = fields::count(&body, "limit")?
        .unwrap_or(MAX_LIMIT)
        .min(MAX_LIMIT);
    // The limit of the text is that of all pages.
    let all = fields::count(&translated, "limit")?.unwrap_or(DEFAULT_LIMIT);
    let limit = page.min(all.saturating_sub(offset));
    if limit == 0 {
        return Ok("[]".into());
    }
    translated.insert("offset".into(), json!(offset));
    translated.insert("limit".into(), json!(limit));
    let request = SearchRequest::from_fields(&*rows, translated)?;
    let found = find(rows, &request).await?;
    on_thread(move || {
        let mut out = String::new();
        push_rows(&mut out, &found.events, &request.zone);
        out
    })
    .await
}

/// The body of a search that a text stands for.
pub(super) fn translate(text: &str) -> Result<Fields, Problem> {
    if text.len() > TEXT_MAX {
        return Err(wrong(format!("the text is longer than {TEXT_MAX} bytes")));
    }
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
    };
    let mut body = Map::new();
    let mut period = DEFAULT_PERIOD.to_owned();
    while let Some(word) = parser.next_word()? {
        match word.to_ascii_lowercase().as_str() {
            field @ ("service" | "event") => {
                if !parser.take(":") && !parser.take("=") {
                    return Err(wrong(format!("{field} needs a colon")));
                }
                body.insert(field.into(), json!(parser.value_text()?));
            }
            "where" => {
                body.insert("filter".into(), parser.any(DEPTH_MAX)?);
            }
            "since" | "previous" => period = parser.value_text()?,
            "order" => {
                parser.expect_word("by")?;
                let field = parser.value_text()?;
                let dir = ["asc", "desc"]
                    .into_iter()
                    .find(|dir| parser.take_word(dir));
                let order = json!([{ "field": field, "dir": dir.unwrap_or("desc") }]);
                body.insert("order".into(), order);
            }
            "limit" => {
                let limit = parser.value_text()?;
                let limit: usize = limit.parse().map_err(|_| wrong("limit needs a number"))?;
                body.insert("limit".into(), json!(limit));
            }
            "tz" => {
                body.insert("tz".into(), json!(parser.value_text()?));
            }
            other => return Err(wrong(format!("{other:?} is not understood here"))),
        }
    }
    body.insert("period".into(), json!({ "previous": period }));
    Ok(body)
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Quoted(String),
    Sign(&'static str),
}

const SIGNS: [&str; 13] = [
    "!=", "<>", ">=", "<=", "=~", "==", "=", ">", "<", "(", ")", ",", ":",
];

fn tokens(text: &str) -> Result<Vec<Token>, Problem> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if first == '"' || first == '\'' {
            let (quoted, after) = quoted(&rest[1..], first)?;
            tokens.push(Token::Quoted(quoted));
            rest = after;
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            let is_end = |c: char| c.is_whitespace() || "\"'!<>=(),:".contains(c);
            let end = rest.find(is_end).unwrap_or(rest.len());
            if end == 0 {
                return Err(wrong(format!("{first:?} is not understood")));
            }
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    Ok(tokens)
}

/// Text up to a quote; a backslash takes the meaning of the next character.
fn quoted(rest: &str, quote: char) -> Result<(String, &str), Problem> {
    let mut text = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => text.extend(chars.next().map(|(_, c)| c)),
            c if c == quote => return Ok((text, &rest[at + c.len_utf8()..])),
            c => text.push(c),
        }
    }
    Err(wrong("a quote is not closed"))
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next_word(&mut self) -> Result<Option<String>, Problem> {
        match self.peek().cloned() {
            None => Ok(None),
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(Some(word))
            }
            Some(Token::Quoted(text)) => Err(wrong(format!("{text:?} is not understood here"))),
            Some(Token::Sign(sign)) => Err(wrong(format!("{sign} is not understood here"))),
        }
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(found);
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is = |found: &str| found.eq_ignore_ascii_case(word);
        let found = matches!(self.peek(), Some(Token::Word(found)) if is(found));
        self.at += usize::from(found);
        found
    }

    fn expect_word(&mut self, word: &str) -> Result<(), Problem> {
        if self.take_word(word) {
            return Ok(());
        }
        Err(wrong(format!("expected {word}")))
    }

    /// A word or a quoted text.
    fn value_text(&mut self) -> Result<String, Problem> {
        match self.peek().cloned() {
            Some(Token::Word(text) | Token::Quoted(text)) => {
                self.at += 1;
                Ok(text)
            }
            _ => Err(wrong("a value is missing")),
        }
    }

    /// Conditions with `or` between them.
    fn any(&mut self, depth: usize) -> Result<Value, Problem> {
        let mut parts = vec![self.all(depth)?];
        while self.take_word("or") {
            parts.push(self.all(depth)?);
        }
        Ok(match parts.len() {
            1 => parts.swap_remove(0),
            _ => json!({ "or": parts }),
        })
    }

    /// Conditions with `and` between them.
    fn all(&mut self, depth: usize) -> Result<Value, Problem> {
        let mut parts = vec![self.one(depth)?];
        while self.take_word("and") {
            parts.push(self.one(depth)?);
        }
        Ok(match parts.len() {
            1 => parts.swap_remove(0),
            _ => json!({ "and": parts }),
        })
    }

    fn one(&mut self, depth: usize) -> Result<Value, Problem> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(wrong("parentheses are nested too deep"));
        };
        if self.take("(") {
            let condition = self.any(depth)?;
            if !self.take(")") {
                return Err(wrong("a parenthesis is not closed"));
            }
            return Ok(condition);
        }
        let Some(path) = self.next_word()? else {
            return Err(wrong("a condition is missing"));
        };
        let op = match self.peek().cloned() {
            Some(Token::Word(word)) => word.to_ascii_lowercase(),
            Some(Token::Sign(sign)) => sign.to_owned(),
            _ => return Err(wrong(format!("{path} needs an operator"))),
        };
        self.at += 1;
        Ok(match op.as_str() {
            "exists" => json!({ "path": path, "op": op }),
            "in" => json!({ "path": path, "op": op, "value": self.list()? }),
            "contains" => {
                let pattern = format!("%{}%", literally(&self.value_text()?));
                json!({ "path": path, "op": "like", "value": pattern })
            }
            _ => json!({ "path": path, "op": op, "value": self.value()? }),
        })
    }

    fn list(&mut self) -> Result<Vec<Value>, Problem> {
        if !self.take("(") {
            return Err(wrong("in needs values in parentheses"));
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            if self.take(")") {
                return Ok(values);
            }
            if !self.take(",") {
                return Err(wrong("a parenthesis is not closed"));
            }
        }
    }

    /// A quoted text, or a number, `true` or `false`, or a word as text.
    fn value(&mut self) -> Result<Value, Problem> {
        let is_quoted = matches!(self.peek(), Some(Token::Quoted(_)));
        let text = self.value_text()?;
        if is_quoted {
            return Ok(json!(text));
        }
        Ok(match text.as_str() {
            "true" => json!(true),
            "false" => json!(false),
            _ => match (text.parse::<i64>(), text.parse::<f64>()) {
                (Ok(integer), _) => json!(integer),
                (_, Ok(number)) if number.is_finite() => json!(number),
                _ => json!(text),
            },
        })
    }
}

/// A pattern that only the text itself is like.
fn literally(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

fn wrong(detail: impl Into<String>) -> Problem {
    Problem::new(400, "query.invalid-text", detail)
}
