//! What one request may take of the machine, and whether anybody still waits for its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use http::StatusCode;
use icecore_model::{MemoryBudget, OutOfMemory, Reservation};
use parking_lot::Mutex;

use crate::error::Error;

/// Memory of a request for which nobody has set a limit.
const MEMORY_DEFAULT: usize = 1 << 30;

/// Memory and time of one request.
#[derive(Clone, Debug)]
pub struct Allowance {
    pub memory: Arc<MemoryBudget>,
    /// Set when the client has gone away or the time is over. What is computed ends soon after.
    pub canceled: Arc<AtomicBool>,
    /// Memory of what is kept until the request is answered.
    held: Arc<Mutex<Option<Reservation>>>,
}

impl Default for Allowance {
    fn default() -> Self {
        Self::with_memory(MemoryBudget::new(MEMORY_DEFAULT))
    }
}

impl Allowance {
    /// Memory for a request that nothing cancels.
    pub fn with_memory(memory: Arc<MemoryBudget>) -> Self {
        Self::new(memory, Arc::default())
    }

    pub fn new(memory: Arc<MemoryBudget>, canceled: Arc<AtomicBool>) -> Self {
        Self {
            memory,
            canceled,
            held: Arc::default(),
        }
    }

    /// Takes memory until the request is answered: until the last clone of this is dropped.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), Error> {
        let mut held = self.held.lock();
        match &mut *held {
            Some(held) => held.grow(bytes).map_err(out_of_memory),
            None => {
                *held = Some(self.reserve(bytes)?);
                Ok(())
            }
        }
    }

    pub(crate) fn is_canceled(&self) -> bool {
        self.canceled.load(Relaxed)
    }

    /// Fails where nobody waits any more.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_canceled() {
            let message = "The query was canceled";
            return Err(Error::new(StatusCode::REQUEST_TIMEOUT, message));
        }
        Ok(())
    }

    /// Takes memory until the reservation is dropped.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Reservation, Error> {
        self.memory.reserve(bytes).map_err(out_of_memory)
    }
}

pub(crate) fn out_of_memory(error: OutOfMemory) -> Error {
    Error::new(StatusCode::PAYLOAD_TOO_LARGE, error.to_string())
}
