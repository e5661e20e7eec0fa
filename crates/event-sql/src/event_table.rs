//! Tables of events: all of them, or those of one type with columns of its attributes.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use icecore_event_files::event_schema;
use icecore_events::search::{RowFile, TailPart};
use icecore_events::{EventType, FileScan, Problem, Service, parse_event_id};
use icecore_model::event::Week;

use crate::event_batches::{EventBatches, FileRead, Selection};
use crate::pushdown::{condition, texts, time_range};
use crate::scanned::Scanned;
use crate::source::Source;
use crate::statement::external;

const STARTED_AT: &str = "started_at";

/// The number of services and types in files of events that no document names.
const UNREGISTERED: u32 = 0;

/// Events of all services, or of one type.
#[derive(Debug)]
pub(crate) struct EventTable {
    source: Source,
    event_type: Option<Arc<EventType>>,
    schema: SchemaRef,
    allow_full_scan: bool,
}

impl EventTable {
    pub(crate) fn new(
        source: Source,
        event_type: Option<Arc<EventType>>,
        allow_full_scan: bool,
    ) -> Self {
        let indexed = event_type
            .as_ref()
            .map(|event_type| event_type.indexed_fields());
        Self {
            source,
            schema: event_schema(&indexed.unwrap_or_default()),
            event_type,
            allow_full_scan,
        }
    }

    /// The files that filters leave, each with the time from which its events are kept.
    async fn candidates(
        &self,
        weeks: Range<Week>,
        filters: &[Expr],
    ) -> Result<Vec<(RowFile, i64)>, Problem> {
        let (registry, view) = (self.source.registry(), &self.source.view);
        if let Some(event_type) = &self.event_type {
            let Some(service) = registry.service(&event_type.service) else {
                return Ok(Vec::new());
            };
            let number = Some(event_type.number);
            let files = self.source.files(service.number, weeks, number).await?;
            let kept_ns = view.kept_from_ns(&event_type.service, &event_type.name);
            return Ok(files.into_iter().map(|file| (file, kept_ns)).collect());
        }
        let wanted = texts(filters, "service_id");
        let names = texts(filters, "event_type");
        let is_in = |list: &Option<Vec<&str>>, name: &str| {
            list.as_ref().is_none_or(|list| list.contains(&name))
        };
        let services = registry.services.iter();
        let services = services.filter(|(name, _)| is_in(&wanted, name));
        let mut services: Vec<(u32, Option<&Arc<Service>>)> = services
            .map(|(_, service)| (service.number, Some(service)))
            .collect();
        services.push((UNREGISTERED, None));
        let mut candidates = Vec::new();
        for (number, service) in services {
            let mut types = HashMap::new();
            for event_type in service.iter().flat_map(|service| service.types.values()) {
                types.insert(event_type.number, event_type);
            }
            for file in self.source.files(number, weeks.clone(), None).await? {
                // What no document names is kept, and may be what is asked for.
                match types.get(&file.event_type) {
                    None => candidates.push((file, i64::MIN)),
                    Some(known) if is_in(&names, &known.name) => {
                        candidates.push((file, view.kept_from_ns(&known.service, &known.name)));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(candidates)
    }

    async fn files(
        &self,
        started_ns: &Range<i64>,
        filters: &[Expr],
    ) -> Result<Vec<FileRead>, Problem> {
        let week = |at_ns: i64| Week::of(at_ns.div_euclid(1_000_000_000));
        let weeks = week(started_ns.start)..week(started_ns.end.saturating_sub(1)).next();
        let condition = condition(filters).map(Arc::new);
        let ids = texts(filters, "event_id");
        let event = match ids.as_deref() {
            Some([id]) => parse_event_id(id),
            _ => None,
        };
        let mut reads = Vec::new();
        for (file, kept_ns) in self.candidates(weeks, filters).await? {
            let range = started_ns.start.max(kept_ns)..started_ns.end;
            if file.min_started_ns < range.end && file.max_started_ns >= range.start {
                reads.push(FileRead {
                    file: file.bytes,
                    scan: FileScan {
                        started_ns: range,
                        newest_first: false,
                        event,
                        condition: condition.clone(),
                    },
                });
            }
        }
        Ok(reads)
    }

    fn tail(&self, started_ns: &Range<i64>) -> Vec<TailPart> {
        let view = &self.source.view;
        let event_type = self.event_type.as_ref();
        let service = event_type.map(|event_type| event_type.service.as_str());
        let name = event_type.map(|event_type| event_type.name.as_str());
        let mut parts = view.tail_parts(service, name);
        parts.retain(|part| {
            part.min_started_ns < started_ns.end && part.max_started_ns >= started_ns.start
        });
        parts
    }
}

#[async_trait]
impl Scanned for EventTable {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let started_ns = time_range(filters, STARTED_AT);
        if started_ns.is_none() && !self.allow_full_scan {
            let detail = "a query of events needs a bound on started_at";
            let problem = Problem::new(400, "sql.time-range-required", detail)
                .with_hint("WHERE started_at >= now() - INTERVAL '1 hour', or allowFullScan");
            return Err(external(problem));
        }
        let started_ns = started_ns.unwrap_or(i64::MIN..i64::MAX);
        let schema = match projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => self.schema.clone(),
        };
        let files = self.files(&started_ns, filters).await;
        let files = files.map_err(external)?;
        // Files are dealt out to the threads of the query; the tail goes to the first.
        let partitions = state.config().target_partitions().max(1);
        let mut dealt: Vec<Vec<FileRead>> = (0..partitions).map(|_| Vec::new()).collect();
        for (at, file) in files.into_iter().enumerate() {
            dealt[at % partitions].push(file);
        }
        let selection = Arc::new(Selection {
            event_type: self.event_type.clone(),
            started_ns: started_ns.clone(),
        });
        let mut tail = self.tail(&started_ns);
        let streams = dealt.into_iter().map(|files| {
            let batches = EventBatches {
                source: self.source.clone(),
                schema: schema.clone(),
                files,
                tail: std::mem::take(&mut tail),
                selection: selection.clone(),
            };
            Arc::new(batches) as Arc<dyn PartitionStream>
        });
        let streams = streams.collect();
        let plan = StreamingTableExec::try_new(schema.clone(), streams, None, [], false, limit)?;
        Ok(Arc::new(plan))
    }
}
