//! Arithmetic and comparison of matched rows: one to one, many to one, one to many.

use std::collections::HashMap;

use icecore_model::{Labels, METRIC_NAME};

use super::super::answer_labels::text_of;
use super::super::label_key::{KeyInterner, LabelKey, is_metric_label};
use super::KeyedRows;
use super::pair::{Side, fits, values};
use crate::annotations::Annotation;
use crate::error::{Error, Result};
use crate::exec::{ABSENT, LabelMaker, Row, Values};
use crate::parse::{BinaryOp, Cardinality, VectorMatching};

pub(super) struct Join<'a> {
    pub(super) op: BinaryOp,
    pub(super) return_bool: bool,
    pub(super) matching: &'a VectorMatching,
    pub(super) keys: &'a LabelKey,
    pub(super) steps: usize,
    /// Whether results lose the metric name.
    pub(super) removes_names: bool,
    pub(super) annotate: &'a dyn Fn(Annotation),
    pub(super) maker: &'a LabelMaker<'a>,
}

impl Join<'_> {
    pub(super) fn rows(&self, lhs: Vec<Row>, rhs: Vec<Row>) -> Result<Vec<Row>> {
        // The "one" side is the right one, except with group_right.
        let swapped = self.matching.cardinality == Cardinality::OneToMany;
        let (many, one) = if swapped { (rhs, lhs) } else { (lhs, rhs) };
        // In Prometheus the left fill value is that of the "many" side, even with group_right.
        let (fill_many, fill_one) = (self.matching.fill_left, self.matching.fill_right);
        let fills = fill_many.is_some() || fill_one.is_some();
        if (many.is_empty() || one.is_empty()) && !fills {
            return Ok(Vec::new());
        }
        let mut interner = KeyInterner::default();
        let many = KeyedRows::new(many, self.keys, &mut interner, self.maker)?;
        let one = KeyedRows::new(one, self.keys, &mut interner, self.maker)?;
        let count = interner.len();
        let sides = Sides {
            many_of: many.by_key(count),
            one_of: one.by_key(count),
            many,
            one,
            swapped,
        };
        self.check_one_side(&sides, fills)?;
        let mut rows = Vec::new();
        for number in 0..count {
            self.join_group(&sides, number, fill_many, fill_one, &mut rows)?;
        }
        Ok(rows)
    }

    /// No two rows of the "one" side may have the same join labels at the same step.
    fn check_one_side(&self, sides: &Sides, fills: bool) -> Result<()> {
        for places in sides.one_of.iter().filter(|places| places.len() > 1) {
            let rows = pick(&sides.one.rows, places);
            // Without rows on the other side nothing is matched at a step, so there is no error.
            let matches = |step: usize| {
                fills || (sides.many.rows.iter()).any(|row| row.values.is_present(step))
            };
            let Some(step) = overlaps(&rows, self.steps).find(|step| matches(*step)) else {
                continue;
            };
            let mut present = rows.iter().filter(|row| row.values.is_present(step));
            let (Some(first), Some(second)) = (present.next(), present.next()) else {
                continue;
            };
            let side = if sides.swapped { "left" } else { "right" };
            let group = self.keys.project(&first.labels);
            // In the order of their texts, as in Prometheus.
            let mut pair = [text_of(&first.labels), text_of(&second.labels)];
            pair.sort();
            return Err(Error::Execution(format!(
                "found duplicate series for the match group {} on the {side} hand-side of the operation: [{}, {}];many-to-many matching not allowed: matching labels must be unique on one side",
                text_of(&group),
                pair[0],
                pair[1]
            )));
        }
        Ok(())
    }

    /// All pairs with the same join labels.
    fn join_group(
        &self,
        sides: &Sides,
        number: usize,
        fill_many: Option<f64>,
        fill_one: Option<f64>,
        rows: &mut Vec<Row>,
    ) -> Result<()> {
        let many: Vec<&Row> = pick(&sides.many.rows, &sides.many_of[number]);
        let one: Vec<&Row> = pick(&sides.one.rows, &sides.one_of[number]);
        if (many.is_empty() && fill_many.is_none()) || (one.is_empty() && fill_one.is_none()) {
            return Ok(());
        }
        // Computed once: they are compared with each other and then used for the results.
        let labels: Vec<Labels> = match one.as_slice() {
            [one] => many
                .iter()
                .map(|row| self.result_labels(&row.labels, &one.labels))
                .collect::<Result<_>>()?,
            _ => Vec::new(),
        };
        self.check_matches(sides, &many, &one, &labels, fill_one)?;
        for (place, many_row) in many.iter().enumerate() {
            for one_row in &one {
                let many_side = Side::Values(&many_row.values);
                let values = self.values(sides, many_side, Side::Values(&one_row.values));
                match labels.get(place) {
                    Some(labels) => self.push_as(rows, labels.clone(), values)?,
                    None => self.push(rows, &many_row.labels, &one_row.labels, values)?,
                }
            }
            if let Some(fill) = fill_one {
                let unmatched = without_steps_of(&many_row.values, &one);
                let values = self.values(sides, Side::Values(&unmatched), Side::Fill(fill));
                let group = self.keys.project(&many_row.labels);
                self.push(rows, &many_row.labels, &group, values)?;
            }
        }
        if let Some(fill) = fill_many {
            for one_row in &one {
                let unmatched = without_steps_of(&one_row.values, &many);
                let values = self.values(sides, Side::Fill(fill), Side::Values(&unmatched));
                let group = self.keys.project(&one_row.labels);
                self.push(rows, &group, &one_row.labels, values)?;
            }
        }
        Ok(())
    }

    fn values(&self, sides: &Sides, many: Side<'_>, one: Side<'_>) -> Values {
        let (lhs, rhs) = sides.in_order(many, one);
        values(
            self.op,
            self.return_bool,
            lhs,
            rhs,
            self.steps,
            &self.annotate,
        )
    }

    fn push(&self, rows: &mut Vec<Row>, many: &Labels, one: &Labels, values: Values) -> Result<()> {
        if !values.is_empty() {
            let labels = self.result_labels(many, one)?;
            self.push_as(rows, labels, values)?;
        }
        Ok(())
    }

    /// As in Prometheus, a pending name removal of either side is lost.
    fn push_as(&self, rows: &mut Vec<Row>, labels: Labels, values: Values) -> Result<()> {
        if !values.is_empty() {
            self.maker.grow_row(&values)?;
            rows.push(Row {
                labels,
                drop_name: self.return_bool,
                values,
            });
        }
        Ok(())
    }

    /// A row of the "one" side must not match several rows at a step without a group modifier; with
    /// one, the results must have different labels. A comparison that is false is a match, too;
    /// values of types that do not fit are not. `labels` are those of the results if there is only
    /// one row of the "one" side.
    fn check_matches(
        &self,
        sides: &Sides,
        many: &[&Row],
        one: &[&Row],
        labels: &[Labels],
        fill_one: Option<f64>,
    ) -> Result<()> {
        if many.len() < 2 || (one.is_empty() && fill_one.is_none()) {
            return Ok(());
        }
        let is_match = |row: &Row, step: usize| {
            let partner = one.iter().find(|row| row.values.is_present(step));
            let partner = match (partner, fill_one) {
                (Some(row), _) => Side::Values(&row.values),
                (None, Some(fill)) => Side::Fill(fill),
                (None, None) => return false,
            };
            let (lhs, rhs) = sides.in_order(Side::Values(&row.values), partner);
            fits(self.op, lhs, rhs, step)
        };
        let match_twice = |rows: &[&Row]| {
            overlaps(rows, self.steps).any(|step| {
                let matches = rows.iter().filter(|row| is_match(row, step));
                matches.take(2).count() > 1
            })
        };
        if self.matching.cardinality == Cardinality::OneToOne {
            return if match_twice(many) {
                Err(Error::Execution(
                    "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)".to_string(),
                ))
            } else {
                Ok(())
            };
        }
        let one_labels = match (one.first(), many.first()) {
            (Some(row), _) => row.labels.clone(),
            (None, Some(row)) => self.keys.project(&row.labels),
            (None, None) => return Ok(()),
        };
        let mut by_labels: HashMap<Labels, Vec<&Row>> = HashMap::with_capacity(many.len());
        for (place, row) in many.iter().enumerate() {
            let labels = match labels.get(place) {
                Some(labels) => labels.clone(),
                None => self.result_labels(&row.labels, &one_labels)?,
            };
            by_labels.entry(labels).or_default().push(row);
        }
        if by_labels.values().any(|rows| match_twice(rows)) {
            Err(Error::Execution(
                "multiple matches for labels: grouping labels must ensure unique matches"
                    .to_string(),
            ))
        } else {
            Ok(())
        }
    }

    fn result_labels(&self, many: &Labels, one: &Labels) -> Result<Labels> {
        let matching = self.matching;
        let is_kept = |name: &str| {
            let joined = match matching.cardinality {
                Cardinality::OneToOne => {
                    matching.on == matching.labels.iter().any(|label| label == name)
                        || (!matching.on
                            && name == METRIC_NAME
                            && !matching.labels.iter().any(|l| l == name))
                }
                _ => true,
            };
            joined && !(self.removes_names && is_metric_label(name))
        };
        let kept = many.iter().filter(|(name, _)| is_kept(name));
        if matching.include.is_empty() {
            // Comparisons keep all labels: those of the row are shared, and count once.
            if many.iter().all(|(name, _)| is_kept(name)) {
                return Ok(many.clone());
            }
            return self.maker.sorted(kept);
        }
        let is_included = |name: &str| matching.include.iter().any(|included| included == name);
        let included = one.iter().filter(|(name, _)| is_included(name));
        let mut pairs: Vec<(&str, &str)> = kept.filter(|(name, _)| !is_included(name)).collect();
        pairs.extend(included);
        pairs.sort_unstable();
        self.maker.sorted(pairs.into_iter())
    }
}

struct Sides {
    many: KeyedRows,
    one: KeyedRows,
    many_of: Vec<Vec<usize>>,
    one_of: Vec<Vec<usize>>,
    /// The "many" side is the right one.
    swapped: bool,
}

impl Sides {
    /// Left and right as they are written.
    fn in_order<T>(&self, many: T, one: T) -> (T, T) {
        if self.swapped {
            (one, many)
        } else {
            (many, one)
        }
    }
}

fn pick<'r>(rows: &'r [Row], places: &[usize]) -> Vec<&'r Row> {
    places.iter().map(|place| &rows[*place]).collect()
}

/// The steps at which two or more rows have a value.
fn overlaps<'r>(rows: &'r [&'r Row], steps: usize) -> impl Iterator<Item = usize> + 'r {
    (0..steps).filter(|step| {
        let present = rows.iter().filter(|row| row.values.is_present(*step));
        present.take(2).count() > 1
    })
}

/// Values at the steps at which none of `others` has one.
fn without_steps_of(values: &Values, others: &[&Row]) -> Values {
    let mut unmatched = values.clone();
    for step in 0..unmatched.floats.len() {
        if others.iter().any(|row| row.values.is_present(step)) {
            unmatched.floats[step] = ABSENT;
            if let Some(histogram) = unmatched.histograms.get_mut(step) {
                *histogram = None;
            }
        }
    }
    unmatched
}
