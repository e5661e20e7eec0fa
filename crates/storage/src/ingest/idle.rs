//! Forgetting idle series: those that hold nothing and were not written to for long.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Ingest;
use crate::error::Result;

/// Series that are forgotten in one go, which takes milliseconds.
const FORGET_SERIES: usize = 4096;

/// How long to wait for requests to end, at first and at most; how many times as long requests have
/// the head for themselves before the next try; and how long all of it may take.
const FORGET_PATIENCE: Duration = Duration::from_millis(5);
const FORGET_PATIENCE_MAX: Duration = Duration::from_millis(200);
const FORGET_PAUSE: u32 = 5;
const FORGET_MAX: Duration = Duration::from_secs(10);

/// Forgets idle series, some at a time: requests wait while some are forgotten.
pub(crate) async fn forget_idle(ingest: &Arc<Ingest>) -> Result<()> {
    let idle_s = ingest.context.options.head.series_idle_max.as_secs();
    let now_s = u64::from(ingest.context.process_s());
    let Some(before) = now_s.checked_sub(idle_s) else {
        return Ok(());
    };
    let before = u32::try_from(before).unwrap_or(u32::MAX);
    let head = Arc::clone(&ingest.head);
    let idle = ingest
        .context
        .pool
        .run(move || head.idle_series(before))
        .await?;
    let give_up = Instant::now() + FORGET_MAX;
    let (mut forgotten, mut patience) = (Vec::new(), FORGET_PATIENCE);
    let mut left = &idle[..];
    while !left.is_empty() && Instant::now() < give_up && !ingest.context.stop.is_stopped() {
        let (some, rest) = left.split_at(left.len().min(FORGET_SERIES));
        let (head, some) = (Arc::clone(&ingest.head), some.to_vec());
        let forget = move || head.forget(&some, before, patience);
        match ingest.context.pool.run(forget).await? {
            Some(gone) => {
                forgotten.extend(gone);
                left = rest;
            }
            // Somebody reads for long. Those who write wait along, so they get time in between.
            None => {
                tokio::time::sleep(patience * FORGET_PAUSE).await;
                patience = (patience * 2).min(FORGET_PATIENCE_MAX);
            }
        }
    }
    ingest
        .context
        .metrics
        .series_forgotten
        .add(forgotten.len() as u64);
    let head = Arc::clone(&ingest.head);
    ingest
        .context
        .pool
        .run(move || head.reuse(&forgotten))
        .await
}
