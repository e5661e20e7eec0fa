//! Running totals: delta points become the cumulative series that are stored.
//!
//! ```text
//! delta point ─► end at or before the last end: a duplicate, counted and not added
//!             └► begins before its total began: refused
//!             └► otherwise: total + change, at the end of the point, since the start of the first
//! ```
//!
//! The rules are those of OpenTelemetry's data model and of the collector's `deltatocumulative`:
//! - A gap continues the total: clients leave out points of intervals in which nothing happened.
//! - An overlap is counted for the operator and added: a point that was acknowledged is not lost.
//! - A change that cannot be added (other bucket bounds, a float after histograms, an overflow)
//!   starts a new total with a new start, which readers see as a counter reset.
//!
//! Holds always:
//! - Totals change only under the sequencer, so they follow the order of appends, as the journal
//!   does.
//! - A series is found again by its labels; references are only a shortcut.
//! - At most `limits.delta_series_max` totals are kept; one without points for `limits.delta_idle`
//!   is forgotten, by the guarded clock.
//!
//! Elsewhere: how totals are saved (`crate::ingest::flush`), and that epochs wait for it
//! (`sequencer.rs`).

use std::ops::Range;

use hashbrown::HashMap;
use icecore_model::{CounterResetHint, Histogram};
use icecore_records::delta_totals::{DeltaTotal, PARTS, SeriesKey, TotalValue};

use super::registry::SeriesRef;
use crate::options::Limits;

/// Buckets of each side that an exponential total may have before its buckets become coarser: what
/// OpenTelemetry's own clients and the collector keep to.
const EXPONENTIAL_BUCKETS_MAX: usize = 160;

/// Seconds between two looks for idle totals when there is no room.
const SWEEP_EVERY_S: u32 = 60;

/// Bytes that a total takes beside the buckets of a histogram: itself and its places in the tables.
const TOTAL_BYTES: usize = size_of::<Option<Kept>>() + size_of::<(SeriesKey, u32)>() + 4 + 4 + 8;

const NO_REFERENCE: u32 = u32::MAX;

/// What became of the delta points of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeltaCounts {
    /// Points that had been added before.
    pub(crate) duplicates: u64,
    /// Points that began before the one before them ended.
    pub(crate) overlaps: u64,
    /// Points with which a new total began in place of an old one.
    pub(crate) restarts: u64,
}

/// All running totals.
pub(crate) struct Totals {
    max: usize,
    idle_s: u32,
    kept: Vec<Option<Kept>>,
    free: Vec<u32>,
    places: HashMap<SeriesKey, u32>,
    /// Place of the total of each reference, plus one; 0: not known.
    by_reference: Vec<u32>,
    parts: Box<[TotalsPart]>,
    histogram_bytes: usize,
    swept_s: u32,
}

struct Kept {
    total: DeltaTotal,
    reference: u32,
}

/// The totals that are saved in one record.
#[derive(Default)]
struct TotalsPart {
    places: Vec<u32>,
    changed: bool,
}

/// Why a point was not added.
pub(super) enum NotAdded {
    Duplicate,
    Refused(&'static str, bool),
}

impl Totals {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            max: limits.delta_series_max,
            idle_s: u32::try_from(limits.delta_idle.as_secs()).unwrap_or(u32::MAX),
            kept: Vec::new(),
            free: Vec::new(),
            places: HashMap::new(),
            by_reference: Vec::new(),
            parts: (0..PARTS).map(|_| TotalsPart::default()).collect(),
            histogram_bytes: 0,
            swept_s: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.kept.len() * TOTAL_BYTES + self.by_reference.len() * 4 + self.histogram_bytes
    }

    /// Takes over what an earlier process saved, or what the journal says about a later point.
    pub(crate) fn set(&mut self, total: DeltaTotal) {
        let place = match self.places.get(&total.series) {
            Some(place) => *place,
            None => self.insert(total.clone()),
        };
        let part = total.series.part();
        if let Some(Some(kept)) = self.kept.get_mut(place as usize) {
            self.histogram_bytes -= heap_bytes(&kept.total.value).min(self.histogram_bytes);
            self.histogram_bytes += heap_bytes(&total.value);
            kept.total = total;
        }
        self.parts[usize::from(part)].changed = true;
    }

    /// What was loaded is what is saved.
    pub(crate) fn all_saved(&mut self) {
        self.parts.iter_mut().for_each(|part| part.changed = false);
    }

    /// These parts could not be saved after all.
    pub(crate) fn not_saved(&mut self, parts: &[u16]) {
        for part in parts {
            self.parts[usize::from(*part)].changed = true;
        }
    }

    /// Copies the parts of a range that have changed since they were saved last, and forgets what
    /// is idle in them.
    pub(super) fn take_changed(
        &mut self,
        range: Range<u16>,
        now_s: u32,
    ) -> Vec<(u16, Vec<DeltaTotal>)> {
        let mut taken = Vec::new();
        for number in range {
            self.forget_idle_of(number, now_s);
            let part = &mut self.parts[usize::from(number)];
            if !std::mem::take(&mut part.changed) {
                continue;
            }
            let kept = part.places.iter().map(|place| &self.kept[*place as usize]);
            let totals = kept.flatten().map(|kept| kept.total.clone()).collect();
            taken.push((number, totals));
        }
        taken
    }

    fn forget_idle_of(&mut self, part: u16, now_s: u32) {
        let Some(before_s) = now_s.checked_sub(self.idle_s) else {
            return;
        };
        let part = &mut self.parts[usize::from(part)];
        part.places.retain(|place| {
            let slot = &mut self.kept[*place as usize];
            let idle = slot.take_if(|kept| kept.total.written_s < before_s);
            let Some(kept) = idle else { return true };
            self.places.remove(&kept.total.series);
            if let Some(known) = self.by_reference.get_mut(kept.reference as usize) {
                *known = 0;
            }
            self.histogram_bytes -= heap_bytes(&kept.total.value).min(self.histogram_bytes);
            self.free.push(*place);
            part.changed = true;
            false
        });
    }

    /// Whether there is room for one more total.
    fn has_room(&mut self, now_s: u32) -> bool {
        if self.places.len() >= self.max && now_s >= self.swept_s.saturating_add(SWEEP_EVERY_S) {
            self.swept_s = now_s;
            (0..PARTS).for_each(|part| self.forget_idle_of(part, now_s));
        }
        self.places.len() < self.max
    }

    fn insert(&mut self, total: DeltaTotal) -> u32 {
        let (series, bytes) = (total.series, heap_bytes(&total.value));
        let kept = Some(Kept {
            total,
            reference: NO_REFERENCE,
        });
        let place = match self.free.pop() {
            Some(place) => {
                self.kept[place as usize] = kept;
                place
            }
            None => {
                self.kept.push(kept);
                self.kept.len() as u32 - 1
            }
        };
        self.histogram_bytes += bytes;
        self.places.insert(series, place);
        let part = &mut self.parts[usize::from(series.part())];
        part.places.push(place);
        part.changed = true;
        place
    }

    fn link(&mut self, reference: u32, place: u32) {
        let at = reference as usize;
        if self.by_reference.len() <= at {
            self.by_reference.resize(at + 1, 0);
        }
        self.by_reference[at] = place + 1;
        if let Some(Some(kept)) = self.kept.get_mut(place as usize) {
            kept.reference = reference;
        }
    }

    /// References that will stand for other series.
    pub(super) fn unlink(&mut self, references: &[SeriesRef]) {
        for reference in references {
            let Some(known) = self.by_reference.get_mut(reference.0 as usize) else {
                continue;
            };
            let place = std::mem::take(known);
            if let Some(Some(kept)) = self.kept.get_mut((place as usize).wrapping_sub(1)) {
                kept.reference = NO_REFERENCE;
            }
        }
    }

    /// The total of a reference whose labels need not be looked at.
    #[inline]
    fn known(&mut self, reference: u32) -> Option<&mut Kept> {
        let place = *self.by_reference.get(reference as usize)?;
        self.kept
            .get_mut((place as usize).checked_sub(1)?)?
            .as_mut()
    }

    /// Adds one point; returns the start of its total, and the total. `key` finds out the identity
    /// of the series, where that is needed.
    pub(super) fn add(
        &mut self,
        point: Point,
        key: impl FnOnce() -> SeriesKey,
        accumulated: &mut DeltaCounts,
    ) -> Result<(i64, TotalValue), NotAdded> {
        if self.known(point.series).is_none() {
            let series = key();
            let place = match self.places.get(&series).copied() {
                Some(place) => place,
                None if !self.has_room(point.now_s) => {
                    return Err(NotAdded::Refused(
                        "more delta series than limits.delta_series_max",
                        true,
                    ));
                }
                None => {
                    let (value, stored) = first(point.change);
                    let place = self.insert(DeltaTotal {
                        series,
                        end_ms: point.end_ms,
                        start_ms: point.start_ms,
                        written_s: point.now_s,
                        value,
                    });
                    self.link(point.series, place);
                    return Ok((point.start_ms, stored));
                }
            };
            self.link(point.series, place);
        }
        let Some(Kept { total, .. }) = self.known(point.series) else {
            return Err(NotAdded::Refused("the total of a series was lost", true));
        };
        if point.end_ms <= total.end_ms {
            return Err(NotAdded::Duplicate);
        }
        if point.start_ms != 0 {
            if point.start_ms < total.start_ms {
                return Err(NotAdded::Refused(
                    "delta point that begins before its running total began: is there more than one writer?",
                    false,
                ));
            }
            accumulated.overlaps += u64::from(point.start_ms < total.end_ms);
        }
        let before = heap_bytes(&total.value);
        let stored = match sum(&mut total.value, point.change) {
            Ok(stored) => stored,
            Err(change) => {
                accumulated.restarts += 1;
                total.start_ms = point.start_ms.max(total.end_ms);
                let (value, mut stored) = first(change);
                total.value = value;
                if let TotalValue::Histogram(stored) = &mut stored {
                    stored.reset_hint = CounterResetHint::Reset;
                }
                stored
            }
        };
        total.end_ms = point.end_ms;
        total.written_s = point.now_s;
        let (start_ms, part, after) = (
            total.start_ms,
            total.series.part(),
            heap_bytes(&total.value),
        );
        self.histogram_bytes = (self.histogram_bytes + after).saturating_sub(before);
        self.parts[usize::from(part)].changed = true;
        Ok((start_ms, stored))
    }
}

/// One delta point.
pub(super) struct Point {
    pub(super) series: u32,
    pub(super) end_ms: i64,
    pub(super) start_ms: i64,
    pub(super) change: TotalValue,
    pub(super) now_s: u32,
}

/// Adds a change; gives it back where the two have no sum.
#[inline]
fn sum(total: &mut TotalValue, change: TotalValue) -> Result<TotalValue, TotalValue> {
    match (total, change) {
        (TotalValue::Float(total), TotalValue::Float(change)) => {
            let sum = *total + change;
            // Opposite infinities: no number that follows would make sense of it.
            if sum.is_nan() {
                return Err(TotalValue::Float(change));
            }
            *total = sum;
            Ok(TotalValue::Float(sum))
        }
        (TotalValue::Histogram(total), TotalValue::Histogram(change)) => {
            if total.add(&change).is_err() {
                return Err(TotalValue::Histogram(change));
            }
            total.limit_buckets(EXPONENTIAL_BUCKETS_MAX);
            Ok(TotalValue::Histogram(total.clone()))
        }
        (_, change) => Err(change),
    }
}

/// The first value of a total, to be kept and to be stored.
fn first(change: TotalValue) -> (TotalValue, TotalValue) {
    match change {
        TotalValue::Float(value) => (TotalValue::Float(value), TotalValue::Float(value)),
        TotalValue::Histogram(mut histogram) => {
            histogram.reset_hint = CounterResetHint::Unknown;
            histogram.limit_buckets(EXPONENTIAL_BUCKETS_MAX);
            let kept = TotalValue::Histogram(histogram.clone());
            (kept, TotalValue::Histogram(histogram))
        }
    }
}

fn heap_bytes(value: &TotalValue) -> usize {
    match value {
        TotalValue::Float(_) => 0,
        TotalValue::Histogram(histogram) => size_of::<Histogram>() + histogram.heap_bytes(),
    }
}

/// Seconds since 1970, as totals keep them.
pub(crate) fn unix_seconds(now_ms: i64) -> u32 {
    u32::try_from(now_ms / 1000).unwrap_or_default()
}
