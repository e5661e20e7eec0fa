//! Variables of a dashboard whose values come from OpenTSDB.

use super::super::matchers::selector;
use super::super::promql::{escaped, quoted};
use super::super::refusal::Refusal;
use super::super::variables::Variables;
use super::ReportLine;
use super::document::{Object, datasource};
use crate::json::Json;
use crate::query::TagFilter;

/// Functions by which Grafana asks OpenTSDB for names.
const FUNCTIONS: [&str; 5] = [
    "metrics",
    "tag_names",
    "tag_values",
    "suggest_tagk",
    "suggest_tagv",
];

/// Names that are labels only in PromQL.
const NOT_THE_NAME: &str = "/^(?!__name__$).*/";

/// Translates the query of a variable; `None` where it is none of OpenTSDB.
pub(super) fn translate_variable(variable: &mut Object<'_, '_>, uid: &str) -> Option<ReportLine> {
    let name = variable.text("name").unwrap_or_default();
    let place = format!("variable {name:?}");
    let kind = variable.text("type").unwrap_or("query");
    if kind == "custom" {
        return star_of_custom(variable).map(|refusal| ReportLine {
            place,
            outcome: Err(refusal),
        });
    }
    let query = match variable.get("query") {
        Some(Json::Text(text)) => text.to_string(),
        Some(object) => object
            .get("query")
            .and_then(Json::text)
            .unwrap_or_default()
            .to_owned(),
        None => String::new(),
    };
    let is_ours = variable.is_of_opentsdb()
        || (variable.datasource_type().is_none() && call_of(&query).is_some());
    if kind != "query" || !is_ours {
        return None;
    }
    let outcome = translated(&query).map(|(query, pattern)| {
        change(variable, &query, pattern, uid);
        (Vec::new(), Vec::new())
    });
    Some(ReportLine { place, outcome })
}

/// A list that a user wrote: `*` is no pattern of PromQL.
fn star_of_custom(variable: &Object<'_, '_>) -> Option<Refusal> {
    let query = variable.get("query").and_then(Json::text)?;
    let is_star = |value: &str| {
        let value = value.rsplit_once(" : ").map_or(value, |(_, value)| value);
        value.trim() == "*"
    };
    query.split(',').any(is_star).then(|| {
        Refusal::new("one of its values is *, which means everything to OpenTSDB: make it .*")
    })
}

fn change(variable: &mut Object<'_, '_>, query: &str, pattern: Option<String>, uid: &str) {
    match variable.get_mut("query") {
        Some(Json::Object(members)) => {
            let mut object = Object(members);
            object.set_text("query", query);
        }
        _ => variable.set_text("query", query),
    }
    if variable.get("definition").is_some() {
        variable.set_text("definition", query);
    }
    // A pattern that a user wrote counts more.
    if let Some(pattern) = pattern
        && variable.text("regex").is_none()
    {
        variable.set_text("regex", pattern);
    }
    if variable.text("allValue") == Some("*") {
        variable.set_text("allValue", ".*");
    }
    variable.set("datasource", datasource("prometheus", uid));
}

/// The name of the function, and its arguments.
fn call_of(query: &str) -> Option<(&str, &str)> {
    let (name, rest) = query.trim().split_once('(')?;
    let arguments = rest.trim_end().strip_suffix(')')?;
    FUNCTIONS.contains(&name).then_some((name, arguments))
}

/// The query for Prometheus, and a pattern that its answers have to match.
fn translated(query: &str) -> Result<(String, Option<String>), Refusal> {
    let (function, arguments) = call_of(query)
        .ok_or_else(|| Refusal(format!("{query} is no query of OpenTSDB's data source")))?;
    let mut variables = Variables::default();
    let arguments = variables.hide(arguments)?;
    let mut arguments = arguments.split(',').map(str::trim);
    let first = arguments.next().unwrap_or_default();
    let found = match function {
        "metrics" => {
            let pattern = quoted(&format!("{}.*", escaped(first)));
            (
                format!("label_values({{__name__=~{pattern}}}, __name__)"),
                None,
            )
        }
        "tag_names" => (
            format!("label_names({})", selector(first, &[], &[])),
            Some(NOT_THE_NAME.to_owned()),
        ),
        "tag_values" => {
            let key = arguments.next().unwrap_or_default();
            if key.is_empty() {
                return Err(Refusal(format!("{query} names no tag")));
            }
            let filters = arguments.map(|pair| {
                let (tagk, value) = pair.split_once('=').unwrap_or((pair, ""));
                TagFilter::short(tagk.trim(), value.trim(), false).map_err(Refusal)
            });
            let filters: Vec<TagFilter> = filters.collect::<Result<_, _>>()?;
            let key = super::super::promql::label_name(key);
            (
                format!("label_values({}, {key})", selector(first, &filters, &[])),
                None,
            )
        }
        "suggest_tagk" => (
            "label_names()".to_owned(),
            Some(format!("/^(?!__name__$){}/", escaped(first))),
        ),
        _ => {
            return Err(Refusal::new(
                "Prometheus lists the values of one label, not those of all: ask for \
                 label_values(metric, tag)",
            ));
        }
    };
    let restored = |text: String| variables.restore(&text);
    Ok((restored(found.0), found.1.map(restored)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_asked_for_as_labels() {
        for (query, expected) in [
            (
                "metrics(sys.cpu)",
                r#"label_values({__name__=~"sys\\.cpu.*"}, __name__)"#,
            ),
            (
                "tag_values(sys.cpu, host)",
                r#"label_values({"sys.cpu"}, host)"#,
            ),
            (
                "tag_values(sys.cpu, host, dc=$dc, env=*)",
                r#"label_values({"sys.cpu",dc=~"$dc",dc!="",env!=""}, host)"#,
            ),
            ("tag_names(sys.cpu)", r#"label_names({"sys.cpu"})"#),
            ("suggest_tagk(ho)", "label_names()"),
        ] {
            assert_eq!(translated(query).unwrap().0, expected);
        }
        assert_eq!(
            translated("suggest_tagk(ho)").unwrap().1.as_deref(),
            Some("/^(?!__name__$)ho/")
        );
        for query in [
            "suggest_tagv(web)",
            "tag_values(m)",
            "other(x)",
            "metrics(x",
        ] {
            assert!(translated(query).is_err(), "{query}");
        }
    }
}
