//! Blocks on their way from the journal into the open generation, in the order of their numbers.
//!
//! ```text
//! append, one after the other ─► queue ─► commits end ─► ready ones are taken from its front
//! ```
//!
//! Commits end in order, but those who wait for them do not wake up in order. So a block is in the
//! queue before anybody can wait for a later one, and is taken only when all before it are.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::memory::FoldedBlock;

#[derive(Default)]
pub(super) struct CommitOrder {
    queue: Mutex<VecDeque<Queued>>,
}

struct Queued {
    seq: u64,
    state: CommitState,
    block: FoldedBlock,
    added: oneshot::Sender<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CommitState {
    Waiting,
    Durable,
    Failed,
}

/// A block whose commit has ended, with all before it.
pub(super) struct Ready {
    pub(super) seq: u64,
    pub(super) outcome: Outcome,
    /// Told when the block is in memory.
    pub(super) added: oneshot::Sender<()>,
}

pub(super) enum Outcome {
    Durable(Box<FoldedBlock>),
    Failed,
}

impl CommitOrder {
    /// Enters a block. The caller sees to it that numbers grow.
    pub(super) fn enter(&self, seq: u64, block: FoldedBlock) -> oneshot::Receiver<()> {
        let (added, when_added) = oneshot::channel();
        self.queue.lock().push_back(Queued {
            seq,
            state: CommitState::Waiting,
            block,
            added,
        });
        when_added
    }

    /// Says how the commit of a block has ended.
    pub(super) fn end(&self, seq: u64, is_durable: bool) {
        let mut queue = self.queue.lock();
        if let Ok(at) = queue.binary_search_by_key(&seq, |queued| queued.seq) {
            queue[at].state = if is_durable {
                CommitState::Durable
            } else {
                CommitState::Failed
            };
        }
    }

    /// Takes the blocks at the front whose commits have ended.
    pub(super) fn take_ready(&self) -> Vec<Ready> {
        let mut queue = self.queue.lock();
        let waiting = |queued: &Queued| queued.state == CommitState::Waiting;
        let ready = queue.iter().position(waiting).unwrap_or(queue.len());
        let ready = queue.drain(..ready).map(|queued| Ready {
            seq: queued.seq,
            outcome: match queued.state {
                CommitState::Durable => Outcome::Durable(Box::new(queued.block)),
                _ => Outcome::Failed,
            },
            added: queued.added,
        });
        ready.collect()
    }
}
