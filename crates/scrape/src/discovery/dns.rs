//! Targets from DNS records.

use std::future::Future;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::sync::mpsc;

use super::{KnownGroups, patience};
use crate::config::{DnsRecord, TargetGroup};

const NAME_LABEL: &str = "__meta_dns_name";
const SRV_TARGET_LABEL: &str = "__meta_dns_srv_record_target";
const SRV_PORT_LABEL: &str = "__meta_dns_srv_record_port";
const MX_TARGET_LABEL: &str = "__meta_dns_mx_record_target";
const NS_TARGET_LABEL: &str = "__meta_dns_ns_record_target";

/// The names to resolve.
pub(super) struct DnsQuery {
    pub(super) names: Vec<String>,
    pub(super) record: DnsRecord,
    pub(super) port: Option<u16>,
}

/// A resolver as the system is configured. Made anew for each round, because `/etc/resolv.conf`
/// changes under long-lived processes.
pub(super) fn of_system() -> Result<TokioResolver, String> {
    let mut builder = TokioResolver::builder_tokio().map_err(|error| error.to_string())?;
    // The refresh interval decides how old an answer may be.
    builder.options_mut().cache_size = 0;
    builder.build().map_err(|error| error.to_string())
}

pub(super) async fn run(
    query: DnsQuery,
    refresh: Duration,
    resolver: impl Fn() -> Result<TokioResolver, String>,
    updates: mpsc::Sender<Vec<TargetGroup>>,
) {
    let mut known: Vec<_> = query
        .names
        .iter()
        .map(|name| (name, KnownGroups::default()))
        .collect();
    loop {
        let resolver = resolver();
        let answers = futures::future::join_all(query.names.iter().map(|name| {
            let resolver = resolver.clone();
            async { within(patience(refresh), records(resolver?, name, query.record)).await }
        }));
        let answers = tokio::select! {
            () = updates.closed() => return,
            answers = answers => answers,
        };
        let mut changed = Vec::new();
        for ((name, known), answer) in known.iter_mut().zip(answers) {
            match answer {
                Ok(records) => changed.extend(known.replace(groups(name, &records, query.port))),
                Err(reason) => known.keep(name, reason),
            }
        }
        if !changed.is_empty() && updates.send(changed).await.is_err() {
            return;
        }
        tokio::select! {
            () = updates.closed() => return,
            () = tokio::time::sleep(refresh) => {}
        }
    }
}

async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let answer = tokio::time::timeout(limit, answer).await;
    answer.unwrap_or_else(|_| Err("no answer in time".into()))
}

/// A name without records is an answer, too: then there are no targets. A failing server is none.
async fn records(
    resolver: TokioResolver,
    name: &str,
    record: DnsRecord,
) -> Result<Vec<Record>, String> {
    let kind = match record {
        DnsRecord::A => RecordType::A,
        DnsRecord::Aaaa => RecordType::AAAA,
        DnsRecord::Srv => RecordType::SRV,
        DnsRecord::Mx => RecordType::MX,
        DnsRecord::Ns => RecordType::NS,
    };
    match resolver.lookup(name, kind).await {
        Ok(found) => Ok(found.answers().to_vec()),
        Err(error) if error.is_no_records_found() => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    }
}

/// One group per record: labels belong to the whole group, and some differ from record to record.
/// In an order of their own, because servers rotate their answers.
fn groups(name: &str, records: &[Record], port: Option<u16>) -> Vec<TargetGroup> {
    let mut found: Vec<_> = records
        .iter()
        .filter_map(|record| target(&record.data, port))
        .collect();
    found.sort();
    found.dedup();
    let groups = found.into_iter().enumerate();
    groups
        .map(|(index, (address, mut labels))| {
            labels.push((NAME_LABEL.into(), name.to_owned()));
            TargetGroup {
                targets: vec![address],
                labels,
                source: format!("{name}:{index}"),
            }
        })
        .collect()
}

/// The address of a record, and the labels that only it has. What is no target (an alias on the
/// way) is none.
fn target(data: &RData, port: Option<u16>) -> Option<(String, Vec<(String, String)>)> {
    let with_port = |host: &str| port.map(|port| format!("{host}:{port}"));
    let label = |name: &str, value: String| (name.to_owned(), value);
    match data {
        RData::A(address) => Some((with_port(&address.0.to_string())?, Vec::new())),
        RData::AAAA(address) => Some((with_port(&format!("[{}]", address.0))?, Vec::new())),
        RData::SRV(srv) => {
            let labels = vec![
                label(SRV_TARGET_LABEL, srv.target.to_string()),
                label(SRV_PORT_LABEL, srv.port.to_string()),
            ];
            Some((format!("{}:{}", host(&srv.target), srv.port), labels))
        }
        RData::MX(mx) => {
            let labels = vec![label(MX_TARGET_LABEL, mx.exchange.to_string())];
            Some((with_port(&host(&mx.exchange))?, labels))
        }
        RData::NS(ns) => {
            let labels = vec![label(NS_TARGET_LABEL, ns.0.to_string())];
            Some((with_port(&host(&ns.0))?, labels))
        }
        _ => None,
    }
}

/// A name without the dot of the root.
fn host(name: &Name) -> String {
    name.to_string().trim_end_matches('.').to_owned()
}
