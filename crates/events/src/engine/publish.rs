//! Publishing: from the bytes of a request to its answer.
//!
//! ```text
//! bytes ─► envelopes ─► judged by the registry, each ─► stored │ duplicate │ unconfigured │ …
//!          └─ a thread of its own ─┘                    └ one block for all that are stored
//! ```
//!
//! Holds always:
//! - Items are judged one by one; of an atomic request nothing is stored if one is rejected.
//! - A request is under way from its judgement to its answer: the registry does not change between.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use icecore_model::event::EventId;

use super::accept::unavailable;
use super::not_registered::{NotRegistered, UnknownTypes};
use super::prepared::{PreparedBlock, Preparing, day_of, on_cpu};
use super::quarantine::{DeadLetter, QuarantineEntry};
use super::{Engine, Events, Unconfigured};
use crate::{
    Envelope, PrepareContext, Prepared, Problem, Registry, StoredEvent, UnconfiguredEvent,
    event_id_text, parse_batch, parse_envelope, prepare,
};

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishStatus {
    Stored,
    Duplicate,
    Unconfigured,
    Ignored,
}

impl PublishStatus {
    /// As answers have it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Duplicate => "duplicate",
            Self::Unconfigured => "unconfigured",
            Self::Ignored => "ignored",
        }
    }
}

/// The answer to a request with one envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    pub status: PublishStatus,
    pub event_id: EventId,
    /// Types that are not registered, of the event itself and of those nested in it: some of them,
    /// if they are many.
    pub not_registered: Vec<NotRegistered>,
}

/// The answer to a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchOutcome {
    pub received: usize,
    pub stored: usize,
    pub duplicates: usize,
    pub unconfigured: usize,
    pub ignored: usize,
    pub rejected: Vec<RejectedItem>,
    /// Types that are not registered: some of them, if they are many.
    pub not_registered: Vec<NotRegistered>,
    /// Nothing was taken: every item was rejected, or one of an atomic request. The answer is 400.
    pub is_refused: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedItem {
    pub index: usize,
    /// As it was sent.
    pub event_id: Option<String>,
    pub problem: Problem,
}

/// Where envelopes come from.
#[derive(Clone)]
enum Source {
    One(Bytes),
    Batch(Bytes),
    Envelopes(Arc<Vec<Envelope<'static>>>),
}

/// A request that was judged.
struct Judged {
    items: Vec<Item>,
    prepared: Option<PreparedBlock>,
    preparing: Preparing,
    quarantine: Vec<Quarantined>,
    unknown: UnknownTypes,
}

/// An event for the quarantine.
pub(super) struct Quarantined {
    /// The group of the envelope that it was nested in; none if it was an envelope itself.
    pub(super) group: Option<usize>,
    pub(super) entry: QuarantineEntry,
}

struct Item {
    id: Option<EventId>,
    id_text: Option<String>,
    verdict: Verdict,
}

enum Verdict {
    /// The number of its group among those that are stored.
    New(usize),
    Unconfigured,
    Ignored,
    Rejected(Problem),
}

impl Events {
    /// Publishes one envelope. The answer comes when the event is durable.
    pub async fn publish(&self, body: Bytes) -> Result<Published, Problem> {
        self.publish_one(Source::One(body)).await
    }

    /// Publishes one envelope that came before.
    pub(super) async fn publish_envelope(
        &self,
        envelope: Envelope<'static>,
    ) -> Result<Published, Problem> {
        let source = Source::Envelopes(Arc::new(vec![envelope]));
        self.publish_one(source).await
    }

    async fn publish_one(&self, source: Source) -> Result<Published, Problem> {
        let answers = self.publish_source(source, false).await?;
        let not_registered = answers.not_registered;
        let answer = answers.items.into_iter().next();
        match answer {
            Some(Ok((status, event_id))) => Ok(Published {
                status,
                event_id,
                not_registered,
            }),
            Some(Err(rejected)) => Err(rejected.problem),
            None => Err(Problem::new(400, "ingest.invalid-body", "no envelope")),
        }
    }

    /// Publishes an array of envelopes.
    pub async fn publish_batch(&self, body: Bytes, atomic: bool) -> Result<BatchOutcome, Problem> {
        let answers = self.publish_source(Source::Batch(body), atomic).await?;
        Ok(BatchOutcome::of(answers, atomic))
    }

    /// Publishes envelopes that came in another way.
    pub async fn publish_envelopes(
        &self,
        envelopes: Vec<Envelope<'static>>,
        atomic: bool,
    ) -> Result<BatchOutcome, Problem> {
        let source = Source::Envelopes(Arc::new(envelopes));
        let answers = self.publish_source(source, atomic).await?;
        Ok(BatchOutcome::of(answers, atomic))
    }

    /// In a task of its own: it goes on when nobody waits for the answer any more.
    async fn publish_source(&self, source: Source, atomic: bool) -> Result<Answers, Problem> {
        let events = self.clone();
        let task = tokio::spawn(async move { events.publish_task(source, atomic).await });
        task.await.map_err(super::stopped)?
    }

    async fn publish_task(&self, source: Source, atomic: bool) -> Result<Answers, Problem> {
        let engine = &self.engine;
        let _bytes = engine.take_memory(source.bytes())?;
        let mut under_way = engine.undecided.or(engine.accepting.read()).await?;
        engine.check_open()?;
        let mut judged = engine.judge(&source).await?;
        if engine.options.unconfigured == Unconfigured::Accept && !judged.unknown.is_empty() {
            drop(under_way);
            self.register_types(judged.unknown.names()).await?;
            under_way = engine.undecided.or(engine.accepting.read()).await?;
            judged = engine.judge(&source).await?;
        }
        let answers = engine.store_judged(judged, atomic).await;
        drop(under_way);
        answers
    }
}

impl Source {
    fn bytes(&self) -> usize {
        /// About what an envelope takes that did not come as text.
        const ENVELOPE_BYTES: usize = 1024;
        match self {
            Self::One(body) | Self::Batch(body) => body.len(),
            Self::Envelopes(envelopes) => {
                let bytes = envelopes.iter().map(|one| one.body.text.len());
                bytes.map(|bytes| bytes.max(ENVELOPE_BYTES)).sum()
            }
        }
    }
}

/// The answers to the items of a request.
struct Answers {
    items: Vec<Answer>,
    not_registered: Vec<NotRegistered>,
}

type Answer = Result<(PublishStatus, EventId), RejectedItem>;

impl BatchOutcome {
    fn of(answers: Answers, atomic: bool) -> Self {
        let mut outcome = Self {
            received: answers.items.len(),
            not_registered: answers.not_registered,
            ..Self::default()
        };
        for answer in answers.items {
            match answer.map(|(status, _)| status) {
                Ok(PublishStatus::Stored) => outcome.stored += 1,
                Ok(PublishStatus::Duplicate) => outcome.duplicates += 1,
                Ok(PublishStatus::Unconfigured) => outcome.unconfigured += 1,
                Ok(PublishStatus::Ignored) => outcome.ignored += 1,
                Err(rejected) => outcome.rejected.push(rejected),
            }
        }
        let rejected = outcome.rejected.len();
        outcome.is_refused = rejected > 0 && (atomic || rejected == outcome.received);
        if outcome.is_refused {
            outcome.stored = 0;
            outcome.duplicates = 0;
            outcome.unconfigured = 0;
            outcome.ignored = 0;
            outcome.not_registered.clear();
        }
        outcome
    }
}

impl Engine {
    async fn judge(self: &Arc<Self>, source: &Source) -> Result<Judged, Problem> {
        let (engine, read) = (self.clone(), source.clone());
        let judged = on_cpu(move || engine.judge_source(&read)).await;
        let judged = judged.map_err(unavailable)?;
        if let Err(problem) = &judged
            && let Some(letter) = dead_letter(source, problem)
        {
            self.add_dead_letter(letter).await?;
        }
        judged
    }

    /// Reads, checks, masks, encodes and folds. CPU work.
    fn judge_source(&self, source: &Source) -> Result<Judged, Problem> {
        let (registry, preparing) = {
            let memory = self.memory.lock();
            let preparing = Preparing {
                registry_version: memory.registry.version,
                plan: memory.plan.clone(),
                max_future_ns: self.options.max_future_ns(),
                day: day_of(self.store.guarded_ms()),
            };
            (memory.registry.clone(), preparing)
        };
        let mut judging = Judging::new(self, &registry);
        match source {
            Source::One(body) => judging.item(None, parse_envelope(body)?),
            Source::Batch(body) => {
                for item in parse_batch(body)? {
                    let id_text = item.event_id.map(|id| id.into_owned());
                    match item.envelope {
                        Ok(envelope) => judging.item(id_text, envelope),
                        Err(problem) => judging.reject(id_text, problem),
                    }
                }
            }
            Source::Envelopes(envelopes) => {
                for envelope in envelopes.iter() {
                    let id_text = envelope.id.map(event_id_text);
                    judging.item(id_text, envelope.clone());
                }
            }
        }
        Ok(judging.finish(preparing))
    }

    async fn store_judged(
        self: &Arc<Self>,
        judged: Judged,
        atomic: bool,
    ) -> Result<Answers, Problem> {
        let is_rejected = |item: &Item| matches!(item.verdict, Verdict::Rejected(_));
        let is_refused = atomic && judged.items.iter().any(is_rejected);
        let mut is_duplicate = Vec::new();
        if !is_refused {
            is_duplicate = match judged.prepared {
                Some(prepared) => {
                    let (preparing, quarantine) = (judged.preparing, judged.quarantine);
                    self.store_prepared(preparing, prepared, quarantine).await?
                }
                None => {
                    self.add_to_quarantine(judged.quarantine).await?;
                    Vec::new()
                }
            };
        }
        let answers = judged.items.into_iter().enumerate().map(|(index, item)| {
            let status = match item.verdict {
                Verdict::New(group) if is_duplicate.get(group) == Some(&true) => {
                    Ok(PublishStatus::Duplicate)
                }
                Verdict::New(_) => Ok(PublishStatus::Stored),
                Verdict::Unconfigured => Ok(PublishStatus::Unconfigured),
                Verdict::Ignored => Ok(PublishStatus::Ignored),
                Verdict::Rejected(problem) => Err(RejectedItem {
                    index,
                    event_id: item.id_text,
                    problem,
                }),
            };
            status.map(|status| (status, item.id.unwrap_or_default()))
        });
        let items: Vec<Answer> = answers.collect();
        if !is_refused {
            self.count_answers(&items);
            self.logged_types.log(&judged.unknown);
        }
        Ok(Answers {
            items,
            not_registered: judged.unknown.answered(),
        })
    }

    fn count_answers(&self, answers: &[Answer]) {
        for answer in answers {
            let status = answer.as_ref().map(|(status, _)| *status);
            let counter = match status {
                Ok(PublishStatus::Stored) => &self.metrics.stored,
                Ok(PublishStatus::Duplicate) => &self.metrics.duplicates,
                Ok(PublishStatus::Unconfigured) => &self.metrics.unconfigured,
                Ok(PublishStatus::Ignored) => &self.metrics.ignored,
                Err(_) => &self.metrics.rejected,
            };
            counter.add(1);
        }
    }

    /// Reserves memory for the bytes of a request; refuses it if there is none.
    fn take_memory(self: &Arc<Self>, bytes: usize) -> Result<RequestBytes, Problem> {
        let taken = RequestBytes {
            engine: self.clone(),
            bytes,
        };
        let requests = self.request_bytes.fetch_add(bytes, Relaxed) + bytes;
        let memory = self.memory.lock().bytes();
        if requests.saturating_add(memory) > self.options.memory_limit {
            self.metrics.refused.add(1);
            // Files free memory.
            self.seal_wanted.notify_one();
            let detail = "too many events are on their way into the store";
            let problem = Problem::new(503, "ingest.unavailable", detail);
            return Err(problem.with_hint("send the request again in a few seconds"));
        }
        Ok(taken)
    }
}

/// Memory that a request takes while it is under way.
struct RequestBytes {
    engine: Arc<Engine>,
    bytes: usize,
}

impl Drop for RequestBytes {
    fn drop(&mut self) {
        self.engine.request_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

/// A request while it is judged.
struct Judging<'a, 'e> {
    engine: &'e Engine,
    registry: &'e Registry,
    context: PrepareContext<'e>,
    events: Vec<StoredEvent<'a>>,
    groups: Vec<std::ops::Range<usize>>,
    items: Vec<Item>,
    quarantine: Vec<Quarantined>,
    unknown: UnknownTypes,
}

impl<'a, 'e> Judging<'a, 'e> {
    fn new(engine: &'e Engine, registry: &'e Registry) -> Self {
        let context = PrepareContext {
            now_ns: engine.clock.now_ms().saturating_mul(1_000_000),
            guarded_ns: engine.store.guarded_ms().saturating_mul(1_000_000),
            max_future_skew: engine.options.max_future_skew,
            masking_key: engine.options.masking_key.as_ref(),
            ids: &engine.ids,
        };
        Self {
            engine,
            registry,
            context,
            events: Vec::new(),
            groups: Vec::new(),
            items: Vec::new(),
            quarantine: Vec::new(),
            unknown: UnknownTypes::default(),
        }
    }

    fn item(&mut self, id_text: Option<String>, envelope: Envelope<'a>) {
        let (id, verdict) = match prepare(envelope, self.registry, &self.context) {
            Err(problem) => return self.reject(id_text, problem),
            Ok(Prepared::Ignored { id }) => (id, Verdict::Ignored),
            Ok(Prepared::Unconfigured { event, .. }) => {
                if self.engine.options.unconfigured == Unconfigured::Reject {
                    return self.reject(id_text, event_type_missing(&event));
                }
                self.unconfigured(&event, None);
                (event.id, Verdict::Unconfigured)
            }
            Ok(Prepared::Stored(family)) => {
                let group = self.groups.len();
                for event in &family.unconfigured {
                    self.unconfigured(event, Some(group));
                }
                let from = self.events.len();
                let events = family.events.into_iter().map(|prepared| prepared.event);
                self.events.extend(events);
                self.groups.push(from..self.events.len());
                (self.events[from].id, Verdict::New(group))
            }
        };
        self.items.push(Item {
            id: Some(id),
            id_text,
            verdict,
        });
    }

    fn reject(&mut self, id_text: Option<String>, problem: Problem) {
        self.items.push(Item {
            id: None,
            id_text,
            verdict: Verdict::Rejected(problem),
        });
    }

    fn unconfigured(&mut self, event: &UnconfiguredEvent<'_>, group: Option<usize>) {
        let keep_payload = self.engine.options.keep_payload;
        let entry = QuarantineEntry::new(event, self.context.now_ns, keep_payload);
        let name = (event.service.to_string(), event.event_type.to_string());
        self.unknown.add(name, entry.payload.is_some());
        self.quarantine.push(Quarantined { group, entry });
    }

    fn finish(self, preparing: Preparing) -> Judged {
        let has_events = !self.events.is_empty();
        let prepared = has_events.then(|| preparing.prepare(&self.events, self.groups));
        Judged {
            items: self.items,
            prepared,
            preparing,
            quarantine: self.quarantine,
            unknown: self.unknown,
        }
    }
}

fn event_type_missing(event: &UnconfiguredEvent<'_>) -> Problem {
    Problem::new(
        400,
        "ingest.event-type-missing",
        format!(
            "type {} of service {} is not registered",
            event.event_type, event.service
        ),
    )
}

/// What is kept of a body that could not be read at all.
fn dead_letter(source: &Source, problem: &Problem) -> Option<DeadLetter> {
    let (body, source) = match source {
        Source::One(body) => (body, "REST_PUBLISH_ONE"),
        Source::Batch(body) => (body, "REST_PUBLISH_BATCH"),
        Source::Envelopes(_) => return None,
    };
    let reason = match problem.code {
        "ingest.invalid-json" => "JSON_PARSE_ERROR",
        "ingest.invalid-body" => "INVALID_BATCH_PAYLOAD",
        _ => return None,
    };
    Some(DeadLetter::new(source, reason, &problem.detail, body))
}
