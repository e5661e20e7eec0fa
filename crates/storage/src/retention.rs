//! How long data is kept, as far as everybody has to know it.
//!
//! ```text
//! policy, clock ─► maintenance: rolls up, culls ─► watermarks, shown to people
//!                        └─► what is too old: ingest refuses it, readers leave it out
//! ```
//!
//! Holds always:
//! - Watermarks never go back, whatever clock and policy do: what is below one is gone.
//! - Everything that is dropped, hidden or refused for its age is so by the guarded clock, which is
//!   stored every hour and at the end, and goes on from there, whatever the machine's clock says.

use std::collections::BTreeMap;
use std::sync::Arc;

use icecore_model::retention::RetentionPolicy;
use icecore_model::rollup::Resolution;
use icecore_model::{Clock, GuardedClock, HOUR_MS};
use icecore_records::key;
use icecore_records::retention_state::{self, RetentionState};
use parking_lot::RwLock;
use slatedb::WriteBatch;
use tracing::warn;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::slate::read_view::View;

/// The move of the clock after which it is remembered while it is off: it takes a minute.
const OFF_STEP_MS: i64 = HOUR_MS / 6;

pub(crate) struct Retention {
    context: Arc<Context>,
    /// Without one nothing is rolled up or culled.
    policy: RwLock<Option<Arc<RetentionPolicy>>>,
    /// As it is stored.
    state: RwLock<RetentionState>,
}

impl Retention {
    /// Goes on from the state that a store remembers, without a policy.
    pub(crate) fn new(context: &Arc<Context>, state: RetentionState) -> Self {
        Self {
            context: Arc::clone(context),
            policy: RwLock::default(),
            state: RwLock::new(state),
        }
    }

    pub(crate) fn policy(&self) -> Option<Arc<RetentionPolicy>> {
        self.policy.read().clone()
    }

    pub(crate) fn set_policy(&self, policy: Option<RetentionPolicy>) {
        *self.policy.write() = policy.map(Arc::new);
    }

    /// The guarded time.
    pub(crate) fn now_ms(&self) -> i64 {
        self.context.guarded_ms()
    }

    /// By level: what is older is not kept at it.
    pub(crate) fn watermarks_ms(&self) -> BTreeMap<Resolution, i64> {
        let state = self.state.read();
        let levels = state.levels().iter();
        levels
            .map(|level| (level.resolution, level.watermark_ms))
            .collect()
    }

    /// Adds to a batch that nothing older is left of a level. [`Self::set_state`] follows the
    /// write.
    pub(crate) fn raise(
        &self,
        batch: &mut WriteBatch,
        resolution: Resolution,
        watermark_ms: i64,
    ) -> RetentionState {
        let mut state = self.state.read().clone();
        state.raise_watermark(resolution, watermark_ms);
        state.clock_ms = self.now_ms();
        batch.put(key::retention_state(), retention_state::encode(&state));
        state
    }

    /// The state was written.
    pub(crate) fn set_state(&self, state: RetentionState) {
        *self.state.write() = state;
    }

    /// It is not known whether a state was written.
    pub(crate) async fn reload(&self) {
        match stored_state(&self.context.engine.live_view()).await {
            Ok(state) => self.set_state(state),
            Err(cause) => warn!(%cause, "cannot read the state of retention"),
        }
    }

    /// Remembers the clock now and then, so that a restart does not take a wrong one. More often
    /// while it is behind the machine's or ahead of it: each restart takes back what it has moved
    /// since.
    pub(crate) async fn remember_clock(&self) -> Result<()> {
        let off_ms = self.now_ms().abs_diff(self.context.clock.now_ms());
        let is_off = off_ms >= HOUR_MS.unsigned_abs();
        let step_ms = if is_off { OFF_STEP_MS } else { HOUR_MS };
        self.remember_moved(step_ms).await
    }

    /// Remembers the clock at the end, so that those that never run for long move it, too.
    pub(crate) async fn remember_clock_at_end(&self) -> Result<()> {
        self.remember_moved(1).await
    }

    /// Remembers the clock if it has moved by so much.
    async fn remember_moved(&self, step_ms: i64) -> Result<()> {
        let now_ms = self.now_ms();
        let mut state = self.state.read().clone();
        if now_ms.abs_diff(state.clock_ms) < step_ms.unsigned_abs() {
            return Ok(());
        }
        state.clock_ms = now_ms;
        let mut batch = WriteBatch::new();
        batch.put(key::retention_state(), retention_state::encode(&state));
        let written = self.context.engine.db().write(batch).await;
        written.map_err(Error::store("remembering the clock of retention"))?;
        self.set_state(state);
        Ok(())
    }
}

/// Returns the guarded clock of a database that remembers this state.
pub(crate) fn guarded_clock(state: &RetentionState, machine: &dyn Clock) -> GuardedClock {
    let stored_ms = Some(state.clock_ms).filter(|stored_ms| *stored_ms != 0);
    GuardedClock::starting(stored_ms, machine)
}

/// Reads the state that a store remembers.
pub(crate) async fn stored_state(view: &View) -> Result<RetentionState> {
    let Some(value) = view.get(&key::retention_state()).await? else {
        return Ok(RetentionState::default());
    };
    let state = retention_state::decode(&value);
    state.map_err(Error::corrupt("state of retention"))
}
