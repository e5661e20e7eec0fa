//! collectd's `write_tsdb` writes here as it does to the original.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{get, serve};
use crate::http::Client;
use crate::served::Workplace;

const COLLECTD: &str = "/usr/sbin/collectd";

/// Metrics of each of the plugins.
const EXPECTED: [&str; 4] = [
    "load.load.shortterm",
    "load.load.midterm",
    "memory.free.memory",
    "uptime.uptime",
];

#[test]
fn what_collectd_writes_can_be_queried() {
    if !Path::new(COLLECTD).exists() {
        skipped_tests::skip("collectd's write_tsdb", "install collectd-core");
        return;
    }
    let workplace = Workplace::new();
    let settings = "tsd.core.auto_create_metrics = true\n";
    let served = serve(&workplace, "data", settings).start();
    let address = served.opentsdb_address();
    let config = workplace.path("collectd.conf");
    let folder = workplace.path("");
    let text = format!(
        "Hostname \"web01\"
FQDNLookup false
Interval 1
BaseDir \"{0}\"
LoadPlugin logfile
<Plugin logfile>
  LogLevel info
  File \"{0}collectd.log\"
</Plugin>
LoadPlugin load
LoadPlugin memory
LoadPlugin uptime
LoadPlugin write_tsdb
<Plugin write_tsdb>
  <Node>
    Host \"127.0.0.1\"
    Port \"{1}\"
    HostTags \"dc=lga status=production\"
    StoreRates false
    AlwaysAppendDS false
  </Node>
</Plugin>
",
        folder.display(),
        address.port()
    );
    std::fs::write(&config, text).unwrap();
    let mut collectd = Command::new(COLLECTD)
        .args(["-f", "-C"])
        .arg(&config)
        .arg("-P")
        .arg(workplace.path("collectd.pid"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // It reads once a second, and sends when it has enough lines.
    let mut client = Client::new(address);
    let mut metrics = Vec::new();
    served.wait_until("metrics", || {
        let found = get(&mut client, "/api/suggest?type=metrics&q=&max=100");
        metrics = serde_json::from_value::<Vec<String>>(found).unwrap();
        let is_there = |expected: &&str| metrics.iter().any(|metric| metric == expected);
        EXPECTED.iter().all(is_there)
    });
    // Lines that it holds back are sent at its end.
    let id = collectd.id().to_string();
    let told = Command::new("sh")
        .args(["-c", &format!("kill -TERM {id}")])
        .status();
    assert!(told.unwrap().success());
    collectd.wait().unwrap();

    for metric in &metrics {
        let path = format!("/api/query?start=10m-ago&m=none:{metric}%7Bfqdn=web01%7D");
        let found = get(&mut client, &path);
        assert_eq!(found.as_array().map(Vec::len), Some(1), "{metric}: {found}");
        let tags = serde_json::json!({"fqdn": "web01", "dc": "lga", "status": "production"});
        assert_eq!(found[0]["tags"], tags, "{metric}");
        let points = found[0]["dps"].as_object().unwrap();
        assert!(
            !points.is_empty() && points.values().all(|v| v.is_number()),
            "{metric}: {found}"
        );
    }
}
