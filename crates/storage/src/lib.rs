//! Keeps samples: head, journal, index and buckets on SlateDB.

mod error;
mod options;
mod slate;

pub use error::{Error, Result};
pub use options::{
    Compression, HeadOptions, JournalOptions, Limits, Options, ReadOptions, StoreOptions,
};
pub use slate::slate_metrics::{SlateMetric, SlateMetricValue};

/// What tests of other crates need to make storage fail.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::slate::faults::*;
}
