//! The text of an expression: `function(argument, …)`.
//!
//! ```text
//! call     := name '(' argument (',' argument)* ')'
//! argument := call | query | name
//! query    := name ':' (name ':')? (name ':')? name ('{' name '=' name (',' name '=' name)* '}')?
//! name     := '*' | [a-zA-Z0-9_#/$@|.'\[\]-]+
//! ```

use super::function::Function;
use crate::error::Error;
use crate::query::SubQuery;
use crate::query::parse_m;

/// Calls within each other.
const DEPTH_MAX: usize = 32;

/// Queries of one expression.
pub(super) const QUERIES_MAX: usize = 64;

/// Parts of a query that may stand before its metric.
const QUERY_PARTS_MAX: usize = 3;

/// A function with its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) function: Function,
    /// Sets of series.
    pub(crate) inputs: Vec<Input>,
    /// All other arguments.
    pub(crate) params: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Input {
    Query(Box<SubQuery>),
    Call(Call),
}

impl Call {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let failed = || Error::bad_request(format!("Failed to parse {text}"));
        let tokens = tokens(text).ok_or_else(failed)?;
        let mut parser = Parser {
            tokens: &tokens,
            queries: 0,
        };
        let call = parser.call(DEPTH_MAX)?.ok_or_else(failed)?;
        if parser.tokens.is_empty() {
            Ok(call)
        } else {
            Err(failed())
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Name(&'a str),
    Mark(char),
}

/// `None` where there is something else.
fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '*' => 1,
            _ => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
        };
        let (token, behind) = rest.split_at(length);
        if !token.is_empty() {
            tokens.push(Token::Name(token));
            rest = behind.trim_start();
        } else if "(),:{}=".contains(c) {
            tokens.push(Token::Mark(c));
            rest = rest[1..].trim_start();
        } else {
            return None;
        }
    }
    Some(tokens)
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_#/$@|.'][".contains(c)
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    queries: usize,
}

impl<'a> Parser<'a> {
    /// `None` where the text is no call.
    fn call(&mut self, depth: usize) -> Result<Option<Call>, Error> {
        let [Token::Name(name), Token::Mark('('), ..] = self.tokens else {
            return Ok(None);
        };
        if depth == 0 {
            let message = format!("Functions must not be nested deeper than {DEPTH_MAX}");
            return Err(Error::bad_request(message));
        }
        self.tokens = &self.tokens[2..];
        let (mut inputs, mut params) = (Vec::new(), Vec::new());
        loop {
            match self.tokens {
                [Token::Name(_), Token::Mark('('), ..] => match self.call(depth - 1)? {
                    Some(call) => inputs.push(Input::Call(call)),
                    None => return Ok(None),
                },
                [Token::Name(_), Token::Mark(':'), ..] => match self.query() {
                    Some(text) => inputs.push(Input::Query(Box::new(parse_m(&text)?))),
                    None => return Ok(None),
                },
                [Token::Name(param), rest @ ..] => {
                    params.push((*param).to_owned());
                    self.tokens = rest;
                }
                _ => return Ok(None),
            }
            if self.take(')') {
                break;
            }
            if !self.take(',') {
                return Ok(None);
            }
        }
        if self.queries > QUERIES_MAX {
            let message = format!("There must not be more than {QUERIES_MAX} queries");
            return Err(Error::bad_request(message));
        }
        let function = Function::find(name).ok_or_else(|| {
            Error::bad_request(format!("Function {name} has not been implemented"))
        })?;
        Ok(Some(Call {
            function,
            inputs,
            params,
        }))
    }

    fn query(&mut self) -> Option<String> {
        self.queries += 1;
        let mut text = String::new();
        let mut parts = 0;
        while let [Token::Name(part), Token::Mark(':'), rest @ ..] = self.tokens {
            parts += 1;
            text.push_str(part);
            text.push(':');
            self.tokens = rest;
        }
        if parts > QUERY_PARTS_MAX {
            return None;
        }
        text.push_str(self.name()?);
        if self.take('{') {
            let mut separator = '{';
            loop {
                let tagk = self.name()?;
                let value = if self.take('=') {
                    self.name()?
                } else {
                    return None;
                };
                text.push(separator);
                separator = ',';
                text.push_str(&format!("{tagk}={value}"));
                if self.take('}') {
                    break;
                }
                if !self.take(',') {
                    return None;
                }
            }
            text.push('}');
        }
        Some(text)
    }

    fn name(&mut self) -> Option<&'a str> {
        let [Token::Name(name), rest @ ..] = self.tokens else {
            return None;
        };
        self.tokens = rest;
        Some(name)
    }

    fn take(&mut self, mark: char) -> bool {
        match self.tokens {
            [Token::Mark(found), rest @ ..] if *found == mark => {
                self.tokens = rest;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn calls_are_read_with_what_they_contain() {
        let text = " sumSeries( scale(sum:1m-avg:rate:a.b{host=*,dc=lga|x}, 2 ), max:c) ";
        let call = Call::parse(text).unwrap();
        let [Input::Call(scale), Input::Query(second)] = call.inputs.as_slice() else {
            panic!("a call and a query")
        };
        assert_eq!(scale.params, ["2"]);
        let [Input::Query(first)] = scale.inputs.as_slice() else {
            panic!("a query")
        };
        assert_eq!(first.metric.as_deref(), Some("a.b"));
        assert_eq!(first.filters.len(), 2);
        assert!(first.rate && first.downsample.is_some());
        assert_eq!(second.aggregator, "max");
        let call = Call::parse("alias(sum:a,x,@host-'y')").unwrap();
        assert_eq!(call.params, ["x", "@host-'y'"]);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "(",
            "scale()",
            "sum:a",
            "scale(sum:a,2",
            "scale(sum:a,)",
            "scale(sum:a,2))",
            "alias(sum:a,n @host)",
            "scale(sum:rate{counter,100}:a,2)",
            "scale(sum:a{host=},2)",
            "scale(sum:a{host=web*},2)",
            "scale(sum:a:b:c:d,2)",
            "scale(sum:a,\"x\")",
            "scale(sum:ä,2)",
        ] {
            let error = Call::parse(text).unwrap_err();
            assert_eq!(error.message, format!("Failed to parse {text}"));
        }
        let error = Call::parse("foo(sum:a)").unwrap_err();
        assert_eq!(error.message, "Function foo has not been implemented");
        let deep = format!("{}sum:a{}", "absolute(".repeat(40), ")".repeat(40));
        assert!(Call::parse(&deep).is_err());
        let wide = format!("sum(sum:a{})", ",sum:a".repeat(QUERIES_MAX));
        assert!(Call::parse(&wide).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_call_or_an_error(text in "(scale|sum|[a:,=*' ä(){}]){0,20}") {
            let _ = Call::parse(&text);
            let _ = Call::parse(&format!("scale(sum:{text},2)"));
        }
    }
}
