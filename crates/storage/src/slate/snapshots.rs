//! Snapshots: named checkpoints of SlateDB, which keep the files of one state of the database.
//!
//! Holds always:
//! - A snapshot is a state that a crash could have left: everything acknowledged before it was
//!   asked for is in it, in buckets or in the journal.
//! - Its files stay until it is deleted or expires, whatever is compacted, drained or collected:
//!   garbage collection keeps what any checkpoint refers to, and only unnamed ones are ever
//!   released (`garbage`).

use std::sync::Arc;
use std::time::Duration;

use slatedb::admin::{Admin, AdminBuilder};
use slatedb::config::{CheckpointOptions, CheckpointScope};
use slatedb::{Checkpoint, DbReaderMode};

use super::engine::{Engine, block_and_meta_cache};
use super::object_store::OpenedStore;
use super::reader::{Reader, open_pinned};
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

impl Engine {
    /// Makes a snapshot. The caller sees to it that the name is free.
    pub(crate) async fn create_snapshot(
        &self,
        name: &str,
        lifetime: Option<Duration>,
    ) -> Result<Snapshot> {
        let options = CheckpointOptions {
            lifetime,
            source: None,
            name: Some(name.to_owned()),
        };
        let made = self.db.create_checkpoint(CheckpointScope::All, &options);
        let made = made.await.map_err(Error::store("making a snapshot"))?;
        let found = self.snapshots().await?;
        let id = made.id.to_string();
        let found = found.into_iter().find(|snapshot| snapshot.id == id);
        found.ok_or_else(|| {
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
        let admin = self.admin();
        let mut any = false;
        for checkpoint in named(&admin).await? {
            if checkpoint.name.as_deref() == Some(name) {
                let deleted = admin.delete_checkpoint(checkpoint.id).await;
                deleted.map_err(Error::store("deleting a snapshot"))?;
                any = true;
            }
        }
        Ok(any)
    }

    fn admin(&self) -> Admin {
        Admin::builder(self.path.clone(), self.store.clone()).build()
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
    let wanted = |checkpoint: &&Checkpoint| checkpoint.name.as_deref() == Some(name);
    let Some(checkpoint) = all.iter().rev().find(wanted) else {
        let names: Vec<&str> = all.iter().filter_map(|c| c.name.as_deref()).collect();
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
    let snapshot = described(checkpoint);
    let snapshot = snapshot.ok_or_else(|| Error::Invalid("a snapshot has a name".into()))?;
    Ok((snapshot, reader))
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
    Some(Snapshot {
        name: checkpoint.name.clone()?,
        id: checkpoint.id.to_string(),
        created_ms: checkpoint.create_time.timestamp_millis(),
        expires_ms: checkpoint.expire_time.map(|at| at.timestamp_millis()),
    })
}
