//! What happens each second: epochs roll, hours are flushed, epochs are drained, idle series are
//! forgotten.
//!
//! Holds always:
//! - One round at a time. A step that fails is logged and tried again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::warn;

use super::Ingest;
use super::due::flush_due;
use super::idle::forget_idle;
use super::journal::drain_epochs;
use crate::error::Result;

const TICK: Duration = Duration::from_secs(1);

/// How often idle series are looked for: a walk over all of them.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// Flushes and what goes with them, until it is told to stop.
pub(crate) async fn run(ingest: Arc<Ingest>, mut stop: oneshot::Receiver<()>) {
    let mut next_forget = Instant::now() + FORGET_EVERY;
    let mut pause = TICK;
    loop {
        tokio::select! {
            biased;
            _ = &mut stop => return,
            () = ingest.nudge.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
        if ingest.journal.failed().is_some() {
            return;
        }
        pause = match tick(&ingest, &mut next_forget).await {
            Ok(true) => Duration::ZERO,
            Ok(false) => TICK,
            Err(cause) => {
                warn!(%cause, "flushing failed: trying again");
                TICK
            }
        };
        ingest.flush_log.tell();
    }
}

/// One round of everything; whether more hours are due.
async fn tick(ingest: &Arc<Ingest>, next_forget: &mut Instant) -> Result<bool> {
    // One that fails does not keep the others from being tried.
    let flushed = flush_due(ingest).await;
    let drained = drain_epochs(ingest, Duration::ZERO).await.map(drop);
    let forgotten = if Instant::now() >= *next_forget {
        *next_forget = Instant::now() + FORGET_EVERY;
        forget_idle(ingest).await
    } else {
        Ok(())
    };
    drained.and(forgotten).and(flushed)
}
