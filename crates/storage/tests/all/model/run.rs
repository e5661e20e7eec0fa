//! One case: takes steps and compares.

use std::collections::{BTreeMap, BTreeSet};

use icecore_model::{
    BucketSize, Labels, METRIC_NAME, SelectHints, Selection, SeriesSource, SeriesStream,
};
use icecore_records::Bucket;
use icecore_storage::testing::{Hooks, JobHooks};
use icecore_storage::{Database, Deletion, Error, ExemplarQuery, LabelQuery, NamedCount, Ranking};

use super::oracle::{Oracle, Stored, candidates, stored};
use super::steps::{Question, Settings, Step};
use crate::process::{Process, World};
use crate::requests::request;
use crate::support::{HOUR, T0};
use icecore_model::Matcher;

/// What a selection of everything found.
type Found = BTreeMap<Labels, BTreeMap<i64, Stored>>;

pub(crate) struct Run {
    world: World,
    /// `None` only between two lives.
    process: Option<Process>,
    oracle: Oracle,
    /// A selection that is held open, and what there was when it was opened.
    reading: Option<(Box<dyn SeriesStream>, Found)>,
}

impl Run {
    pub(crate) fn new(settings: &Settings) -> Self {
        let mut world = World::new();
        settings.apply(&mut world.options);
        world.clock.advance(settings.age_days * 24 * HOUR);
        let process = Some(world.start());
        Self {
            world,
            process,
            oracle: Oracle::default(),
            reading: None,
        }
    }

    pub(crate) fn take(&mut self, number: usize, step: &Step) {
        let process = self.process.take().expect("a process lives between steps");
        let db = &process.db;
        let process = match step {
            Step::Write(entries) => {
                let outcome = process.run(request(db, entries.clone())).expect("stored");
                assert_eq!(outcome.rejected, [], "step {number}");
                self.oracle.write(entries);
                process
            }
            Step::Concurrent(requests) => {
                process.run(self.write_together(db, requests));
                process
            }
            Step::Read(question) => {
                process.run(self.answer(db, question));
                process
            }
            Step::Flush => {
                process.run(db.flush_buckets()).expect("flushed");
                assert_eq!(db.gauges().open_hours, 0);
                process
            }
            Step::FlushDuring(entries) => {
                process.run(flush_during(db, entries.clone()));
                self.oracle.write(entries);
                process
            }
            Step::Pass(ms) => {
                self.world.clock.advance(*ms);
                process.run(db.tick()).expect("maintained");
                process
            }
            Step::WriteMemtables => {
                process.run(db.write_memtables()).expect("written");
                process
            }
            Step::Drain => {
                process.run(db.flush()).expect("drained");
                assert_eq!(db.gauges().journal_epochs, 0);
                process
            }
            Step::Coarsen {
                exponent,
                hour,
                writes_max,
            } => {
                process.run(coarsen(db, *exponent, *hour, *writes_max));
                process
            }
            Step::Fold => {
                process.run(fold(db));
                process
            }
            Step::Delete(question) => {
                process.run(self.delete(db, question));
                process
            }
            Step::Clean => {
                process.run(db.clean_tombstones()).expect("cleaned");
                assert_eq!(db.maintenance_status().tombstones, 0);
                process.run(self.answer(db, &everything()));
                process
            }
            Step::BeginReading => {
                let stream = process.run(SeriesSource::select(db, all_of(&[])));
                let stream = stream.expect("the selection opens");
                self.reading = Some((stream, self.oracle.samples.clone()));
                process
            }
            Step::FinishReading => {
                if let Some((mut stream, expected)) = self.reading.take() {
                    let found = process.run(read_all(stream.as_mut()));
                    assert_eq!(found, expected, "a selection held open until step {number}");
                }
                process
            }
            Step::Crash => {
                self.reading = None;
                process.crash();
                self.world.start()
            }
            Step::Restart => {
                self.reading = None;
                process.close();
                let process = self.world.start();
                assert_eq!(process.db.metrics().replayed_samples.get(), 0);
                process
            }
        };
        assert_eq!(process.db.metrics().replay_unreadable.get(), 0);
        process.run(self.compare_all(&process.db, &format!("after step {number}")));
        self.process = Some(process);
    }

    /// At the end everything goes into buckets, and the store is as it should be.
    pub(crate) fn finish(mut self) {
        self.take(usize::MAX, &Step::Flush);
        let process = self.process.take().expect("a process lives between steps");
        process.run(self.answer(&process.db, &everything()));
        process.close();
        self.world.check();
    }

    async fn delete(&mut self, db: &Database, question: &Question) {
        let deletion = Deletion {
            selectors: question.selectors.clone(),
            start_ms: question.start_ms,
            end_ms: question.end_ms,
        };
        let deleted = db.delete_series(deletion).await;
        if question.selectors.is_empty() {
            assert!(matches!(deleted, Err(Error::Invalid(_))), "{deleted:?}");
            return;
        }
        deleted.expect("deleted");
        self.oracle.delete(question);
        self.answer(db, &everything()).await;
    }

    /// Requests under way together: one of them was last at each place, and it may be any.
    async fn write_together(&mut self, db: &Database, requests: &[Vec<crate::requests::Entry>]) {
        let all = requests.iter().map(|entries| request(db, entries.clone()));
        for outcome in futures::future::join_all(all).await {
            outcome.expect("stored");
        }
        let found = select(db, &[], i64::MIN, i64::MAX).await;
        for request in requests {
            self.oracle.write(request);
        }
        for ((labels, time), candidates) in candidates(requests) {
            let value = found.get(&labels).and_then(|samples| samples.get(&time));
            let value = value.unwrap_or_else(|| panic!("{labels} at {time} is missing"));
            assert!(candidates.contains(value), "{labels} at {time}: {value:?}");
            let samples = self.oracle.samples.entry(labels).or_default();
            samples.insert(time, value.clone());
        }
        for (family, metadata) in db.metadata(None) {
            self.oracle.metadata.insert(family, metadata);
        }
    }

    async fn compare_all(&self, db: &Database, when: &str) {
        let found = select(db, &[], i64::MIN, i64::MAX).await;
        assert_eq!(found, self.oracle.samples, "{when}");
        let metadata: BTreeMap<_, _> = db.metadata(None).into_iter().collect();
        assert_eq!(metadata, self.oracle.metadata, "{when}");
        self.compare_exemplars(db, &[], (i64::MIN, i64::MAX)).await;
    }

    async fn compare_exemplars(
        &self,
        db: &Database,
        selectors: &[Vec<Matcher>],
        (start_ms, end_ms): (i64, i64),
    ) {
        let query = ExemplarQuery {
            selectors: selectors.to_vec(),
            start_ms,
            end_ms,
        };
        let expected = self.oracle.exemplars(selectors, start_ms, end_ms);
        let found = db.exemplars(query.clone()).await.expect("exemplars");
        assert_eq!(found, expected, "exemplars of {query:?}");
    }

    async fn answer(&self, db: &Database, question: &Question) {
        let Question {
            selectors,
            start_ms,
            end_ms,
            limit,
        } = question;
        for matchers in selectors {
            let found = select(db, matchers, *start_ms, *end_ms).await;
            let expected = self.oracle.select(matchers, *start_ms, *end_ms);
            assert_eq!(found, expected, "{question:?}");
        }
        self.compare_exemplars(db, selectors, (*start_ms, *end_ms))
            .await;
        let query = LabelQuery {
            selectors: selectors.clone(),
            start_ms: *start_ms,
            end_ms: *end_ms,
            limit: *limit,
            memory: None,
        };
        let series = self.oracle.series(question);
        self.compare_labels(db, &query, &series).await;
        self.compare_counts(db, &query, &series).await;
    }

    async fn compare_labels(&self, db: &Database, query: &LabelQuery, series: &[Labels]) {
        let limit = query.limit.unwrap_or(usize::MAX);
        let found = db.series(query).await.expect("series").into_labels();
        let expected: Vec<Labels> = series.iter().take(limit).cloned().collect();
        assert_eq!(found, expected, "series of {query:?}");
        let names: BTreeSet<&str> = series.iter().flat_map(|l| l.iter().map(|p| p.0)).collect();
        let found = db.label_names(query).await.expect("names");
        let expected: Vec<&str> = names.iter().copied().take(limit).collect();
        assert_eq!(found, expected, "names of {query:?}");
        for name in ["__name__", "a", "ü", "nothing"] {
            let values: BTreeSet<&str> = series.iter().filter_map(|l| l.get(name)).collect();
            let found = db.label_values(name, query).await.expect("values");
            let expected: Vec<&str> = values.into_iter().take(limit).collect();
            assert_eq!(found, expected, "values of {name} of {query:?}");
        }
    }

    async fn compare_counts(&self, db: &Database, query: &LabelQuery, series: &[Labels]) {
        let query = LabelQuery {
            limit: None,
            ..query.clone()
        };
        let ranking = Ranking {
            limit: usize::MAX,
            focus_label: Some("a".into()),
        };
        let found = db.cardinality(&query, ranking.clone()).await;
        let found = found.expect("counts");
        assert_eq!(found.series, series.len() as u64);
        let mut by_metric: BTreeMap<&str, u64> = BTreeMap::new();
        let mut pairs = BTreeSet::new();
        for labels in series {
            *by_metric.entry(labels.metric_name()).or_default() += 1;
            pairs.extend(labels.iter());
        }
        let metrics = found.series_by_metric.iter();
        let metrics: BTreeMap<&str, u64> = metrics.map(|c| (c.name.as_str(), c.value)).collect();
        assert_eq!(metrics, by_metric);
        assert_eq!(found.label_pairs, pairs.len() as u64);
        let having = series.iter().filter(|l| l.get("a").is_some()).count() as u64;
        let focus = found.focus.expect("a label is looked at");
        let sum = |ranked: &[NamedCount]| ranked.iter().map(|c| c.value).sum::<u64>();
        assert_eq!(sum(&focus.series_by_value), having);
        assert_eq!(sum(&focus.series_by_metric), having);
        let head = db.head_cardinality(ranking).await.expect("counts");
        let focus = head.focus.expect("a label is looked at");
        assert_eq!(sum(&focus.series_by_value), sum(&focus.series_by_metric));
        assert_eq!(head.series, db.gauges().series as u64);
        let named = head.series_by_metric.iter().map(|c| c.value).sum::<u64>();
        assert_eq!(named, head.series, "every series has one {METRIC_NAME}");
    }
}

fn everything() -> Question {
    Question {
        selectors: Vec::new(),
        start_ms: i64::MIN,
        end_ms: i64::MAX,
        limit: None,
    }
}

/// A request that is appended after a flush has taken its cursor and before it has frozen anything.
/// Where there is nothing to flush, it just comes after.
async fn flush_during(db: &Database, entries: Vec<crate::requests::Entry>) {
    let pause = db.pause_at("flush.freezing");
    let mut flush = tokio::spawn({
        let db = db.clone();
        async move { db.flush_buckets().await }
    });
    let flushed = tokio::select! {
        () = pause.reached() => None,
        flushed = &mut flush => Some(flushed),
    };
    let outcome = request(db, entries).await.expect("stored");
    assert_eq!(outcome.rejected, []);
    drop(pause);
    let flushed = match flushed {
        Some(flushed) => flushed,
        None => flush.await,
    };
    flushed.expect("the task ends").expect("flushed");
}

/// Presses the window around an hour, unless it is pressed already or empty.
async fn coarsen(db: &Database, exponent: u8, hour: i64, writes_max: Option<u64>) {
    let size = BucketSize::from_exponent(exponent).expect("a size");
    let start = size.bucket_of(T0 + hour * HOUR).expect("a window");
    let target = Bucket { size, start };
    let listed = db.listed();
    let inside = |b: &Bucket| b.start_ms() >= target.start_ms() && b.end_ms() <= target.end_ms();
    let covered = listed
        .iter()
        .any(|b| b.size >= size && b.contains(T0 + hour * HOUR));
    if covered || !listed.iter().any(inside) {
        return;
    }
    let done = db.coarsen_now(exponent, start, writes_max).await;
    // With a small head, late samples that are held back are a reason to end, too.
    let gave_way = |cause: &Error| cause.to_string().contains("gives way");
    let may_fail = writes_max.is_some() || done.as_ref().is_err_and(gave_way);
    assert!(may_fail || done.is_ok(), "{target}: {done:?}");
    if done.is_ok() {
        let left: Vec<Bucket> = db.listed().into_iter().filter(inside).collect();
        assert_eq!(left, [target]);
    }
}

/// Folds late samples in, wherever there are some.
async fn fold(db: &Database) {
    let listed = db.listed().into_iter();
    for bucket in listed.filter(|bucket| bucket.size > BucketSize::HOUR) {
        let (_, clean) = db.fold_now(bucket).await.expect("folded");
        assert!(clean, "nothing came in between");
    }
    assert_eq!(db.maintenance_status().dirty, 0);
}

fn all_of(matchers: &[Matcher]) -> Selection {
    Selection {
        matchers: matchers.to_vec(),
        start_ms: i64::MIN,
        end_ms: i64::MAX,
        hints: SelectHints {
            forms: true,
            ..SelectHints::default()
        },
    }
}

async fn select(db: &Database, matchers: &[Matcher], start_ms: i64, end_ms: i64) -> Found {
    let selection = Selection {
        start_ms,
        end_ms,
        ..all_of(matchers)
    };
    let mut stream = db.select(selection).await.expect("the selection opens");
    read_all(&mut stream).await
}

async fn read_all(stream: &mut dyn SeriesStream) -> Found {
    let mut found = BTreeMap::new();
    let mut last: Option<Labels> = None;
    while let Some(batch) = stream.next_batch().await.expect("the batch is read") {
        for series in batch {
            assert!(
                last.as_ref() < Some(&series.labels),
                "series in label order"
            );
            last = Some(series.labels.clone());
            let samples = stored(&series);
            if !samples.is_empty() {
                found.insert(series.labels, samples);
            }
        }
    }
    found
}
