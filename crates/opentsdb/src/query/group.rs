//! Series that become one result.

use std::sync::Arc;

use icecore_model::Labels;

use super::aggregator::Aggregator;
use super::annotations::in_window;
use super::dense::{Grid, ROW_BYTES, RunningAggregate, running_aggregate};
use super::points::SeriesPoints;
use super::rolled::RolledReport;
use super::rows::{ResultPoints, aggregate};
use super::series_key::{NameKey, SeriesKey, tags};
use super::window::Window;
use crate::allowance::Allowance;
use crate::annotation::Annotation;
use crate::error::Error;
use crate::uid::{UidKind, Uids};

/// One series of an answer.
#[derive(Clone, Debug)]
pub(crate) struct ResultSeries {
    pub(crate) metric: String,
    /// Tags that no two members have with different values, in the order of the keys' UIDs.
    pub(crate) tags: Vec<(String, String)>,
    /// Keys that members have with different values.
    pub(crate) aggregate_tags: Vec<String>,
    /// The series behind it, in the order of their UIDs.
    pub(crate) members: Vec<Labels>,
    pub(crate) points: ResultPoints,
    /// Annotations within the window; `None` where no member has any near it.
    pub(crate) annotations: Option<Vec<Annotation>>,
    /// The interval whose rollups it was made of, as configured.
    pub(crate) rollup: Option<String>,
    /// The levels of rolled-up time that answered, if any.
    pub(crate) levels: Option<Arc<RolledReport>>,
}

/// Members of a group, and what is known of their aggregate.
#[derive(Default)]
pub(crate) struct Group {
    members: Vec<(SeriesKey, Labels)>,
    /// Keys with the value that all members have so far; `None` where they differ.
    tags: Vec<(String, Option<String>)>,
    /// The points of each member, unless there is a running aggregate.
    kept: Vec<SeriesPoints>,
    kept_points: usize,
    running: Option<Box<dyn RunningAggregate>>,
    notes: Vec<Annotation>,
}

/// How groups aggregate.
pub(crate) struct Aggregation<'a> {
    pub(crate) aggregator: Aggregator,
    /// The rows of all results, where they are known before.
    pub(crate) grid: Option<Grid>,
    /// Results outside of this are not computed.
    pub(crate) output: Window,
    pub(crate) allowance: &'a Allowance,
}

impl Group {
    /// Adds a member. The result is by how many bytes the group has grown (or shrunk).
    pub(crate) fn add(
        &mut self,
        key: SeriesKey,
        labels: Labels,
        points: SeriesPoints,
        aggregation: &Aggregation<'_>,
    ) -> isize {
        let mut growth =
            (key.0.len() * size_of::<(NameKey, NameKey)>() + labels.heap_bytes()) as isize;
        for (name, value) in tags(&labels) {
            self.add_tag(name, value);
        }
        self.members.push((key, labels));
        if let Some(running) = &mut self.running {
            running.add(&points);
            return growth;
        }
        growth += points.heap_bytes() as isize;
        self.kept_points += points.len();
        self.kept.push(points);
        growth + self.run(aggregation)
    }

    /// Adds the annotations of a member, or of a series that has nothing else.
    pub(crate) fn annotate(&mut self, notes: Vec<Annotation>) {
        self.notes.extend(notes);
    }

    fn add_tag(&mut self, name: &str, value: &str) {
        match self.tags.iter_mut().find(|(known, _)| known == name) {
            None => self.tags.push((name.to_owned(), Some(value.to_owned()))),
            Some((_, known)) if known.as_deref() == Some(value) => {}
            Some((_, known)) => *known = None,
        }
    }

    /// Turns points into a running aggregate once they take more memory than that.
    fn run(&mut self, aggregation: &Aggregation<'_>) -> isize {
        let Some(grid) = &aggregation.grid else {
            return 0;
        };
        if self.kept.len() < 2 || self.kept_points < grid.rows.len() {
            return 0;
        }
        let mut running = running_aggregate(grid, aggregation.aggregator);
        let kept = std::mem::take(&mut self.kept);
        kept.iter().for_each(|points| running.add(points));
        self.running = Some(running);
        let freed: usize = kept.iter().map(SeriesPoints::heap_bytes).sum();
        (grid.rows.len() * ROW_BYTES) as isize - freed as isize
    }

    pub(crate) fn finish(
        mut self,
        metric: &str,
        uids: &Uids,
        aggregation: &Aggregation<'_>,
    ) -> Result<ResultSeries, Error> {
        let points = match &mut self.running {
            Some(running) => running.finish(),
            None => {
                let mut order: Vec<usize> = (0..self.members.len()).collect();
                order.sort_by(|a, b| self.members[*a].0.cmp(&self.members[*b].0));
                let kept = order.iter().map(|i| std::mem::take(&mut self.kept[*i]));
                let kept: Vec<SeriesPoints> = kept.collect();
                aggregate(&kept, aggregation)?
            }
        };
        self.members.sort_by(|a, b| a.0.cmp(&b.0));
        let tagks = uids.read(UidKind::Tagk);
        self.tags
            .sort_by_cached_key(|(name, _)| NameKey::of(&tagks, name));
        // A result of annotations alone has no metric.
        let metric = if self.members.is_empty() { "" } else { metric };
        let annotations = (!self.notes.is_empty()).then_some(self.notes);
        let mut result = ResultSeries {
            metric: metric.to_owned(),
            annotations: annotations.map(|notes| in_window(notes, aggregation.output)),
            tags: Vec::new(),
            aggregate_tags: Vec::new(),
            members: self.members.into_iter().map(|(_, labels)| labels).collect(),
            points,
            rollup: None,
            levels: None,
        };
        for (name, value) in self.tags {
            match value {
                Some(value) => result.tags.push((name, value)),
                None => result.aggregate_tags.push(name),
            }
        }
        Ok(result)
    }
}
