//! How long data is kept, as far as everybody has to know it.
//!
//! ```text
//! policy ─► maintenance: rolls up, culls ─► watermarks ─► ingest: what is older is refused
//! ```
//!
//! Holds always:
//! - Watermarks never go back, whatever clock and policy do: what is below one is gone.
//! - A watermark is durable before anything is culled because of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use icecore_model::retention::RetentionPolicy;
use icecore_model::rollup::Resolution;
use icecore_records::key;
use icecore_records::retention_state::{self, RetentionState};
use parking_lot::RwLock;
use slatedb::WriteBatch;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::slate::read_view::View;

pub(crate) struct Retention {
    context: Arc<Context>,
    /// Without one nothing is rolled up or culled.
    policy: RwLock<Option<Arc<RetentionPolicy>>>,
    /// As it is stored.
    state: RwLock<RetentionState>,
}

impl Retention {
    /// What a store remembers. The policy is set by whoever opens it.
    pub(crate) async fn load(context: &Arc<Context>) -> Result<Self> {
        Ok(Self {
            context: Arc::clone(context),
            policy: RwLock::default(),
            state: RwLock::new(stored_state(&context.engine.live_view()).await?),
        })
    }

    pub(crate) fn policy(&self) -> Option<Arc<RetentionPolicy>> {
        self.policy.read().clone()
    }

    pub(crate) fn set_policy(&self, policy: Option<RetentionPolicy>) {
        *self.policy.write() = policy.map(Arc::new);
    }

    /// By level: what is older is not kept at it.
    pub(crate) fn watermarks_ms(&self) -> BTreeMap<Resolution, i64> {
        let state = self.state.read();
        let levels = state.levels().iter();
        levels
            .map(|level| (level.resolution, level.watermark_ms))
            .collect()
    }

    /// Nothing older is kept at a level.
    pub(crate) fn watermark_ms(&self, resolution: Resolution) -> i64 {
        self.state.read().watermark_ms(resolution)
    }

    /// Raises a watermark, durably. One that is higher already stays.
    pub(crate) async fn raise(&self, resolution: Resolution, watermark_ms: i64) -> Result<()> {
        let mut state = self.state.read().clone();
        if !state.raise_watermark(resolution, watermark_ms) {
            return Ok(());
        }
        let mut batch = WriteBatch::new();
        batch.put(key::retention_state(), retention_state::encode(&state));
        let failed = || Error::store("raising a watermark of retention");
        let written = self.context.engine.db().write(batch).await;
        let handle = written.map_err(failed())?;
        self.context.engine.db().flush().await.map_err(failed())?;
        handle.await_durable().await.map_err(failed())?;
        *self.state.write() = state;
        Ok(())
    }
}

async fn stored_state(view: &View) -> Result<RetentionState> {
    let Some(value) = view.get(&key::retention_state()).await? else {
        return Ok(RetentionState::default());
    };
    let state = retention_state::decode(&value);
    state.map_err(Error::corrupt("state of retention"))
}
