//! Bodies of requests: `/api/query` and `/api/query/exp`.

use super::exp::translate_exp;
use super::options::TranslateOptions;
use super::refusal::Refusal;
use super::sub_query::{Surroundings, build};
use super::translation::Translation;
use super::variables::Variables;
use crate::json::Json;
use crate::query::post;

/// A sub query or an output, and what became of it.
#[derive(Clone, Debug)]
pub struct TranslatedPart {
    /// Where it stands in the document.
    pub name: String,
    pub translation: Result<Translation, Refusal>,
}

/// Translates the body of a request. Its own times count rather than those of the options.
pub fn translate_body(
    text: &str,
    options: &TranslateOptions,
) -> Result<Vec<TranslatedPart>, Refusal> {
    let mut variables = Variables::default();
    let hidden = variables.hide(text)?;
    let document = Json::parse(&hidden)?;
    if document.get("metrics").is_some() {
        let outputs = translate_exp(&document, options, &variables)?.into_iter();
        let part = |(id, translation)| TranslatedPart {
            name: format!("output {id}"),
            translation,
        };
        return Ok(outputs.map(part).collect());
    }
    let mut request = post::parse(&document)?;
    if request.sub_queries.is_empty() {
        return Err(Refusal::new("it has no queries"));
    }
    if request.start.is_empty() {
        request.start.clone_from(&options.start);
        request.end.clone_from(&options.end);
    }
    let around = Surroundings::new(&request, options, &variables)?;
    let parts = request.sub_queries.iter().enumerate();
    let parts = parts.map(|(i, sub_query)| TranslatedPart {
        name: format!("queries[{i}]"),
        translation: build(sub_query, &around)
            .and_then(|built| Translation::new(built, None, options, &variables)),
    });
    Ok(parts.collect())
}
