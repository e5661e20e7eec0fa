//! What all targets of a job share while they are scraped.

use std::sync::Arc;

use icecore_wire::exposition::{Escaping, Format, Protocol, accept_header};
use parking_lot::RwLock;

use super::append::Rules;
use super::config::{NameEscaping, ScrapeConfig, ScrapeProtocol};
use super::source::Source;

/// A job as it is configured now.
pub(super) struct Job {
    pub(super) rules: Rules,
    /// Differs between two configurations of a job: cached texts must be parsed again.
    pub(super) rules_number: u64,
    pub(super) source: Source,
    pub(super) accept: String,
    pub(super) fallback: Option<Format>,
}

impl Job {
    pub(super) fn new(config: Arc<ScrapeConfig>, source: Source, rules_number: u64) -> Self {
        let protocols: Vec<Protocol> = config.protocols.iter().copied().map(protocol).collect();
        let accept = accept_header(&protocols, escaping(config.metric_name_escaping));
        Self {
            accept,
            fallback: config.fallback_protocol.map(|p| protocol(p).format()),
            rules: Rules::new(config),
            rules_number,
            source,
        }
    }

    pub(super) fn config(&self) -> &ScrapeConfig {
        &self.rules.config
    }
}

fn protocol(protocol: ScrapeProtocol) -> Protocol {
    match protocol {
        ScrapeProtocol::PrometheusProto => Protocol::PrometheusProto,
        ScrapeProtocol::OpenMetricsText0_0_1 => Protocol::OpenMetricsText001,
        ScrapeProtocol::OpenMetricsText1_0_0 => Protocol::OpenMetricsText100,
        ScrapeProtocol::OpenMetricsText2_0_0 => Protocol::OpenMetricsText200,
        ScrapeProtocol::PrometheusText0_0_4 => Protocol::PrometheusText004,
        ScrapeProtocol::PrometheusText1_0_0 => Protocol::PrometheusText100,
    }
}

fn escaping(escaping: NameEscaping) -> Escaping {
    match escaping {
        NameEscaping::AllowUtf8 => Escaping::AllowUtf8,
        NameEscaping::Underscores => Escaping::Underscores,
        NameEscaping::Dots => Escaping::Dots,
        NameEscaping::Values => Escaping::Values,
    }
}

/// The job of a pool: a reload replaces it between two scrapes.
pub(super) struct CurrentJob {
    job: RwLock<Arc<Job>>,
    /// Why every target of the pool fails at the moment.
    refused: RwLock<Option<Arc<str>>>,
}

impl CurrentJob {
    pub(super) fn new(job: Job) -> Self {
        Self {
            job: RwLock::new(Arc::new(job)),
            refused: RwLock::new(None),
        }
    }

    pub(super) fn get(&self) -> Arc<Job> {
        Arc::clone(&self.job.read())
    }

    pub(super) fn replace(&self, job: Job) {
        *self.job.write() = Arc::new(job);
    }

    pub(super) fn refused(&self) -> Option<Arc<str>> {
        self.refused.read().clone()
    }

    pub(super) fn refuse(&self, reason: Option<String>) {
        *self.refused.write() = reason.map(Into::into);
    }
}
