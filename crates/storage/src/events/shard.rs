//! The shard of another instance: its database, followed, and its files.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use icecore_model::event::{EventShard, EventSnapshot};
use icecore_model::{BoxFuture, StoreError};

use super::snapshot::Snapshot;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::options::StoreOptions;
use crate::slate::event_files::EventFiles;
use crate::slate::follower::Follower;
use crate::slate::location::StoreLocation;

pub(crate) struct OtherShard {
    context: Arc<Context>,
    name: String,
    follower: Follower,
}

impl OtherShard {
    /// Refuses the own database: its events would count twice.
    pub(crate) fn new(context: &Arc<Context>, location: &str, age_max: Duration) -> Result<Self> {
        let parsed = StoreLocation::parse(location)?.canonical();
        if parsed.is_memory() || parsed == context.engine.location().canonical() {
            return Err(Error::Invalid(
                format!("{parsed} is no database of another instance").into(),
            ));
        }
        let options = StoreOptions {
            location: location.to_owned(),
            ..context.options.store.clone()
        };
        Ok(Self {
            follower: Follower::new(&options, age_max),
            context: Arc::clone(context),
            name: parsed.to_string(),
        })
    }

    async fn take_snapshot(&self) -> Result<Snapshot> {
        let state = self.follower.state().await?;
        Snapshot::of_followed(&self.context, state).await
    }

    async fn read(&self, path: &str, range: Range<u64>) -> Result<Bytes> {
        let retries_max = self.context.options.store.retries_max;
        let files = EventFiles::at(self.follower.store()?, retries_max);
        files.read(path, range).await
    }
}

impl EventShard for OtherShard {
    fn name(&self) -> &str {
        &self.name
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Box<dyn EventSnapshot>, StoreError>> {
        Box::pin(async move {
            let snapshot = self.take_snapshot().await?;
            Ok(Box::new(snapshot) as Box<dyn EventSnapshot>)
        })
    }

    fn read_file(&self, path: &str, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, StoreError>> {
        let path = path.to_owned();
        Box::pin(async move { Ok(self.read(&path, range).await?) })
    }
}
