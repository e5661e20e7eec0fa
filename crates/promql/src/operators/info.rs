//! `info(v, {…})`: adds to the rows of a vector the labels of info metrics of the same target.
//!
//! `instance` and `job` identify a target. The info series of the targets of the rows are read, and
//! at each step every info metric contributes its latest series.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use icecore_model::{
    Labels, MAX_PATTERN_BYTES, METRIC_NAME, MatchOp, Matcher, RolledTime, Selection,
};

use super::answer_labels::text_of;
use super::label_key::LabelKey;
use super::once::CountedRows;
use super::scan::open;
use super::select::Picker;
use super::{Run, build, collect};
use crate::error::{Error, Result};
use crate::exec::{LabelMaker, Row, Values, merge_steps};
use crate::functions::window::WindowNeed;
use crate::plan::{INFO_METRIC, SelectorOutput, Vector, VectorKind};

/// The labels that identify a target.
const IDENTIFYING: [&str; 2] = ["instance", "job"];

/// The info metrics if the query has only negative matchers of the name.
const ANY_METRIC: &str = ".+_info";

/// The rows of `info`.
pub(super) async fn rows<'q>(run: &'q Run<'q>, node: &'q Vector) -> Result<CountedRows> {
    let VectorKind::Info {
        input,
        matchers,
        implied,
        lookback_ms,
        lookup,
        offset_ms,
        choice,
    } = &node.kind
    else {
        return CountedRows::none(run.context);
    };
    let context = run.context;
    let (rows, held) = collect(context, &mut *build(run, input)).await?;
    let selector = InfoSelector::new(matchers);
    let (infos, rest): (Vec<Row>, Vec<Row>) =
        (rows.into_iter()).partition(|row| selector.is_info_metric(&row.labels));
    let mut enriched = infos;
    let output = SelectorOutput::Timestamp;
    let picker = Picker::new(*lookup, *offset_ms, *lookback_ms, output, &context.rollup);
    let at = |time: i64| time.saturating_sub(*offset_ms);
    let mut series: Vec<Row> = Vec::new();
    let mut infos_held = context.reserve(0)?;
    for matchers in selector.selections(&rest, implied) {
        let selection = Selection {
            matchers,
            start_ms: at(lookup.start_ms)
                .saturating_sub(*lookback_ms)
                .saturating_add(1),
            end_ms: at(lookup.end_ms()),
            hints: context.hints(RolledTime::Windows(*choice, WindowNeed::LATEST.fields)),
        };
        let mut stream = open(context, &selection).await?;
        while let Some(batch) = stream.next_batch().await? {
            context.rollup.read(&batch);
            context.check()?;
            if let Some(found) = batch.iter().find(|series| !series.histograms.is_empty()) {
                return Err(Error::Execution(format!(
                    "this should be an info metric, with float samples: {}",
                    text_of(&found.labels)
                )));
            }
            let known = series.len();
            series.extend(
                batch
                    .iter()
                    .filter_map(|series| picker.row(series, &|_| {})),
            );
            context.hold(&mut infos_held, &series[known..])?;
        }
    }
    let targets = Targets::new(&series, *lookup != node.grid);
    targets.check(enriched.iter().chain(&rest))?;
    let maker = LabelMaker::new(context)?;
    for row in rest {
        enriched.extend(targets.enrich(row, &selector, &maker)?);
    }
    let rows = merge_steps(enriched)?;
    drop(maker);
    CountedRows::new(rows, held)
}

fn has_target(row: &Row) -> bool {
    IDENTIFYING
        .iter()
        .any(|name| row.labels.get(name).is_some())
}

/// The second argument: which info metrics and which of their labels.
struct InfoSelector {
    names: Vec<Matcher>,
    data: Vec<Matcher>,
    /// Samples without info series are kept.
    keeps_unmatched: bool,
}

impl InfoSelector {
    fn new(matchers: &[Matcher]) -> Self {
        let (mut names, data): (Vec<Matcher>, Vec<Matcher>) =
            (matchers.iter().cloned()).partition(|m| m.name() == METRIC_NAME);
        if names.is_empty() {
            names.push(Matcher::equal(METRIC_NAME, INFO_METRIC));
        }
        // Without a positive matcher every metric of the target would be an info metric.
        if names.iter().all(Matcher::is_negative)
            && let Ok(any) = Matcher::new(MatchOp::Regex, METRIC_NAME, ANY_METRIC)
        {
            names.push(any);
        }
        Self {
            names,
            keeps_unmatched: data.iter().all(Matcher::matches_empty),
            data,
        }
    }

    /// Rows of the info metrics themselves are not enriched.
    fn is_info_metric(&self, labels: &Labels) -> bool {
        self.names.iter().all(|m| m.matches(labels.metric_name()))
    }

    /// Matchers for the info series of the targets of `rows`: a list for each set of identifying
    /// labels that targets have, because an info series has no other ones. The lists have no series
    /// in common.
    fn selections(&self, rows: &[Row], implied: &[Matcher]) -> Vec<Vec<Matcher>> {
        let mut values_by_set: BTreeMap<[bool; 2], [BTreeSet<&str>; 2]> = BTreeMap::new();
        for row in rows.iter().filter(|row| has_target(row)) {
            let target = IDENTIFYING.map(|name| row.labels.get(name));
            let values = values_by_set.entry(target.map(|value| value.is_some()));
            for (values, value) in values.or_default().iter_mut().zip(target) {
                values.extend(value);
            }
        }
        let selection = |all_values: [BTreeSet<&str>; 2]| {
            let matchers = self.names.iter().chain(&self.data).chain(implied);
            let identifying = IDENTIFYING.into_iter().zip(all_values);
            let identifying = identifying.filter_map(|(name, values)| {
                if values.is_empty() {
                    return Some(Matcher::equal(name, ""));
                }
                // Targets are compared again below, so that more series may be selected. Those
                // without the label are in another list.
                let any = any_of(values);
                any.and_then(|pattern| Matcher::new(MatchOp::Regex, name, pattern).ok())
                    .or_else(|| Matcher::new(MatchOp::NotEqual, name, "").ok())
            });
            matchers.cloned().chain(identifying).collect()
        };
        values_by_set.into_values().map(selection).collect()
    }

    fn wants_label(&self, name: &str) -> bool {
        self.data.is_empty() || self.data.iter().any(|m| m.name() == name)
    }
}

/// A pattern that matches exactly these texts, unless it would be longer than patterns may be:
/// texts are read no further than that.
fn any_of<'t>(texts: impl IntoIterator<Item = &'t str>) -> Option<String> {
    let mut pattern = String::new();
    for (place, text) in texts.into_iter().enumerate() {
        if place > 0 {
            pattern.push('|');
        }
        if text.len() > MAX_PATTERN_BYTES.saturating_sub(pattern.len()) {
            return None;
        }
        for character in text.chars() {
            if r"\.+*?()|[]{}^$".contains(character) {
                pattern.push('\\');
            }
            pattern.push(character);
        }
    }
    Some(pattern)
}

/// Info series by target.
struct Targets<'r> {
    key: LabelKey,
    by_target: HashMap<Vec<u8>, Vec<&'r Row>>,
    /// Info series have one step, for all those of the rows.
    looked_up_once: bool,
}

impl<'r> Targets<'r> {
    fn new(infos: &'r [Row], looked_up_once: bool) -> Self {
        let key = LabelKey::new(&IDENTIFYING.map(String::from), false);
        let mut by_target: HashMap<Vec<u8>, Vec<&Row>> = HashMap::new();
        let mut target = Vec::new();
        for info in infos {
            key.write(&info.labels, &mut target);
            by_target.entry(target.clone()).or_default().push(info);
        }
        Self {
            key,
            by_target,
            looked_up_once,
        }
    }

    /// The step of the info series for one of the rows.
    fn lookup_step(&self, step: usize) -> usize {
        if self.looked_up_once { 0 } else { step }
    }

    /// No target may have two series of a metric with equal times at a step with a row, not even a
    /// target without rows.
    fn check<'a>(&self, rows: impl Iterator<Item = &'a Row>) -> Result<()> {
        let mut present: Vec<bool> = Vec::new();
        for row in rows {
            present.resize(row.values.floats.len(), false);
            for (step, present) in present.iter_mut().enumerate() {
                *present |= row.values.is_present(step);
            }
        }
        let present = present.iter().enumerate().filter(|(_, present)| **present);
        for (step, _) in present {
            for infos in self.by_target.values() {
                latest(infos, self.lookup_step(step))?;
            }
        }
        Ok(())
    }

    /// The row with the labels of the info series: one row for each distinct set of labels.
    fn enrich(
        &self,
        row: Row,
        selector: &InfoSelector,
        maker: &LabelMaker<'_>,
    ) -> Result<Vec<Row>> {
        let mut target = Vec::new();
        self.key.write(&row.labels, &mut target);
        let infos = if has_target(&row) {
            self.by_target
                .get(&target)
                .map_or([].as_slice(), Vec::as_slice)
        } else {
            &[]
        };
        let steps = row.values.floats.len();
        let mut enriched: BTreeMap<Vec<usize>, Row> = BTreeMap::new();
        for step in (0..steps).filter(|step| row.values.is_present(*step)) {
            let chosen = latest(infos, self.lookup_step(step))?;
            if chosen.is_empty() && !selector.keeps_unmatched {
                continue;
            }
            if !enriched.contains_key(&chosen) {
                let labels = labels_with(&row.labels, &chosen, infos, selector, maker)?;
                maker.grow_rows(1, steps)?;
                let with_labels = Row {
                    labels,
                    drop_name: row.drop_name,
                    values: Values::absent(steps),
                };
                enriched.insert(chosen.clone(), with_labels);
            }
            if let Some(target) = enriched.get_mut(&chosen) {
                match row.values.histogram(step) {
                    Some(histogram) => target.values.set_histogram(step, histogram.clone()),
                    None => target.values.set_float(step, row.values.floats[step]),
                }
            }
        }
        Ok(enriched.into_values().collect())
    }
}

/// The info series used at a step: that with the latest sample of each metric.
fn latest(infos: &[&Row], step: usize) -> Result<Vec<usize>> {
    let mut by_metric: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, info) in infos.iter().enumerate() {
        let Some(time) = info.values.float(step) else {
            continue;
        };
        let kept = by_metric.entry(info.labels.metric_name()).or_insert(place);
        if *kept == place {
            continue;
        }
        let other = infos[*kept];
        let other_time = other.values.float(step).unwrap_or(f64::NEG_INFINITY);
        if other_time == time {
            return Err(Error::Execution(format!(
                "found duplicate series for info metric: existing {} @ {}, new {} @ {}",
                text_of(&other.labels),
                other_time * 1000.0,
                text_of(&info.labels),
                time * 1000.0
            )));
        }
        if other_time < time {
            *kept = place;
        }
    }
    Ok(by_metric.into_values().collect())
}

fn labels_with(
    base: &Labels,
    chosen: &[usize],
    infos: &[&Row],
    selector: &InfoSelector,
    maker: &LabelMaker<'_>,
) -> Result<Labels> {
    let mut added: BTreeMap<&str, &str> = BTreeMap::new();
    for place in chosen {
        for (name, value) in infos[*place].labels.iter() {
            let is_data = name != METRIC_NAME && !IDENTIFYING.contains(&name);
            if !is_data || base.get(name).is_some() || !selector.wants_label(name) {
                continue;
            }
            if *added.entry(name).or_insert(value) != value {
                return Err(Error::Execution(format!("conflicting label: {name}")));
            }
        }
    }
    if added.is_empty() {
        return Ok(base.clone());
    }
    // None of them is among those of the row.
    added.extend(base.iter());
    maker.sorted(added.iter().map(|(name, value)| (*name, *value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_until_the_pattern_is_full() {
        let texts = ["a.b", "c|d", "é"];
        let pattern = any_of(texts).unwrap();
        assert_eq!(pattern, r"a\.b|c\|d|é");
        let matcher = Matcher::new(MatchOp::Regex, "job", pattern).unwrap();
        assert!(texts.iter().all(|text| matcher.matches(text)) && !matcher.matches("aab"));
        let (long, mut read) = (".".repeat(1 << 10), 0);
        let texts = std::iter::repeat_n(long.as_str(), 1 << 20).inspect(|_| read += 1);
        assert_eq!(any_of(texts), None);
        assert!(read <= MAX_PATTERN_BYTES >> 10, "{read} texts were read");
    }

    #[test]
    fn lists_have_no_series_in_common_where_values_are_many() {
        let row = |pairs: &[(&str, &str)]| Row {
            labels: Labels::from_pairs(pairs.iter().copied()),
            drop_name: false,
            values: Values::absent(1),
        };
        let long: Vec<String> = (0..5)
            .map(|number| number.to_string().repeat(MAX_PATTERN_BYTES / 4))
            .collect();
        let mut rows = vec![row(&[("job", "api")])];
        rows.extend((long.iter()).map(|text| row(&[("instance", text.as_str()), ("job", "api")])));
        let lists = InfoSelector::new(&[]).selections(&rows, &[]);
        let lists = lists.iter().map(|list| {
            let identifying = list.iter().filter(|m| m.name() != METRIC_NAME);
            let printed: Vec<String> = identifying.map(Matcher::to_string).collect();
            printed.join(",")
        });
        assert_eq!(
            lists.collect::<Vec<_>>(),
            [r#"instance="",job=~"api""#, r#"instance!="",job=~"api""#]
        );
    }
}
