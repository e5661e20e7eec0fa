//! Administrative routes: deletion, snapshots, maintenance, reload.

pub(crate) mod maintenance;
pub(crate) mod reload;
pub(crate) mod tsdb;
