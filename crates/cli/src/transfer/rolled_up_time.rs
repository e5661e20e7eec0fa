//! What answers say about rolled-up time: of it, only samples that are left of windows come.

use std::collections::BTreeMap;

/// Levels, each with the time from its first to its last mention. Times are RFC 3339 in UTC, whose
/// order is that of their texts.
#[derive(Debug, Default)]
pub(super) struct RolledUpTime(BTreeMap<String, (String, String)>);

impl RolledUpTime {
    pub(super) const HEADER: &str = "x-icecore-resolution";

    /// Adds what a header says: `1h START/END, 5m START/END`.
    pub(super) fn add(&mut self, value: &str) {
        for level in value.split(", ") {
            let range = level.split_once(' ');
            let range = range.and_then(|(name, range)| Some((name, range.split_once('/')?)));
            let Some((name, (start, end))) = range else {
                continue;
            };
            let known = self.0.entry(name.to_owned());
            let known = known.or_insert_with(|| (start.to_owned(), end.to_owned()));
            if start < known.0.as_str() {
                known.0 = start.to_owned();
            }
            if end > known.1.as_str() {
                known.1 = end.to_owned();
            }
        }
    }

    /// A line for people, if there is something to say.
    pub(super) fn note(&self) -> Option<String> {
        let mut levels: Vec<_> = self.0.iter().collect();
        levels.sort_by_key(|(_, range)| *range);
        let level = |(name, (start, end)): (&String, &(String, String))| {
            format!("{name} from {start} to {end}")
        };
        let levels: Vec<String> = levels.into_iter().map(level).collect();
        (!levels.is_empty()).then(|| {
            format!(
                "only the first and last samples of windows are left of rolled-up time: {}",
                levels.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_levels_grow_together() {
        let mut rolled = RolledUpTime::default();
        assert_eq!(rolled.note(), None);
        rolled.add("5m 2026-01-02T00:00:00Z/2026-01-03T00:00:00Z");
        rolled.add(
            "1h 2026-01-01T00:00:00Z/2026-01-02T00:00:00Z, \
             5m 2026-01-03T00:00:00Z/2026-01-04T00:00:00Z",
        );
        // Of a newer server.
        rolled.add("something else");
        let note = rolled.note().unwrap();
        let expected = "1h from 2026-01-01T00:00:00Z to 2026-01-02T00:00:00Z, \
                        5m from 2026-01-02T00:00:00Z to 2026-01-04T00:00:00Z";
        assert!(note.ends_with(expected), "{note}");
    }
}
