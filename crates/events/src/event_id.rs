//! Identities of events: UUIDs as text, new ones, and those of nested events.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use aws_lc_rs::digest::{Context, SHA256};
use icecore_model::event::EventId;

use crate::Problem;

/// The length of a UUID as text.
const TEXT_BYTES: usize = 36;

/// Where the hyphens are.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Reads `0199a1c0-7d11-7a3e-9b44-0d8b1e6f2a01`, in any case of letters. Hyphens must be there, and
/// nothing else: two texts of one id would be two ids for clients.
pub fn parse_event_id(text: &str) -> Option<EventId> {
    let bytes: &[u8; TEXT_BYTES] = text.as_bytes().try_into().ok()?;
    if HYPHENS.iter().any(|at| bytes[*at] != b'-') {
        return None;
    }
    let mut id = EventId::default();
    let mut digits = (0..TEXT_BYTES)
        .filter(|at| !HYPHENS.contains(at))
        .map(|at| hex_digit(bytes[at]));
    for byte in &mut id.0 {
        *byte = digits.next()?? << 4 | digits.next()??;
    }
    Some(id)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Lower case, with hyphens.
pub fn event_id_text(id: EventId) -> String {
    let mut text = String::with_capacity(TEXT_BYTES);
    for byte in id.0 {
        if HYPHENS.contains(&text.len()) {
            text.push('-');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Makes identities of version 7: by time, then by chance. No two of one source are equal.
#[derive(Debug)]
pub struct EventIdSource {
    key: u64,
    count: AtomicU64,
}

impl EventIdSource {
    /// A source that begins by chance, so that no two sources agree.
    pub fn random() -> Result<Self, Problem> {
        let mut seed = [0; 16];
        aws_lc_rs::rand::fill(&mut seed)
            .map_err(|_| Problem::new(503, "ingest.unavailable", "no random numbers"))?;
        let (key, count) = seed.split_at(8);
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |all, byte| all << 8 | u64::from(*byte))
        };
        Ok(Self::with_seed(number(key), number(count)))
    }

    /// A source whose identities are known beforehand, for tests.
    pub fn with_seed(key: u64, count: u64) -> Self {
        Self {
            key,
            count: AtomicU64::new(count),
        }
    }

    /// A new identity.
    pub fn next(&self, now_ms: i64) -> EventId {
        let count = self.count.fetch_add(1, Relaxed);
        // One 64-bit number for each count, and all of it is used: that is what keeps identities
        // apart. Ten bits are left and follow the count.
        let mixed = mix(count ^ self.key);
        let mut id = EventId::default();
        let time = now_ms.max(0).to_be_bytes();
        id.0[..6].copy_from_slice(&time[2..]);
        let high = (mixed >> 62) << 10 | count & 0x3ff;
        id.0[6..8].copy_from_slice(&(high as u16).to_be_bytes());
        id.0[8..].copy_from_slice(&mixed.to_be_bytes());
        with_version(id, 7)
    }
}

/// SplitMix64's last step: a different number for each number, without a pattern.
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// The identity of a nested event, of version 8: the same whenever its parent is sent again.
pub fn nested_event_id(parent: EventId, index: u32, event_type: &str, started_ns: i64) -> EventId {
    let mut content = Context::new(&SHA256);
    content.update(&parent.0);
    content.update(&index.to_be_bytes());
    content.update(event_type.as_bytes());
    content.update(&started_ns.to_be_bytes());
    let digest = content.finish();
    let mut id = EventId::default();
    let length = id.0.len();
    id.0.copy_from_slice(&digest.as_ref()[..length]);
    with_version(id, 8)
}

/// Writes version and variant of RFC 9562 over their six bits.
fn with_version(mut id: EventId, version: u8) -> EventId {
    id.0[6] = id.0[6] & 0x0f | version << 4;
    id.0[8] = id.0[8] & 0x3f | 0x80;
    id
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn texts_are_read_in_their_one_form() {
        let text = "0199a1c0-7d11-7a3e-9b44-0d8b1e6f2a01";
        let id = parse_event_id(text).unwrap();
        assert_eq!(id.0[..4], [0x01, 0x99, 0xa1, 0xc0]);
        assert_eq!(event_id_text(id), text);
        assert_eq!(parse_event_id(&text.to_uppercase()), Some(id));
        for bad in [
            "",
            "0199a1c07d117a3e9b440d8b1e6f2a01",
            "{0199a1c0-7d11-7a3e-9b44-0d8b1e6f2a01}",
            "0199a1c0-7d11-7a3e-9b44-0d8b1e6f2a0",
            "0199a1c0-7d11-7a3e-9b44-0d8b1e6f2a0g",
            "0199a1c0-7d11-7a3e-9b440-d8b1e6f2a01",
            "+199a1c0-7d11-7a3e-9b44-0d8b1e6f2a01",
            "0199a1c0-7d11-7a3e-9b44-0d8b1e6f2äa",
        ] {
            assert_eq!(parse_event_id(bad), None, "{bad}");
        }
    }

    #[test]
    fn new_identities_differ_and_begin_with_the_time() {
        let source = EventIdSource::random().unwrap();
        let now_ms = 1_794_218_401_250;
        let made: HashSet<EventId> = (0..10_000).map(|_| source.next(now_ms)).collect();
        assert_eq!(made.len(), 10_000);
        for id in &made {
            assert_eq!(id.0[..6], now_ms.to_be_bytes()[2..]);
            assert_eq!((id.0[6] >> 4, id.0[8] >> 6), (7, 2));
        }
        let other = EventIdSource::random().unwrap();
        assert!(!made.contains(&other.next(now_ms)));
    }

    #[test]
    fn nested_identities_follow_from_what_they_are_of() {
        let parent = EventId([7; 16]);
        let id = nested_event_id(parent, 0, "payment.authorised", 5);
        assert_eq!(id, nested_event_id(parent, 0, "payment.authorised", 5));
        assert_eq!((id.0[6] >> 4, id.0[8] >> 6), (8, 2));
        for other in [
            nested_event_id(EventId([8; 16]), 0, "payment.authorised", 5),
            nested_event_id(parent, 1, "payment.authorised", 5),
            nested_event_id(parent, 0, "payment.refused", 5),
            nested_event_id(parent, 0, "payment.authorised", 6),
        ] {
            assert_ne!(id, other);
        }
    }
}
