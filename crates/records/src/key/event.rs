//! Keys of events: cells by window, week, metric and interval; identities by week and service.
//!
//! ```text
//! cell       version | tag, low 4 bits: window | week u32 | metric u32 | start u32 | dimensions 16
//! identity   version | tag | week u32 | service u32 | event id 16
//! ```
//!
//! A week is its Monday in minutes since 1970, a start is in seconds since that Monday.
//!
//! Holds always: a cell lies in the week in which its interval begins, and its start is on the grid
//! of its window. Other cells have no key.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use icecore_model::event::{CellKey, DimensionHash, EventId, EventWindow, IdentityKey, Week};

use super::{ParsedKey, VERSION, global, tag};
use crate::reader::Reader;
use crate::{DecodeError, RecordType};

const CELL_KEY_LEN: usize = 30;
const IDENTITY_KEY_LEN: usize = 26;

/// A cell. `None` where no interval of the window begins, and beyond the weeks that keys can name.
pub fn event_cell(cell: &CellKey) -> Option<Bytes> {
    let week = Week::of(cell.start_s);
    let is_on_grid = cell.window.start_of(cell.start_s) == cell.start_s;
    if !is_on_grid || !(week.start_s()..week.end_s()).contains(&cell.start_s) {
        return None;
    }
    let mut key = of_metric(cell.window, week, cell.metric);
    key.extend_from_slice(&offset(week, cell.start_s).to_be_bytes());
    key.extend_from_slice(&cell.dimensions.0);
    Some(key.into())
}

/// All cells of a window.
pub fn event_cell_prefix(window: EventWindow) -> Bytes {
    Bytes::copy_from_slice(&[VERSION, cell_tag(window)])
}

/// The cells of a window and week: the six bytes that name their segment.
pub fn event_cell_week_prefix(window: EventWindow, week: Week) -> Bytes {
    of_week(window, week).into()
}

/// The cells of a metric in a window and week.
pub fn event_cell_metric_prefix(window: EventWindow, week: Week, metric: u32) -> Bytes {
    of_metric(window, week, metric).into()
}

/// The cells of a metric whose intervals begin in a range of seconds, as far as that is in the
/// week.
pub fn event_cell_range(
    window: EventWindow,
    week: Week,
    metric: u32,
    starts_s: Range<i64>,
) -> Range<Bytes> {
    let bound = |at_s: i64| {
        let mut key = of_metric(window, week, metric);
        key.extend_from_slice(&offset(week, at_s).to_be_bytes());
        Bytes::from(key)
    };
    let start = bound(starts_s.start);
    let end = bound(starts_s.end.max(starts_s.start));
    start..end
}

/// Which event was accepted.
pub fn event_identity(identity: &IdentityKey) -> Bytes {
    let mut rest = Vec::with_capacity(IDENTITY_KEY_LEN - 2);
    rest.extend_from_slice(&identity.week.minutes().to_be_bytes());
    rest.extend_from_slice(&identity.service.to_be_bytes());
    rest.extend_from_slice(&identity.event.0);
    global(RecordType::EventIdentity, &rest)
}

/// All identities.
pub fn event_identity_prefix() -> Bytes {
    global(RecordType::EventIdentity, &[])
}

/// The identities of a week: the six bytes that name their segment.
pub fn event_identity_week_prefix(week: Week) -> Bytes {
    global(RecordType::EventIdentity, &week.minutes().to_be_bytes())
}

fn cell_tag(window: EventWindow) -> u8 {
    tag(RecordType::EventCell) | window.number()
}

fn of_week(window: EventWindow, week: Week) -> Vec<u8> {
    let mut key = Vec::with_capacity(CELL_KEY_LEN);
    key.extend_from_slice(&[VERSION, cell_tag(window)]);
    key.extend_from_slice(&week.minutes().to_be_bytes());
    key
}

fn of_metric(window: EventWindow, week: Week, metric: u32) -> Vec<u8> {
    let mut key = of_week(window, week);
    key.extend_from_slice(&metric.to_be_bytes());
    key
}

/// Seconds from the Monday of a week to a moment: to the week's ends, where it is not in it.
fn offset(week: Week, at_s: i64) -> u32 {
    let at_s = at_s.clamp(week.start_s(), week.end_s());
    u32::try_from(at_s - week.start_s()).unwrap_or(u32::MAX)
}

/// Reads the rest of a cell's key. A window that is not known belongs to a newer program.
pub(super) fn parse_cell(
    window: u8,
    reader: &mut Reader<'_>,
) -> Result<Option<ParsedKey>, DecodeError> {
    let Some(window) = EventWindow::from_number(window) else {
        return Ok(None);
    };
    let week = parse_week(reader)?;
    let metric = u32::from_be_bytes(reader.array()?);
    let start_s = week.start_s() + i64::from(u32::from_be_bytes(reader.array()?));
    if start_s >= week.end_s() || window.start_of(start_s) != start_s {
        return Err(reader.error("no interval of the window begins there"));
    }
    Ok(Some(ParsedKey::EventCell(CellKey {
        window,
        metric,
        start_s,
        dimensions: DimensionHash(reader.array()?),
    })))
}

pub(super) fn parse_identity(reader: &mut Reader<'_>) -> Result<ParsedKey, DecodeError> {
    Ok(ParsedKey::EventIdentity(IdentityKey {
        week: parse_week(reader)?,
        service: u32::from_be_bytes(reader.array()?),
        event: EventId(reader.array()?),
    }))
}

fn parse_week(reader: &mut Reader<'_>) -> Result<Week, DecodeError> {
    let week = Week::from_minutes(u32::from_be_bytes(reader.array()?));
    week.ok_or_else(|| reader.error("a week begins on Monday"))
}

/// `EventCell 1m 2026w46 metric 7 start 1794218400 dimensions 00…`.
pub(super) fn fmt_cell(cell: &CellKey, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let dimensions = u128::from_be_bytes(cell.dimensions.0);
    write!(
        f,
        "EventCell {} {} metric {} start {} dimensions {dimensions:032x}",
        cell.window.code(),
        Week::of(cell.start_s),
        cell.metric,
        cell.start_s,
    )
}

/// `EventIdentity 2026w46 service 3 event 00…`.
pub(super) fn fmt_identity(identity: &IdentityKey, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let event = u128::from_be_bytes(identity.event.0);
    let (week, service) = (identity.week, identity.service);
    write!(
        f,
        "EventIdentity {week} service {service} event {event:032x}"
    )
}
