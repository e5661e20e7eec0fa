//! Whatever is sent again, reordered, fails or crashes: cells are those of the events that can be
//! read, each once, and every acknowledged event can be read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::event::EventWindow;
use proptest::prelude::*;
use serde_json::Value as Json;
use tokio::sync::Notify;

use super::model::{check_cells, model};
use super::{Bench, id, order, raw_events, shown_cells};
use crate::engine::EventOptions;
use crate::testing::{Fault, Operation};
use crate::{Problem, event_id_text};

/// Different events that there are.
const POOL: u32 = 40;

#[derive(Clone, Debug)]
enum Step {
    /// Requests at the same time, each with some events of the pool.
    Publish(Vec<Vec<u32>>),
    Flush,
    /// A flush that is still under way while other things happen.
    BeginSlowFlush,
    EndSlowFlush,
    Seal,
    Merge,
    CleanUp,
    /// Documents that change something.
    Apply,
    Fail(Operation, bool),
    Crash(usize),
    Check,
}

fn step() -> impl Strategy<Value = Step> {
    let request = prop::collection::vec(0..POOL, 1..6);
    let operation = prop_oneof![
        Just(Operation::Append),
        Just(Operation::Commit),
        Just(Operation::Write),
        Just(Operation::Snapshot),
    ];
    prop_oneof![
        8 => prop::collection::vec(request, 1..4).prop_map(Step::Publish),
        3 => Just(Step::Flush),
        1 => Just(Step::BeginSlowFlush),
        1 => Just(Step::EndSlowFlush),
        2 => Just(Step::Seal),
        1 => Just(Step::Merge),
        1 => Just(Step::CleanUp),
        1 => Just(Step::Apply),
        3 => (operation, any::<bool>()).prop_map(|(operation, applied)| {
            Step::Fail(operation, applied)
        }),
        2 => (0usize..3).prop_map(Step::Crash),
        2 => Just(Step::Check),
    ]
}

/// The event of the pool with a number: always the same.
fn pooled(number: u32) -> Json {
    let channel = ["web", "app", "till"][number as usize % 3];
    // Some in one interval, some in others of the minute, hour, day, week; some weeks ago, where
    // cells of 5 s are no longer kept.
    let ago_s = [0, 1, 7, 70, 4_000, 90_000, 8 * 86_400, 20 * 86_400];
    let at_s = i64::from(number / 8) - ago_s[number as usize % 8];
    let total = f64::from(number) * 2.5 - 20.0;
    order(number, at_s, channel, i64::from(number % 5), total)
}

#[derive(Default)]
struct Witness {
    published: BTreeSet<u32>,
    acknowledged: BTreeSet<u32>,
    stored: BTreeMap<u32, usize>,
    slow: Vec<Arc<Notify>>,
    applied: usize,
}

impl Witness {
    async fn publish(&mut self, bench: &Bench, requests: &[Vec<u32>]) {
        let mut answers = Vec::new();
        for request in requests {
            let events = bench.events.clone();
            let envelopes: Vec<Json> = request.iter().map(|number| pooled(*number)).collect();
            let body = Bytes::from(Json::from(envelopes).to_string());
            let task = async move { events.publish_batch(body, false).await };
            answers.push((request.clone(), tokio::spawn(task)));
        }
        for (request, answer) in answers {
            self.published.extend(&request);
            let Ok(outcome) = answer.await.unwrap() else {
                continue;
            };
            assert_eq!(outcome.stored + outcome.duplicates, request.len());
            self.acknowledged.extend(&request);
            // One event at a time says which one was stored.
            if let [number] = request[..] {
                *self.stored.entry(number).or_default() += outcome.stored;
                assert!(self.stored[&number] <= 1, "an event was stored twice");
            }
        }
    }

    async fn step(&mut self, bench: &mut Bench, step: Step) {
        match step {
            Step::Publish(requests) => self.publish(bench, &requests).await,
            Step::Flush if self.slow.is_empty() => ignore(bench.events.flush().await),
            Step::Flush => {
                // It waits for the slow one, and must not write the same again.
                let events = bench.events.clone();
                tokio::spawn(async move { events.flush().await });
            }
            Step::BeginSlowFlush => {
                let until = Arc::new(Notify::new());
                bench
                    .store
                    .fail(Operation::Write, Fault::Held(until.clone()));
                self.slow.push(until);
                let events = bench.events.clone();
                tokio::spawn(async move { events.flush().await });
                for _ in 0..8 {
                    tokio::task::yield_now().await;
                }
            }
            Step::EndSlowFlush => self.end_slow(),
            Step::Seal => {
                self.end_slow();
                ignore(bench.events.seal().await);
            }
            Step::Merge => {
                self.end_slow();
                ignore(bench.events.merge_files().await.map(drop));
            }
            Step::CleanUp => {
                self.end_slow();
                bench.clock.advance(0);
                ignore(bench.events.clean_up().await);
            }
            Step::Apply => {
                self.end_slow();
                self.applied += 1;
                let document = format!(
                    "kind: Event\napiVersion: obsinity/v1\n\
                     metadata: {{ service: other, name: type{} }}\nspec: {{}}",
                    self.applied
                );
                let documents = crate::Documents::parse_yaml(&document).unwrap();
                ignore(bench.events.apply(documents, false).await.map(drop));
            }
            Step::Fail(operation, is_applied) => {
                // Where appending fails, nothing is appended.
                let fault = if is_applied && operation != Operation::Append {
                    Fault::AppliedWithError
                } else {
                    Fault::Lost
                };
                bench.store.fail(operation, fault);
            }
            Step::Crash(late_commits) => {
                bench.crash(late_commits).await;
                self.end_slow();
            }
            Step::Check => self.check(bench).await,
        }
    }

    fn end_slow(&mut self) {
        for slow in self.slow.drain(..) {
            slow.notify_one();
        }
    }

    /// What can be read, and the cells, are of the same events.
    async fn check(&self, bench: &Bench) {
        bench.store.heal(Operation::Snapshot);
        let view = bench.events.view().await.unwrap();
        let events = raw_events(&view).await;
        let ids: BTreeSet<_> = events.iter().map(|event| event.id).collect();
        assert_eq!(ids.len(), events.len(), "an event is there twice");
        let named = |numbers: &BTreeSet<u32>| numbers.iter().map(|at| id(*at)).collect();
        let (acknowledged, published): (BTreeSet<_>, BTreeSet<_>) =
            (named(&self.acknowledged), named(&self.published));
        let lost: Vec<_> = acknowledged.difference(&ids).collect();
        assert!(
            lost.is_empty(),
            "lost: {:?}",
            lost.iter().map(|id| event_id_text(**id))
        );
        assert!(ids.is_subset(&published));
        for window in EventWindow::ALL {
            check_cells(&shown_cells(&view, window).await, &model(&events, window));
        }
    }

    /// Everything is sent once more, and is there in the end.
    async fn finish(&mut self, bench: &mut Bench) {
        self.end_slow();
        for operation in [
            Operation::Append,
            Operation::Commit,
            Operation::Write,
            Operation::Snapshot,
        ] {
            bench.store.heal(operation);
        }
        let all: Vec<Vec<u32>> = self.published.iter().map(|number| vec![*number]).collect();
        self.publish(bench, &all).await;
        assert_eq!(self.acknowledged, self.published);
        self.check(bench).await;
        bench.events.flush().await.unwrap();
        self.check(bench).await;
        bench.events.seal().await.unwrap();
        self.check(bench).await;
        assert_eq!(bench.store.journal_blocks(), 0);
        bench.events.merge_files().await.unwrap();
        bench.crash(0).await;
        self.check(bench).await;
        // Sent again after all that, nothing changes.
        let outcome = bench
            .publish_all(
                &self
                    .published
                    .iter()
                    .map(|at| pooled(*at))
                    .collect::<Vec<_>>(),
            )
            .await;
        assert_eq!(outcome.duplicates, self.published.len());
        self.check(bench).await;
    }
}

fn ignore(outcome: Result<impl Sized, Problem>) {
    // A failure is fine: what it must not do is seen in the end.
    drop(outcome);
}

fn run(steps: Vec<Step>, max_keys: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let options = EventOptions {
            max_keys,
            seal_bytes: 2_000,
            merge_files: 2,
            ..EventOptions::default()
        };
        let mut bench = Bench::with(options, super::DOCUMENTS).await;
        let mut witness = Witness::default();
        for step in steps {
            witness.step(&mut bench, step).await;
        }
        witness.finish(&mut bench).await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_event_counts_exactly_once(
        steps in prop::collection::vec(step(), 1..40),
        max_keys in prop_oneof![Just(1usize), Just(20), Just(16_384)],
    ) {
        run(steps, max_keys);
    }
}
