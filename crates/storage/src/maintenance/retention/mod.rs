//! Retention: what becomes of samples as they grow old.
//!
//! ```text
//! closed, quiet ─► roll up ─► coarser level ─ older than the finer one is kept ─► cull
//!                     ▲                          late samples: out of date ─┐
//!                     └──────────── dropped ◄─ retired ◄────────────────────┘
//! late samples of culled time ─► overlay ─► merged into the windows that are left
//! windows, nothing finer left ─► one larger bucket
//! raw samples that most series no longer keep ─► remnant with the others, and cull
//! ```
//!
//! Elsewhere: how windows are built (`super::build`), what everybody knows of it
//! (`crate::retention`), which level a query reads (`crate::read`).

mod cull;
mod metadata;
mod plan;
mod snapshot;

pub(crate) use cull::{
    ClosedTime, Replacement, cull, outlive, retire, retire_outdated, tell_what_is_too_old,
};
pub(crate) use metadata::{FamilyHolders, cull_metadata};
pub(crate) use plan::{CullPlan, KeptBack, LargerPlan, MergePlan, RemnantPlan, RollUpPlan};
pub(crate) use plan::{remnants_of, targets_of};
pub(crate) use snapshot::RetentionSnapshot;
