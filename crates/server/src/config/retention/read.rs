//! Reading a policy key by key.
//!
//! Holds always: a problem is reported where the part that it is about was written, and all are
//! reported, except that times are only compared in a policy that could be read as a whole.

use icecore_model::Matcher;
use icecore_model::retention::{
    ColumnSet, DEFAULT_ROLLUP_DELAY_MS, LateData, Level, Override, PolicyPlace, PolicyProblem,
    Retention, RetentionPolicy,
};
use icecore_model::rollup::Resolution;
use icecore_settings::{Choice as _, Fields, Node, Value, kind_of, quoted};
use icecore_wire::prometheus::selector::{SelectorError, parse_selector};

use super::{ColumnWords, LateDataWords};

/// Reads a policy. `None` only where a problem was reported.
pub(in crate::config) fn read(mut fields: Fields<'_>) -> Option<RetentionPolicy> {
    let mut level_maps = maps(&mut fields, "levels");
    let levels: Vec<Level> = level_maps.good.iter_mut().filter_map(read_level).collect();
    let rollup_delay_ms = read_rollup_delay(&mut fields);
    let late_data = read_late_data(&mut fields);
    let mut override_maps = maps(&mut fields, "overrides");
    let overrides = override_maps.good.iter_mut().filter_map(read_override);
    let overrides: Vec<Override> = overrides.collect();
    // What could not be read is not there to be compared with the rest.
    let is_complete =
        level_maps.is_complete(levels.len()) && override_maps.is_complete(overrides.len());
    let mut policy = None;
    if let Some((rollup_delay_ms, late_data)) = rollup_delay_ms.zip(late_data)
        && is_complete
    {
        match RetentionPolicy::new(levels, rollup_delay_ms, late_data, overrides) {
            Ok(made) => policy = Some(made),
            Err(problems) => {
                for problem in problems {
                    report(problem, &fields, &level_maps.good, &override_maps.good);
                }
            }
        }
    }
    let maps = level_maps.good.into_iter().chain(override_maps.good);
    for map in maps.chain([fields]) {
        map.finish();
    }
    policy
}

/// The maps of a list.
struct MapList<'a> {
    good: Vec<Fields<'a>>,
    /// Whether something else was there, which has been reported.
    has_others: bool,
}

impl MapList<'_> {
    /// Whether each element was read.
    fn is_complete(&self, read: usize) -> bool {
        !self.has_others && read == self.good.len()
    }
}

fn maps<'a>(fields: &mut Fields<'a>, key: &'static str) -> MapList<'a> {
    let is_list = |node: &Node| matches!(node.value, Value::List(_));
    let mut maps = MapList {
        good: Vec::new(),
        has_others: fields.node(key).is_some_and(|node| !is_list(node)),
    };
    for (index, node) in fields.list(key).iter().enumerate() {
        let path = format!("{}[{index}]", fields.path_of(key));
        match &node.value {
            Value::Map(_) => maps.good.push(Fields::of(node, path, fields.source)),
            other => {
                let reason = format!(
                    "expected a map of keys and values, found {}",
                    kind_of(other)
                );
                fields.source.report(node.at, &path, reason);
                maps.has_others = true;
            }
        }
    }
    maps
}

fn read_level(fields: &mut Fields<'_>) -> Option<Level> {
    let resolution = required(fields, "resolution", parse_resolution);
    let retain = required(fields, "retain", parse_retention);
    let columns = fields.parsed("columns", ColumnWords::parse_word);
    let columns_are_bad = columns.is_none() && fields.has("columns");
    if resolution.is_some_and(Resolution::is_raw) && fields.has("columns") {
        fields.report("columns", "only windows have columns, raw samples do not");
        return None;
    }
    let resolution = resolution?;
    let level = Level {
        resolution,
        retain: retain?,
        columns: columns.unwrap_or(ColumnSet::default_of(resolution)),
    };
    (!columns_are_bad).then_some(level)
}

fn read_rollup_delay(fields: &mut Fields<'_>) -> Option<i64> {
    if fields.node("rollup_delay").is_none() {
        return Some(DEFAULT_ROLLUP_DELAY_MS);
    }
    let delay = fields.duration("rollup_delay")?;
    i64::try_from(delay.as_millis()).ok()
}

fn read_late_data(fields: &mut Fields<'_>) -> Option<LateData> {
    if fields.node("late_data").is_none() {
        return Some(LateData::default());
    }
    fields.parsed("late_data", LateDataWords::parse_word)
}

fn read_override(fields: &mut Fields<'_>) -> Option<Override> {
    let matchers = required(fields, "match", |text| Ok(text.to_owned()));
    let matchers = matchers.and_then(|text| match parse_match(&text) {
        Ok(matchers) => Some(matchers),
        Err(reason) => {
            fields.report("match", reason);
            None
        }
    });
    let mut retain = Vec::new();
    let mut is_complete = true;
    for resolution in Resolution::all() {
        let name = resolution.name();
        let given = fields.parsed(name, parse_retention);
        is_complete &= given.is_some() || !fields.has(name);
        retain.extend(given.map(|given| (resolution, given)));
    }
    let matchers = matchers.filter(|_| is_complete)?;
    Some(Override { matchers, retain })
}

fn required<T>(
    fields: &mut Fields<'_>,
    key: &'static str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    if fields.node(key).is_none() {
        fields.report(key, "is missing");
        return None;
    }
    fields.parsed(key, parse)
}

fn parse_resolution(text: &str) -> Result<Resolution, String> {
    Resolution::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = Resolution::all().map(Resolution::name).collect();
        format!("one of {}", names.join(", "))
    })
}

fn parse_retention(text: &str) -> Result<Retention, String> {
    let expected = || "a time such as 36h or 90d, 0 or inf".to_owned();
    text.parse().map_err(|_| expected())
}

fn parse_match(text: &str) -> Result<Vec<Matcher>, String> {
    parse_selector(text).map_err(|error| match error {
        SelectorError::Syntax {
            column, message, ..
        } => format!(
            "expected a selector such as {{team=\"a\"}}, found {}: {message} at its character {column}",
            quoted(text)
        ),
        SelectorError::MatchesEverything => "must match some series and not all".into(),
    })
}

/// Reports a problem where the part that it is about was written.
fn report(
    problem: PolicyProblem,
    fields: &Fields<'_>,
    levels: &[Fields<'_>],
    overrides: &[Fields<'_>],
) {
    let (fields, key) = match problem.place {
        PolicyPlace::Levels => (Some(fields), "levels"),
        PolicyPlace::RollupDelay => (Some(fields), "rollup_delay"),
        PolicyPlace::Overrides => (Some(fields), "overrides"),
        PolicyPlace::Resolution(index) => (levels.get(index), "resolution"),
        PolicyPlace::Retain(index) => (levels.get(index), "retain"),
        PolicyPlace::Override(index) => (overrides.get(index), "match"),
        PolicyPlace::OverrideRetain(index, resolution) => (overrides.get(index), resolution.name()),
    };
    if let Some(fields) = fields {
        fields.report(key, problem.reason);
    }
}
