//! Refused points: counted by reason, and logged now and then.
//!
//! ```text
//! put, rollup, histogram, lines ─► RefusalTally of a request ─► Refusals ─┬─► metrics
//! bodies that are not read ───────────────────────────────────────────────┘   └─► log
//! ```
//!
//! Many clients of OpenTSDB do not read answers, and telnet has none for points that are stored.
//! So the log says what is lost, and which setting would take it.
//!
//! Holds always:
//! - There is a fixed number of reasons: no client can make a metric of its own.
//! - A reason is logged at most once in [`LOG_INTERVAL_MS`].

use icecore_model::Counter;
use parking_lot::Mutex;
use tracing::warn;

/// Time between two log lines of one reason.
const LOG_INTERVAL_MS: i64 = 60_000;

/// Most characters of an example or a cause in the log.
const SHOWN_CHARS_MAX: usize = 300;

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    UnknownMetric,
    UnknownTagKey,
    UnknownTagValue,
    IllegalCharacter,
    TooManyTags,
    NameTooLong,
    NoRoomForNames,
    InvalidNumber,
    InvalidPoint,
    RollupNotConfigured,
    HistogramNotConfigured,
    ChunkedBody,
    ChunkTooLong,
    BodyTooLong,
    RequestTooLarge,
    MalformedRequest,
    LineTooLong,
    UnknownCommand,
    ReadOnly,
    RejectedByStore,
    StoreUnavailable,
}

impl RefusalReason {
    pub const ALL: [Self; 21] = [
        Self::UnknownMetric,
        Self::UnknownTagKey,
        Self::UnknownTagValue,
        Self::IllegalCharacter,
        Self::TooManyTags,
        Self::NameTooLong,
        Self::NoRoomForNames,
        Self::InvalidNumber,
        Self::InvalidPoint,
        Self::RollupNotConfigured,
        Self::HistogramNotConfigured,
        Self::ChunkedBody,
        Self::ChunkTooLong,
        Self::BodyTooLong,
        Self::RequestTooLarge,
        Self::MalformedRequest,
        Self::LineTooLong,
        Self::UnknownCommand,
        Self::ReadOnly,
        Self::RejectedByStore,
        Self::StoreUnavailable,
    ];

    /// The name in metrics and in the log.
    pub fn name(self) -> &'static str {
        self.name_and_cure().0
    }

    /// The setting that takes what was refused, or else what to do about it.
    pub fn cure(self) -> &'static str {
        self.name_and_cure().1
    }

    fn name_and_cure(self) -> (&'static str, &'static str) {
        match self {
            Self::UnknownMetric => ("unknown_metric", "tsd.core.auto_create_metrics=true"),
            Self::UnknownTagKey => ("unknown_tag_key", "tsd.core.auto_create_tagks=true"),
            Self::UnknownTagValue => ("unknown_tag_value", "tsd.core.auto_create_tagvs=true"),
            Self::IllegalCharacter => (
                "illegal_character",
                "tsd.core.tag.allow_specialchars names the characters that are taken besides \
                 letters, digits and -_./",
            ),
            Self::TooManyTags => ("too_many_tags", "tsd.storage.max_tags"),
            Self::NameTooLong => (
                "name_too_long",
                "limits.label_name_bytes_max for tag keys, limits.label_value_bytes_max for \
                 metrics and tag values",
            ),
            Self::NoRoomForNames => (
                "no_room_for_names",
                "opentsdb.uid_bytes_max, or tsd.storage.uid.width of a new database: the cause \
                 says which",
            ),
            Self::InvalidNumber => ("invalid_number", "none: values and times are numbers"),
            Self::InvalidPoint => ("invalid_point", "none: the cause says what a point needs"),
            Self::RollupNotConfigured => (
                "rollup_not_configured",
                "tsd.rollups.enable, tsd.rollups.config and tsd.rollups.block_derived",
            ),
            Self::HistogramNotConfigured => {
                ("histogram_not_configured", "tsd.core.histograms.config")
            }
            Self::ChunkedBody => (
                "chunked_body",
                "tsd.http.request.enable_chunked=true and tsd.http.request.max_chunk take bodies \
                 in chunks, and of more than 8 KiB",
            ),
            Self::ChunkTooLong => ("chunk_too_long", "tsd.http.request.max_chunk"),
            Self::BodyTooLong => (
                "body_too_long",
                "server.write_body_bytes_max, or server.write_decompressed_bytes_max for \
                 compressed bodies",
            ),
            Self::RequestTooLarge => (
                "request_too_large",
                "smaller requests, or the setting that the cause names",
            ),
            Self::MalformedRequest => ("malformed_request", "none: the cause says what is wrong"),
            Self::LineTooLong => ("line_too_long", "none: lines have at most 16 KiB"),
            Self::UnknownCommand => (
                "unknown_command",
                "none: lines begin with put, rollup or histogram",
            ),
            Self::ReadOnly => ("read_only", "tsd.mode=rw"),
            Self::RejectedByStore => ("rejected_by_store", "the setting that the cause names"),
            Self::StoreUnavailable => (
                "store_unavailable",
                "none: clients that send again lose nothing; the cause says what the store lacks",
            ),
        }
    }
}

/// Everything of one reason in one request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refused {
    reason: RefusalReason,
    count: u64,
    /// Of the first.
    cause: String,
    example: String,
}

/// The refusals of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RefusalTally(Vec<Refused>);

impl RefusalTally {
    /// Counts refusals. The texts are made for the first of a reason only.
    pub(crate) fn add(
        &mut self,
        reason: RefusalReason,
        count: u64,
        cause: impl FnOnce() -> String,
        example: impl FnOnce() -> String,
    ) {
        if let Some(known) = self.0.iter_mut().find(|known| known.reason == reason) {
            known.count += count;
            return;
        }
        self.0.push(Refused {
            reason,
            count,
            cause: shown(&cause()),
            example: shown(&example()),
        });
    }

    /// Counts what another tally has.
    pub(crate) fn append(&mut self, other: Self) {
        for Refused {
            reason,
            count,
            cause,
            example,
        } in other.0
        {
            self.add(reason, count, || cause, || example);
        }
    }
}

/// The refusals since the start.
#[derive(Debug)]
pub struct Refusals([ReasonState; RefusalReason::ALL.len()]);

#[derive(Debug, Default)]
struct ReasonState {
    count: Counter,
    log: Mutex<LogState>,
}

/// The last log line of a reason, and the refusals since.
#[derive(Debug, Default)]
struct LogState {
    last_ms: Option<i64>,
    /// Refusals that no line of the log has counted.
    unlogged: u64,
}

impl Default for Refusals {
    fn default() -> Self {
        Self(std::array::from_fn(|_| ReasonState::default()))
    }
}

impl Refusals {
    /// Returns the number of refusals by their reasons.
    pub fn counts(&self) -> impl Iterator<Item = (RefusalReason, u64)> {
        let states = RefusalReason::ALL.into_iter().zip(&self.0);
        states.map(|(reason, state)| (reason, state.count.get()))
    }

    /// Counts the refusals of a request, and logs those whose turn it is. The time is that of
    /// [`icecore_model::Clock::elapsed_ms`].
    pub(crate) fn add(&self, tally: RefusalTally, elapsed_ms: i64) {
        for refused in tally.0 {
            if let Some(count) = self.count(&refused, elapsed_ms) {
                log(&refused, count);
            }
        }
    }

    /// Counts refusals. Returns how many a line of the log is to name, if it is time for one.
    fn count(&self, refused: &Refused, elapsed_ms: i64) -> Option<u64> {
        let states = RefusalReason::ALL.into_iter().zip(&self.0);
        let mut states = states.filter(|(reason, _)| *reason == refused.reason);
        let (_, state) = states.next()?;
        state.count.add(refused.count);
        let mut log = state.log.lock();
        log.unlogged += refused.count;
        let is_due = |last_ms| elapsed_ms.saturating_sub(last_ms) >= LOG_INTERVAL_MS;
        if !log.last_ms.is_none_or(is_due) {
            return None;
        }
        log.last_ms = Some(elapsed_ms);
        Some(std::mem::take(&mut log.unlogged))
    }
}

/// One line of the log. Texts of clients are written with escapes.
fn log(refused: &Refused, count: u64) {
    let Refused {
        reason,
        cause,
        example,
        ..
    } = refused;
    warn!(
        reason = reason.name(),
        count,
        ?cause,
        ?example,
        setting = reason.cure(),
        "points of OpenTSDB clients are refused"
    );
}

/// The begin of a text, on one line.
fn shown(text: &str) -> String {
    let text = text.trim_end();
    let mut short: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn one(reason: RefusalReason, count: u64) -> Refused {
        Refused {
            reason,
            count,
            cause: "because".into(),
            example: "put a".into(),
        }
    }

    #[test]
    fn every_reason_has_a_name_and_a_place() {
        let names: HashSet<&str> = RefusalReason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), RefusalReason::ALL.len());
        let refusals = Refusals::default();
        for reason in RefusalReason::ALL {
            assert!(!reason.cure().is_empty());
            refusals.count(&one(reason, 1), 0);
        }
        assert!(refusals.counts().all(|(_, count)| count == 1));
    }

    #[test]
    fn every_reason_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/opentsdb.md");
        let text = std::fs::read_to_string(path).unwrap();
        for reason in RefusalReason::ALL {
            let name = format!("`{}`", reason.name());
            assert!(text.contains(&name), "{path} does not have {name}");
        }
    }

    #[test]
    fn a_reason_is_logged_once_a_minute_with_what_came_since() {
        let refusals = Refusals::default();
        let metric = one(RefusalReason::UnknownMetric, 3);
        let tags = one(RefusalReason::TooManyTags, 1);
        for (refused, at_ms, expected) in [
            (&metric, 1_000, Some(3)),
            (&metric, 1_001, None),
            // Others have a minute of their own.
            (&tags, 1_002, Some(1)),
            (&metric, 60_999, None),
            (&metric, 61_000, Some(9)),
            (&metric, 61_001, None),
            (&tags, 300_000, Some(1)),
        ] {
            assert_eq!(refusals.count(refused, at_ms), expected, "{at_ms}");
        }
        let counts: Vec<_> = refusals.counts().filter(|(_, count)| *count > 0).collect();
        assert_eq!(
            counts,
            [
                (RefusalReason::UnknownMetric, 15),
                (RefusalReason::TooManyTags, 2)
            ]
        );
    }

    #[test]
    fn a_tally_keeps_the_first_example_and_little_of_it() {
        let mut tally = RefusalTally::default();
        let reason = RefusalReason::InvalidNumber;
        tally.add(reason, 1, || "first".into(), || "x".repeat(10_000) + "\n");
        tally.add(reason, 2, || panic!("not made"), || panic!("not made"));
        let mut other = RefusalTally::default();
        other.add(reason, 3, || "second".into(), String::new);
        tally.append(other);
        let [refused] = &tally.0[..] else {
            panic!("{tally:?}")
        };
        assert_eq!((refused.count, refused.cause.as_str()), (6, "first"));
        assert_eq!(refused.example.chars().count(), SHOWN_CHARS_MAX + 1);
        assert!(refused.example.ends_with("x…"));
        assert_eq!(shown("put a\n"), "put a");
    }
}
