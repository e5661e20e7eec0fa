//! The append of one request: the only step that requests do one after the other.
//!
//! Holds always:
//! - A request is appended as a whole under the sequencer: floats in request order, with the totals
//!   of deltas behind them, then histograms likewise, then exemplars; the journal block keeps the
//!   same order.
//! - The journal block is encoded after the lock is released; it carries absolute values, so it
//!   needs nothing that another request may change.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use icecore_model::RawLabels;
use icecore_records::journal::BlockEncoder;

use super::Head;
use super::batch::{BatchBuffers, Column, PendingHistogram};
use super::cursor::{HourRange, PageCursor, Touched};
use super::registry::{PAGE_SERIES, SERIES_REFS_MAX, SeriesRef};
use super::replay::ReplayedSeries;
use super::sequencer::{NotAdmitted, Sequencer};
use super::slot::Slot;
use super::totals::DeltaCounts;
use crate::context::Context;

/// A reference in the columns whose series was refused.
const REFUSED: u32 = u32::MAX;

/// New series of one request between two looks at the memory of all.
const ACCOUNT_EVERY: usize = 1024;

/// A request that is in the head and must now reach the journal.
#[derive(Default)]
pub(crate) struct AppendReceipt {
    pub(crate) seq: u64,
    pub(crate) epoch: u32,
    pub(crate) floats: u64,
    pub(crate) histograms: u64,
    pub(crate) exemplars: u64,
    pub(crate) accumulated: DeltaCounts,
    /// Series that were new to the head.
    pub(crate) created: u64,
    /// Series whose definition the epoch does not have yet.
    define: Vec<u32>,
}

/// What the clocks say at an append.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AppendTime {
    pub(crate) now_ms: i64,
    /// The guarded time, by which running totals become idle.
    pub(crate) guarded_ms: i64,
    /// Monotonic time, by which hours are quiet and epochs old.
    pub(crate) elapsed_ms: i64,
    pub(crate) process_s: u32,
}

impl AppendTime {
    /// Returns the time of now.
    pub(crate) fn of(context: &Context) -> Self {
        Self {
            now_ms: context.clock.now_ms(),
            guarded_ms: context.guarded_ms(),
            elapsed_ms: context.clock.elapsed_ms(),
            process_s: context.process_s(),
        }
    }
}

impl Head {
    /// Appends a decoded request and gives it its place in the order of writes. The caller holds
    /// the references ([`Head::hold_references`]). Refused as a whole, nothing of it is in the
    /// head.
    pub(crate) fn append(
        &self,
        batch: &mut BatchBuffers,
        time: AppendTime,
        open_hours_max: usize,
    ) -> Result<AppendReceipt, NotAdmitted> {
        let mut sequencer = self.sequencer.lock();
        sequencer.admit(batch.hours(), open_hours_max, time.now_ms)?;
        if batch.is_below(&self.floor()) {
            return Err(NotAdmitted::TooOld);
        }
        let series_before = self.series.load(Relaxed);
        let created = self.create_series(&mut sequencer, batch);
        if !created.is_empty() {
            resolve_new(batch, &created);
        }
        let accumulated = self.accumulate(batch, time.guarded_ms);
        let mut appender = Appender {
            head: self,
            pages: PageCursor::new(self, sequencer.freeze.clone()),
            time,
            heap: 0,
            touched: Touched::default(),
            appended: AppendReceipt {
                epoch: sequencer.epoch,
                accumulated,
                // Only who holds the sequencer adds series, and nobody forgets any meanwhile.
                created: (self.series.load(Relaxed) - series_before) as u64,
                ..AppendReceipt::default()
            },
        };
        appender.floats(batch);
        appender.histograms(batch);
        appender.exemplars(batch);
        let Appender {
            pages,
            heap,
            mut touched,
            mut appended,
            ..
        } = appender;
        drop(pages);
        self.sample_bytes.fetch_add(heap, Relaxed);
        self.update_metadata(batch, time.now_ms);
        self.catalog
            .write()
            .append(&batch.catalog, sequencer.next_seq);
        touched.catalog = (batch.metadata.len() + batch.catalog.len()) as u64;
        touched.totals = (batch.total_floats + batch.total_histograms) as u64;
        appended.seq = sequencer.advance(&touched, time.elapsed_ms);
        Ok(appended)
    }

    /// The journal block of an appended request.
    pub(crate) fn encode_block(
        &self,
        batch: &BatchBuffers,
        appended: &AppendReceipt,
        encoder: &mut BlockEncoder,
    ) -> Vec<u8> {
        if !appended.define.is_empty() {
            let index = self.index();
            let mut pairs = Vec::new();
            for series in &appended.define {
                index.sorted_pairs(SeriesRef(*series), &mut pairs);
                encoder.define(*series, pairs.iter().copied());
            }
        }
        encoder.floats(&batch.refs, &batch.timestamps, &batch.values);
        for pending in &batch.histograms {
            encoder.histogram(pending.series, pending.timestamp_ms, &pending.histogram);
        }
        for ((series, timestamp_ms), start_ms) in starts_of(batch) {
            encoder.start_timestamp(series, timestamp_ms, start_ms);
        }
        for (series, exemplar) in &batch.exemplars {
            encoder.exemplar(*series, exemplar);
        }
        for (family, metadata) in &batch.metadata {
            encoder.metadata(family, metadata);
        }
        for change in &batch.catalog {
            encoder.catalog(change);
        }
        encoder.totals(batch.total_floats, batch.total_histograms);
        encoder.finish()
    }

    /// Finds or enters series outside of a request (replay) and tells `found` the reference of
    /// each; `None` when there is no room.
    pub(crate) fn enter_series(
        &self,
        series: &ReplayedSeries,
        mut found: impl FnMut(u32, Option<SeriesRef>),
    ) {
        let mut sequencer = self.sequencer.lock();
        let mut index = self.index.write();
        for (number, hash, bytes) in &series.entries {
            if let Some(known) = self.registry.lookup(*hash) {
                found(*number, Some(known));
                continue;
            }
            let Some(new) = take_ref(&mut sequencer) else {
                found(*number, None);
                continue;
            };
            let mut pairs = Vec::with_capacity(16);
            RawLabels(&series.bytes[bytes.clone()])
                .parse(&mut pairs)
                .expect("label bytes were built from a decoded definition");
            index.insert(new, &pairs);
            self.registry.insert(new, *hash, bytes.len());
            self.mark_alive(new);
            self.series.fetch_add(1, Relaxed);
            found(*number, Some(new));
        }
    }

    /// Lets the series be forgotten when it is idle, even if no sample of it was ever taken.
    fn mark_alive(&self, series: SeriesRef) {
        let mut slots = self.page(series.0 as usize / PAGE_SERIES).lock();
        slots[series.0 as usize % PAGE_SERIES].mark_alive();
    }

    /// After many series were entered: brings the accounting up to date.
    pub(crate) fn account_index(&self) {
        self.index_bytes.store(self.index().heap_bytes(), Relaxed);
    }

    fn create_series(&self, sequencer: &mut Sequencer, batch: &mut BatchBuffers) -> Vec<u32> {
        if batch.new_series.is_empty() {
            return Vec::new();
        }
        let new_series = std::mem::take(&mut batch.new_series);
        let mut created = Vec::with_capacity(new_series.len());
        let mut index = self.index.write();
        let (mut made, mut refusal) = (0_usize, None);
        for new in &new_series {
            // Another request may have created it since this one was decoded.
            if let Some(series) = self.registry.lookup(new.hash) {
                created.push(series.0);
                continue;
            }
            // How many are made before the memory is looked at again.
            if made.is_multiple_of(ACCOUNT_EVERY) {
                self.index_bytes.store(index.heap_bytes(), Relaxed);
            }
            let full = self.no_room_for_series(made);
            let Some(series) = full.is_none().then(|| take_ref(sequencer)).flatten() else {
                refusal = full.or(Some(format!("more than {SERIES_REFS_MAX} series")));
                created.push(REFUSED);
                continue;
            };
            let mut pairs = Vec::with_capacity(16);
            RawLabels(&batch.label_bytes[new.bytes.clone()])
                .parse(&mut pairs)
                .expect("canonical label bytes were built from checked labels");
            index.insert(series, &pairs);
            self.registry.insert(series, new.hash, new.bytes.len());
            if let Some(alias) = new.alias {
                self.registry.insert_alias(series, alias);
            }
            self.mark_alive(series);
            self.series.fetch_add(1, Relaxed);
            made += 1;
            created.push(series.0);
        }
        self.index_bytes.store(index.heap_bytes(), Relaxed);
        batch.new_series = new_series;
        batch.series_refusal = refusal;
        created
    }

    /// Why there is no room for one more new series of a request that has made some already.
    fn no_room_for_series(&self, made: usize) -> Option<String> {
        let limits = &self.limits;
        if self.series.load(Relaxed) >= limits.series_max {
            let max = limits.series_max;
            return Some(format!(
                "new series refused: limits.series_max = {max} series are in memory"
            ));
        }
        if made >= limits.new_series_per_request_max {
            let max = limits.new_series_per_request_max;
            return Some(format!(
                "new series refused: a request may create limits.new_series_per_request_max = {max}"
            ));
        }
        let max = self.series_bytes_max;
        (self.series_bytes() >= max).then(|| {
            format!("new series refused: those in memory take head.series_bytes_max = {max} bytes")
        })
    }
}

/// The start of each sample of a request that has one, by series and time. A request may hold a
/// time twice: the sample that comes last in the order of appends decides, also when it has no
/// start.
fn starts_of(batch: &BatchBuffers) -> Vec<((u32, i64), i64)> {
    let with_starts = batch.histograms.iter().any(|pending| pending.start_ms != 0);
    if batch.starts.is_empty() && !with_starts {
        return Vec::new();
    }
    let mut starts = Vec::with_capacity(batch.refs.len() + batch.histograms.len());
    let mut given = batch.starts.iter().peekable();
    for (at, (series, timestamp)) in batch.refs.iter().zip(&batch.timestamps).enumerate() {
        let start = given.next_if(|(index, _)| *index as usize == at);
        starts.push(((*series, *timestamp), start.map_or(0, |(_, start)| *start)));
    }
    for pending in &batch.histograms {
        starts.push(((pending.series, pending.timestamp_ms), pending.start_ms));
    }
    // Stable, so that the last of equals stays the last; and quick, because requests are mostly in
    // the order of references.
    starts.sort_by_key(|(sample, _)| *sample);
    starts.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 = next.1;
        }
        same
    });
    starts.retain(|(_, start)| *start != 0);
    starts
}

/// Replaces placeholders by references and takes out what belongs to refused series.
fn resolve_new(batch: &mut BatchBuffers, created: &[u32]) {
    let resolve = |series: u32| match BatchBuffers::is_new(series) {
        Some(new) => created[new],
        None => series,
    };
    batch
        .refs
        .iter_mut()
        .for_each(|series| *series = resolve(*series));
    batch
        .histograms
        .iter_mut()
        .for_each(|pending| pending.series = resolve(pending.series));
    batch
        .exemplars
        .iter_mut()
        .for_each(|(series, _)| *series = resolve(*series));
    batch
        .deltas
        .iter_mut()
        .for_each(|delta| delta.series = resolve(delta.series));
    batch
        .delta_histograms
        .iter_mut()
        .for_each(|pending| pending.series = resolve(pending.series));
    if !created.contains(&REFUSED) {
        return;
    }
    refuse_entries(batch);
    let mut moved = 0;
    let starts = std::mem::take(&mut batch.starts);
    let mut starts = starts.into_iter().peekable();
    for at in 0..batch.refs.len() {
        let start = starts.next_if(|(index, _)| *index as usize == at);
        if batch.refs[at] == REFUSED {
            continue;
        }
        if let Some((_, start)) = start {
            batch.starts.push((moved as u32, start));
        }
        batch.refs[moved] = batch.refs[at];
        batch.timestamps[moved] = batch.timestamps[at];
        batch.values[moved] = batch.values[at];
        moved += 1;
    }
    batch.refs.truncate(moved);
    batch.timestamps.truncate(moved);
    batch.values.truncate(moved);
    batch.histograms.retain(|pending| pending.series != REFUSED);
    batch.exemplars.retain(|(series, _)| *series != REFUSED);
    batch.deltas.retain(|delta| delta.series != REFUSED);
    batch
        .delta_histograms
        .retain(|pending| pending.series != REFUSED);
}

/// Counts what belongs to refused series, before it is taken out.
fn refuse_entries(batch: &mut BatchBuffers) {
    fn refused(series: impl Iterator<Item = u32>) -> Vec<usize> {
        let entries = series.enumerate();
        let refused = entries.filter(|(_, series)| *series == REFUSED);
        refused.map(|(at, _)| at).collect()
    }
    let of_histograms = |pending: &PendingHistogram| pending.series;
    let columns = [
        (Column::Floats, refused(batch.refs.iter().copied())),
        (
            Column::Histograms,
            refused(batch.histograms.iter().map(of_histograms)),
        ),
        (
            Column::Exemplars,
            refused(batch.exemplars.iter().map(|(series, _)| *series)),
        ),
        (
            Column::Deltas,
            refused(batch.deltas.iter().map(|delta| delta.series)),
        ),
        (
            Column::DeltaHistograms,
            refused(batch.delta_histograms.iter().map(of_histograms)),
        ),
    ];
    let reason = batch.series_refusal.take().unwrap_or_default();
    for (column, removed) in columns {
        batch.reject_entries(column, &removed, &reason);
    }
}

fn take_ref(sequencer: &mut Sequencer) -> Option<SeriesRef> {
    if let Some(series) = sequencer.free_refs.pop() {
        return Some(series);
    }
    if sequencer.next_ref as usize >= SERIES_REFS_MAX {
        return None;
    }
    sequencer.next_ref += 1;
    Some(SeriesRef(sequencer.next_ref - 1))
}

/// One request on its way into the slots.
struct Appender<'h> {
    head: &'h Head,
    pages: PageCursor<'h>,
    time: AppendTime,
    heap: isize,
    touched: Touched,
    appended: AppendReceipt,
}

impl Appender<'_> {
    #[inline]
    fn slot(&mut self, series: u32) -> &mut Slot {
        let slot = self.pages.slot(series);
        slot.last_write_s = self.time.process_s;
        if slot.defined_in != self.appended.epoch {
            slot.defined_in = self.appended.epoch;
            self.appended.define.push(series);
        }
        slot
    }

    fn floats(&mut self, batch: &BatchBuffers) {
        let mut starts = batch.starts.iter().peekable();
        let mut hour = HourRange::default();
        let (mut in_hour, mut heap) = (0, 0);
        let columns = batch.refs.iter().zip(&batch.timestamps).zip(&batch.values);
        for (at, ((series, timestamp), value)) in columns.enumerate() {
            if !hour.contains(*timestamp) {
                self.touched.hours.add(hour.hour, in_hour);
                hour = hour_of(*timestamp);
                in_hour = 0;
            }
            in_hour += 1;
            let slot = self.slot(*series);
            heap += slot.append(hour.hour, *timestamp, *value);
            let start = starts.next_if(|(index, _)| *index as usize == at);
            if start.is_some() || slot.has_starts() {
                heap += slot.append_start(hour.hour, *timestamp, start.map_or(0, |(_, s)| *s));
            }
        }
        self.touched.hours.add(hour.hour, in_hour);
        self.appended.floats = batch.refs.len() as u64;
        self.heap += heap;
    }

    fn histograms(&mut self, batch: &BatchBuffers) {
        for pending in &batch.histograms {
            let hour = hour_of(pending.timestamp_ms).hour;
            self.touched.hours.add(hour, 1);
            let slot = self.slot(pending.series);
            let histogram = Arc::new(pending.histogram.clone());
            let mut heap = slot.append_histogram(hour, pending.timestamp_ms, histogram);
            if pending.start_ms != 0 || slot.has_starts() {
                heap += slot.append_start(hour, pending.timestamp_ms, pending.start_ms);
            }
            self.heap += heap;
        }
        self.appended.histograms = batch.histograms.len() as u64;
    }

    fn exemplars(&mut self, batch: &mut BatchBuffers) {
        let max = self.head.limits.exemplars_per_series_max;
        let (mut at, mut refused) = (0, Vec::new());
        batch.exemplars.retain(|(series, exemplar)| {
            let hour = hour_of(exemplar.timestamp_ms).hour;
            let heap = self
                .slot(*series)
                .append_exemplar(hour, exemplar.clone(), max);
            self.heap += heap.unwrap_or_default();
            self.touched.hours.add(hour, u64::from(heap.is_some()));
            if heap.is_none() {
                refused.push(at);
            }
            at += 1;
            heap.is_some()
        });
        if !refused.is_empty() {
            let reason = format!("more than {max} exemplars for a series in an hour");
            for at in refused {
                batch.reject_entry(Column::Exemplars, at, &reason, false);
            }
        }
        self.appended.exemplars = batch.exemplars.len() as u64;
    }
}

fn hour_of(timestamp_ms: i64) -> HourRange {
    HourRange::of(timestamp_ms).expect("the batch refused timestamps that no bucket holds")
}
