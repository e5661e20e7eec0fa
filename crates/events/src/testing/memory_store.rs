//! A store of events in memory.
//!
//! It does what the real one does, and fails where a test says so: a write that is lost, a write
//! that is applied and answered with an error, a write that takes its time. A crash is
//! [`MemoryStore::reopen`]: the store that was open before cannot write any more, and only what was
//! durable is there.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::event::{
    AppendedEvents, Cell, CellKey, CellScan, DimensionHash, EventBatch, EventFileStore,
    EventSnapshot, EventStore, EventWindow, FlushMark, IdentityKey, StoredCell, Week,
};
use icecore_model::{BoxFuture, CatalogRecord, Clock, GuardedClock, StoreError};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::MemoryFiles;

/// What can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Before the block has a number.
    Append,
    /// After it: an error leaves open whether it is durable.
    Commit,
    Write,
    Snapshot,
}

/// How the next operation of a kind fails.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing happens, and an error is answered.
    Lost,
    /// It happens, and an error is answered.
    AppliedWithError,
    /// It happens when told to.
    Held(Arc<Notify>),
}

/// Cheap to clone.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
    /// Which opening of the store this is. Only the latest one may write.
    epoch: u64,
}

struct Shared {
    state: Mutex<State>,
    files: MemoryFiles,
    clock: Arc<dyn Clock>,
    guarded: Mutex<GuardedClock>,
}

#[derive(Default)]
struct State {
    epoch: u64,
    last_seq: u64,
    /// Blocks whose commits have not ended.
    pending: BTreeMap<u64, Bytes>,
    replayed: Vec<(u64, Bytes)>,
    content: Arc<Content>,
    /// By id.
    kept: BTreeMap<String, Arc<Content>>,
    kept_reads: usize,
    faults: HashMap<Operation, VecDeque<Fault>>,
    writes: usize,
}

/// What is durable.
#[derive(Clone, Default)]
struct Content {
    journal: BTreeMap<u64, Bytes>,
    cells: BTreeMap<CellKey, Cell>,
    identities: BTreeMap<IdentityKey, u64>,
    records: BTreeMap<Vec<u8>, Vec<u8>>,
    mark: FlushMark,
    sealed: u64,
}

impl MemoryStore {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let guarded = Mutex::new(GuardedClock::starting(None, &*clock));
        let shared = Shared {
            state: Mutex::default(),
            files: MemoryFiles::default(),
            clock,
            guarded,
        };
        Self {
            shared: Arc::new(shared),
            epoch: 0,
        }
    }

    /// What is found after a crash. Of the blocks whose commits had not ended, the first
    /// `late_commits` turn out to be durable all the same.
    pub fn reopen(&self, late_commits: usize) -> Self {
        let mut state = self.shared.state.lock();
        let pending = std::mem::take(&mut state.pending);
        let content = Arc::make_mut(&mut state.content);
        content
            .journal
            .extend(pending.into_iter().take(late_commits));
        let sealed = content.sealed;
        content.journal.retain(|seq, _| *seq > sealed);
        let replayed = content.journal.iter();
        let replayed = replayed.map(|(seq, block)| (*seq, block.clone())).collect();
        state.replayed = replayed;
        state.faults.clear();
        state.epoch += 1;
        Self {
            shared: self.shared.clone(),
            epoch: state.epoch,
        }
    }

    /// Keeps the state of now until [`MemoryStore::forget`].
    pub fn keep(&self, id: &str) {
        let mut state = self.shared.state.lock();
        let content = Arc::clone(&state.content);
        state.kept.insert(id.to_owned(), content);
    }

    pub fn forget(&self, id: &str) {
        self.shared.state.lock().kept.remove(id);
    }

    /// Counts the reads of states that are kept.
    pub fn kept_reads(&self) -> usize {
        self.shared.state.lock().kept_reads
    }

    /// Makes the next operations of a kind fail, one after the other.
    pub fn fail(&self, operation: Operation, fault: Fault) {
        let mut state = self.shared.state.lock();
        state.faults.entry(operation).or_default().push_back(fault);
    }

    /// Takes back faults that have not happened yet.
    pub fn heal(&self, operation: Operation) {
        self.shared.state.lock().faults.remove(&operation);
    }

    /// All cells.
    pub fn cells(&self) -> BTreeMap<CellKey, Cell> {
        self.shared.state.lock().content.cells.clone()
    }

    pub fn identities(&self) -> BTreeMap<IdentityKey, u64> {
        self.shared.state.lock().content.identities.clone()
    }

    pub fn mark(&self) -> FlushMark {
        self.shared.state.lock().content.mark
    }

    /// Blocks that the journal keeps.
    pub fn journal_blocks(&self) -> usize {
        self.shared.state.lock().content.journal.len()
    }

    /// Batches that were written.
    pub fn writes(&self) -> usize {
        self.shared.state.lock().writes
    }

    pub fn memory_files(&self) -> &MemoryFiles {
        &self.shared.files
    }

    fn take_fault(&self, operation: Operation) -> Option<Fault> {
        let mut state = self.shared.state.lock();
        state.faults.get_mut(&operation)?.pop_front()
    }

    /// Does something durable, or not.
    async fn with_faults(
        &self,
        operation: Operation,
        act: impl FnOnce(&mut State),
    ) -> Result<(), StoreError> {
        // Others come in between, as they do when a real store is waited for.
        tokio::task::yield_now().await;
        let fault = self.take_fault(operation);
        if let Some(Fault::Held(until)) = &fault {
            until.notified().await;
        }
        let injected = || StoreError(format!("injected fault: {operation:?}"));
        if matches!(fault, Some(Fault::Lost)) {
            return Err(injected());
        }
        let mut state = self.shared.state.lock();
        if state.epoch != self.epoch {
            return Err(StoreError("another writer has opened the store".into()));
        }
        act(&mut state);
        match fault {
            Some(Fault::AppliedWithError) => Err(injected()),
            _ => Ok(()),
        }
    }

    fn change(
        &self,
        act: impl FnOnce(&mut Content) + Send + 'static,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.with_faults(Operation::Write, |state| {
            act(Arc::make_mut(&mut state.content));
        }))
    }
}

impl State {
    fn commit(&mut self, seq: u64) {
        // Commits end in order: with a block those before it are durable, too.
        let later = self.pending.split_off(&(seq + 1));
        let durable = std::mem::replace(&mut self.pending, later);
        Arc::make_mut(&mut self.content).journal.extend(durable);
    }
}

impl Content {
    fn write(&mut self, batch: EventBatch) {
        for (key, cell) in batch.cells {
            match self.cells.get_mut(&key) {
                Some(sum) => sum
                    .merge(&cell)
                    .expect("cells of one metric are of one kind"),
                None => {
                    self.cells.insert(key, cell);
                }
            }
        }
        self.identities.extend(batch.identities);
        for change in batch.records {
            match change.value {
                Some(value) => {
                    self.records.insert(change.key, value);
                }
                None => {
                    self.records.remove(&change.key);
                }
            }
        }
        if let Some(mark) = batch.flushed {
            assert!(mark.generation > self.mark.generation, "marks grow");
            assert!(mark.seq >= self.mark.seq, "marks grow");
            self.mark = mark;
        }
        if let Some(sealed) = batch.sealed {
            assert!(sealed <= self.mark.seq, "only flushed blocks are sealed");
            self.sealed = sealed;
            self.journal.retain(|seq, _| *seq > sealed);
        }
    }
}

impl EventStore for MemoryStore {
    fn append(&self, block: Vec<u8>) -> BoxFuture<'_, Result<AppendedEvents, StoreError>> {
        Box::pin(async move {
            let mut seq = 0;
            self.with_faults(Operation::Append, |state| {
                state.last_seq += 1;
                seq = state.last_seq;
                state.pending.insert(seq, Bytes::from(block));
            })
            .await?;
            let store = self.clone();
            let commit = async move {
                let fault_or_commit = |state: &mut State| state.commit(seq);
                let ended = store.with_faults(Operation::Commit, fault_or_commit).await;
                if ended.is_err() {
                    // Lost, unless it was applied.
                    store.shared.state.lock().pending.remove(&seq);
                }
                ended
            };
            Ok(AppendedEvents {
                seq,
                commit: Box::pin(commit),
            })
        })
    }

    fn take_replayed(&self) -> Vec<(u64, Bytes)> {
        std::mem::take(&mut self.shared.state.lock().replayed)
    }

    fn write(&self, batch: EventBatch) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.with_faults(Operation::Write, |state| {
            state.writes += 1;
            Arc::make_mut(&mut state.content).write(batch);
        }))
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Box<dyn EventSnapshot>, StoreError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            if self.take_fault(Operation::Snapshot).is_some() {
                return Err(StoreError("injected fault: Snapshot".into()));
            }
            let content = self.shared.state.lock().content.clone();
            let guarded_ms = self.guarded_ms();
            let snapshot = MemorySnapshot {
                content,
                guarded_ms,
            };
            Ok(Box::new(snapshot) as Box<dyn EventSnapshot>)
        })
    }

    fn drop_cells(
        &self,
        window: EventWindow,
        week: Week,
        metrics: Option<Vec<u32>>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        self.change(move |content| {
            content.cells.retain(|key, _| {
                let is_named = metrics
                    .as_ref()
                    .is_none_or(|metrics| metrics.contains(&key.metric));
                key.window != window || Week::of(key.start_s) != week || !is_named
            });
        })
    }

    fn drop_identities(&self, week: Week) -> BoxFuture<'_, Result<(), StoreError>> {
        self.change(move |content| content.identities.retain(|key, _| key.week != week))
    }

    fn cell_weeks(&self, window: EventWindow) -> BoxFuture<'_, Result<Vec<Week>, StoreError>> {
        Box::pin(async move {
            let state = self.shared.state.lock();
            let keys = state.content.cells.keys();
            let keys = keys.filter(|key| key.window == window);
            let weeks: BTreeSet<Week> = keys.map(|key| Week::of(key.start_s)).collect();
            Ok(weeks.into_iter().collect())
        })
    }

    fn identity_weeks(&self) -> BoxFuture<'_, Result<Vec<Week>, StoreError>> {
        Box::pin(async move {
            let state = self.shared.state.lock();
            let weeks = state.content.identities.keys().map(|key| key.week);
            let weeks: BTreeSet<Week> = weeks.collect();
            Ok(weeks.into_iter().collect())
        })
    }

    fn files(&self) -> &dyn EventFileStore {
        &self.shared.files
    }

    fn kept(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        Box::pin(async move { Ok(self.shared.state.lock().kept.keys().cloned().collect()) })
    }

    fn kept_state<'a>(
        &'a self,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Box<dyn EventSnapshot>>, StoreError>> {
        Box::pin(async move {
            let guarded_ms = self.guarded_ms();
            let mut state = self.shared.state.lock();
            let Some(content) = state.kept.get(id).cloned() else {
                return Ok(None);
            };
            state.kept_reads += 1;
            let snapshot = MemorySnapshot {
                content,
                guarded_ms,
            };
            Ok(Some(Box::new(snapshot) as Box<dyn EventSnapshot>))
        })
    }

    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn guarded_ms(&self) -> i64 {
        self.shared.guarded.lock().advance(&*self.shared.clock)
    }
}

struct MemorySnapshot {
    content: Arc<Content>,
    guarded_ms: i64,
}

impl EventSnapshot for MemorySnapshot {
    fn mark(&self) -> FlushMark {
        self.content.mark
    }

    fn sealed(&self) -> u64 {
        self.content.sealed
    }

    fn guarded_ms(&self) -> i64 {
        self.guarded_ms
    }

    fn identities<'a>(
        &'a self,
        keys: &'a [IdentityKey],
    ) -> BoxFuture<'a, Result<Vec<Option<u64>>, StoreError>> {
        let found = keys
            .iter()
            .map(|key| self.content.identities.get(key).copied());
        let found = found.collect();
        Box::pin(async move { Ok(found) })
    }

    fn cells(&self, scan: CellScan) -> BoxFuture<'_, Result<Vec<StoredCell>, StoreError>> {
        let at = |start_s: i64, dimensions: DimensionHash| CellKey {
            window: scan.window,
            metric: scan.metric,
            start_s,
            dimensions,
        };
        let first = DimensionHash([0; 16]);
        let keys = at(scan.starts_s.start, first)..at(scan.starts_s.end, first);
        let cells = self.content.cells.range(keys);
        let cells = cells.filter(|(key, _)| {
            let after = scan.after;
            after.is_none_or(|after| (key.start_s, key.dimensions) > after)
        });
        let cells = cells.take(scan.limit).map(|(key, cell)| StoredCell {
            start_s: key.start_s,
            dimensions: key.dimensions,
            cell: cell.clone(),
        });
        let cells = cells.collect();
        Box::pin(async move { Ok(cells) })
    }

    fn records(
        &self,
        keys: Range<Vec<u8>>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<CatalogRecord>, StoreError>> {
        let records = self.content.records.range(keys).take(limit);
        let records = records.map(|(key, value)| (key.clone(), value.clone()));
        let records = records.collect();
        Box::pin(async move { Ok(records) })
    }

    fn blocks(
        &self,
        after: u64,
        up_to: u64,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, Bytes)>, StoreError>> {
        let blocks = self.content.journal.iter();
        let wanted = blocks.filter(|(seq, _)| **seq > after && **seq <= up_to);
        let wanted: Vec<_> = wanted.map(|(seq, block)| (*seq, block.clone())).collect();
        let bytes: usize = wanted.iter().map(|(_, block)| block.len()).sum();
        let found = (bytes <= bytes_max)
            .then_some(wanted)
            .ok_or_else(|| StoreError(format!("more than {bytes_max} bytes of events")));
        Box::pin(async move { found })
    }
}
