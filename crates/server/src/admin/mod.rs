//! Routes for whoever administers the process: deletion, snapshots, maintenance, reload.

pub(crate) mod maintenance;
pub(crate) mod reload;
pub(crate) mod tsdb;
