//! The commit loop: concurrent requests share one record and one flush of SlateDB's WAL.
//!
//! Holds always:
//! - One commit is under way at a time; requests that arrive meanwhile form the next group, so
//!   throughput does not depend on the store's latency.
//! - A commit that the store does not take is repeated for as long as that lasts. Who waits for it
//!   is told after a while; the request keeps its place.
//! - A commit that fails for good ends the journal: nobody is acknowledged any more, and the reason
//!   is told to everyone who waits or comes later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use icecore_records::{journal, key};
use slatedb::{Db, WriteBatch};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::error;

use crate::error::{Error, Result};
use crate::failpoint;
use crate::metrics::Metrics;
use crate::slate::health::StoreHealth;

/// A group of at least this many bytes does not wait for company...
const GATHER_BYTES: usize = 32 << 10;

/// ...where the interval is a gathering time. A longer one is there because each commit costs
/// money, so only a full record cuts it short.
const GATHERING_TIME_MAX: Duration = Duration::from_millis(20);

/// Bytes that one record may gather; a larger backlog becomes several records of one commit.
const RECORD_BYTES_MAX: usize = 4 << 20;

/// The way into the commit loop, and out of it.
pub(crate) struct Journal {
    sender: mpsc::UnboundedSender<Submission>,
    shared: Arc<SharedState>,
}

struct SharedState {
    queued_bytes: AtomicUsize,
    /// Bytes written in the current epoch.
    epoch_bytes: AtomicUsize,
    writes: AtomicU64,
    write_nanos: AtomicU64,
    /// All sequence numbers below this one are durable.
    durable_below: watch::Sender<u64>,
    failed: watch::Sender<Option<Arc<str>>>,
}

/// How many writes there have been that somebody waited for, and how long they took together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteTime {
    pub(crate) writes: u64,
    pub(crate) nanos: u64,
}

struct Submission {
    seq: u64,
    epoch: u32,
    block: Vec<u8>,
    /// Until when it may wait for company.
    wanted: Instant,
    acknowledge: oneshot::Sender<()>,
}

/// A place in the order of writes that must be filled: every later request waits for it.
pub(crate) struct Ticket<'j> {
    journal: &'j Journal,
    seq: u64,
    epoch: u32,
    filled: bool,
}

/// Resolves when the request is durable.
pub(crate) struct Durable {
    acknowledged: oneshot::Receiver<()>,
    shared: Arc<SharedState>,
    /// When the write began; `None` for one that waits for others on purpose.
    began: Option<Instant>,
}

impl Journal {
    /// Starts the commit loop. `next_seq` is the first sequence number it will see.
    pub(crate) fn start(
        db: Db,
        commit_interval: Duration,
        next_seq: u64,
        metrics: Arc<Metrics>,
        health: Arc<StoreHealth>,
    ) -> Self {
        // Bounded by `queued_bytes`, which is checked before a request is appended.
        let (sender, receiver) = mpsc::unbounded_channel();
        let shared = Arc::new(SharedState {
            queued_bytes: AtomicUsize::new(0),
            epoch_bytes: AtomicUsize::new(0),
            writes: AtomicU64::new(0),
            write_nanos: AtomicU64::new(0),
            durable_below: watch::channel(next_seq).0,
            failed: watch::channel(None).0,
        });
        let commit_loop = CommitLoop {
            db,
            receiver,
            shared: Arc::clone(&shared),
            commit_interval,
            waiting: BTreeMap::new(),
            wanted: None,
            next_seq,
            metrics,
            health,
        };
        tokio::spawn(commit_loop.run());
        Self { sender, shared }
    }

    /// Takes the place that an append was given.
    pub(crate) fn ticket(&self, seq: u64, epoch: u32) -> Ticket<'_> {
        Ticket {
            journal: self,
            seq,
            epoch,
            filled: false,
        }
    }

    pub(crate) fn queued_bytes(&self) -> usize {
        self.shared.queued_bytes.load(Relaxed)
    }

    pub(crate) fn write_time(&self) -> WriteTime {
        WriteTime {
            writes: self.shared.writes.load(Relaxed),
            nanos: self.shared.write_nanos.load(Relaxed),
        }
    }

    pub(crate) fn epoch_bytes(&self) -> usize {
        self.shared.epoch_bytes.load(Relaxed)
    }

    /// The next epoch counts from zero.
    pub(crate) fn epoch_began(&self) {
        self.shared.epoch_bytes.store(0, Relaxed);
    }

    /// All sequence numbers below this one are durable.
    pub(crate) fn durable_below(&self) -> u64 {
        *self.shared.durable_below.borrow()
    }

    /// Waits until everything up to and including `seq` is durable.
    pub(crate) async fn wait_durable(&self, seq: u64) -> Result<()> {
        let mut durable = self.shared.durable_below.subscribe();
        let mut failed = self.shared.failed.subscribe();
        tokio::select! {
            reached = durable.wait_for(|below| *below > seq) => {
                reached.map(drop).map_err(|_| Error::Closed("the journal is closed".into()))
            }
            reason = failed.wait_for(Option::is_some) => {
                drop(reason);
                Err(self.failure())
            }
        }
    }

    /// Why journal failed: no more writes are acknowledged, if so.
    pub(crate) fn failed(&self) -> Option<Arc<str>> {
        self.shared.failed.borrow().clone()
    }

    pub(crate) fn watch_failure(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.shared.failed.subscribe()
    }

    /// Ends the journal, for a reason found elsewhere (for example another writer).
    pub(crate) fn fail(&self, reason: &str) {
        self.shared.fail(reason);
    }

    fn failure(&self) -> Error {
        self.shared.failure()
    }
}

impl Ticket<'_> {
    /// Hands the block over to the commit loop, where it may wait for others for so long.
    pub(crate) fn fill(mut self, block: Vec<u8>, patience: Duration) -> Durable {
        self.filled = true;
        let shared = &self.journal.shared;
        shared.queued_bytes.fetch_add(block.len(), Relaxed);
        let (acknowledge, acknowledged) = oneshot::channel();
        let submitted = Submission {
            seq: self.seq,
            epoch: self.epoch,
            block,
            wanted: Instant::now() + patience,
            acknowledge,
        };
        // A closed channel drops `acknowledge`, which the waiter sees.
        let _ = self.journal.sender.send(submitted);
        Durable {
            acknowledged,
            shared: Arc::clone(shared),
            began: patience.is_zero().then(Instant::now),
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if !self.filled {
            // The head has something that the journal never will: going on would be lying.
            self.journal
                .fail("a request was appended, but its journal block was lost");
        }
    }
}

impl Durable {
    /// The write began before its block was handed over: it was decoded first.
    pub(crate) fn began_at(&mut self, began: Instant) {
        self.began = self.began.map(|_| began);
    }

    pub(crate) async fn wait(self) -> Result<()> {
        if self.acknowledged.await.is_err() {
            return Err(self.shared.failure());
        }
        if let Some(began) = self.began {
            let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.shared.write_nanos.fetch_add(nanos, Relaxed);
            self.shared.writes.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}

impl SharedState {
    fn fail(&self, reason: &str) {
        self.failed.send_if_modified(|failed| {
            let first = failed.is_none();
            if first {
                error!(reason, "journal failed: no more writes are acknowledged");
                *failed = Some(reason.into());
            }
            first
        });
    }

    fn failure(&self) -> Error {
        let reason = self.failed.borrow().clone();
        Error::Closed(reason.map_or_else(|| "the journal is closed".into(), |r| r.to_string()))
    }
}

struct CommitLoop {
    db: Db,
    receiver: mpsc::UnboundedReceiver<Submission>,
    shared: Arc<SharedState>,
    commit_interval: Duration,
    /// Blocks that arrived, also those that are ahead of a slower request.
    waiting: BTreeMap<u64, Submission>,
    /// The first moment at which one of them is wanted.
    wanted: Option<Instant>,
    next_seq: u64,
    metrics: Arc<Metrics>,
    health: Arc<StoreHealth>,
}

impl CommitLoop {
    async fn run(mut self) {
        let mut last_commit = Instant::now();
        let mut failed = self.shared.failed.subscribe();
        loop {
            tokio::select! {
                more = self.gather(last_commit) => if !more { return },
                _ = failed.wait_for(Option::is_some) => return,
            }
            last_commit = Instant::now();
            let group = self.take_group();
            self.health.commit_began();
            let committed = self.commit(&group).await;
            self.health.commit_ended();
            if let Err(cause) = committed {
                let failure = Error::store("the journal cannot be written")(cause);
                return self.shared.fail(&failure.to_string());
            }
            let took = last_commit.elapsed();
            self.metrics.commit_seconds.observe(took.as_secs_f64());
            self.metrics.commit_requests.add(group.len() as u64);
            self.shared.durable_below.send_replace(self.next_seq);
            for submitted in group {
                // The client may have gone away; its samples stay.
                let _ = submitted.acknowledge.send(());
            }
        }
    }

    /// Waits until there is something to commit and it is time. False when no more will come.
    async fn gather(&mut self, last_commit: Instant) -> bool {
        while !self.waiting.contains_key(&self.next_seq) {
            match self.receiver.recv().await {
                Some(submitted) => self.enter(submitted),
                None => return false,
            }
        }
        let soonest = last_commit + self.commit_interval;
        loop {
            while let Ok(submitted) = self.receiver.try_recv() {
                self.enter(submitted);
            }
            let now = Instant::now();
            let wanted = self.wanted.unwrap_or(now);
            let due = soonest.max(wanted);
            let enough = if self.commit_interval > GATHERING_TIME_MAX || wanted > now {
                RECORD_BYTES_MAX
            } else {
                GATHER_BYTES
            };
            if self.shared.queued_bytes.load(Relaxed) >= enough || now >= due {
                return true;
            }
            match tokio::time::timeout_at(due, self.receiver.recv()).await {
                Ok(Some(submitted)) => self.enter(submitted),
                Ok(None) | Err(_) => return true,
            }
        }
    }

    fn enter(&mut self, submitted: Submission) {
        let earlier = self.wanted.is_none_or(|wanted| submitted.wanted < wanted);
        if earlier {
            self.wanted = Some(submitted.wanted);
        }
        self.waiting.insert(submitted.seq, submitted);
    }

    /// Everything that is next in sequence without a gap.
    fn take_group(&mut self) -> Vec<Submission> {
        let mut group = Vec::new();
        while let Some(submitted) = self.waiting.remove(&self.next_seq) {
            self.next_seq += 1;
            group.push(submitted);
        }
        self.wanted = self.waiting.values().map(|left| left.wanted).min();
        group
    }

    async fn commit(&self, group: &[Submission]) -> Result<(), slatedb::Error> {
        let mut batch = WriteBatch::new();
        let mut bytes = 0;
        let mut queued = 0;
        for part in record_parts(group) {
            let blocks: Vec<&[u8]> = part.iter().map(|s| s.block.as_slice()).collect();
            let record = journal::encode_record(&blocks);
            bytes += record.len();
            queued += blocks.iter().map(|b| b.len()).sum::<usize>();
            batch.put_bytes(key::journal(part[0].epoch, part[0].seq), record.into());
        }
        let handle = self.db.write(batch).await?;
        failpoint::pass("journal.written");
        self.db.flush().await?;
        handle.await_durable().await?;
        failpoint::pass("journal.durable");
        self.shared.queued_bytes.fetch_sub(queued, Relaxed);
        self.shared.epoch_bytes.fetch_add(bytes, Relaxed);
        self.metrics.journal_bytes.add(bytes as u64);
        Ok(())
    }
}

/// Cuts a group into records: one epoch each, and not much more than the size limit.
fn record_parts(group: &[Submission]) -> impl Iterator<Item = &[Submission]> {
    let (mut bytes, mut blocks) = (0, 1);
    group.chunk_by(move |a, b| {
        bytes += a.block.len();
        let small = bytes < RECORD_BYTES_MAX && blocks < journal::MAX_BLOCKS;
        let together = a.epoch == b.epoch && small;
        blocks += 1;
        if !together {
            (bytes, blocks) = (0, 1);
        }
        together
    })
}
