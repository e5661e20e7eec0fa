//! What the head holds of one series: the open chunk and, beside it, everything less usual.
//!
//! ```text
//! append ─► open chunk (newest hour) ─(hour changes)─► sealed stream ─(flush)─► gone
//!      └──► late samples, histograms, exemplars, starts: per hour, in arrival order
//! ```
//!
//! Holds always:
//! - Within one hour the order of precedence is: frozen part, sealed stream, open chunk, late
//!   samples; of two late samples the later one. So the last write of a timestamp wins.
//! - A frozen part is being flushed: it is read, never written.
//! - Parts are sorted by hour, and of one hour there are two at most, the frozen one first. A
//!   backfill has a thousand hours of a series open: no append looks through all of them.
//! - A histogram entry decides its timestamp: `Some` hides a float, `None` lets the float count.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::{BucketSize, BucketStart, Exemplar, Histogram};
use icecore_records::{HistogramEntry, gorilla};

use crate::cache::{HeadChunk, OpenStamp, PartCopy, SideLists};

/// Late samples of an hour that are folded into its stream at once when there are more.
const LATE_SAMPLES_MAX: usize = 64;

/// One series.
#[derive(Default)]
pub(crate) struct Slot {
    open: gorilla::Appender,
    /// The hour of `open`, meaningless while it is empty.
    open_hour: BucketStart,
    /// The journal epoch in which the series was defined last; 0 is never an epoch.
    pub(crate) defined_in: u32,
    /// Seconds of the process clock at the last write.
    pub(crate) last_write_s: u32,
    marks: Marks,
    #[allow(
        clippy::box_collection,
        reason = "8 bytes instead of 32 in each of millions of slots, most of which have no parts"
    )]
    /// A queue: hours come at one end or the other, and leave at the front, as flushes take the
    /// oldest.
    parts: Option<Box<VecDeque<HourPart>>>,
}

/// Yes-or-no facts about a slot, and a counter, in four bytes.
#[derive(Clone, Copy, Default)]
struct Marks {
    set: u8,
    /// How often the open chunk became another one instead of growing; 24 bits.
    rewrites: [u8; 3],
}

const ALIVE: u8 = 1;
/// The open chunk is being flushed where it is. Moving it aside would cost a million series more
/// memory than they take.
const OPEN_FROZEN: u8 = 2;
const HAS_HISTOGRAMS: u8 = 4;
const HAS_STARTS: u8 = 8;

impl Marks {
    #[inline]
    fn has(self, mark: u8) -> bool {
        self.set & mark != 0
    }

    fn set(&mut self, mark: u8) {
        self.set |= mark;
    }

    fn clear(&mut self, mark: u8) {
        self.set &= !mark;
    }

    fn rewrites(self) -> u32 {
        let [low, middle, high] = self.rewrites;
        u32::from_le_bytes([low, middle, high, 0])
    }

    fn count_rewrite(&mut self) {
        let [low, middle, high, _] = self.rewrites().wrapping_add(1).to_le_bytes();
        self.rewrites = [low, middle, high];
    }
}

/// What a series has in one hour beside its open chunk.
#[derive(Clone, Debug)]
pub(crate) struct HourPart {
    pub(crate) hour: BucketStart,
    frozen: bool,
    /// In-order samples, sealed; empty when there are none.
    pub(crate) stream: Bytes,
    /// Samples that came late or twice, in arrival order.
    pub(crate) late: Vec<(i64, f64)>,
    /// In arrival order.
    pub(crate) histograms: Vec<HistogramEntry>,
    pub(crate) exemplars: Vec<Exemplar>,
    /// Boxed, because most parts have none.
    starts: Option<Box<Starts>>,
}

/// Starts of the samples of an hour.
#[derive(Clone, Debug, Default)]
struct Starts {
    /// `(timestamp, start)` in arrival order.
    entries: Vec<(i64, i64)>,
    /// The greatest timestamp among them.
    newest_ms: i64,
}

impl HourPart {
    fn new(hour: BucketStart) -> Self {
        Self {
            hour,
            frozen: false,
            stream: Bytes::new(),
            late: Vec::new(),
            histograms: Vec::new(),
            exemplars: Vec::new(),
            starts: None,
        }
    }

    /// `(timestamp, start)` in arrival order.
    pub(crate) fn starts(&self) -> &[(i64, i64)] {
        self.starts.as_ref().map_or(&[], |starts| &starts.entries)
    }

    /// What parts are sorted by.
    fn place(&self) -> (BucketStart, bool) {
        (self.hour, !self.frozen)
    }

    fn is_empty(&self) -> bool {
        self.stream.is_empty()
            && self.late.is_empty()
            && self.histograms.is_empty()
            && self.exemplars.is_empty()
            && self.starts.is_none()
    }

    fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.stream.len()
            + self.late.capacity() * size_of::<(i64, f64)>()
            + size_of_val(self.starts())
            + self
                .exemplars
                .iter()
                .map(|e| size_of::<Exemplar>() + e.labels.heap_bytes())
                .sum::<usize>()
            + self
                .histograms
                .iter()
                .map(|e| {
                    size_of::<HistogramEntry>() + e.value.as_ref().map_or(0, |h| h.heap_bytes())
                })
                .sum::<usize>()
    }
}

/// What a reader gets of a part. Streams are shared; the small side lists are copied.
fn copy_of(part: &HourPart) -> PartCopy {
    let plain = part.late.is_empty() && part.histograms.is_empty() && part.starts.is_none();
    let side = || SideLists {
        late: part.late.clone(),
        histograms: part.histograms.clone(),
        starts: part.starts().to_vec(),
    };
    PartCopy {
        hour: part.hour,
        frozen: part.frozen,
        stream: part.stream.clone(),
        open: None,
        known: None,
        side: (!plain).then(|| Box::new(side())),
    }
}

/// How many bytes of heap a write added (or gave back).
pub(crate) type HeapChange = isize;

impl Slot {
    pub(crate) fn is_alive(&self) -> bool {
        self.marks.has(ALIVE)
    }

    pub(crate) fn mark_alive(&mut self) {
        self.marks.set(ALIVE);
    }

    /// Makes it the slot of no series.
    pub(crate) fn reset(&mut self) {
        let mut marks = self.marks;
        // What readers know of the series before must not be taken for what the next one has.
        marks.count_rewrite();
        marks.set = 0;
        *self = Self {
            marks,
            ..Self::default()
        };
    }

    /// The only way in which the open chunk changes other than by growing.
    fn replace_open(&mut self, open: gorilla::Appender) {
        self.open = open;
        self.marks.count_rewrite();
    }

    /// The hour of the open chunk; `None` when it is empty.
    pub(crate) fn open_hour(&self) -> Option<BucketStart> {
        (!self.open.is_empty()).then_some(self.open_hour)
    }

    /// Adds a float. The usual case, in order and in the open hour, touches only the open chunk.
    pub(crate) fn append(
        &mut self,
        hour: BucketStart,
        timestamp_ms: i64,
        value: f64,
    ) -> HeapChange {
        let mut change = 0;
        if self.marks.has(OPEN_FROZEN) {
            change += self.move_frozen_aside();
        }
        if self.marks.has(HAS_HISTOGRAMS) {
            change += self.let_float_count(hour, timestamp_ms);
        }
        if !self.open.is_empty() && hour != self.open_hour {
            if hour < self.open_hour {
                return change + self.append_late(hour, timestamp_ms, value);
            }
            change += self.seal_open();
        }
        if self.open.is_empty() {
            change += self.reopen(hour);
        }
        self.open_hour = hour;
        let before = self.open.heap_bytes();
        if self.open.push(timestamp_ms, value).is_ok() {
            return change + self.open.heap_bytes() as isize - before as isize;
        }
        let repeated = self.open.last_timestamp() == Some(timestamp_ms)
            && self.open.last_value().map(f64::to_bits) == Some(value.to_bits());
        // A retried request: the newest sample once more. A late sample may have changed the value
        // in between, so this is only nothing when there is none.
        if repeated && !self.has_late(hour) {
            return change;
        }
        change + self.append_late(hour, timestamp_ms, value)
    }

    pub(crate) fn append_histogram(
        &mut self,
        hour: BucketStart,
        timestamp_ms: i64,
        histogram: Arc<Histogram>,
    ) -> HeapChange {
        self.marks.set(HAS_HISTOGRAMS);
        let heap = size_of::<HistogramEntry>() + histogram.heap_bytes();
        let (part, change) = self.part(hour);
        part.histograms.push(HistogramEntry {
            timestamp_ms,
            value: Some(histogram),
        });
        change + heap as isize
    }

    /// Adds an exemplar; `None` when the hour already holds as many as are kept.
    pub(crate) fn append_exemplar(
        &mut self,
        hour: BucketStart,
        exemplar: Exemplar,
        exemplars_max: usize,
    ) -> Option<HeapChange> {
        if exemplars_max == 0 {
            return None;
        }
        let heap = size_of::<Exemplar>() + exemplar.labels.heap_bytes();
        let (part, change) = self.part(hour);
        if part.exemplars.contains(&exemplar) {
            return Some(change);
        }
        if part.exemplars.len() >= exemplars_max {
            return None;
        }
        part.exemplars.push(exemplar);
        Some(change + heap as isize)
    }

    /// Notes when the counter behind a sample began; 0 forgets what an overwritten sample said, if
    /// there may be one. What older parts say is overwritten by the sample itself.
    pub(crate) fn append_start(
        &mut self,
        hour: BucketStart,
        timestamp_ms: i64,
        start_ms: i64,
    ) -> HeapChange {
        if start_ms == 0 && !self.may_have_start(hour, timestamp_ms) {
            return 0;
        }
        self.marks.set(HAS_STARTS);
        let (part, change) = self.part(hour);
        let starts = part.starts.get_or_insert_default();
        starts.newest_ms = match starts.entries[..] {
            [] => timestamp_ms,
            _ => starts.newest_ms.max(timestamp_ms),
        };
        starts.entries.push((timestamp_ms, start_ms));
        change + size_of::<(i64, i64)>() as isize
    }

    /// Returns `true` if the growing part of an hour may say when a sample began.
    fn may_have_start(&self, hour: BucketStart, timestamp_ms: i64) -> bool {
        let starts = || self.growing(hour)?.starts.as_ref();
        self.has_starts() && starts().is_some_and(|starts| timestamp_ms <= starts.newest_ms)
    }

    /// Whether the series has (or had in this process) start timestamps, so that a sample without
    /// one may have to say so.
    pub(crate) fn has_starts(&self) -> bool {
        self.marks.has(HAS_STARTS)
    }

    /// In arrival order, hour by hour; one may be there twice.
    pub(crate) fn exemplars(&self) -> impl Iterator<Item = &Exemplar> {
        let parts = self.parts.iter().flat_map(|parts| parts.iter());
        parts.flat_map(|part| part.exemplars.iter())
    }

    /// Marks everything of the given hours as being flushed. Returns the hours that had something.
    pub(crate) fn freeze(
        &mut self,
        hours: &BTreeSet<BucketStart>,
        frozen: &mut Vec<BucketStart>,
    ) -> HeapChange {
        let mut change = 0;
        if !self.open.is_empty() && !self.marks.has(OPEN_FROZEN) && hours.contains(&self.open_hour)
        {
            if self.has_part(self.open_hour) {
                change += self.seal_open();
            } else {
                self.marks.set(OPEN_FROZEN);
                frozen.push(self.open_hour);
            }
        }
        let (Some(first), Some(last)) = (hours.first(), hours.last()) else {
            return change;
        };
        let Some(parts) = &mut self.parts else {
            return change;
        };
        // A backfill has thousands of other hours.
        let from = find(parts, *first, true).unwrap_or_else(|at| at);
        let within = parts.range_mut(from..);
        for part in within.take_while(|part| part.hour <= *last) {
            if !part.frozen && hours.contains(&part.hour) {
                part.frozen = true;
                frozen.push(part.hour);
            }
        }
        change
    }

    /// Copies the parts of some hours, given in order, that are being flushed; oldest first.
    pub(crate) fn frozen(&self, hours: &[BucketStart]) -> Vec<HourPart> {
        let mut found = Vec::new();
        let (Some(first), Some(last)) = (hours.first(), hours.last()) else {
            return found;
        };
        let wanted = |hour: BucketStart| hours.binary_search(&hour).is_ok();
        if let Some(parts) = &self.parts {
            let from = find(parts, *first, true).unwrap_or_else(|at| at);
            let within = parts.range(from..).take_while(|part| part.hour <= *last);
            let frozen = within.filter(|part| part.frozen && wanted(part.hour));
            found.extend(frozen.cloned());
        }
        if self.marks.has(OPEN_FROZEN) && wanted(self.open_hour) {
            let at = found.partition_point(|part: &HourPart| part.hour < self.open_hour);
            found.insert(at, self.open_as_part());
        }
        found
    }

    /// Forgets the part of an hour that was flushed.
    pub(crate) fn drop_frozen(&mut self, hour: BucketStart) -> HeapChange {
        if self.marks.has(OPEN_FROZEN) && self.open_hour == hour {
            let before = self.open.heap_bytes();
            self.replace_open(gorilla::Appender::new());
            self.marks.clear(OPEN_FROZEN);
            return self.open.heap_bytes() as isize - before as isize;
        }
        let Some(parts) = &mut self.parts else {
            return 0;
        };
        let found = find(parts, hour, true).ok();
        let dropped = found.and_then(|at| parts.remove(at));
        if parts.is_empty() {
            self.parts = None;
        }
        -(dropped.map_or(0, |part| part.heap_bytes()) as isize)
    }

    /// Whether it is a series that holds nothing and was last written before a time of the process
    /// clock.
    pub(crate) fn is_idle(&self, before_s: u32) -> bool {
        self.is_alive() && self.is_empty() && self.last_write_s < before_s
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.parts.is_none()
    }

    /// Copies what overlaps a time range, oldest write first. Streams are shared; the open chunk
    /// and the small side lists are copied, so that the reader needs no lock afterwards. `known`
    /// may be what the open chunk decodes to, if its hour is `known_hour`.
    pub(crate) fn snapshot(
        &self,
        (start_ms, end_ms): (i64, i64),
        known: Option<&HeadChunk>,
        known_hour: Option<BucketStart>,
        found: &mut Vec<PartCopy>,
    ) {
        let overlaps = |hour: BucketStart| hour_overlaps(hour, start_ms, end_ms);
        let first = found.len();
        let parts = self.parts.iter().flat_map(|parts| parts.iter());
        found.extend(parts.filter(|part| overlaps(part.hour)).map(copy_of));
        if !self.open.is_empty() && overlaps(self.open_hour) {
            let known = known.filter(|_| Some(self.open_hour) == known_hour);
            let open = self.copy_open(known);
            let same = |p: &&mut PartCopy| p.hour == open.hour && p.frozen == open.frozen;
            match found[first..].iter_mut().find(same) {
                // A part of the open hour has no stream of its own: sealing moves the hour on.
                Some(part) => {
                    part.stream = open.stream;
                    part.open = open.open;
                    part.known = open.known;
                }
                None => found.push(open),
            }
        }
        // Frozen parts are older than those that still grow.
        found[first..].sort_by_key(|part| (part.hour, !part.frozen));
    }

    fn copy_open(&self, known: Option<&HeadChunk>) -> PartCopy {
        let stamp = OpenStamp {
            rewrites: self.marks.rewrites(),
            len: self.open.len(),
        };
        let known = known.and_then(|known| known.of_open(stamp));
        PartCopy {
            hour: self.open_hour,
            frozen: self.marks.has(OPEN_FROZEN),
            stream: match known {
                Some(_) => Bytes::new(),
                None => Bytes::from(self.open.finish()),
            },
            open: Some(stamp),
            known: known.cloned(),
            side: None,
        }
    }

    /// The open chunk, copied.
    fn open_as_part(&self) -> HourPart {
        let mut part = HourPart::new(self.open_hour);
        part.frozen = self.marks.has(OPEN_FROZEN);
        part.stream = Bytes::from(self.open.finish());
        part
    }

    /// A write comes while the open chunk is being flushed: the chunk makes room.
    fn move_frozen_aside(&mut self) -> HeapChange {
        let before = self.open.heap_bytes();
        let part = self.open_as_part();
        self.replace_open(gorilla::Appender::new());
        self.marks.clear(OPEN_FROZEN);
        let change = part.heap_bytes() as isize + self.open.heap_bytes() as isize - before as isize;
        let parts = self.parts.get_or_insert_default();
        let (Ok(at) | Err(at)) = find(parts, part.hour, true);
        parts.insert(at, part);
        change
    }

    fn has_part(&self, hour: BucketStart) -> bool {
        let Some(parts) = &self.parts else {
            return false;
        };
        let at = parts.partition_point(|part| part.hour < hour);
        parts.get(at).is_some_and(|part| part.hour == hour)
    }

    /// The part of an hour that still grows.
    fn growing(&self, hour: BucketStart) -> Option<&HourPart> {
        let parts = self.parts.as_ref()?;
        parts.get(find(parts, hour, false).ok()?)
    }

    /// Whether the series has something in an hour that overlaps a time range.
    pub(crate) fn touches(&self, start_ms: i64, end_ms: i64) -> bool {
        self.hours()
            .any(|hour| hour_overlaps(hour, start_ms, end_ms))
    }

    /// The hours in which the series has something.
    fn hours(&self) -> impl Iterator<Item = BucketStart> {
        let open = (!self.open.is_empty()).then_some(self.open_hour);
        let parts = self.parts.iter().flat_map(|p| p.iter()).map(|p| p.hour);
        open.into_iter().chain(parts)
    }

    fn append_late(&mut self, hour: BucketStart, timestamp_ms: i64, value: f64) -> HeapChange {
        let is_open = hour == self.open_hour && !self.open.is_empty();
        let open_len = self.open.len() as usize;
        let (part, mut change) = self.part(hour);
        let before = part.late.capacity();
        part.late.push((timestamp_ms, value));
        change += ((part.late.capacity() - before) * size_of::<(i64, f64)>()) as isize;
        // Folding costs a decode of the hour, so it waits for a share of it: backfill stays linear.
        let sealed_len = || gorilla::count(&part.stream).unwrap_or(0) as usize;
        let base_len = if is_open { open_len } else { sealed_len() };
        if part.late.len() < LATE_SAMPLES_MAX.max(base_len / 4) {
            return change;
        }
        change
            + if is_open {
                self.fold_into_open(hour)
            } else {
                self.fold_late(hour)
            }
    }

    fn has_late(&self, hour: BucketStart) -> bool {
        self.growing(hour).is_some_and(|part| !part.late.is_empty())
    }

    /// Folds the late samples of a sealed hour into its stream.
    fn fold_late(&mut self, hour: BucketStart) -> HeapChange {
        let (part, mut change) = self.part(hour);
        let before = part.heap_bytes();
        let late = std::mem::take(&mut part.late);
        part.stream = Bytes::from(fold(&part.stream, &late));
        change += part.heap_bytes() as isize - before as isize;
        change
    }

    /// Folds the late samples of the open hour into the open chunk.
    fn fold_into_open(&mut self, hour: BucketStart) -> HeapChange {
        let open_before = self.open.heap_bytes();
        let (part, mut change) = self.part(hour);
        let part_before = part.heap_bytes();
        let late = std::mem::take(&mut part.late);
        change += part.heap_bytes() as isize - part_before as isize;
        let stream = fold(&self.open.finish(), &late);
        self.replace_open(appender_of(&stream));
        change += self.drop_if_empty(hour);
        change + self.open.heap_bytes() as isize - open_before as isize
    }

    /// Makes the samples that the growing part of an hour has the open chunk, which is empty: what
    /// comes now is newer than they are. They are there when the series was in a later hour
    /// meanwhile, and that hour was flushed first.
    fn reopen(&mut self, hour: BucketStart) -> HeapChange {
        let Some(parts) = &mut self.parts else {
            return 0;
        };
        let found = find(parts, hour, false).ok();
        let Some(part) = found.and_then(|at| parts.get_mut(at)) else {
            return 0;
        };
        if part.stream.is_empty() && part.late.is_empty() {
            return 0;
        }
        let before = part.heap_bytes();
        let late = std::mem::take(&mut part.late);
        let stream = fold(&std::mem::take(&mut part.stream), &late);
        let change = part.heap_bytes() as isize - before as isize;
        let open_before = self.open.heap_bytes();
        self.replace_open(appender_of(&stream));
        let opened = self.open.heap_bytes() as isize - open_before as isize;
        change + opened + self.drop_if_empty(hour)
    }

    /// Forgets the growing part of an hour when there is nothing in it.
    fn drop_if_empty(&mut self, hour: BucketStart) -> HeapChange {
        let Some(parts) = &mut self.parts else {
            return 0;
        };
        let Ok(at) = find(parts, hour, false) else {
            return 0;
        };
        if !parts[at].is_empty() {
            return 0;
        }
        parts.remove(at);
        if parts.is_empty() {
            self.parts = None;
        }
        -(size_of::<HourPart>() as isize)
    }

    /// Moves the open chunk into the growing part of its hour.
    fn seal_open(&mut self) -> HeapChange {
        let hour = self.open_hour;
        let open_before = self.open.heap_bytes();
        let stream = self.open.finish();
        self.replace_open(gorilla::Appender::new());
        let freed = open_before as isize - self.open.heap_bytes() as isize;
        let (part, change) = self.part(hour);
        debug_assert!(part.stream.is_empty(), "an open hour has no sealed stream");
        let added = stream.len() as isize;
        part.stream = Bytes::from(stream);
        change + added - freed
    }

    /// A float was written: it beats a histogram that the growing part has at the same time. Older
    /// parts need no mark, because a newer part's floats beat them anyway.
    fn let_float_count(&mut self, hour: BucketStart, timestamp_ms: i64) -> HeapChange {
        let (part, change) = self.part(hour);
        let last = part
            .histograms
            .iter()
            .rfind(|entry| entry.timestamp_ms == timestamp_ms);
        if last.is_none_or(|entry| entry.value.is_none()) {
            return change;
        }
        part.histograms.push(HistogramEntry {
            timestamp_ms,
            value: None,
        });
        change + size_of::<HistogramEntry>() as isize
    }

    /// The growing part of an hour, made when there is none.
    fn part(&mut self, hour: BucketStart) -> (&mut HourPart, HeapChange) {
        let parts = self.parts.get_or_insert_default();
        let (at, change) = match find(parts, hour, false) {
            Ok(at) => (at, 0),
            Err(at) => {
                parts.insert(at, HourPart::new(hour));
                (at, size_of::<HourPart>() as isize)
            }
        };
        (&mut parts[at], change)
    }
}

/// Where the frozen or the growing part of an hour is, or belongs.
fn find(parts: &VecDeque<HourPart>, hour: BucketStart, frozen: bool) -> Result<usize, usize> {
    // Appends are in the newest hour, or go from hour to hour in order.
    let wanted = (hour, !frozen);
    match parts.back().map(HourPart::place) {
        Some(last) if last < wanted => return Err(parts.len()),
        Some(last) if last == wanted => return Ok(parts.len() - 1),
        _ => {}
    }
    parts.binary_search_by_key(&wanted, HourPart::place)
}

fn hour_overlaps(hour: BucketStart, start_ms: i64, end_ms: i64) -> bool {
    hour.start_ms() <= end_ms && hour.end_ms(BucketSize::HOUR) > start_ms
}

/// The stream with later samples laid over it.
fn fold(stream: &[u8], late: &[(i64, f64)]) -> Vec<u8> {
    let (timestamps, values) = overlay(stream, late);
    gorilla::encode(&timestamps, &values)
}

/// Decodes a stream of our own making and lays later samples over it, the last of each time.
pub(crate) fn overlay(stream: &[u8], late: &[(i64, f64)]) -> (Vec<i64>, Vec<f64>) {
    let (mut timestamps, mut values) = (Vec::new(), Vec::new());
    if !stream.is_empty() {
        gorilla::decode_into(stream, &mut timestamps, &mut values)
            .expect("a stream that this process encoded decodes");
    }
    if late.is_empty() {
        return (timestamps, values);
    }
    let mut all: Vec<(i64, f64)> = timestamps.drain(..).zip(values.drain(..)).collect();
    all.extend_from_slice(late);
    // Stable: of equal times the one written last stays last.
    all.sort_by_key(|(t, _)| *t);
    for (i, (t, v)) in all.iter().enumerate() {
        if all.get(i + 1).is_none_or(|next| next.0 != *t) {
            timestamps.push(*t);
            values.push(*v);
        }
    }
    (timestamps, values)
}

fn appender_of(stream: &[u8]) -> gorilla::Appender {
    let (timestamps, values) = overlay(stream, &[]);
    let mut appender = gorilla::Appender::new();
    for (t, v) in timestamps.into_iter().zip(values) {
        appender
            .push(t, v)
            .expect("a decoded stream is strictly increasing");
    }
    appender
}

#[cfg(test)]
mod tests;
