//! Limits of names that get UIDs: their length, and the memory of all of them.
//!
//! All names stay in memory for as long as the process runs, and in the store for ever: a client
//! that sends ever new ones is refused before it takes the memory of others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::UidKind;
use crate::error::Error;

/// Bytes of a name besides its text: two entries in maps, and what goes with a record that may not
/// be durable yet.
const NAME_OVERHEAD: usize = 200;

/// Most characters of a name that a message repeats.
const SHOWN_CHARS_MAX: usize = 100;

/// Limits of names, by the settings of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameLimits {
    /// `limits.label_name_bytes_max`, of tag keys.
    pub label_name_bytes_max: usize,
    /// `limits.label_value_bytes_max`, of metrics and tag values.
    pub label_value_bytes_max: usize,
    /// `opentsdb.uid_bytes_max`, of all names together.
    pub uid_bytes_max: usize,
}

impl Default for NameLimits {
    fn default() -> Self {
        Self {
            label_name_bytes_max: 1 << 10,
            label_value_bytes_max: 4 << 10,
            uid_bytes_max: 1 << 30,
        }
    }
}

impl NameLimits {
    /// Fails if a name is longer than a label may be, which its samples would get.
    pub(crate) fn check_length(&self, kind: UidKind, name: &str) -> Result<(), Error> {
        let (max, setting) = match kind {
            UidKind::Tagk => (self.label_name_bytes_max, "limits.label_name_bytes_max"),
            UidKind::Metric | UidKind::Tagv => {
                (self.label_value_bytes_max, "limits.label_value_bytes_max")
            }
        };
        if name.len() <= max {
            return Ok(());
        }
        let shown: String = name.chars().take(SHOWN_CHARS_MAX).collect();
        Err(Error::bad_request(format!(
            "Invalid {} (\"{shown}…\"): {} bytes, more than {setting} = {max}",
            kind.field_name(),
            name.len()
        )))
    }
}

/// The memory of the names of all kinds.
#[derive(Debug)]
pub(super) struct NameMemory {
    used: AtomicUsize,
    max: usize,
}

impl Default for NameMemory {
    fn default() -> Self {
        Self {
            used: AtomicUsize::new(0),
            max: NameLimits::default().uid_bytes_max,
        }
    }
}

impl NameMemory {
    pub(super) fn with_max(max: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            max,
        })
    }

    /// Fails if there is no room for another name. Those that are stored are always read.
    pub(super) fn check(&self, name: &str) -> Result<(), Error> {
        let max = self.max;
        if self.used.load(Relaxed).saturating_add(bytes_of(name)) <= max {
            return Ok(());
        }
        Err(Error::bad_request(format!(
            "The names with UIDs take opentsdb.uid_bytes_max = {max} bytes: points and meta data \
             of known names are still taken. Raise the setting, or find out who sends ever new \
             names"
        )))
    }

    pub(super) fn add(&self, name: &str) {
        self.used.fetch_add(bytes_of(name), Relaxed);
    }

    pub(super) fn remove(&self, name: &str) {
        self.used.fetch_sub(bytes_of(name), Relaxed);
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }
}

fn bytes_of(name: &str) -> usize {
    NAME_OVERHEAD + name.len()
}
