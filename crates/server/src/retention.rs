//! The retention policy in effect: the one of `retention`, or Prometheus' setting
//! `storage.tsdb.retention.time`.
//!
//! ```text
//! retention: … ─────────────────────────────────────────────────► in effect
//! storage.tsdb.retention.time ─► nothing older, or confirmed ───► in effect, and remembered
//!                                 └► otherwise a warning; what was confirmed before stays
//! ```
//!
//! Holds always:
//! - Prometheus' setting deletes nothing that an operator has not confirmed: a file that was
//!   written for another database must not empty this one.
//! - A confirmation is stored with the data. It holds for one time, and for longer ones; it is
//!   forgotten when the setting no longer decides.

use icecore_model::retention::RetentionPolicy;
use icecore_model::{Catalog as _, CatalogChange, SampleSink as _, format_duration_ms};
use icecore_storage::{BucketRole, Database, WriteBatch};
use tracing::{error, info, warn};

use crate::app::{App, PendingRetention, RetentionInEffect};
use crate::config::Config;

/// The catalog's record of the confirmed time. OpenTSDB's and events' keys begin with less.
const CONFIRMED_KEY: &[u8] = &[0x40];

const VERSION: u8 = 1;

/// Lets the configured policy hold from now on, when the database is open. Without a store that can
/// be read Prometheus' setting does not hold until a reload.
pub(crate) async fn apply(app: &App) {
    match decide(app, &app.config(), false).await {
        Ok(decided) => set(app, decided),
        Err(reason) => error!(reason, "cannot apply storage.tsdb.retention.time"),
    }
}

/// Puts the policy into effect, confirmed by an operator.
pub(crate) async fn confirm(app: &App) -> Result<(), String> {
    // A reload that ends meanwhile would be undone.
    let _one_at_a_time = app.reloading.lock().await;
    let decided = decide(app, &app.config(), true).await?;
    set(app, decided);
    Ok(())
}

/// Lets a policy hold from now on.
pub(crate) fn set(app: &App, decided: RetentionInEffect) {
    let Ok(database) = app.database() else {
        return;
    };
    match &decided.policy {
        Some(policy) => info!(%policy, "retention policy in effect"),
        None => info!("no retention policy: nothing is rolled up or deleted"),
    }
    if let Some(pending) = &decided.pending {
        warn!(
            retain = format_duration_ms(pending.retain_ms),
            oldest_ms = pending.oldest_ms,
            buckets = pending.buckets,
            samples = pending.samples,
            "storage.tsdb.retention.time is not applied, because the database holds older data, \
             which it would delete: icecore policy apply confirms it, once"
        );
    }
    database.set_retention(decided.policy.clone());
    app.set_retention(decided);
}

/// Returns the policy that a configuration has in effect. Fails if that depends on a store that
/// cannot be read.
pub(crate) async fn decide(
    app: &App,
    config: &Config,
    confirm: bool,
) -> Result<RetentionInEffect, String> {
    let decided = RetentionInEffect {
        policy: config.retention.clone(),
        pending: None,
    };
    let Ok(database) = app.database() else {
        return Ok(decided);
    };
    let Some(retain_ms) = config.tsdb_retention_ms() else {
        if let Err(reason) = forget(database).await {
            warn!(reason, "cannot forget the confirmed retention time");
        }
        return Ok(decided);
    };
    let known_ms = confirmed_ms(database).await?;
    let now_ms = app.clock().now_ms();
    let is_known = known_ms.is_some_and(|known_ms| retain_ms >= known_ms);
    let pending = if is_known || confirm {
        None
    } else {
        older_than(database, now_ms, retain_ms).await?
    };
    let in_effect_ms = match pending {
        None => Some(retain_ms),
        Some(_) => known_ms,
    };
    if pending.is_none() && known_ms != Some(retain_ms) {
        remember(database, Some(retain_ms)).await?;
    }
    let policy = in_effect_ms.and_then(|ms| RetentionPolicy::raw_for(ms).ok());
    Ok(RetentionInEffect { policy, pending })
}

/// Returns what would be deleted; `None` if nothing is as old.
async fn older_than(
    database: &Database,
    now_ms: i64,
    retain_ms: i64,
) -> Result<Option<PendingRetention>, String> {
    let figures = database.bucket_figures().await;
    let mut figures = figures.map_err(|error| error.to_string())?;
    figures.retain(|bucket| !matches!(bucket.role, BucketRole::Retired | BucketRole::Building));
    // A machine's clock that is behind would find nothing old, and so would the guarded clock after
    // a long pause. What is stored shows how late it is at least.
    let newest_ms = figures.iter().map(|bucket| bucket.end_ms).max();
    let now_ms = now_ms
        .max(database.guarded_ms())
        .max(newest_ms.unwrap_or(now_ms));
    let cutoff_ms = now_ms.saturating_sub(retain_ms);
    let mut pending = PendingRetention {
        retain_ms,
        oldest_ms: i64::MAX,
        buckets: 0,
        samples: 0,
    };
    for bucket in figures {
        if bucket.start_ms < cutoff_ms {
            pending.oldest_ms = pending.oldest_ms.min(bucket.start_ms);
            pending.buckets += 1;
            pending.samples += bucket.samples.unwrap_or(0);
        }
    }
    // What is not in buckets yet.
    if let Some(start_ms) = database.gauges().head_start_ms
        && start_ms < cutoff_ms
    {
        pending.oldest_ms = pending.oldest_ms.min(start_ms);
    }
    Ok((pending.oldest_ms < i64::MAX).then_some(pending))
}

/// Removes what was confirmed, if there is something.
async fn forget(database: &Database) -> Result<(), String> {
    match confirmed_ms(database).await {
        Ok(None) => Ok(()),
        // What cannot be read is of no use, either.
        Ok(Some(_)) | Err(_) => remember(database, None).await,
    }
}

/// Returns the time that was confirmed, or that deleted nothing when it was first set.
async fn confirmed_ms(database: &Database) -> Result<Option<i64>, String> {
    let mut end = CONFIRMED_KEY.to_vec();
    end.push(0);
    let records = database.range(CONFIRMED_KEY.to_vec()..end, 1).await;
    let records = records.map_err(|error| error.to_string())?;
    let Some((_, value)) = records.first() else {
        return Ok(None);
    };
    match decode(value) {
        Some(ms) => Ok(Some(ms)),
        None => Err("the confirmed retention time in the store cannot be read".into()),
    }
}

async fn remember(database: &Database, retain_ms: Option<i64>) -> Result<(), String> {
    let write = move |batch: &mut WriteBatch<'_>| {
        batch.catalog(CatalogChange {
            key: CONFIRMED_KEY.to_vec(),
            value: retain_ms.map(encode),
        });
        Ok::<(), String>(())
    };
    let written = database.write(write).await;
    let outcome = written.map_err(|error| error.to_string())?;
    match outcome.rejected.first() {
        Some(rejection) => Err(rejection.reason.clone()),
        None => Ok(()),
    }
}

fn encode(retain_ms: i64) -> Vec<u8> {
    [&[VERSION][..], &retain_ms.to_le_bytes()].concat()
}

fn decode(value: &[u8]) -> Option<i64> {
    let (version, rest) = value.split_first()?;
    let ms = rest.try_into().ok().map(i64::from_le_bytes);
    ms.filter(|_| *version == VERSION)
}

#[cfg(test)]
mod tests {
    use icecore_model::HOUR_MS;

    use super::*;

    #[test]
    fn confirmations_are_read_as_written() {
        assert_eq!(encode(3_600_000), [1, 0x80, 0xee, 0x36, 0, 0, 0, 0, 0]);
        for ms in [HOUR_MS, 90 * 24 * HOUR_MS, i64::MAX] {
            assert_eq!(decode(&encode(ms)), Some(ms));
        }
        for wrong in [b"".as_slice(), b"\x01", b"\x02\0\0\0\0\0\0\0\0", &[1; 10]] {
            assert_eq!(decode(wrong), None, "{wrong:?}");
        }
    }
}
