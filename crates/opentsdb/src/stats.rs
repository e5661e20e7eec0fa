//! Numbers about the daemon itself, under the names that the original has for them.

use std::fmt::Write as _;

use crate::json::push_text;
use crate::tsd::Tsd;
use crate::uid::UidKind;

/// Statistics of parts that the original has and this does not: nothing happens there. Dashboards
/// that graph them find them.
const ABSENT: [&str; 42] = [
    "compaction.count type=trivial",
    "compaction.count type=complex",
    "compaction.duplicates type=identical",
    "compaction.duplicates type=variant",
    "compaction.queue.size",
    "compaction.errors type=read",
    "compaction.errors type=put",
    "compaction.errors type=delete",
    "compaction.writes type=read",
    "compaction.deletes type=read",
    "connectionmgr.connections type=open",
    "connectionmgr.connections type=total",
    "connectionmgr.connections type=rejected",
    "connectionmgr.exceptions type=unknown",
    "connectionmgr.exceptions type=timeout",
    "hbase.connections.created",
    "hbase.connections.idle_closed",
    "hbase.flushes",
    "hbase.latency_50pct method=put",
    "hbase.latency_75pct method=put",
    "hbase.latency_90pct method=put",
    "hbase.latency_95pct method=put",
    "hbase.meta_lookups type=uncontended",
    "hbase.nsre",
    "hbase.nsre.rpcs_delayed",
    "hbase.region_clients.idle_closed",
    "hbase.region_clients.open",
    "hbase.root_lookups",
    "hbase.rpcs type=put",
    "hbase.rpcs.batched",
    "http.graph.requests cache=miss",
    "http.latency_50pct type=all",
    "http.latency_75pct type=all",
    "http.latency_90pct type=all",
    "http.latency_95pct type=all",
    "http.query.forbidden",
    "http.query.unauthorized",
    "jvm.ramfree",
    "jvm.ramused",
    "jvm.thread.count",
    "jvm.thread.states state=runnable",
    "rpc.forbidden",
];

/// One number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) metric: String,
    pub(crate) value: u64,
    pub(crate) tags: Vec<(String, String)>,
}

/// All of them.
pub(crate) fn collect(tsd: &Tsd) -> Vec<Stat> {
    let mut stats = Collector {
        host: &tsd.config.host,
        stats: Vec::new(),
    };
    let counters = &tsd.counters;
    for (kind, counter) in [
        ("telnet", &counters.telnet_lines),
        ("http", &counters.http_requests),
        ("put", &counters.points_received),
        ("rollup", &counters.rollups_received),
        ("histogram", &counters.histograms_received),
    ] {
        stats.add(&format!("rpc.received type={kind}"), counter.get());
    }
    for (kind, counter) in [
        ("hbase_errors", &counters.storage_errors),
        ("invalid_values", &counters.invalid_values),
        ("illegal_arguments", &counters.illegal_arguments),
        ("unknown_metrics", &counters.unknown_metrics),
    ] {
        stats.add(&format!("rpc.errors type={kind}"), counter.get());
    }
    stats.add("rpc.exceptions", counters.exceptions.get());
    stats.add("rpc.unauthorized", 0);
    stats.add("http.query.success", counters.queries_succeeded.get());
    stats.add(
        "http.query.invalid_requests",
        counters.queries_invalid.get(),
    );
    stats.add("http.query.exceptions", counters.queries_failed.get());
    stats.add("datapoints.added type=all", counters.points_added.get());
    for kind in UidKind::ALL {
        let space = tsd.uids.read(kind);
        let (used, max) = (space.len() as u64, space.max());
        let name = kind.table_name();
        let mut add = |stat: &str, value| stats.add(&format!("uid.{stat} kind={name}"), value);
        // All names are in memory: none is ever missed.
        add("cache-hit", 0);
        add("cache-miss", 0);
        add("cache-size", 2 * used);
        add("random-collisions", 0);
        add("rejected-assignments", 0);
        add("ids-used", used);
        add("ids-available", max.saturating_sub(used));
    }
    stats.add("uid.filter.rejected kind=raw", 0);
    ABSENT.iter().for_each(|absent| stats.add(absent, 0));
    stats.stats
}

struct Collector<'a> {
    host: &'a str,
    stats: Vec<Stat>,
}

impl Collector<'_> {
    /// A name behind `tsd.`, and tags behind blanks.
    fn add(&mut self, name: &str, value: u64) {
        let mut words = name.split(' ');
        let metric = format!("tsd.{}", words.next().unwrap_or_default());
        let mut tags = vec![("host".to_owned(), self.host.to_owned())];
        let pairs = words.filter_map(|word| word.split_once('='));
        tags.extend(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
        self.stats.push(Stat {
            metric,
            value,
            tags,
        });
    }
}

/// A line for each.
pub(crate) fn to_text(stats: &[Stat], now_s: i64) -> String {
    let mut text = String::new();
    for stat in stats {
        let _ = write!(text, "{} {now_s} {}", stat.metric, stat.value);
        for (key, value) in &stat.tags {
            let _ = write!(text, " {key}={value}");
        }
        text.push('\n');
    }
    text
}

/// The same as points, with values in quotes.
pub(crate) fn to_json(stats: &[Stat], now_s: i64) -> String {
    let mut json = String::from("[");
    for (i, stat) in stats.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(json, "{comma}{{\"metric\":");
        push_text(&mut json, &stat.metric);
        let value = stat.value;
        let _ = write!(
            json,
            ",\"timestamp\":{now_s},\"value\":\"{value}\",\"tags\":{{"
        );
        for (i, (key, value)) in stat.tags.iter().enumerate() {
            json.push_str(if i == 0 { "" } else { "," });
            push_text(&mut json, key);
            json.push(':');
            push_text(&mut json, value);
        }
        json.push_str("}}");
    }
    json.push(']');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_is_a_point() {
        let mut stats = Collector {
            host: "h",
            stats: Vec::new(),
        };
        stats.add("rpc.received type=put", 7);
        let line = "tsd.rpc.received 1700000040 7 host=h type=put\n";
        assert_eq!(to_text(&stats.stats, 1_700_000_040), line);
        let json = r#"[{"metric":"tsd.rpc.received","timestamp":1700000040,"value":"7","tags":{"host":"h","type":"put"}}]"#;
        assert_eq!(to_json(&stats.stats, 1_700_000_040), json);
    }
}
