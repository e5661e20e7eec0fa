//! Metrics of refused requests and connections, and of reloads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use icecore_model::MetricType;
use icecore_wire::prometheus::TextWriter;

use crate::AuthError;

const REASONS: [&str; 6] = [
    "missing",
    "wrong",
    "malformed",
    "forbidden",
    "busy",
    "rate_limit",
];

/// Metrics of access control.
#[derive(Default)]
pub struct AccessMetrics {
    denied: [AtomicU64; REASONS.len()],
    reloads: AtomicU64,
    failed_reloads: AtomicU64,
    /// Set while the rules in force are not those of the files.
    is_outdated: AtomicBool,
    failed_handshakes: AtomicU64,
}

impl AccessMetrics {
    pub(crate) fn denied(&self, denied: AuthError) {
        let reason = match denied {
            AuthError::Missing => 0,
            AuthError::Wrong => 1,
            AuthError::Malformed(_) => 2,
            AuthError::Forbidden(_) => 3,
            AuthError::Busy => 4,
            AuthError::TooMany => 5,
        };
        if let Some(count) = self.denied.get::<usize>(reason) {
            count.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn reloaded(&self, successfully: bool) {
        self.is_outdated.store(!successfully, Relaxed);
        let count = if successfully {
            &self.reloads
        } else {
            &self.failed_reloads
        };
        count.fetch_add(1, Relaxed);
    }

    pub fn handshake_failed(&self) {
        self.failed_handshakes.fetch_add(1, Relaxed);
    }

    pub fn write(&self, text: &mut TextWriter) {
        let name = "icecore_access_denied_total";
        let help = "Requests that were not let in, by reason.";
        text.family(name, help, MetricType::Counter);
        for (reason, count) in REASONS.iter().zip(&self.denied) {
            text.sample(name, &[("reason", *reason)], count.load(Relaxed) as f64);
        }
        let name = "icecore_access_reloads_total";
        let help = "Readings of a changed web configuration file, by outcome.";
        text.family(name, help, MetricType::Counter);
        for (outcome, count) in [
            ("success", &self.reloads),
            ("failure", &self.failed_reloads),
        ] {
            text.sample(name, &[("outcome", outcome)], count.load(Relaxed) as f64);
        }
        let name = "icecore_access_last_reload_successful";
        let help =
            "1, or 0 while the web configuration file cannot be used and the previous rules hold.";
        text.family(name, help, MetricType::Gauge);
        let successful = !self.is_outdated.load(Relaxed);
        text.sample(name, &[], f64::from(u8::from(successful)));
        let name = "icecore_tls_handshakes_failed_total";
        let help = "Connections that did not get through their TLS handshake.";
        text.family(name, help, MetricType::Counter);
        text.sample(name, &[], self.failed_handshakes.load(Relaxed) as f64);
    }
}
