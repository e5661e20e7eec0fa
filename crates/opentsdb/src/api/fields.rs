//! The fields of an object in a request: members of its body, or parameters of its address.

use std::collections::BTreeMap;

use super::body::unparsable;
use crate::error::Error;
use crate::json::Json;
use crate::request::Request;

/// Where the fields are.
pub(super) enum Fields<'a> {
    Body(Json<'a>),
    Parameters(&'a Request),
}

impl<'a> Fields<'a> {
    /// The body if there is one.
    pub(super) fn of(request: &'a Request) -> Result<Self, Error> {
        if request.has_content() {
            return Self::of_json(request.json()?);
        }
        Ok(Self::Parameters(request))
    }

    /// An object that is part of the body.
    pub(super) fn of_json(json: Json<'a>) -> Result<Self, Error> {
        if json.as_object().is_none() {
            return Err(unparsable("an object is expected"));
        }
        Ok(Self::Body(json))
    }

    /// A field by its names in bodies and in addresses. `null` is as good as not given.
    pub(super) fn text(&self, member: &str, parameter: &str) -> Result<Option<String>, Error> {
        match self {
            Self::Parameters(request) => Ok(request.param(parameter).map(String::from)),
            Self::Body(json) => match json.get(member).filter(|value| !value.is_null()) {
                None => Ok(None),
                Some(value) => match value.text() {
                    Some(text) => Ok(Some(text.to_owned())),
                    None => Err(unparsable(format!("{member} is no text"))),
                },
            },
        }
    }

    /// A text that is not empty.
    pub(super) fn filled(&self, member: &str, parameter: &str) -> Result<Option<String>, Error> {
        let text = self.text(member, parameter)?;
        Ok(text.filter(|text| !text.is_empty()))
    }

    pub(super) fn number<T: std::str::FromStr>(
        &self,
        member: &str,
        parameter: &str,
    ) -> Result<Option<T>, Error> {
        let text = self.text(member, parameter)?;
        let number = text.map(|text| {
            // A fraction is cut where an integer is wanted.
            let whole = text.split_once('.').map(|(whole, _)| whole);
            let number = text.parse().or_else(|e| whole.map_or(Err(e), str::parse));
            number.map_err(|_| unparsable(format!("{member} is no number: {text}")))
        });
        number.transpose()
    }

    /// A bool; in an address whatever is not `true` is false.
    pub(super) fn boolean(&self, member: &str, parameter: &str) -> Result<Option<bool>, Error> {
        let text = self.text(member, parameter)?;
        match (self, text.as_deref()) {
            (_, None) => Ok(None),
            (Self::Parameters(_), Some(text)) => Ok(Some(text == "true")),
            (Self::Body(_), Some("true")) => Ok(Some(true)),
            (Self::Body(_), Some("false")) => Ok(Some(false)),
            (Self::Body(_), Some(other)) => Err(unparsable(format!("{member} is {other}"))),
        }
    }

    /// A map of texts; there is none in an address.
    pub(super) fn map(&self, member: &str) -> Result<Option<BTreeMap<String, String>>, Error> {
        let Self::Body(json) = self else {
            return Ok(None);
        };
        let Some(value) = json.get(member).filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let wrong = || unparsable(format!("{member} is no map of texts"));
        let mut map = BTreeMap::new();
        for (key, value) in value.as_object().ok_or_else(wrong)? {
            let value = value.text().ok_or_else(wrong)?;
            map.insert(key.clone().into_owned(), value.to_owned());
        }
        Ok(Some(map))
    }

    /// A list of texts; in an address with commas.
    pub(super) fn list(&self, member: &str, parameter: &str) -> Result<Option<Vec<String>>, Error> {
        let json = match self {
            Self::Parameters(request) => {
                let texts = request.param(parameter).filter(|texts| !texts.is_empty());
                return Ok(texts.map(|texts| texts.split(',').map(String::from).collect()));
            }
            Self::Body(json) => json,
        };
        let Some(value) = json.get(member).filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let texts = value.as_array().and_then(|texts| {
            let texts = texts.iter().map(|text| text.text().map(String::from));
            texts.collect::<Option<Vec<_>>>()
        });
        let texts = texts.ok_or_else(|| unparsable(format!("{member} is no list of texts")))?;
        Ok(Some(texts))
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};

    use super::*;

    #[test]
    fn fields_come_from_the_body_or_the_address() {
        let body = r#"{"aB": "x", "n": 5.7, "no": null, "yes": true, "list": ["a", 1]}"#;
        let with = |body: &'static str| {
            let target = "/api/x?a_b=y&n=7&yes=1&list=c,d";
            Request::new(Method::POST, target, HeaderMap::new(), body.into())
        };
        let request = with(body);
        let fields = Fields::of(&request).unwrap();
        assert_eq!(fields.text("aB", "a_b").unwrap().as_deref(), Some("x"));
        assert_eq!(fields.number::<i32>("n", "n").unwrap(), Some(5));
        assert_eq!(fields.text("no", "no").unwrap(), None);
        assert_eq!(fields.boolean("yes", "yes").unwrap(), Some(true));
        assert_eq!(fields.list("list", "list").unwrap().unwrap(), ["a", "1"]);
        assert!(fields.text("list", "list").is_err());
        assert!(fields.map("aB").is_err());
        assert!(fields.number::<i32>("aB", "a_b").is_err());

        let request = with("");
        let fields = Fields::of(&request).unwrap();
        assert_eq!(fields.text("aB", "a_b").unwrap().as_deref(), Some("y"));
        assert_eq!(fields.number::<i32>("n", "n").unwrap(), Some(7));
        assert_eq!(fields.boolean("yes", "yes").unwrap(), Some(false));
        assert_eq!(fields.list("list", "list").unwrap().unwrap(), ["c", "d"]);
        assert_eq!(fields.map("aB").unwrap(), None);
        assert!(Fields::of(&with("[1]")).is_err());
    }
}
