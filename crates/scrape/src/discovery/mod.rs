//! Discovery: where the targets of a job are, now and whenever that changes.
//!
//! ```text
//! static │ file │ http │ dns  ─► groups that changed ─► pool
//! ```
//!
//! Holds always:
//! - A group with the source of an earlier one replaces it; one without targets removes it.
//! - What cannot be found out at the moment stays as it was, with one warning per reason.
//! - A task ends when its receiver is gone.

mod dns;
mod file;
mod groups;
mod http;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::config::{Discovery, TargetGroup};

/// Starts discovery.
pub(super) fn spawn(
    discovery: &Discovery,
    updates: mpsc::Sender<Vec<TargetGroup>>,
) -> JoinHandle<()> {
    match discovery {
        Discovery::Static(groups) => {
            let groups = groups.clone();
            tokio::spawn(async move {
                let _ = updates.send(groups).await;
            })
        }
        Discovery::File {
            files,
            refresh_interval,
        } => tokio::spawn(file::run(files.clone(), *refresh_interval, updates)),
        Discovery::Http {
            url,
            refresh_interval,
            client,
        } => tokio::spawn(http::run(
            url.clone(),
            *refresh_interval,
            client.as_ref().clone(),
            updates,
        )),
        Discovery::Dns {
            names,
            record,
            port,
            refresh_interval,
        } => {
            let asked = dns::DnsQuery {
                names: names.clone(),
                record: *record,
                port: *port,
            };
            tokio::spawn(dns::run(asked, *refresh_interval, dns::of_system, updates))
        }
    }
}

/// Timeout of a discovery request: the refresh interval, but not less than a slow server needs.
fn patience(refresh: Duration) -> Duration {
    refresh.max(Duration::from_secs(10))
}

/// The groups last reported for one part of a discovery, to report changes only.
#[derive(Default)]
struct KnownGroups {
    groups: HashMap<String, TargetGroup>,
    failed: Option<String>,
}

impl KnownGroups {
    /// Takes the current groups and returns those that changed.
    fn replace(&mut self, now: Vec<TargetGroup>) -> Vec<TargetGroup> {
        self.failed = None;
        let now: HashMap<_, _> = now
            .into_iter()
            .map(|group| (group.source.clone(), group))
            .collect();
        let gone = self
            .groups
            .keys()
            .filter(|source| !now.contains_key(*source));
        let mut changed: Vec<_> = gone
            .map(|source| TargetGroup {
                source: source.clone(),
                ..TargetGroup::default()
            })
            .collect();
        let is_new = |group: &&TargetGroup| self.groups.get(&group.source) != Some(*group);
        changed.extend(now.values().filter(is_new).cloned());
        changed.sort_by(|a, b| a.source.cmp(&b.source));
        self.groups = now;
        changed
    }

    /// Logs why discovery failed, once for each reason.
    fn keep(&mut self, what: &str, reason: String) {
        if self.failed.as_ref() != Some(&reason) {
            tracing::warn!(
                discovery = what,
                reason,
                "discovery failed; keeping the previous targets"
            );
            self.failed = Some(reason);
        }
    }
}
