//! The engine: one call per query.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use icecore_model::SeriesSource;

use crate::error::{Error, Result};
use crate::value::{Answer, Request};

/// What every query of an engine may use, and what it assumes.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// How far back an instant selector looks for a sample. Prometheus' five minutes.
    pub lookback: Duration,
    /// The step of a subquery that names none. Prometheus' evaluation interval of one minute.
    pub default_step: Duration,
    /// Longest run time of a query. Prometheus' two minutes.
    pub timeout: Duration,
    /// Most samples that one query holds at a time. Prometheus' fifty million.
    pub samples_max: usize,
    /// Most bytes of rows that one query holds at a time.
    pub memory_max: usize,
    /// Most steps of a range query. Prometheus' 11 000: a sixteenth more than a week by the minute.
    pub steps_max: usize,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            lookback: Duration::from_secs(300),
            default_step: Duration::from_secs(60),
            timeout: Duration::from_secs(120),
            samples_max: 50_000_000,
            memory_max: 1 << 30,
            steps_max: 11_000,
        }
    }
}

/// Answers queries. Holds nothing of them between calls.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    options: EngineOptions,
}

impl Engine {
    pub fn new(options: EngineOptions) -> Self {
        Self { options }
    }

    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Answers a query. The future computes: run it on a thread that may be busy for a while, not on
    /// an async worker. Setting `canceled` ends it with the next batch.
    pub async fn execute(
        &self,
        source: &dyn SeriesSource,
        request: &Request,
        canceled: &AtomicBool,
    ) -> Result<Answer> {
        let _ = (source, canceled);
        Err(Error::Execution(format!("not built: {}", request.query)))
    }

    /// The plan of a query as text for people.
    pub fn explain(&self, request: &Request) -> Result<String> {
        Err(Error::Execution(format!("not built: {}", request.query)))
    }
}
