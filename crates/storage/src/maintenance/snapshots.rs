//! Snapshots by name: which names there may be, and one at a time.

use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use tracing::info;

use crate::error::{Error, Result};
use crate::maintenance::Maintenance;
use crate::slate::snapshots::Snapshot;

/// Names are typed, listed and put into paths.
const NAME_LENGTH_MAX: usize = 128;

/// Each one keeps files and lengthens the manifest that every start reads.
const SNAPSHOTS_MAX: usize = 1000;

/// Makes a snapshot. Its name is free, or made from the time, as Prometheus does.
pub(crate) async fn create(
    maintenance: &Arc<Maintenance>,
    name: Option<&str>,
    lifetime: Option<Duration>,
) -> Result<Snapshot> {
    let made = name
        .is_none()
        .then(|| name_of(maintenance.context.clock.now_ms()));
    let name = name.or(made.as_deref()).unwrap_or_default();
    check_name(name)?;
    let _one_at_a_time = maintenance.snapshotting.lock().await;
    let known = maintenance.context.engine.snapshots().await?;
    if known.iter().any(|snapshot| snapshot.name == name) {
        return Err(Error::Invalid(
            format!("snapshot {name} already exists").into(),
        ));
    }
    if known.len() >= SNAPSHOTS_MAX {
        return Err(Error::LimitReached(format!(
            "there are {SNAPSHOTS_MAX} snapshots: delete some first"
        )));
    }
    // The guarded clock is faster than time while it is behind. A lifetime that began behind the
    // machine's clock would end early.
    let (machine_ms, guarded_ms) = (
        maintenance.context.clock.now_ms(),
        maintenance.retention.now_ms(),
    );
    let snapshot = maintenance
        .context
        .engine
        .create_snapshot(name, lifetime, machine_ms.max(guarded_ms))
        .await?;
    info!(name, id = snapshot.id, "snapshot created");
    Ok(snapshot)
}

/// Deletes what has expired.
pub(crate) async fn delete_expired(maintenance: &Maintenance) -> Result<()> {
    let guarded_ms = maintenance.retention.now_ms();
    let engine = &maintenance.context.engine;
    for snapshot in engine.delete_expired_snapshots(guarded_ms).await? {
        info!(name = snapshot.name, id = snapshot.id, "snapshot expired");
    }
    Ok(())
}

/// The second, and something that tells apart what is made within it.
fn name_of(now_ms: i64) -> String {
    let time = chrono::DateTime::from_timestamp_millis(now_ms).unwrap_or_default();
    let random = std::hash::RandomState::new().hash_one(now_ms);
    format!("{}-{random:016x}", time.format("%Y%m%dT%H%M%SZ"))
}

fn check_name(name: &str) -> Result<()> {
    let known = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let dots = name.chars().all(|c| c == '.');
    if !dots && name.len() <= NAME_LENGTH_MAX && name.chars().all(known) {
        Ok(())
    } else {
        Err(Error::Invalid(format!(
            "a snapshot's name has 1 to {NAME_LENGTH_MAX} letters, digits, dots, hyphens and underscores, and not dots alone"
        ).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_into_paths() {
        let made = name_of(1_700_000_000_000);
        assert!(made.starts_with("20231114T221320Z-"), "{made}");
        for name in [made.as_str(), "a", "20231114T221320Z-4f", "nightly_1.2"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let long = "x".repeat(NAME_LENGTH_MAX + 1);
        for name in ["", ".", "..", "a b", "a/b", "ü", &long] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
