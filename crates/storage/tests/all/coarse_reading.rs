//! Larger buckets give the same answers as hours: floats, histograms, starts and exemplars,
//! whatever the range, the cache and the parts of the head over them.

use icecore_model::{MatchOp, Matcher, SeriesStream};
use icecore_records::{Bucket, ParsedKey, RecordType, coarse_samples, forward_index, key};
use icecore_storage::testing::Hooks;
use icecore_storage::{Database, ExemplarQuery};
use proptest::prelude::*;

use crate::pressed::{bucket, press};
use crate::requests::{Entry, request};
use crate::support::*;

/// The start of a 16 h bucket. It is followed by a 4 h bucket, then by hours.
fn window() -> i64 {
    bucket(5, T0).start_ms()
}

const HOURS: i64 = 22;
const STEP: i64 = 300_000;

/// What series of three targets send: two with jitter, one exact. Some begin late or end early, one
/// has histograms now and then, one has start timestamps.
fn scraped() -> Vec<Entry> {
    let mut entries = Vec::new();
    for step in 0..HOURS * 12 {
        let exact = window() + step * STEP;
        let jitter = (step * 7_919 % 13) * 3;
        for series in 0..9i64 {
            let target = series % 3;
            let time = exact + [0, 1_000 + jitter, 2_000 + jitter * jitter % 11][target as usize];
            let name = format!("t{target}-{series}");
            let value = (step * step % 1_009 + series * 10_000) as f64 / 8.0;
            let hour = step / 12;
            let entry = match series {
                3 if hour < 5 => continue,
                4 if hour >= 9 => continue,
                5 if step % 10 == 9 => Entry::histogram(&name, time, step as u64),
                6 => Entry::float(&name, time, value).starting(exact - exact % (5 * HOUR) + 1),
                7 if step == 100 => Entry::float(&name, time, f64::NAN),
                8 => Entry::float(&name, time, (step as f64).sqrt() * 1e9),
                _ => Entry::float(&name, time, value),
            };
            entries.push(entry);
            if series == 1 && step % 17 == 0 {
                entries.push(Entry::exemplar(&name, time, &format!("trace-{step}")));
            }
        }
    }
    entries
}

/// Everything that a selection says, as text.
async fn answer(db: &Database, selection: icecore_model::Selection) -> Vec<String> {
    let mut stream = db.select(selection).await.unwrap();
    let mut found = Vec::new();
    while let Some(batch) = stream.next_batch().await.unwrap() {
        for series in batch {
            let floats = &series.floats;
            assert_eq!(floats.timestamps.len(), floats.values.len());
            let values: Vec<u64> = floats.values.iter().map(|v| v.to_bits()).collect();
            if series.sample_count() > 0 {
                found.push(format!(
                    "{} {:?} {values:?} {:?} {:?}",
                    series.labels, &*floats.timestamps, series.histograms, series.start_timestamps
                ));
            }
        }
    }
    found
}

async fn exemplars(db: &Database, start_ms: i64, end_ms: i64) -> String {
    let query = ExemplarQuery {
        selectors: Vec::new(),
        start_ms,
        end_ms,
    };
    format!("{:?}", db.exemplars(query).await.unwrap())
}

/// One database with hours and one with a 16 h bucket, a 4 h bucket and hours behind them.
struct Pair {
    hours: Database,
    coarse: Database,
    _dir: tempfile::TempDir,
}

impl Pair {
    async fn new(entries: Vec<Entry>, cache_bytes: usize, late_hours: i64) -> Self {
        let hours = open(options("memory://")).await;
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(&dir.path().to_string_lossy());
        options.read.chunk_cache_bytes = cache_bytes;
        let coarse = open(options.clone()).await;
        for db in [&hours, &coarse] {
            request(db, entries.clone()).await.unwrap();
            db.flush_buckets().await.unwrap();
        }
        for target in [bucket(5, window()), bucket(3, window() + 16 * HOUR)] {
            press(&coarse, target, target.end_ms() - late_hours * HOUR).await;
        }
        coarse.close().await.unwrap();
        drop(coarse);
        let coarse = open(options).await;
        assert_eq!(coarse.gauges().buckets, 2 + HOURS as usize - 20);
        Self {
            hours,
            coarse,
            _dir: dir,
        }
    }

    async fn write(&self, entries: &[Entry]) {
        for db in [&self.hours, &self.coarse] {
            request(db, entries.to_vec()).await.unwrap();
        }
    }

    async fn flush(&self) {
        for db in [&self.hours, &self.coarse] {
            db.flush_buckets().await.unwrap();
        }
        let buckets = self.coarse.gauges().buckets;
        assert_eq!(
            buckets,
            2 + HOURS as usize - 20,
            "no hour within a larger bucket"
        );
    }

    /// Asks both several times, so that the answers come from buckets, from records in the cache
    /// and from unpacked chunks.
    async fn compare(&self, matchers: &[Matcher], start_ms: i64, end_ms: i64) {
        let wanted = selection(matchers.to_vec(), start_ms, end_ms);
        let expected = answer(&self.hours, wanted.clone()).await;
        for round in 0..3 {
            let found = answer(&self.coarse, wanted.clone()).await;
            let at = |time: i64| (time - window()) as f64 / HOUR as f64;
            assert!(
                found == expected,
                "round {round}, {matchers:?} from hour {} to {}:\n{found:#?}\nin hours:\n{expected:#?}",
                at(start_ms),
                at(end_ms),
            );
        }
        let expected = exemplars(&self.hours, start_ms, end_ms).await;
        assert_eq!(exemplars(&self.coarse, start_ms, end_ms).await, expected);
    }
}

fn any_matchers() -> impl Strategy<Value = Vec<Matcher>> {
    let one = |op, value: &str| vec![Matcher::new(op, "series", value).unwrap()];
    prop::sample::select(vec![
        Vec::new(),
        one(MatchOp::Equal, "t1-4"),
        one(MatchOp::Equal, "t2-5"),
        one(MatchOp::Regex, "t1-.*"),
        one(MatchOp::NotRegex, ".*-[3-5]"),
        one(MatchOp::Equal, "nobody"),
    ])
}

/// Narrow, wide, and across the boundaries of buckets.
fn any_range() -> impl Strategy<Value = (i64, i64)> {
    let length = prop_oneof![0..1_000i64, 0..20 * 60_000i64, 0..30 * HOUR];
    let start = prop_oneof![
        -2 * HOUR..24 * HOUR,
        prop::sample::select(vec![0, 4 * HOUR, 16 * HOUR - 1, 16 * HOUR, 20 * HOUR - 1]),
    ];
    (start, length).prop_map(|(start, length)| (window() + start, window() + start + length))
}

/// Samples that come late: into the 16 h bucket, the 4 h bucket and the hours, also for a series
/// that is new there.
fn any_late() -> impl Strategy<Value = Vec<Entry>> {
    let entry =
        (0..HOURS * 12, 0..10i64, 0..6u8, any::<i16>()).prop_map(|(step, series, kind, v)| {
            let target = series % 3;
            // Exact times of target 0 are overwritten, others lie between those that are there.
            let time = window() + step * STEP + target * 500;
            let name = format!("t{target}-{series}");
            match kind {
                0 => Entry::histogram(&name, time, v.unsigned_abs().into()),
                1 => Entry::float(&name, time, v.into()).starting(time - 5),
                2 => Entry::exemplar(&name, time, &format!("late-{v}")),
                _ => Entry::float(&name, time, v.into()),
            }
        });
    prop::collection::vec(entry, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn larger_buckets_answer_as_hours_do(
        cache_bytes in prop::sample::select(vec![0, 30_000, 128 << 20]),
        late_hours in 0i64..4,
        late in any_late(),
        asked in prop::collection::vec((any_matchers(), any_range()), 6..12),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let pair = Pair::new(scraped(), cache_bytes, late_hours).await;
            for (matchers, (start_ms, end_ms)) in &asked {
                pair.compare(matchers, *start_ms, *end_ms).await;
            }
            // Half of the late samples are flushed into the buckets, the rest stays in the head.
            let (first, second) = late.split_at(late.len() / 2);
            for (late, flushed) in [(first, false), (first, true), (second, false), (second, true)] {
                if flushed { pair.flush().await } else { pair.write(late).await }
                for (matchers, (start_ms, end_ms)) in &asked {
                    pair.compare(matchers, *start_ms, *end_ms).await;
                }
                pair.compare(&[], 0, i64::MAX).await;
            }
        });
    }
}

/// The record of a series in the 16 h bucket: the key and its value.
async fn record_of(db: &Database, target: Bucket, series: &str) -> (bytes::Bytes, bytes::Bytes) {
    let forward = key::record_prefix(RecordType::ForwardIndex, target);
    let is_wanted = |(_, value): &(bytes::Bytes, bytes::Bytes)| {
        let labels = forward_index::decode(value).unwrap().labels;
        labels.get("series") == Some(series)
    };
    let records = db.records(&forward).await.unwrap();
    let (key, _) = records.into_iter().find(is_wanted).unwrap();
    let Ok(ParsedKey::ForwardIndex { series: id, .. }) = ParsedKey::parse(&key) else {
        panic!("a forward record has another key");
    };
    let key = key::time_series(target, id);
    let value = db.records(&key).await.unwrap().remove(0).1;
    (key, value)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn series_of_a_target_share_their_timestamps() {
    let pair = Pair::new(scraped(), 128 << 20, 0).await;
    let target = bucket(5, window());
    // The test is about what it says it is about.
    let parts = coarse_samples::parts(&record_of(&pair.coarse, target, "t1-1").await.1);
    let part = coarse_samples::parse(&parts[0]).unwrap();
    let coarse_samples::Part::Columns(record) = part else {
        panic!("a late stream");
    };
    let shared = icecore_records::columns::RecordTimes::Own;
    assert_ne!(record.times(), shared);
    for _ in 0..3 {
        for (from, to) in [(0, 16), (3, 4), (2, 18)] {
            let like = Matcher::new(MatchOp::Regex, "series", "t1-[17]|t0-[06]").unwrap();
            let range = selection(vec![like], window() + from * HOUR, window() + to * HOUR - 1);
            let mut stream = pair.coarse.select(range).await.unwrap();
            let batch = stream.next_batch().await.unwrap().unwrap();
            let columns: Vec<_> = batch
                .iter()
                .map(|s| s.floats.timestamps.identity())
                .collect();
            assert_eq!(
                (columns.len(), columns[0], columns[2]),
                (4, columns[1], columns[3])
            );
            assert_ne!(columns[0], columns[2]);
            let count = (to - from) as usize * 12;
            assert_eq!(batch[0].floats.timestamps.len(), count);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_read_fetches_nothing() {
    let pair = Pair::new(scraped(), 128 << 20, 0).await;
    let db = &pair.coarse;
    let range = |from: i64, to: i64| {
        selection(Vec::new(), window() + from * HOUR, window() + to * HOUR - 1)
    };
    answer(db, range(0, 16)).await;
    let misses = db.metrics().chunk_cache_misses.get();
    assert_eq!(misses, 9, "one chunk for each series");
    let after_records = db.gauges().chunk_cache_bytes;
    for (from, to) in [(3, 4), (0, 16), (0, 1)] {
        answer(db, range(from, to)).await;
    }
    assert_eq!(db.metrics().chunk_cache_misses.get(), misses);
    let unpacked = db.gauges().chunk_cache_bytes;
    assert!(unpacked > after_records, "chunks are kept unpacked");
    answer(db, range(0, 16)).await;
    assert_eq!(db.gauges().chunk_cache_bytes, unpacked);
}

/// Damage is an error of those who need what is damaged, and never an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_records_are_reported() {
    let pair = Pair::new(scraped(), 128 << 20, 0).await;
    let db = &pair.coarse;
    let target = bucket(5, window());
    let only = |series: &str| {
        let matcher = Matcher::equal("series", series);
        selection(vec![matcher], window(), window() + 10 * HOUR)
    };
    let (key, value) = record_of(db, target, "t1-1").await;
    let cut = value.slice(..value.len() / 2);
    for damaged in [bytes::Bytes::from_static(&[9, 9]), value.slice(..1), cut] {
        let damaged = vec![(key.clone(), Some(damaged))];
        db.replace_records(damaged).await.unwrap();
        assert!(error(db, only("t1-1")).await.contains("samples of"));
        assert_eq!(answer(db, only("t1-7")).await.len(), 1);
    }
    // A column that is gone takes its series with it.
    let columns = db.records(&key::time_column_prefix(target)).await.unwrap();
    let columns = columns.into_iter().map(|(key, _)| (key, None));
    db.replace_records(columns.collect()).await.unwrap();
    assert!(error(db, only("t2-2")).await.contains("column"));
}

/// Why a selection cannot be answered.
async fn error(db: &Database, selection: icecore_model::Selection) -> String {
    let mut stream = db.select(selection).await.unwrap();
    match stream.next_batch().await {
        Err(icecore_model::SourceError::Corrupt(cause)) => cause,
        Err(other) => panic!("not the fault of stored bytes: {other}"),
        Ok(_) => panic!("an answer from damaged records"),
    }
}
