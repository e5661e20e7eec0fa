//! A cache of checked credentials, so that a scraper pays for bcrypt once.
//!
//! Holds always: at most [`ENTRIES_MAX`] are kept, the oldest goes first, and what is kept tells
//! nobody the credential: it is a keyed hash, and the key is this process' own.

use std::collections::{HashMap, VecDeque};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use parking_lot::Mutex;

/// Credentials that are remembered: more than any installation has, and 100 KiB of memory.
pub(crate) const ENTRIES_MAX: usize = 1024;

/// A credential, as it is remembered.
pub(crate) type Fingerprint = [u8; 32];

/// The key under which credentials are remembered.
pub(crate) struct Fingerprints(hmac::Key);

impl Fingerprints {
    /// `None` where the operating system has no randomness: then nothing is remembered.
    pub(crate) fn new() -> Option<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        key.ok().map(Self)
    }

    pub(crate) fn of(&self, header: &[u8]) -> Fingerprint {
        let mut fingerprint = [0; 32];
        let tag = hmac::sign(&self.0, header);
        for (to, from) in fingerprint.iter_mut().zip(tag.as_ref()) {
            *to = *from;
        }
        fingerprint
    }
}

/// Credentials and what is known about them.
pub(crate) struct Cache<T>(Mutex<Entries<T>>);

struct Entries<T> {
    known: HashMap<Fingerprint, T>,
    /// The same, oldest first.
    order: VecDeque<Fingerprint>,
}

impl<T: Copy> Cache<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Entries {
            known: HashMap::new(),
            order: VecDeque::new(),
        }))
    }

    pub(crate) fn get(&self, fingerprint: &Fingerprint) -> Option<T> {
        self.0.lock().known.get(fingerprint).copied()
    }

    pub(crate) fn insert(&self, fingerprint: Fingerprint, value: T) {
        let mut entries = self.0.lock();
        if entries.known.insert(fingerprint, value).is_some() {
            return;
        }
        entries.order.push_back(fingerprint);
        if entries.order.len() > ENTRIES_MAX
            && let Some(oldest) = entries.order.pop_front()
        {
            entries.known.remove(&oldest);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let entries = self.0.lock();
        assert_eq!(entries.known.len(), entries.order.len());
        entries.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let fingerprints = Fingerprints::new().unwrap();
        let cache = Cache::new();
        let of = |number: usize| fingerprints.of(&number.to_le_bytes());
        for number in 0..3 * ENTRIES_MAX {
            cache.insert(of(number), number);
            cache.insert(of(number), number);
            assert!(cache.len() <= ENTRIES_MAX);
        }
        assert_eq!(cache.len(), ENTRIES_MAX);
        assert_eq!(cache.get(&of(2 * ENTRIES_MAX - 1)), None);
        let kept = 2 * ENTRIES_MAX;
        assert_eq!(cache.get(&of(kept)), Some(kept));
    }

    #[test]
    fn fingerprints_depend_on_the_key() {
        let [one, two] = [(); 2].map(|()| Fingerprints::new().unwrap());
        assert_eq!(one.of(b"secret"), one.of(b"secret"));
        assert_ne!(one.of(b"secret"), one.of(b"secres"));
        assert_ne!(one.of(b"secret"), two.of(b"secret"));
    }
}
