//! How long data is kept, as far as everybody has to know it.
//!
//! ```text
//! policy, clock ─► maintenance: rolls up, culls ─► watermarks, shown to people
//!                        └─► what is too old: ingest refuses it, readers leave it out
//! ```
//!
//! Holds always:
//! - Watermarks never go back, whatever clock and policy do: what is below one is gone.
//! - The clock of retention is never ahead of the machine's, and does not jump ahead with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use icecore_model::retention::RetentionPolicy;
use icecore_model::rollup::Resolution;
use icecore_model::{Clock, HOUR_MS};
use icecore_records::key;
use icecore_records::retention_state::{self, RetentionState};
use parking_lot::{Mutex, RwLock};
use slatedb::WriteBatch;
use tracing::warn;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::slate::read_view::View;

/// How much faster than time passes the clock of retention goes when it is behind. A process that
/// was down for a month catches up within days; a clock that is set a year ahead by mistake has
/// moved it by ten hours when somebody notices after one.
const CATCH_UP: i64 = 10;

pub(crate) struct Retention {
    context: Arc<Context>,
    /// Without one nothing is rolled up or culled.
    policy: RwLock<Option<Arc<RetentionPolicy>>>,
    /// As it is stored.
    state: RwLock<RetentionState>,
    clock: Mutex<RetentionClock>,
}

impl Retention {
    /// What a store remembers. The policy is set by whoever opens it.
    pub(crate) async fn load(context: &Arc<Context>) -> Result<Self> {
        let state = stored_state(&context.engine.live_view()).await?;
        let remembered_ms = match state.clock_ms {
            0 => i64::MAX,
            clock_ms => clock_ms,
        };
        let clock = RetentionClock::starting(remembered_ms, context.clock.as_ref());
        Ok(Self {
            context: Arc::clone(context),
            policy: RwLock::default(),
            state: RwLock::new(state),
            clock: Mutex::new(clock),
        })
    }

    pub(crate) fn policy(&self) -> Option<Arc<RetentionPolicy>> {
        self.policy.read().clone()
    }

    pub(crate) fn set_policy(&self, policy: Option<RetentionPolicy>) {
        *self.policy.write() = policy.map(Arc::new);
    }

    /// What retention takes for the time of day.
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.lock().advance(self.context.clock.as_ref())
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

    /// Remembers the clock now and then, so that a restart does not take a wrong one.
    pub(crate) async fn remember_clock(&self) -> Result<()> {
        let now_ms = self.now_ms();
        let mut state = self.state.read().clone();
        if (now_ms - state.clock_ms).abs() < HOUR_MS {
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

async fn stored_state(view: &View) -> Result<RetentionState> {
    let Some(value) = view.get(&key::retention_state()).await? else {
        return Ok(RetentionState::default());
    };
    let state = retention_state::decode(&value);
    state.map_err(Error::corrupt("state of retention"))
}

/// The time of day as retention takes it.
#[derive(Clone, Copy, Debug)]
struct RetentionClock {
    now_ms: i64,
    /// Of the machine's clock, when this was so.
    elapsed_ms: i64,
}

impl RetentionClock {
    /// Goes on from what was remembered.
    fn starting(remembered_ms: i64, machine: &dyn Clock) -> Self {
        Self {
            now_ms: remembered_ms.min(machine.now_ms()),
            elapsed_ms: machine.elapsed_ms(),
        }
    }

    fn advance(&mut self, machine: &dyn Clock) -> i64 {
        let elapsed_ms = machine.elapsed_ms();
        let passed_ms = (elapsed_ms - self.elapsed_ms).max(0);
        let at_most = self
            .now_ms
            .saturating_add(passed_ms.saturating_mul(CATCH_UP));
        self.now_ms = machine.now_ms().min(at_most);
        self.elapsed_ms = elapsed_ms;
        self.now_ms
    }
}

#[cfg(test)]
mod tests {
    use icecore_model::ManualClock;

    use super::*;

    const DAY_MS: i64 = 24 * HOUR_MS;

    #[test]
    fn the_clock_follows_and_does_not_jump_ahead() {
        let machine = ManualClock::at(1000 * DAY_MS);
        let mut clock = RetentionClock::starting(i64::MAX, &machine);
        assert_eq!(clock.advance(&machine), 1000 * DAY_MS);
        machine.advance(DAY_MS);
        assert_eq!(clock.advance(&machine), 1001 * DAY_MS);
        // A year ahead by mistake, and back again.
        machine.jump(365 * DAY_MS);
        assert_eq!(clock.advance(&machine), 1001 * DAY_MS);
        machine.advance(DAY_MS);
        assert_eq!(clock.advance(&machine), 1011 * DAY_MS);
        machine.jump(-365 * DAY_MS);
        assert_eq!(clock.advance(&machine), 1002 * DAY_MS);
        machine.jump(-DAY_MS);
        assert_eq!(clock.advance(&machine), 1001 * DAY_MS);
    }

    #[test]
    fn after_a_pause_it_catches_up() {
        let machine = ManualClock::at(1030 * DAY_MS);
        let mut clock = RetentionClock::starting(1000 * DAY_MS, &machine);
        assert_eq!(clock.advance(&machine), 1000 * DAY_MS);
        machine.advance(DAY_MS);
        assert_eq!(clock.advance(&machine), 1010 * DAY_MS);
        machine.advance(4 * DAY_MS);
        assert_eq!(clock.advance(&machine), machine.now_ms());
        // What was remembered may be of a clock that was ahead.
        let clock = RetentionClock::starting(2000 * DAY_MS, &machine).advance(&machine);
        assert_eq!(clock, machine.now_ms());
    }
}
