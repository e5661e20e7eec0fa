//! The engine of events on the real storage and real Parquet, over an object store that fails, and
//! processes that lose power: nested events, states, gauges with times of their own.
//!
//! Whatever happens, cells of all windows are those of the events that can be read, each event can
//! be read once, and every acknowledged one can. A failing seed is printed;
//! `ICECORE_EVENTS_SEED=n` repeats it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use icecore_event_files::Parquet;
use icecore_events::{
    Documents, EventOptions, Events, EventsView, FileScan, Problem, Scalar, StoredEvent, Value,
    event_id_text, parse_event_id,
};
use icecore_model::ManualClock;
use icecore_model::event::{Cell, CellScan, EventId, EventWindow};
use icecore_storage::testing::{FaultPlan, FaultStore};
use icecore_storage::{Database, Environment, Options};
use serde_json::{Value as Json, json};
use tokio::runtime::Runtime;

const SEEDS: u64 = 4;
const LIVES: u64 = 4;
const STEPS: u64 = 14;

/// Different events that there are.
const POOL: u64 = 36;

/// Monday, 2026-11-09T11:00:00Z.
const NOW_MS: i64 = 1_794_222_000_000;

/// How long something that was under way may go on when the power is off.
const PATIENCE: Duration = Duration::from_millis(50);

const DOCUMENTS: &str = r#"
apiVersion: obsinity/v1
kind: Event
metadata: { service: shop, name: order.updated }
spec:
  schema:
    type: object
    properties:
      order:
        type: object
        properties:
          id: { type: string, index: true }
          channel: { type: string, index: true }
          status: { type: string, index: true }
          total: { type: number }
      stock:
        type: object
        properties:
          level: { type: integer }
          seen_at: { type: timestamp }
---
apiVersion: obsinity/v1
kind: Event
metadata: { service: shop, name: payment }
spec: {}
---
apiVersion: obsinity/v1
kind: MetricCounter
metadata: { service: shop, event: order.updated, name: orders }
spec: { key: { dimensions: [order.channel] } }
---
apiVersion: obsinity/v1
kind: MetricCounter
metadata: { service: shop, event: payment, name: payments }
spec: {}
---
apiVersion: obsinity/v1
kind: MetricHistogram
metadata: { service: shop, event: order.updated, name: totals }
spec:
  value: order.total
  key: { dimensions: [order.channel] }
  buckets: { strategy: custom, bounds: [10, 20] }
---
apiVersion: obsinity/v1
kind: MetricGauge
metadata: { service: shop, event: order.updated, name: stock }
spec:
  value: stock.level
  reducer: latest
  observedAt: stock.seen_at
  key: { dimensions: [order.channel] }
---
apiVersion: obsinity/v1
kind: StateExtractors
metadata: { service: shop }
spec:
  stateExtractors:
    - rawType: order.updated
      objectType: Order
      objectIdField: order.id
      stateAttributes: [order.status]
"#;

#[test]
fn every_event_counts_once_on_a_store_that_fails() {
    let seed = std::env::var("ICECORE_EVENTS_SEED").ok();
    let seeds = match seed.and_then(|seed| seed.parse::<u64>().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..SEEDS,
    };
    for seed in seeds {
        let survived = std::panic::catch_unwind(|| run_seed(seed));
        assert!(survived.is_ok(), "ICECORE_EVENTS_SEED={seed} fails");
    }
}

/// Numbers that a seed decides.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// One life of the database and of the engine on it.
struct Process {
    runtime: Option<Runtime>,
    faults: FaultStore,
    events: Events,
    /// Open for as long as this lives.
    _database: Database,
}

impl Process {
    /// Starts with faults that are not enabled yet.
    fn start(directory: &Path, plan: FaultPlan) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let faults = FaultStore::local(directory, plan).unwrap();
        faults.set_enabled(false);
        let mut options = Options::default();
        options.store.location = directory.to_string_lossy().into_owned();
        options.store.fsync = false;
        options.store.take_over = true;
        options.journal.commit_interval = Some(Duration::ZERO);
        options.maintenance.enabled = false;
        let clock = Arc::new(ManualClock::at(NOW_MS));
        let environment = Environment {
            clock: Some(Arc::clone(&clock) as _),
            object_store: Some(Arc::new(faults.clone())),
        };
        let (events, database) = runtime.block_on(async {
            let database = Database::open(options, environment).await.unwrap();
            let options = EventOptions {
                // A few cells make a generation, and a few files are merged.
                max_keys: 12,
                merge_files: 2,
                ..EventOptions::default()
            };
            let opened = Events::open(database.events(), Arc::new(Parquet), clock, options);
            (opened.await.unwrap(), database)
        });
        Self {
            runtime: Some(runtime),
            faults,
            events,
            _database: database,
        }
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let runtime = self.runtime.as_ref().unwrap();
        runtime.block_on(work)
    }

    /// What comes of it; `None` when the power has gone meanwhile.
    fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Option<Result<T, Problem>> {
        let power_gone = async {
            while !self.faults.is_off() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::time::sleep(PATIENCE).await;
        };
        self.run(async {
            tokio::select! {
                done = work => Some(done),
                () = power_gone => None,
            }
        })
    }
}

/// As SIGKILL ends a process.
impl Drop for Process {
    fn drop(&mut self) {
        self.faults.power_off();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn id(number: u64) -> EventId {
    parse_event_id(&format!("0199a1c0-7d11-7a3e-9b44-{number:012x}")).unwrap()
}

/// The event of the pool with a number: always the same.
fn pooled(number: u64) -> Json {
    let n = i64::try_from(number).unwrap();
    // In one interval, in others of the minute, hour and day, and in the week before.
    let ago_s = [0, 3, 50, 2_000, 40_000, 6 * 86_400][number as usize % 6];
    let started_ns = (NOW_MS - 60_000 - n * 10) * 1_000_000 - ago_s * 1_000_000_000;
    let status = ["NEW", "PAID", "SENT"][(number / 5) as usize % 3];
    let nested: Vec<Json> = (0..number % 3)
        .map(|_| json!({ "name": "payment" }))
        .collect();
    json!({
        "eventId": event_id_text(id(number)),
        "resource": { "service": { "id": "shop" } },
        "event": { "name": "order.updated" },
        "startUnixNano": started_ns,
        "attributes": {
            "order": {
                "id": format!("o-{}", number % 5), "channel": (["web", "app"][number as usize % 2]),
                "status": status, "total": n % 30,
            },
            // Later than the start, and in another order.
            "stock": { "level": n, "seen_at": started_ns + (n * 7 % 11) * 1_000_000_000 },
        },
        "events": nested,
    })
}

#[derive(Default)]
struct Witness {
    published: BTreeSet<u64>,
    acknowledged: BTreeSet<u64>,
}

impl Witness {
    /// Publishes some events; `None` when the power has gone.
    fn publish(&mut self, process: &Process, numbers: &[u64]) -> Option<()> {
        let events: Vec<Json> = numbers.iter().map(|number| pooled(*number)).collect();
        let body = Bytes::from(json!(events).to_string());
        self.published.extend(numbers);
        if let Ok(outcome) = process.in_time(process.events.publish_batch(body, false))? {
            assert_eq!(outcome.stored + outcome.duplicates, numbers.len());
            self.acknowledged.extend(numbers);
        }
        Some(())
    }

    /// One step; `None` when the power has gone.
    fn step(&mut self, process: &Process, dice: &mut Dice) -> Option<()> {
        let events = &process.events;
        // A failure is fine: what it must not do is seen in the end.
        match dice.below(10) {
            0..=5 => {
                let numbers = (0..1 + dice.below(5)).map(|_| dice.below(POOL));
                let numbers: BTreeSet<u64> = numbers.collect();
                let numbers: Vec<u64> = numbers.into_iter().collect();
                return self.publish(process, &numbers);
            }
            6 | 7 => drop(process.in_time(events.flush())?),
            8 => drop(process.in_time(events.seal())?),
            _ => drop(process.in_time(events.merge_files())?),
        }
        Some(())
    }

    fn check(&self, process: &Process) {
        process.run(async {
            let view = process.events.view().await.unwrap();
            let stored = raw_events(&view).await;
            let ids: BTreeSet<EventId> = stored.iter().map(|event| event.id).collect();
            assert_eq!(ids.len(), stored.len(), "an event is there twice");
            for number in &self.acknowledged {
                assert!(ids.contains(&id(*number)), "event {number} is lost");
            }
            // What is nested is there with its parent, and not without it.
            for event in stored.iter().filter(|event| event.parent.is_none()) {
                let number = (0..POOL).find(|number| id(*number) == event.id);
                let number = number.expect("it was published");
                let nested = stored.iter().filter(|one| one.parent == Some(event.id));
                assert_eq!(nested.count() as u64, number % 3, "nested in {number}");
            }
            for window in EventWindow::ALL {
                let shown = shown_cells(&view, window).await;
                assert_eq!(shown, model(&stored, window), "{window:?}");
            }
            check_states(&view, &stored).await;
        });
    }
}

fn run_seed(seed: u64) {
    let mut dice = Dice(seed);
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut witness = Witness::default();
    let mut injected = 0;
    for life in 0..LIVES {
        let plan = FaultPlan {
            applied_but_error: 0.04,
            not_applied_and_error: 0.04,
            ..FaultPlan::quiet(seed * 100 + life)
        };
        let process = Process::start(directory, plan);
        if life == 0 {
            let documents = Documents::parse_yaml(DOCUMENTS).unwrap();
            process.run(process.events.apply(documents, false)).unwrap();
        }
        witness.check(&process);
        process.faults.set_enabled(true);
        let cut_after = dice.below(STEPS);
        for step in 0..STEPS {
            if step == cut_after {
                process.faults.power_off_after(dice.below(6) as usize);
            }
            if witness.step(&process, &mut dice).is_none() {
                break;
            }
        }
        let counts = process.faults.counts();
        injected += counts.applied_but_error + counts.not_applied;
    }
    assert!(injected > 0, "the store has not failed at all");
    let process = Process::start(directory, FaultPlan::quiet(0));
    witness.check(&process);
    // Whoever has no answer sends again.
    let all: Vec<u64> = witness.published.iter().copied().collect();
    assert!(all.len() > 10, "only {} events", all.len());
    witness.publish(&process, &all).unwrap();
    assert_eq!(witness.acknowledged, witness.published);
    witness.check(&process);
    process.run(process.events.seal()).unwrap();
    witness.check(&process);
    process.run(process.events.merge_files()).unwrap();
    witness.check(&process);
    process.run(process.events.close()).unwrap();
}

/// Events of files and of the tail.
async fn raw_events(view: &EventsView) -> Vec<StoredEvent<'static>> {
    let all = i64::MIN..i64::MAX;
    let tail = view.tail_events(None, None, &all).unwrap();
    let mut events: Vec<_> = tail.into_iter().map(StoredEvent::into_owned).collect();
    for file in view.all_files().await.unwrap() {
        let scan = FileScan {
            started_ns: all.clone(),
            newest_first: false,
            event: None,
            condition: None,
        };
        let mut rows = view.open_file(&file, scan).await.unwrap();
        while let Some(batch) = rows.next_batch().await.unwrap() {
            events.extend(batch);
        }
    }
    events
}

/// What a cell says: counts and sums are whole numbers here.
type Shown = BTreeMap<(String, i64, String), Vec<f64>>;

async fn shown_cells(view: &EventsView, window: EventWindow) -> Shown {
    let mut shown = Shown::new();
    for metric in view.registry().metrics() {
        if metric.name.starts_with("state_") {
            continue;
        }
        let sets = view.all_dimension_sets(metric.number).await.unwrap();
        let scan = CellScan {
            window,
            metric: metric.number,
            starts_s: i64::MIN..i64::MAX,
            after: None,
            limit: usize::MAX,
        };
        for cell in view.cells(scan).await.unwrap() {
            let set = sets.iter().find(|set| set.hash == cell.dimensions);
            let set = set.expect("cells have a set").values.iter();
            let set: Vec<&str> = set.map(|(_, value)| value.as_str()).collect();
            let values = match cell.cell {
                Cell::Counter(cell) => vec![cell.count as f64],
                Cell::Histogram(cell) => {
                    let counts = cell.counts.iter().map(|count| *count as f64);
                    counts.chain([cell.sum, cell.min, cell.max]).collect()
                }
                Cell::Gauge(cell) => vec![cell.value, cell.observed_ns as f64],
            };
            let key = (metric.name.clone(), cell.start_s, set.join(","));
            let known = shown.entry(key).or_insert_with(|| vec![0.0; values.len()]);
            if metric.built_in {
                // Every type has one of these.
                known[0] += values[0];
            } else {
                *known = values;
            }
        }
    }
    shown
}

fn number(event: &StoredEvent<'_>, path: &str) -> i64 {
    match event.attributes.get(path) {
        Some(Value::Scalar(Scalar::Integer(number))) => *number,
        Some(Value::Scalar(Scalar::Number(number))) => *number as i64,
        other => panic!("{path} is {other:?}"),
    }
}

fn text(event: &StoredEvent<'_>, path: &str) -> String {
    match event.attributes.get(path) {
        Some(Value::Scalar(Scalar::Text(text))) => text.to_string(),
        other => panic!("{path} is {other:?}"),
    }
}

/// What cells have to be, worked out event by event.
fn model(events: &[StoredEvent<'_>], window: EventWindow) -> Shown {
    let mut cells = Shown::new();
    let mut latest: BTreeMap<(i64, String), (i64, EventId, i64)> = BTreeMap::new();
    for event in events {
        let start_of = |at_ns: i64| window.start_of(at_ns.div_euclid(1_000_000_000));
        let start_s = start_of(event.started_ns);
        let mut count = |metric: &str, set: String| {
            let key = (metric.to_owned(), start_s, set);
            cells.entry(key).or_insert_with(|| vec![0.0])[0] += 1.0;
        };
        count("events_stored_total", event.outcome.to_string());
        if event.event_type == "payment" {
            count("payments", String::new());
            continue;
        }
        let channel = text(event, "order.channel");
        count("orders", channel.clone());
        let total = number(event, "order.total") as f64;
        let empty = || vec![0.0, 0.0, 0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY];
        let key = ("totals".to_owned(), start_s, channel.clone());
        let histogram = cells.entry(key).or_insert_with(empty);
        let bucket = if total <= 10.0 {
            0
        } else if total <= 20.0 {
            1
        } else {
            2
        };
        histogram[bucket] += 1.0;
        histogram[3] += total;
        histogram[4] = histogram[4].min(total);
        histogram[5] = histogram[5].max(total);
        let seen_ns = number(event, "stock.seen_at");
        let observed = (seen_ns, event.id, number(event, "stock.level"));
        let known = latest
            .entry((start_of(seen_ns), channel))
            .or_insert(observed);
        *known = observed.max(*known);
    }
    for ((start_s, channel), (seen_ns, _, level)) in latest {
        let key = ("stock".to_owned(), start_s, channel);
        cells.insert(key, vec![level as f64, seen_ns as f64]);
    }
    cells
}

/// The state of an object is that of its latest event, in whatever order they came. How it got
/// there depends on that order, but what went into a state and did not leave it is there.
async fn check_states(view: &EventsView, events: &[StoredEvent<'_>]) {
    let mut latest: BTreeMap<String, (i64, EventId, String)> = BTreeMap::new();
    for event in events.iter().filter(|event| event.event_type != "payment") {
        let state = (event.started_ns, event.id, text(event, "order.status"));
        let object = latest.entry(text(event, "order.id"));
        let known = object.or_insert_with(|| state.clone());
        *known = state.max(known.clone());
    }
    let mut expected: BTreeMap<String, i64> = BTreeMap::new();
    for (_, _, state) in latest.into_values() {
        *expected.entry(state).or_default() += 1;
    }
    let service = view.registry().service("shop").unwrap().clone();
    let counts = view
        .state_counts(service.number, "Order", "order.status")
        .await;
    let counts = counts.unwrap().into_iter();
    let counts: BTreeMap<String, i64> = counts.map(|count| (count.state, count.count)).collect();
    assert_eq!(counts, expected);
    let transitions = &service.state_metrics.as_ref().unwrap().transitions;
    let sets = view.all_dimension_sets(transitions.number).await.unwrap();
    for window in EventWindow::ALL {
        let scan = CellScan {
            window,
            metric: transitions.number,
            starts_s: i64::MIN..i64::MAX,
            after: None,
            limit: usize::MAX,
        };
        let mut flow: BTreeMap<String, i64> = BTreeMap::new();
        for cell in view.cells(scan).await.unwrap() {
            let set = sets.iter().find(|set| set.hash == cell.dimensions).unwrap();
            let Cell::Counter(counter) = cell.cell else {
                panic!("transitions are counted");
            };
            for (path, state) in &set.values {
                match path.as_str() {
                    "to" => *flow.entry(state.clone()).or_default() += counter.count,
                    "from" => *flow.entry(state.clone()).or_default() -= counter.count,
                    _ => {}
                }
            }
        }
        flow.remove("(none)");
        flow.retain(|_, count| *count != 0);
        assert_eq!(flow, expected, "{window:?}");
    }
}
