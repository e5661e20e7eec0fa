//! What clients of OpenTSDB send, with what a real OpenTSDB 2.4.1 answered: Grafana's data source,
//! tcollector, Telegraf, Bosun and check_tsd.
//!
//! Elsewhere: collectd itself (`collectd`).

use opentsdb_recordings::{Tally, groups_in};

use super::recorded::{replayed, start};
use super::{repository, telnet};
use crate::served::Workplace;

#[test]
fn clients_get_the_answers_of_the_original() {
    let folder = repository("testdata/opentsdb/clients");
    let mut all = Tally::default();
    let mut clients = 0;
    for file in std::fs::read_dir(folder).unwrap().flatten() {
        for group in groups_in(&file.path()) {
            clients += 1;
            all.add(replayed(&group));
        }
    }
    assert!(all.differ.is_empty(), "{}", all.differ.join("\n"));
    assert_eq!((clients, all.deviate), (5, 0));
}

/// tcollector asks for the version to see whether somebody reads its lines.
#[test]
fn lines_with_a_version_are_answered() {
    let workplace = Workplace::new();
    let served = start(&workplace, "plain");
    let lines = b"put proc.loadavg.1min 1500000000 0.36 host=web01\nversion\n";
    let expected = "net.opentsdb.tools 2.4.1 built at revision ";
    let (reply, closed) = telnet(served.opentsdb_address(), lines, false);
    assert!(reply.starts_with(expected) && !closed, "{reply}");
}
