//! A translation, and the entry for queries as text.

use super::condition::Condition;
use super::gexp::build_call;
use super::options::TranslateOptions;
use super::refusal::{Refusal, check_length};
use super::steps::Steps;
use super::sub_query::{Built, Surroundings, build};
use super::variables::{Variables, has_variables};
use crate::query::{SubQuery, parse_m};

/// The note about a query whose time has the begin of no interval.
const NO_STEPS: &str = "no interval begins in the time of the query: OpenTSDB answers without \
                        points, and there is no step at which to evaluate";

/// PromQL that gives the numbers of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    pub expr: String,
    /// The name of a series, as Grafana writes it: `cpu of {{host}}`.
    pub legend: Option<String>,
    pub steps: Steps,
    /// What has to be true of data; nothing where the numbers are the same for any.
    pub conditions: Vec<Condition>,
    /// What else is good to know.
    pub notes: Vec<String>,
}

impl Translation {
    pub(super) fn new(
        built: Built,
        legend: Option<String>,
        options: &TranslateOptions,
        variables: &Variables,
    ) -> Result<Self, Refusal> {
        let Built {
            vector,
            steps,
            conditions,
            mut notes,
            ..
        } = built;
        if steps.are_none() {
            notes.push(NO_STEPS.to_owned());
        }
        if options.strict && !conditions.is_empty() {
            let conditions: Vec<String> = conditions.iter().map(ToString::to_string).collect();
            let reason = format!(
                "the numbers are the same only if {}",
                conditions.join("; and ")
            );
            return Err(Refusal(reason));
        }
        let expr = variables.restore(&vector.text);
        check_length(expr.len())?;
        Ok(Self {
            expr,
            legend: legend.map(|legend| variables.restore(&legend)),
            steps,
            conditions,
            notes,
        })
    }
}

/// What stands behind `m=`. An interval may be a variable, which OpenTSDB itself never sees.
fn parse_query(text: &str) -> Result<SubQuery, Refusal> {
    let mut sub_query = parse_m(text)?;
    let mut options: Vec<&str> = text.split(':').skip(1).collect();
    // The last is the metric.
    options.pop();
    let is_variable = |option: &&&str| option.split('-').next().is_some_and(has_variables);
    if let Some(option) = options.iter().find(is_variable) {
        sub_query.downsample = Some((*option).to_owned());
    }
    Ok(sub_query)
}

/// Translates what stands behind `m=`, or behind `exp=` of `/api/query/gexp`.
pub fn translate_text(text: &str, options: &TranslateOptions) -> Result<Translation, Refusal> {
    check_length(text.len())?;
    let mut variables = Variables::default();
    let hidden = variables.hide(text.trim())?;
    let around = Surroundings::new(&options.request(), options, &variables)?;
    let is_call = hidden.split_once('(').is_some_and(|(name, _)| {
        let name = name.trim_end();
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic())
    });
    let (built, legend) = if is_call {
        build_call(&hidden, &around)?
    } else {
        (build(&parse_query(&hidden)?, &around)?, None)
    };
    Translation::new(built, legend, options, &variables)
}
