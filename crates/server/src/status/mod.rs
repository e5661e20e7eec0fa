//! Routes that say how the process is: health, metrics, targets, what it runs with.

pub(crate) mod access;
pub(crate) mod blocks;
pub(crate) mod buckets;
pub(crate) mod capabilities;
pub(crate) mod features;
pub(crate) mod health;
pub(crate) mod info;
pub(crate) mod metric_names;
pub(crate) mod metrics;
pub(crate) mod notifications;
pub(crate) mod replay;
pub(crate) mod retention;
pub(crate) mod rules;
pub(crate) mod scrape_pools;
pub(crate) mod self_metrics;
pub(crate) mod targets;
