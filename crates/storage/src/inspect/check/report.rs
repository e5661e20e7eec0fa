//! What a check found: problems with key and reason, notes, and how much was looked at.

use std::collections::BTreeMap;
use std::fmt;

use icecore_records::{DecodeError, ParsedKey, RecordType};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// A key that breaks the rules of its type.
    Key,
    /// A value that does not decode completely.
    Value,
    /// A value in which merging had to keep parts that it could not read.
    Unmerged,
    /// A sample outside its bucket, or out of order.
    Time,
    /// Windows that are not those of the samples that they were made of.
    Windows,
    /// Something belongs to a series that its bucket does not have.
    NoSeries,
    /// Dictionary and forward index do not agree.
    Dictionary,
    /// Labels and inverted index do not agree.
    Postings,
    /// Two ids of one label set, ids out of label order, or ids that are not given out.
    Ids,
    /// A bucket with records that is not listed.
    Unlisted,
    /// Buckets that contradict each other: one listed lies inside another, or is retired or only
    /// being made.
    Buckets,
    /// BucketMeta is missing or says something that is not so.
    Meta,
    /// A cursor that is ahead of the journal, or belongs to nothing.
    Cursor,
    /// Journal sequences that overlap or have gaps, references without definition.
    Journal,
    /// A file that is missing or damaged.
    Store,
}

/// All kinds, in the order of a report.
pub const PROBLEM_KINDS: [ProblemKind; 15] = [
    ProblemKind::Store,
    ProblemKind::Key,
    ProblemKind::Value,
    ProblemKind::Unmerged,
    ProblemKind::Time,
    ProblemKind::Windows,
    ProblemKind::NoSeries,
    ProblemKind::Dictionary,
    ProblemKind::Postings,
    ProblemKind::Ids,
    ProblemKind::Unlisted,
    ProblemKind::Buckets,
    ProblemKind::Meta,
    ProblemKind::Cursor,
    ProblemKind::Journal,
];

impl ProblemKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Value => "value",
            Self::Unmerged => "unmerged",
            Self::Time => "time",
            Self::Windows => "windows",
            Self::NoSeries => "no-series",
            Self::Dictionary => "dictionary",
            Self::Postings => "postings",
            Self::Ids => "ids",
            Self::Unlisted => "unlisted",
            Self::Buckets => "buckets",
            Self::Meta => "meta",
            Self::Cursor => "cursor",
            Self::Journal => "journal",
            Self::Store => "store",
        }
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub kind: ProblemKind,
    /// The key of the record at fault, or of the one that is missing.
    pub key: Vec<u8>,
    /// What the key names.
    pub name: String,
    pub reason: String,
}

/// Something worth knowing that is no problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub key: Vec<u8>,
    pub text: String,
}

/// How much was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckCounts {
    pub records: BTreeMap<RecordType, u64>,
    /// Records of key versions, types and kinds that this program does not know.
    pub unknown_records: u64,
    pub buckets: u64,
    /// Summed over buckets.
    pub series: u64,
    pub float_samples: u64,
    pub histogram_samples: u64,
    pub exemplars: u64,
    pub start_timestamps: u64,
    /// Windows of samples that were rolled up.
    pub windows: u64,
    /// Those of them that were made once more from their samples.
    pub windows_compared: u64,
    /// Columns of timestamps that series of a coarse bucket share.
    pub time_columns: u64,
    pub label_pairs: u64,
    /// Series in all posting lists together.
    pub postings: u64,
    pub journal_epochs: u64,
    pub journal_blocks: u64,
    /// Samples, exemplars, start timestamps and metadata in the journal.
    pub journal_entries: u64,
    pub journal_definitions: u64,
    pub cursors: u64,
    pub metadata: u64,
    /// Records of the catalog besides metadata.
    pub catalog_records: u64,
    pub event_cells: u64,
    pub event_identities: u64,
    /// Records of buckets that larger ones have replaced; they wait to be dropped.
    pub retired_records: u64,
    /// Records of buckets that a job is making, or has left behind.
    pub unfinished_records: u64,
}

impl CheckCounts {
    /// All records that were read.
    pub fn records_total(&self) -> u64 {
        self.unknown_records + self.records.values().sum::<u64>()
    }

    fn join(&mut self, other: &Self) {
        for (record_type, count) in &other.records {
            *self.records.entry(*record_type).or_default() += count;
        }
        let Self {
            records: _,
            unknown_records,
            buckets,
            series,
            float_samples,
            histogram_samples,
            exemplars,
            start_timestamps,
            windows,
            windows_compared,
            time_columns,
            label_pairs,
            postings,
            journal_epochs,
            journal_blocks,
            journal_entries,
            journal_definitions,
            cursors,
            metadata,
            catalog_records,
            event_cells,
            event_identities,
            retired_records,
            unfinished_records,
        } = other;
        self.unknown_records += unknown_records;
        self.buckets += buckets;
        self.series += series;
        self.float_samples += float_samples;
        self.histogram_samples += histogram_samples;
        self.exemplars += exemplars;
        self.start_timestamps += start_timestamps;
        self.windows += windows;
        self.windows_compared += windows_compared;
        self.time_columns += time_columns;
        self.label_pairs += label_pairs;
        self.postings += postings;
        self.journal_epochs += journal_epochs;
        self.journal_blocks += journal_blocks;
        self.journal_entries += journal_entries;
        self.journal_definitions += journal_definitions;
        self.cursors += cursors;
        self.metadata += metadata;
        self.catalog_records += catalog_records;
        self.event_cells += event_cells;
        self.event_identities += event_identities;
        self.retired_records += retired_records;
        self.unfinished_records += unfinished_records;
    }
}

/// The result of a check.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// Where the data lies, for people.
    pub location: String,
    pub counts: CheckCounts,
    /// The first ones.
    pub problems: Vec<Problem>,
    /// All of them.
    pub problems_total: u64,
    pub problems_by_kind: BTreeMap<ProblemKind, u64>,
    pub notes: Vec<Note>,
    /// Keys and values that were read, repetitions included.
    pub bytes_read: u64,
    /// How often a piece was begun again because its files had vanished.
    pub restarts: u64,
}

impl CheckReport {
    pub(super) fn new(location: String, found: Findings, bytes_read: u64, restarts: u64) -> Self {
        Self {
            location,
            counts: found.counts,
            problems: found.problems,
            problems_total: found.by_kind.values().sum(),
            problems_by_kind: found.by_kind,
            notes: found.notes,
            bytes_read,
            restarts,
        }
    }

    pub fn is_clean(&self) -> bool {
        self.problems_total == 0
    }
}

/// Notes that are kept; each is about a bucket or a kind of record, so there are few.
const NOTES_MAX: usize = 1000;

/// What one piece of a check found. Counted only when the piece has been done to its end.
pub(super) struct Findings {
    pub(super) counts: CheckCounts,
    problems: Vec<Problem>,
    problems_max: usize,
    by_kind: BTreeMap<ProblemKind, u64>,
    notes: Vec<Note>,
}

impl Findings {
    pub(super) fn new(problems_max: usize) -> Self {
        Self {
            counts: CheckCounts::default(),
            problems: Vec::new(),
            problems_max,
            by_kind: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn problem(&mut self, kind: ProblemKind, key: &[u8], reason: impl Into<String>) {
        *self.by_kind.entry(kind).or_default() += 1;
        if self.problems.len() < self.problems_max {
            let name = match ParsedKey::parse(key) {
                Ok(parsed) => parsed.to_string(),
                Err(_) if key.is_empty() => "the database".into(),
                Err(_) => format!("key {}", hex::encode(key)),
            };
            self.problems.push(Problem {
                kind,
                key: key.to_vec(),
                name,
                reason: reason.into(),
            });
        }
    }

    /// A value that does not decode.
    pub(super) fn undecodable(&mut self, key: &[u8], cause: &DecodeError) {
        let kind = if cause.is_unmerged() {
            ProblemKind::Unmerged
        } else {
            ProblemKind::Value
        };
        self.problem(kind, key, cause.to_string());
    }

    pub(super) fn note(&mut self, key: &[u8], text: impl Into<String>) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(Note {
                key: key.to_vec(),
                text: text.into(),
            });
        }
    }

    pub(super) fn count(&mut self, record_type: RecordType) {
        *self.counts.records.entry(record_type).or_default() += 1;
    }

    /// Parses a key and counts its record. `None` after a broken or unknown key, which is noted.
    pub(super) fn parse(&mut self, key: &[u8]) -> Option<ParsedKey> {
        match ParsedKey::parse(key) {
            Ok(ParsedKey::Unknown { version, tag }) => {
                self.counts.unknown_records += 1;
                if self.counts.unknown_records == 1 {
                    let text = format!(
                        "record that this version does not know: version {version}, tag {tag:#04x}"
                    );
                    self.note(key, text);
                }
                None
            }
            Ok(parsed) => {
                if let Some(record_type) =
                    key.get(1).and_then(|tag| RecordType::from_number(tag >> 4))
                {
                    self.count(record_type);
                }
                Some(parsed)
            }
            Err(cause) => {
                self.problem(ProblemKind::Key, key, cause.to_string());
                None
            }
        }
    }

    pub(super) fn join(&mut self, other: Self) {
        self.counts.join(&other.counts);
        let room = self.problems_max.saturating_sub(self.problems.len());
        self.problems.extend(other.problems.into_iter().take(room));
        for (kind, count) in other.by_kind {
            *self.by_kind.entry(kind).or_default() += count;
        }
        let room = NOTES_MAX.saturating_sub(self.notes.len());
        self.notes.extend(other.notes.into_iter().take(room));
    }
}
