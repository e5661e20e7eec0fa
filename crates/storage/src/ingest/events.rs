//! Blocks of events: they share the journal, and with it order and durability, with samples.
//!
//! Holds always:
//! - A block is encoded before it gets its sequence number, so that nobody waits for it longer than
//!   for a request of samples.
//! - An epoch with events is kept until somebody says that they are in files.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use icecore_records::epoch_summary::FlushUnit;

use super::Ingest;
use super::journal::Durable;
use crate::error::{Error, Result};

/// The first bytes of the keys of catalog records of events. They are written with batches of
/// events and not with samples: of these the head keeps the last change until a flush has written
/// it, which would then hide, or undo, what a batch wrote.
pub(crate) const EVENT_RECORD_KINDS: Range<u8> = 0x30..0x40;

/// Bytes of the events of one request.
const BLOCK_BYTES_MAX: usize = 128 << 20;

impl Ingest {
    /// The CPU part of an append: encode the journal block, take a place in the order of writes,
    /// hand the block over.
    pub(crate) fn append_events(&self, block: &[u8]) -> Result<(u64, Durable)> {
        let mut scratch = self.take_scratch();
        scratch.encoder.events(block);
        let encoded = scratch.encoder.finish();
        self.give_back(scratch);
        self.admit_block()?;
        let (seq, epoch) = self.head.append_events(self.context.clock.elapsed_ms());
        let ticket = self.journal.ticket(seq, epoch);
        Ok((seq, ticket.fill(encoded, Duration::ZERO)))
    }

    /// Refuses a block that can never be stored, or not now.
    pub(crate) fn admit_events(&self, block: &[u8]) -> Result<()> {
        if block.is_empty() {
            return Err(Error::Invalid("a block of events without bytes".into()));
        }
        if block.len() > BLOCK_BYTES_MAX {
            return Err(Error::Invalid(
                format!("the events of one request take more than {BLOCK_BYTES_MAX} bytes").into(),
            ));
        }
        self.check_store()?;
        self.admit_block()
    }

    /// Files hold all events up to this sequence number: epochs no longer wait for them.
    pub(crate) fn events_sealed(&self, seq: u64) {
        self.head.flushed(FlushUnit::Events, seq);
    }

    /// What the journal held of events and files did not, in order; nothing the second time.
    pub(crate) fn take_replayed_events(&self) -> Vec<(u64, Bytes)> {
        std::mem::take(&mut *self.replayed_events.lock())
    }
}
