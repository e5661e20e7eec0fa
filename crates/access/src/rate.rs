//! `rate_limit` of the web configuration file: a token bucket for each client address.
//!
//! Requests are counted before credentials are checked, so that passwords cannot be guessed any
//! faster. With one bucket for all, a client without a credential could keep out all others.
//!
//! Holds always: clients have at most [`CLIENTS_MAX`] buckets. Further ones share those of their
//! wider networks, of which there are as many, until buckets are full again and forgotten: nothing
//! is lost then, because an unknown client starts with a full one. A bucket in use is never
//! evicted: its client would start with a full one again.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::client::{client_network, wide_network};
use crate::file::RateLimit;

/// Buckets of clients that are kept: a megabyte of memory.
const CLIENTS_MAX: usize = 16 << 10;

/// Buckets with those of wider networks.
const BUCKETS_MAX: usize = 2 * CLIENTS_MAX;

/// Stands for clients without an address, and for those beyond [`BUCKETS_MAX`].
const OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Interval between looks for buckets that are full, while the table is.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct RateLimiter {
    interval: Duration,
    burst: f64,
    clients: Mutex<Clients>,
}

struct Clients {
    buckets: HashMap<IpAddr, Bucket>,
    swept: Instant,
}

/// Tokens left, and when that was.
#[derive(Clone, Copy)]
struct Bucket {
    tokens: f64,
    since: Instant,
}

impl RateLimiter {
    pub(crate) fn new(limit: RateLimit) -> Self {
        Self {
            interval: limit.interval,
            // Without a burst nothing would ever pass.
            burst: f64::from(limit.burst.max(1)),
            clients: Mutex::new(Clients {
                buckets: HashMap::new(),
                swept: Instant::now(),
            }),
        }
    }

    /// Takes a token of a client, if there is one.
    pub(crate) fn take(&self, client: Option<IpAddr>) -> bool {
        self.take_at(client, Instant::now())
    }

    fn take_at(&self, client: Option<IpAddr>, now: Instant) -> bool {
        let client = client.map_or(OTHERS, client_network);
        let mut clients = self.clients.lock();
        let full = Bucket {
            tokens: self.burst,
            since: now,
        };
        if clients.buckets.len() >= CLIENTS_MAX
            && !clients.buckets.contains_key(&client)
            && now.saturating_duration_since(clients.swept) >= SWEEP_INTERVAL
        {
            clients.swept = now;
            let is_used = |bucket: &Bucket| self.tokens_at(*bucket, now) < self.burst;
            clients.buckets.retain(|_, bucket| is_used(bucket));
        }
        let wide = wide_network(client);
        let has_bucket = |key: &IpAddr| clients.buckets.contains_key(key);
        let key = if has_bucket(&client) || clients.buckets.len() < CLIENTS_MAX {
            client
        } else if has_bucket(&wide) || clients.buckets.len() < BUCKETS_MAX {
            wide
        } else {
            OTHERS
        };
        let bucket = clients.buckets.entry(key).or_insert(full);
        let tokens = self.tokens_at(*bucket, now);
        let taken = tokens >= 1.0;
        *bucket = Bucket {
            tokens: tokens - f64::from(u8::from(taken)),
            since: now.max(bucket.since),
        };
        taken
    }

    fn tokens_at(&self, bucket: Bucket, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(bucket.since).as_secs_f64();
        (bucket.tokens + passed / self.interval.as_secs_f64()).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    fn limiter(burst: u32) -> RateLimiter {
        RateLimiter::new(RateLimit {
            interval: INTERVAL,
            burst,
        })
    }

    fn address(number: usize) -> Option<IpAddr> {
        let number = u32::try_from(number).unwrap();
        Some(IpAddr::V4(Ipv4Addr::from_bits(0x0A00_0000 + number)))
    }

    #[test]
    fn a_burst_passes_and_then_one_per_interval() {
        let rate = limiter(3);
        let began = Instant::now();
        let taken: Vec<_> = (0..5).map(|_| rate.take_at(address(1), began)).collect();
        assert_eq!(taken, [true, true, true, false, false]);
        assert!(!rate.take_at(address(1), began + INTERVAL / 2));
        assert!(rate.take_at(address(1), began + 2 * INTERVAL));
        let later = began + 100 * INTERVAL;
        let taken: Vec<_> = (0..4).map(|_| rate.take_at(address(1), later)).collect();
        assert_eq!(taken, [true, true, true, false]);
    }

    #[test]
    fn a_client_cannot_take_what_others_have() {
        let rate = limiter(2);
        let now = Instant::now();
        while rate.take_at(address(1), now) {}
        assert!(rate.take_at(address(2), now));
        assert!(rate.take_at(None, now));
        // An address of the same network is no other client.
        let of = |text: &str| Some(text.parse().unwrap());
        while rate.take_at(of("2001:db8::1"), now) {}
        assert!(!rate.take_at(of("2001:db8::2"), now));
        assert!(rate.take_at(of("2001:db8:0:1::1"), now));
    }

    #[test]
    fn buckets_are_bounded_and_forgotten_when_they_are_full() {
        let rate = limiter(2);
        let began = Instant::now();
        for client in 0..CLIENTS_MAX + 100 {
            rate.take_at(address(client), began);
        }
        let kept = || rate.clients.lock().buckets.len();
        // One more for the network that the others share.
        assert_eq!(kept(), CLIENTS_MAX + 1);
        // They have used up what they share, and those with a bucket of their own have not.
        assert!(!rate.take_at(address(CLIENTS_MAX + 200), began));
        assert!(rate.take_at(address(1), began));
        let later = began + 3 * INTERVAL;
        assert!(rate.take_at(address(CLIENTS_MAX + 200), later));
        assert_eq!(kept(), 1);
    }

    /// An address of IPv6 with so many networks of a customer before it.
    fn network(customer: usize, network: usize) -> Option<IpAddr> {
        let bits = u128::try_from((customer << 16) + network).unwrap();
        Some(IpAddr::V6(Ipv6Addr::from_bits(
            (0x2001 << 112) + (bits << 64),
        )))
    }

    #[test]
    fn a_customer_with_many_networks_keeps_nobody_else_out() {
        let rate = limiter(2);
        let now = Instant::now();
        for i in 0..CLIENTS_MAX {
            rate.take_at(network(1, i), now);
        }
        while rate.take_at(network(1, CLIENTS_MAX), now) {}
        assert!(!rate.take_at(network(1, CLIENTS_MAX + 1), now));
        assert!(rate.take_at(network(2, 0), now));
        assert!(rate.take_at(address(1), now));
        // There is an end to the networks, too.
        for customer in 3..BUCKETS_MAX {
            rate.take_at(network(customer, 0), now);
        }
        assert_eq!(rate.clients.lock().buckets.len(), BUCKETS_MAX + 1);
    }
}
