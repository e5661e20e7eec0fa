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
            let number = text.parse();
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
