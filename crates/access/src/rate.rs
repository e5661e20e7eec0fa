//! `rate_limit` of the web configuration file: a token bucket for each client address.
//!
//! Requests are counted before credentials are checked, so that passwords cannot be guessed any
//! faster. With one bucket for all, a client without a credential could keep out all others.
//!
//! Holds always: at most [`CLIENTS_MAX`] buckets are kept. Further clients share one until some are
//! full again and forgotten: nothing is lost then, because an unknown client starts with a full
//! one.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::client::client_network;
use crate::file::RateLimit;

/// Buckets that are kept: a megabyte of memory.
const CLIENTS_MAX: usize = 16 << 10;

/// Stands for clients without an address, and for those beyond [`CLIENTS_MAX`].
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
        let is_known = clients.buckets.contains_key(&client);
        let has_room = is_known || clients.buckets.len() < CLIENTS_MAX;
        let key = if has_room { client } else { OTHERS };
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
        // One more for those that share it.
        assert_eq!(kept(), CLIENTS_MAX + 1);
        // They have used up what they share, and those with a bucket of their own have not.
        assert!(!rate.take_at(address(CLIENTS_MAX + 200), began));
        assert!(rate.take_at(address(1), began));
        let later = began + 3 * INTERVAL;
        assert!(rate.take_at(address(CLIENTS_MAX + 200), later));
        assert_eq!(kept(), 1);
    }
}
