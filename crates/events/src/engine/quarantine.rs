//! Quarantine and dead letters: what came and could not be stored, for people to look at.
//!
//! Holds always:
//! - Each list has its newest entries, up to limits of their number, bytes and age.
//! - Payloads are kept only where the settings say so, because no masking rule is known for them.
//! - An entry leaves the quarantine when its event is stored, and not before.

use std::borrow::Cow;

use bytes::Bytes;
use icecore_model::event::{EventBatch, EventId, EventSnapshot};
use icecore_model::{CatalogChange, CatalogRecord, StoreError};
use serde_json::{Map as JsonMap, Value as Json, json};

use super::accept::unavailable;
use super::file_list::all_records;
use super::listed::{Entries, LISTED_MS, ListLimits, ListPage, read_page};
use super::publish::Quarantined;
use super::{Engine, Events, PublishStatus};
use crate::envelope::Inherited;
use crate::prepare::NestedIn;
use crate::{Envelope, Problem, UnconfiguredEvent, UnconfiguredReason, catalog_key};
use crate::{event_id_text, parse_envelope, parse_event_id};

/// An event whose service or type is not registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantineEntry {
    /// Grows from entry to entry.
    pub number: u64,
    pub service: String,
    pub event_type: String,
    pub event_id: EventId,
    pub started_ns: i64,
    pub received_ns: i64,
    /// For example `UNCONFIGURED_EVENT_TYPE`.
    pub reason: String,
    /// Of the JSON that it came as.
    pub bytes: u64,
    pub payload: Option<String>,
    /// What a nested event has from its parent, kept with the payload.
    nested_in: Option<Json>,
}

/// A body that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Grows from entry to entry.
    pub number: u64,
    /// For example `REST_PUBLISH_ONE`.
    pub source: String,
    /// For example `JSON_PARSE_ERROR`.
    pub reason: String,
    pub detail: String,
    pub received_ns: i64,
    pub bytes: u64,
    pub payload: Option<String>,
}

/// How publishing from the quarantine has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// Entries that are stored now, or had been stored meanwhile.
    pub stored: usize,
    /// Entries that stay: without a payload, of types that are still unknown, or rejected.
    pub remaining: usize,
}

/// A payload longer than this is cut off: it is for people, and cannot be published again.
const PAYLOAD_BYTES_MAX: usize = 256 << 10;

/// Both lists.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    quarantine: Entries,
    dead_letters: Entries,
}

impl Lists {
    pub(super) async fn load(
        snapshot: &dyn EventSnapshot,
        guarded_ms: i64,
    ) -> Result<Self, StoreError> {
        let load = |key, keys| Entries::load(snapshot, key, keys, guarded_ms);
        Ok(Self {
            quarantine: load(catalog_key::quarantine, catalog_key::every_quarantine()).await?,
            dead_letters: load(catalog_key::dead_letter, catalog_key::every_dead_letter()).await?,
        })
    }
}

impl QuarantineEntry {
    pub(super) fn new(event: &UnconfiguredEvent<'_>, now_ns: i64, keep_payload: bool) -> Self {
        let keeps = keep_payload && event.text.len() <= PAYLOAD_BYTES_MAX && !event.text.is_empty();
        let nested_in = event.nested_in.as_ref().filter(|_| keeps);
        Self {
            number: 0,
            service: event.service.to_string(),
            event_type: event.event_type.to_string(),
            event_id: event.id,
            started_ns: event.started_ns,
            received_ns: now_ns,
            reason: event.reason.name().to_owned(),
            bytes: event.text.len() as u64,
            payload: keeps.then(|| event.text.to_string()),
            nested_in: nested_in.map(nested_in_json),
        }
    }

    fn encode(&self, listed_ms: i64) -> Vec<u8> {
        let entry = json!({
            LISTED_MS: listed_ms,
            "service": self.service,
            "event_type": self.event_type,
            "event_id": event_id_text(self.event_id),
            "started_ns": self.started_ns,
            "received_ns": self.received_ns,
            "reason": self.reason,
            "bytes": self.bytes,
            "payload": self.payload,
            "nested_in": self.nested_in,
        });
        entry.to_string().into_bytes()
    }

    fn decode((key, value): &CatalogRecord) -> Option<Self> {
        let entry: Json = serde_json::from_slice(value).ok()?;
        Some(Self {
            number: catalog_key::read_listed(key)?,
            service: text(&entry, "service")?,
            event_type: text(&entry, "event_type")?,
            event_id: parse_event_id(entry["event_id"].as_str()?)?,
            started_ns: entry["started_ns"].as_i64()?,
            received_ns: entry["received_ns"].as_i64()?,
            reason: text(&entry, "reason")?,
            bytes: entry["bytes"].as_u64()?,
            payload: text(&entry, "payload"),
            nested_in: entry
                .get("nested_in")
                .filter(|kept| kept.is_object())
                .cloned(),
        })
    }

    /// The envelope to be published, with the identity that the event was given. A nested event is
    /// what it would have been with its parent.
    fn envelope(&self) -> Option<Envelope<'static>> {
        let mut document: Json = serde_json::from_str(self.payload.as_deref()?).ok()?;
        let fields = document.as_object_mut()?;
        fields.insert("eventId".into(), event_id_text(self.event_id).into());
        let is_nested = self.reason == UnconfiguredReason::NestedEventType.name();
        if is_nested {
            self.complete(fields);
        }
        let text = document.to_string();
        let mut envelope = parse_envelope(text.as_bytes()).ok()?.into_owned();
        if is_nested {
            envelope.started_ns = self.started_ns;
            // Nested events have no resource of their own.
            envelope.resource = Cow::default();
            envelope.inherited = self.inherited();
        }
        Some(envelope)
    }

    /// Adds what an envelope must have to the fields of a nested event, and what its parent had.
    fn complete(&self, fields: &mut JsonMap<String, Json>) {
        let mut event = json!({ "name": self.event_type });
        if let Some(kind) = fields.remove("kind") {
            event["kind"] = kind;
        }
        fields.remove("name");
        // What is nested in it is stored, or has an entry of its own.
        fields.remove("events");
        fields.insert("event".into(), event);
        let service = json!({ "service": { "id": self.service } });
        fields.insert("resource".into(), service);
        let has_start = ["startedAt", "startUnixNano"].iter().any(|name| {
            let start = fields.get("time").and_then(|time| time.get(name));
            start.is_some_and(|start| !start.is_null())
        });
        if !has_start {
            fields.insert("startUnixNano".into(), self.started_ns.into());
        }
        if let Some(kept) = &self.nested_in {
            for name in ["trace", "synthetic"] {
                fields.insert(name.into(), kept[name].clone());
            }
        }
    }

    fn inherited(&self) -> Option<Inherited> {
        let kept = self.nested_in.as_ref()?;
        Some(Inherited {
            parent: parse_event_id(kept["parent"].as_str()?)?,
            ended_ns: kept["ended_ns"].as_i64(),
            duration_ns: kept["duration_ns"].as_i64(),
        })
    }
}

fn nested_in_json(nested_in: &NestedIn<'_>) -> Json {
    json!({
        "parent": event_id_text(nested_in.inherited.parent),
        "ended_ns": nested_in.inherited.ended_ns,
        "duration_ns": nested_in.inherited.duration_ns,
        "synthetic": nested_in.synthetic,
        "trace": {
            "traceId": nested_in.trace_id.map(|id| hex(&id)),
            "spanId": nested_in.span_id.map(|id| hex(&id)),
            "parentSpanId": nested_in.parent_span_id.map(|id| hex(&id)),
            "correlationId": nested_in.correlation_id,
        },
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(entry: &Json, field: &str) -> Option<String> {
    entry[field].as_str().map(str::to_owned)
}

impl DeadLetter {
    pub(super) fn new(source: &str, reason: &str, detail: &str, body: &Bytes) -> Self {
        let shown = &body[..body.len().min(PAYLOAD_BYTES_MAX)];
        Self {
            number: 0,
            source: source.to_owned(),
            reason: reason.to_owned(),
            detail: detail.to_owned(),
            received_ns: 0,
            bytes: body.len() as u64,
            payload: Some(String::from_utf8_lossy(shown).into_owned()),
        }
    }

    fn encode(&self, listed_ms: i64) -> Vec<u8> {
        let letter = json!({
            LISTED_MS: listed_ms,
            "source": self.source,
            "reason": self.reason,
            "detail": self.detail,
            "received_ns": self.received_ns,
            "bytes": self.bytes,
            "payload": self.payload,
        });
        letter.to_string().into_bytes()
    }

    fn decode((key, value): &CatalogRecord) -> Option<Self> {
        let letter: Json = serde_json::from_slice(value).ok()?;
        Some(Self {
            number: catalog_key::read_listed(key)?,
            source: text(&letter, "source")?,
            reason: text(&letter, "reason")?,
            detail: text(&letter, "detail")?,
            received_ns: letter["received_ns"].as_i64()?,
            bytes: letter["bytes"].as_u64()?,
            payload: text(&letter, "payload"),
        })
    }
}

impl Engine {
    pub(super) async fn add_to_quarantine(&self, entries: Vec<Quarantined>) -> Result<(), Problem> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut lists = self.lists.lock().await;
        let listed_ms = self.listed_ms();
        let values = entries.iter().map(|new| new.entry.encode(listed_ms));
        self.add_to(&mut lists.quarantine, values.collect(), listed_ms)
            .await
    }

    pub(super) async fn add_dead_letter(&self, mut letter: DeadLetter) -> Result<(), Problem> {
        let mut lists = self.lists.lock().await;
        letter.received_ns = self.clock.now_ms().saturating_mul(1_000_000);
        if !self.options.keep_payload {
            letter.payload = None;
            // A message about JSON quotes what it has found.
            letter.detail = letter.reason.clone();
        }
        let listed_ms = self.listed_ms();
        let values = vec![letter.encode(listed_ms)];
        self.add_to(&mut lists.dead_letters, values, listed_ms)
            .await
    }

    async fn add_to(
        &self,
        entries: &mut Entries,
        values: Vec<Vec<u8>>,
        listed_ms: i64,
    ) -> Result<(), Problem> {
        let limits = ListLimits {
            entries: self.options.max_quarantine,
            bytes: self.options.max_quarantine_bytes,
        };
        let (changes, removed) = entries.add(values, listed_ms, limits);
        let written = self.write_records(changes).await;
        if written.is_err() {
            entries.put_back(&removed);
        }
        written
    }

    /// Returns the time at which an entry is listed now. After a long stop the guarded clock lags,
    /// and catches up ten times as fast as time passes: entries would go too early.
    fn listed_ms(&self) -> i64 {
        self.store.guarded_ms().max(self.clock.now_ms())
    }

    /// Removes entries that were listed too long ago, and returns their number.
    pub(super) async fn expire_lists(&self, now_ms: i64) -> Result<usize, Problem> {
        let kept_ms = self.options.quarantine_ttl.as_millis();
        let before_ms = now_ms.saturating_sub(i64::try_from(kept_ms).unwrap_or(i64::MAX));
        let mut lists = self.lists.lock().await;
        let Lists {
            quarantine,
            dead_letters,
        } = &mut *lists;
        let mut expired = 0;
        for entries in [quarantine, dead_letters] {
            let (changes, removed) = entries.expire(before_ms);
            if removed.is_empty() {
                continue;
            }
            let written = self.write_records(changes).await;
            if written.is_err() {
                entries.put_back(&removed);
            }
            written?;
            expired += removed.len();
        }
        Ok(expired)
    }

    async fn write_records(&self, records: Vec<CatalogChange>) -> Result<(), Problem> {
        let batch = EventBatch {
            records,
            ..EventBatch::default()
        };
        self.store.write(batch).await.map_err(unavailable)
    }
}

impl Events {
    /// Whether there are events of unknown services and types.
    pub async fn has_quarantined(&self) -> bool {
        !self.engine.lists.lock().await.quarantine.is_empty()
    }

    /// Events of unknown services and types, newest first: those with smaller numbers than `below`.
    pub async fn quarantine(
        &self,
        below: Option<u64>,
        limit: usize,
    ) -> Result<ListPage<QuarantineEntry>, Problem> {
        let (snapshot, lists) = self.lists().await?;
        let page = read_page(
            &*snapshot,
            &lists.quarantine,
            below,
            limit,
            QuarantineEntry::decode,
        );
        page.await.map_err(Problem::from_store)
    }

    /// Bodies that could not be read, newest first: those with smaller numbers than `below`.
    pub async fn dead_letters(
        &self,
        below: Option<u64>,
        limit: usize,
    ) -> Result<ListPage<DeadLetter>, Problem> {
        let (snapshot, lists) = self.lists().await?;
        let page = read_page(
            &*snapshot,
            &lists.dead_letters,
            below,
            limit,
            DeadLetter::decode,
        );
        page.await.map_err(Problem::from_store)
    }

    /// A state of the store, and the lists of that time.
    async fn lists(&self) -> Result<(Box<dyn EventSnapshot>, Lists), Problem> {
        let lists = self.engine.lists.lock().await;
        let snapshot = self.engine.store.snapshot().await;
        Ok((snapshot.map_err(Problem::from_store)?, lists.clone()))
    }

    /// Publishes what is in quarantine and has become known, oldest first.
    pub async fn replay_quarantine(&self) -> Result<ReplayReport, Problem> {
        let mut report = ReplayReport::default();
        let (snapshot, lists) = self.lists().await?;
        let mut done = 0;
        while let Some((keys, last)) = lists.quarantine.oldest_above(done) {
            done = last;
            let records = all_records(&*snapshot, keys).await;
            let records = records.map_err(Problem::from_store)?;
            for entry in records.iter().filter_map(QuarantineEntry::decode) {
                if self.replay(&entry).await? {
                    report.stored += 1;
                } else {
                    report.remaining += 1;
                }
            }
        }
        Ok(report)
    }

    /// Publishes an entry. Whether it is stored now, and gone from the list.
    async fn replay(&self, entry: &QuarantineEntry) -> Result<bool, Problem> {
        let registry = self.registry();
        let known = registry.event_type(&entry.service, &entry.event_type);
        let Some(envelope) = known.and_then(|_| entry.envelope()) else {
            return Ok(false);
        };
        match self.publish_envelope(envelope).await {
            Ok(published) if published.status == PublishStatus::Unconfigured => Ok(false),
            Ok(_) => {
                let mut lists = self.engine.lists.lock().await;
                let (change, removed) = lists.quarantine.remove(entry.number);
                let written = self.engine.write_records(vec![change]).await;
                if written.is_err() {
                    lists.quarantine.put_back(removed.as_slice());
                }
                written.map(|()| true)
            }
            Err(problem) if problem.status >= 500 => Err(problem),
            Err(_) => Ok(false),
        }
    }
}
