//! Snapshots: named checkpoints of SlateDB, which keep the files of one state of the database.
//!
//! Holds always:
//! - A snapshot is a state that a crash could have left: everything acknowledged before it was
//!   asked for is in it, in buckets or in the journal.
//! - Its files stay until it is deleted, whatever is compacted, drained or collected: garbage
//!   collection keeps what any checkpoint refers to, and only unnamed ones are ever released
//!   (`garbage`).
//! - Its time is not known to SlateDB, whose clock may jump (`tick_clock`). It is a part of the
//!   name of the checkpoint, by the guarded clock or by the machine's where that is ahead, and
//!   maintenance deletes what has expired by the guarded clock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use slatedb::admin::{Admin, AdminBuilder};
use slatedb::config::{CheckpointOptions, CheckpointScope};
use slatedb::{Checkpoint, DbReaderMode};

use super::engine::{Engine, block_and_meta_cache};
use super::object_store::OpenedStore;
use super::reader::{OwnedReader, Reader, open_pinned, open_unseen};
use crate::error::{Error, Result};
use crate::options::StoreOptions;

/// A state of the database that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub name: String,
    /// Unique also among snapshots that had the same name.
    pub id: String,
    /// When it was made, in ms since 1970.
    pub created_ms: i64,
    /// When it goes by itself.
    pub expires_ms: Option<i64>,
}

/// The name of a checkpoint: `name@made`, or `name@made+lifetime`, in ms. No snapshot's name has an
/// `@`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CheckpointName {
    name: String,
    made_ms: i64,
    lifetime_ms: Option<i64>,
}

impl CheckpointName {
    fn parse(text: &str) -> Option<Self> {
        let (name, times) = text.split_once('@')?;
        let (made, lifetime) = match times.split_once('+') {
            Some((made, lifetime)) => (made, Some(lifetime)),
            None => (times, None),
        };
        Some(Self {
            name: name.to_owned(),
            made_ms: made.parse().ok()?,
            lifetime_ms: lifetime.map(str::parse).transpose().ok()?,
        })
    }
}

impl fmt::Display for CheckpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.made_ms)?;
        match self.lifetime_ms {
            Some(lifetime_ms) => write!(f, "+{lifetime_ms}"),
            None => Ok(()),
        }
    }
}

impl Engine {
    /// Makes a snapshot whose lifetime begins at `made_ms`. The caller sees to it that the name is
    /// free.
    pub(crate) async fn create_snapshot(
        &self,
        name: &str,
        lifetime: Option<Duration>,
        made_ms: i64,
    ) -> Result<Snapshot> {
        let lifetime_ms = lifetime.map(|l| i64::try_from(l.as_millis()).unwrap_or(i64::MAX));
        let name = CheckpointName {
            name: name.to_owned(),
            made_ms,
            lifetime_ms,
        };
        let options = CheckpointOptions {
            lifetime: None,
            source: None,
            name: Some(name.to_string()),
        };
        let made = self.db.create_checkpoint(CheckpointScope::All, &options);
        let made = made.await.map_err(Error::store("making a snapshot"))?;
        let found = self.snapshots().await?;
        let id = made.id.to_string();
        let found = found.into_iter().find(|snapshot| snapshot.id == id);
        found.ok_or_else(|| {
            let name = &name.name;
            Error::Unavailable(format!("snapshot {name} was created and is not listed").into())
        })
    }

    /// All snapshots, by time.
    pub(crate) async fn snapshots(&self) -> Result<Vec<Snapshot>> {
        let found = named(&self.admin()).await?;
        Ok(found.iter().filter_map(described).collect())
    }

    /// Lets a snapshot go; false when there is none of that name.
    pub(crate) async fn delete_snapshot(&self, name: &str) -> Result<bool> {
        let deleted = self.delete_snapshots(|snapshot| snapshot.name == name);
        Ok(!deleted.await?.is_empty())
    }

    /// Lets go what has expired by the guarded clock. Nothing is asked of the store when nothing
    /// has.
    pub(crate) async fn delete_expired_snapshots(&self, guarded_ms: i64) -> Result<Vec<Snapshot>> {
        let has_expired = |snapshot: &Snapshot| {
            let expires_ms = snapshot.expires_ms;
            expires_ms.is_some_and(|expires_ms| expires_ms <= guarded_ms)
        };
        let known = self.db.manifest();
        let mut known = known.checkpoints().iter().filter_map(described);
        if !known.any(|snapshot| has_expired(&snapshot)) {
            return Ok(Vec::new());
        }
        self.delete_snapshots(has_expired).await
    }

    async fn delete_snapshots(&self, is_due: impl Fn(&Snapshot) -> bool) -> Result<Vec<Snapshot>> {
        let admin = self.admin();
        let mut deleted = Vec::new();
        for checkpoint in named(&admin).await? {
            let Some(snapshot) = described(&checkpoint).filter(&is_due) else {
                continue;
            };
            let done = admin.delete_checkpoint(checkpoint.id).await;
            done.map_err(Error::store("deleting a snapshot"))?;
            deleted.push(snapshot);
        }
        Ok(deleted)
    }

    /// Takes over snapshots that SlateDB would let expire by its own clock, as it did for programs
    /// before this one. To be done before anything is collected.
    pub(super) async fn adopt_snapshots(&self) -> Result<()> {
        let expiring = |checkpoint: &Checkpoint| {
            let (name, expires) = (checkpoint.name.clone()?, checkpoint.expire_time?);
            let lifetime = expires - checkpoint.create_time;
            Some(CheckpointName {
                name,
                made_ms: checkpoint.create_time.timestamp_millis(),
                lifetime_ms: Some(lifetime.num_milliseconds().max(0)),
            })
        };
        let admin = self.admin();
        let known = self.db.manifest();
        for old in known.checkpoints() {
            let Some(name) = expiring(old) else {
                continue;
            };
            let name = name.to_string();
            // A process that ended between the two steps has left both.
            let is_there = |other: &Checkpoint| other.name.as_ref() == Some(&name);
            if !known.checkpoints().iter().any(is_there) {
                let options = CheckpointOptions {
                    lifetime: None,
                    source: Some(old.id),
                    name: Some(name),
                };
                let made = admin.create_detached_checkpoint(&options).await;
                made.map_err(Error::store("taking over a snapshot"))?;
            }
            let deleted = admin.delete_checkpoint(old.id).await;
            deleted.map_err(Error::store("taking over a snapshot"))?;
        }
        Ok(())
    }

    /// Opens a snapshot of this database for reading. `None` when there is none with that id.
    pub(crate) async fn open_own_snapshot(&self, id: &str) -> Result<Option<OwnedReader>> {
        let all = named(&self.admin()).await?;
        let Some(checkpoint) = all
            .iter()
            .find(|checkpoint| checkpoint.id.to_string() == id)
        else {
            return Ok(None);
        };
        let opened = OpenedStore {
            store: Arc::clone(&self.store),
            raw: Arc::clone(&self.store),
            path: self.path.clone(),
            location: self.location.clone(),
            directories: None,
        };
        let mode = DbReaderMode::Checkpoint(checkpoint.id);
        let cache = block_and_meta_cache(&self.options);
        let reader = open_unseen(&opened, &self.options, mode, cache).await?;
        Ok(Some(OwnedReader::new(reader)))
    }

    pub(super) fn admin(&self) -> Admin {
        Admin::builder(self.path.clone(), self.store.clone())
            .with_system_clock(Arc::clone(&self.clock) as _)
            .build()
    }
}

/// Opens a snapshot of a database for reading, which writes nothing. Its writer may go on.
pub(crate) async fn open_snapshot(
    opened: &OpenedStore,
    options: &StoreOptions,
    name: &str,
) -> Result<(Snapshot, Reader)> {
    let admin = AdminBuilder::new(opened.path.clone(), Arc::clone(&opened.store)).build();
    let all = named(&admin).await?;
    let described: Vec<_> = all
        .iter()
        .filter_map(|c| described(c).zip(Some(c)))
        .collect();
    let mut wanted = described.iter().rev();
    let Some((snapshot, checkpoint)) = wanted.find(|(snapshot, _)| snapshot.name == name) else {
        let names = described.iter().map(|(snapshot, _)| snapshot.name.as_str());
        let names: Vec<&str> = names.collect();
        let there = if names.is_empty() {
            "there are none".to_owned()
        } else {
            format!("there are {}", names.join(", "))
        };
        return Err(Error::Invalid(
            format!("{} has no snapshot {name:?}: {there}", opened.location).into(),
        ));
    };
    let mode = DbReaderMode::Checkpoint(checkpoint.id);
    let cache = block_and_meta_cache(options);
    let reader = open_pinned(opened, options, mode, cache).await?;
    Ok((snapshot.clone(), reader))
}

/// The checkpoints with a name, by time.
async fn named(admin: &Admin) -> Result<Vec<Checkpoint>> {
    let found = admin.list_checkpoints(None).await;
    let mut found = found.map_err(Error::store("listing snapshots"))?;
    found.retain(|checkpoint| checkpoint.name.is_some());
    found.sort_by_key(|checkpoint| (checkpoint.create_time, checkpoint.manifest_id));
    Ok(found)
}

fn described(checkpoint: &Checkpoint) -> Option<Snapshot> {
    let (text, id) = (checkpoint.name.as_deref()?, checkpoint.id.to_string());
    let Some(name) = CheckpointName::parse(text) else {
        // Of a program before this one.
        return Some(Snapshot {
            name: text.to_owned(),
            id,
            created_ms: checkpoint.create_time.timestamp_millis(),
            expires_ms: checkpoint.expire_time.map(|at| at.timestamp_millis()),
        });
    };
    let lifetime_ms = name.lifetime_ms;
    Some(Snapshot {
        name: name.name,
        id,
        created_ms: name.made_ms,
        expires_ms: lifetime_ms.map(|lifetime_ms| name.made_ms.saturating_add(lifetime_ms)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_checkpoints_are_stored_as_they_are_here() {
        let name = |lifetime_ms| CheckpointName {
            name: "nightly_1.2".to_owned(),
            made_ms: 1_700_000_000_123,
            lifetime_ms,
        };
        for (lifetime_ms, text) in [
            (None, "nightly_1.2@1700000000123"),
            (Some(604_800_000), "nightly_1.2@1700000000123+604800000"),
        ] {
            assert_eq!(name(lifetime_ms).to_string(), text);
            assert_eq!(CheckpointName::parse(text), Some(name(lifetime_ms)));
        }
        for text in ["nightly", "a@", "a@x", "a@1+", "a@1+x"] {
            assert_eq!(CheckpointName::parse(text), None, "{text}");
        }
    }
}
