//! Which groups of rows may have what is asked for: by statistics and by bloom filters.

use std::ops::Range;

use arrow_array::cast::AsArray as _;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef, BooleanArray};
use icecore_events::query::{Condition, Operand, Operator, Subject};
use icecore_events::{FileBytes, FileScan, Scalar};
use icecore_model::StoreError;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::bloom_filter::Sbbf;

use crate::columns;
use crate::condition_mask::{Bounds, mask};
use crate::footer::{Footer, damaged, fetch, on_thread};
use crate::id_text::uuid;

/// Groups in the order of their rows.
pub(crate) async fn candidate_groups(
    file: &FileBytes,
    footer: &Footer,
    scan: &FileScan,
) -> Result<Vec<usize>, StoreError> {
    let (of, wanted) = (footer.clone(), scan.clone());
    let mut groups = on_thread(move || by_statistics(&of, &wanted)).await?;
    let event = scan.event.map(|event| (columns::EVENT_ID, uuid(&event.0)));
    let trace = scan.condition.as_deref().and_then(trace_of);
    let trace = trace.map(|trace| (columns::TRACE_ID, trace.to_owned()));
    for (column, value) in event.into_iter().chain(trace) {
        let mut found = Vec::new();
        for group in groups {
            if may_have(file, footer, group, column, &value).await? {
                found.push(group);
            }
        }
        groups = found;
    }
    Ok(groups)
}

fn by_statistics(footer: &Footer, scan: &FileScan) -> Vec<usize> {
    let mut groups: Vec<usize> = (0..footer.groups()).collect();
    groups.retain(|group| {
        let started = footer.started(*group);
        started.is_none_or(|(first, last)| {
            first < scan.started_ns.end && last >= scan.started_ns.start
        })
    });
    if let Some(condition) = &scan.condition {
        let bounds = Bounds(|column: &str| footer.bounds(column));
        if let Some(mask) = mask(condition, &bounds) {
            groups.retain(|group| is_possible(&mask, *group));
        }
    }
    groups
}

impl Footer {
    pub(crate) fn started_by_statistics(&self, group: usize) -> Option<(i64, i64)> {
        let (first, last) = self.bounds(columns::STARTED_AT)?;
        let at = |times: &ArrayRef| {
            let times = times.as_primitive_opt::<TimestampNanosecondType>()?;
            (group < times.len() && times.is_valid(group)).then(|| times.value(group))
        };
        Some((at(&first)?, at(&last)?))
    }

    /// Whether all events of a group began in a range.
    pub(crate) fn began_within(&self, group: usize, started_ns: &Range<i64>) -> bool {
        self.started(group)
            .is_some_and(|(first, last)| started_ns.contains(&first) && started_ns.contains(&last))
    }

    /// The least and the greatest value of a column, for each group.
    fn bounds(&self, column: &str) -> Option<(ArrayRef, ArrayRef)> {
        if !self.is_complete(column) {
            return None;
        }
        let metadata = &self.metadata;
        let groups = metadata.metadata().row_groups();
        let schema = metadata.schema();
        let statistics =
            StatisticsConverter::try_new(column, schema, metadata.parquet_schema()).ok()?;
        let least = statistics.row_group_mins(groups).ok()?;
        Some((least, statistics.row_group_maxes(groups).ok()?))
    }
}

fn is_possible(mask: &BooleanArray, group: usize) -> bool {
    group >= mask.len() || mask.is_null(group) || mask.value(group)
}

/// The trace that all events have to be of.
fn trace_of(condition: &Condition) -> Option<&str> {
    match condition {
        Condition::All(parts) => parts.iter().find_map(trace_of),
        Condition::Any(_) => None,
        Condition::Clause(clause) => match (&clause.subject, clause.operator, &clause.operand) {
            (Subject::Column(name), Operator::Equal, Operand::One(Scalar::Text(trace)))
                if name == columns::TRACE_ID =>
            {
                Some(trace)
            }
            _ => None,
        },
    }
}

/// Asks the bloom filter of a column.
async fn may_have(
    file: &FileBytes,
    footer: &Footer,
    group: usize,
    column: &str,
    value: &str,
) -> Result<bool, StoreError> {
    // Columns before those of lists have the same position as their leaves.
    let Some(position) = footer.positions([column]).pop() else {
        return Ok(true);
    };
    let chunk = footer.metadata.metadata().row_group(group).columns();
    let place = chunk.get(position).and_then(|chunk| {
        let start = u64::try_from(chunk.bloom_filter_offset()?).ok()?;
        let length = u64::try_from(chunk.bloom_filter_length()?).ok()?;
        Some(start..start.checked_add(length)?)
    });
    let Some(place) = place else {
        return Ok(true);
    };
    let bytes = fetch(file, &[place]).await?.pop().unwrap_or_default();
    let value = value.to_owned();
    let filter =
        on_thread(move || Sbbf::from_bytes(&bytes).map(|filter| filter.check(value.as_str())));
    filter.await?.map_err(damaged)
}
