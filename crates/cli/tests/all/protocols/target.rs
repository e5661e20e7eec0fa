//! A target whose counter grows by one each time it is scraped.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::host_and_port;
use crate::export;
use crate::http::Client;
use crate::ledger::Value;

pub(super) struct Target {
    address: SocketAddr,
    scrapes: Arc<AtomicU64>,
}

impl Target {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let scrapes = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&scrapes);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut head = BufReader::new(&stream).lines();
                while let Some(Ok(line)) = head.next() {
                    if line.is_empty() {
                        break;
                    }
                }
                let number = counted.fetch_add(1, Relaxed) + 1;
                let body =
                    format!("# TYPE test_scrapes_total counter\ntest_scrapes_total {number}\n");
                // A client that was killed reads nothing.
                let _ = write!(
                    &stream,
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n\
                     Content-Length: {}\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        Self { address, scrapes }
    }

    /// The number of scrapes so far.
    pub(super) fn scrapes(&self) -> u64 {
        self.scrapes.load(Relaxed)
    }

    pub(super) fn configuration(&self) -> String {
        format!(
            "scrape_configs:\n- job_name: test\n  scrape_interval: 250ms\n  scrape_timeout: 250ms\n  \
             static_configs:\n  - targets: ['{}']\n",
            host_and_port(self.address)
        )
    }

    /// Returns `true` once the store has a value of a scrape.
    pub(super) fn is_stored(client: &mut Client) -> bool {
        let found = export::select(client, "test_scrapes_total").expect("the process answers");
        let is_value =
            |value: Value| matches!(value, Value::Float(f) if !f64::from_bits(f).is_nan());
        found
            .into_values()
            .flatten()
            .any(|(_, value)| is_value(value))
    }

    /// Each value is there at most once, they grow with time, and none was made up.
    pub(super) fn verify(&self, client: &mut Client) {
        let found = export::select(client, "test_scrapes_total").expect("the process answers");
        assert_eq!(found.len(), 1, "{found:?}");
        let mut last = 0;
        for (time, value) in found.into_values().flatten() {
            let Value::Float(bits) = value else {
                panic!("a histogram at {time}")
            };
            let value = f64::from_bits(bits);
            // A staleness marker where a scrape failed.
            if value.is_nan() {
                continue;
            }
            assert!(value as u64 > last, "{value} after {last}");
            last = value as u64;
        }
        assert!(last > 0, "nothing was scraped");
        assert!(last <= self.scrapes(), "{last} was never exposed");
    }
}
