//! The share of a port's connections that one client address has.
//!
//! Holds always: no client has more than its share, and a client without connections takes no
//! memory.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use icecore_access::client_network;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Interval between lines in the log about clients that have their share.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// The connections of each client of a port.
pub(super) struct Shares {
    connections_max: usize,
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    /// By [`client_network`].
    connections: HashMap<IpAddr, usize>,
    /// Connections that were closed because their client had its share, since the last warning.
    refused: u64,
    warned: Option<Instant>,
}

/// The place of one connection, until it is dropped.
pub(super) struct Share {
    client: IpAddr,
    table: Arc<Mutex<Table>>,
}

impl Shares {
    /// Clients have this percentage of the connections, and one at least.
    pub(super) fn new(connections_max: usize, percent: usize) -> Self {
        Self {
            connections_max: (connections_max.saturating_mul(percent) / 100).max(1),
            table: Arc::default(),
        }
    }

    /// Returns a place for a connection; `None` if its client has its share.
    pub(super) fn take(&self, address: IpAddr) -> Option<Share> {
        let client = client_network(address);
        let mut table = self.table.lock();
        let count = table.connections.entry(client).or_default();
        if *count >= self.connections_max {
            table.refused += 1;
            self.warn(&mut table, client);
            return None;
        }
        *count += 1;
        Some(Share {
            client,
            table: Arc::clone(&self.table),
        })
    }

    /// Says now and then that clients are kept out: the cure is a setting.
    fn warn(&self, table: &mut Table, client: IpAddr) {
        let now = Instant::now();
        let is_due = |last: Instant| now.duration_since(last) >= WARNING_INTERVAL;
        if table.warned.is_none_or(is_due) {
            tracing::warn!(
                %client,
                connections = self.connections_max,
                closed = table.refused,
                "closing further connections of a client that has its share; see server.client_share"
            );
            table.warned = Some(now);
            table.refused = 0;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        if let Entry::Occupied(mut entry) = table.connections.entry(self.client) {
            match entry.get().checked_sub(1) {
                None | Some(0) => {
                    entry.remove();
                }
                Some(left) => *entry.get_mut() = left,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(shares: &Shares, address: &str, count: usize) -> Vec<Share> {
        let address = address.parse().unwrap();
        (0..count).map_while(|_| shares.take(address)).collect()
    }

    #[test]
    fn one_client_has_its_share_and_others_have_theirs() {
        let shares = Shares::new(400, 25);
        let first = taken(&shares, "192.0.2.1", 1000);
        assert_eq!(first.len(), 100);
        // The same client under another form of its address.
        assert_eq!(taken(&shares, "::ffff:192.0.2.1", 1).len(), 0);
        let network = taken(&shares, "2001:db8::1", 60);
        assert_eq!(taken(&shares, "2001:db8::2", 60).len(), 40);
        assert_eq!(taken(&shares, "192.0.2.2", 1).len(), 1);
        assert_eq!(shares.table.lock().refused, 2, "the first one was logged");
        drop((first, network));
        assert_eq!(taken(&shares, "192.0.2.1", 1000).len(), 100);
        assert!(shares.table.lock().connections.is_empty());
    }

    #[test]
    fn shares_are_never_nothing() {
        for (connections_max, percent, expected) in
            [(1, 1, 1), (50, 1, 1), (512, 25, 128), (7, 100, 7)]
        {
            let shares = Shares::new(connections_max, percent);
            assert_eq!(taken(&shares, "192.0.2.1", 1000).len(), expected);
        }
    }
}
