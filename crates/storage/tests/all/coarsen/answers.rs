//! Queries answer the same before and after, over everything and over parts.

use icecore_model::{HistogramSample, Labels, Matcher, SeriesStream};
use icecore_records::{HistogramEntry, histogram_series};
use icecore_storage::testing::Hooks;
use icecore_storage::{Database, ExemplarQuery, LabelQuery};

use super::*;

/// Everything that a query returns of a series, values as bits.
#[derive(Debug, PartialEq)]
struct Answer {
    labels: Labels,
    floats: Vec<(i64, u64)>,
    histograms: Vec<u8>,
    starts: Vec<(i64, i64)>,
}

async fn select(db: &Database, matchers: Vec<Matcher>, range: (i64, i64)) -> Vec<Answer> {
    let mut stream = db
        .select(selection(matchers, range.0, range.1))
        .await
        .unwrap();
    let mut answers = Vec::new();
    while let Some(batch) = stream.next_batch().await.unwrap() {
        for series in batch {
            let values = series.floats.values.iter().map(|value| value.to_bits());
            let entry = |sample: &HistogramSample| HistogramEntry {
                timestamp_ms: sample.timestamp_ms,
                value: Some(Arc::clone(&sample.histogram)),
            };
            let histograms: Vec<HistogramEntry> = series.histograms.iter().map(entry).collect();
            // A series that has nothing in the range may come along: a larger bucket has more of
            // those.
            if !series.floats.values.is_empty() || !histograms.is_empty() {
                answers.push(Answer {
                    labels: series.labels.clone(),
                    floats: series
                        .floats
                        .timestamps
                        .iter()
                        .copied()
                        .zip(values)
                        .collect(),
                    histograms: histogram_series::encode(&histograms),
                    starts: series.start_timestamps.clone(),
                });
            }
        }
    }
    answers
}

/// Answers of all kinds, each with what was asked.
pub(super) async fn answers(db: &Database) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let named = || vec![Matcher::equal("__name__", "m")];
    let ranges = [
        (0, i64::MAX),
        (hour_ms(0), hour_ms(4) - 1),
        (hour_ms(0) + 1_800_000, hour_ms(2) + 1_800_000),
        (hour_ms(1) + 60_000, hour_ms(1) + 60_000),
        (hour_ms(3) + 3_599_999, hour_ms(5)),
        (hour_ms(15), hour_ms(16)),
    ];
    for range in ranges {
        let jitter = Matcher::equal("series", "jitter-1-1");
        for matchers in [Vec::new(), named(), vec![jitter]] {
            let asked = format!("{matchers:?} {range:?}");
            for answer in select(db, matchers, range).await {
                let asked = format!("{asked} {}", answer.labels);
                all.push((asked, format!("{answer:?}")));
            }
        }
        let exemplars = ExemplarQuery {
            selectors: vec![named()],
            start_ms: range.0,
            end_ms: range.1,
        };
        let found = db.exemplars(exemplars).await.unwrap();
        all.push((format!("exemplars {range:?}"), format!("{found:?}")));
        all.extend(labels(db, range).await);
    }
    for range in random_ranges() {
        all.extend(labels(db, range).await);
    }
    all
}

/// Series, names and values in a range, each with what was asked.
async fn labels(db: &Database, (start_ms, end_ms): (i64, i64)) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let named = vec![Matcher::equal("__name__", "m")];
    let seldom = vec![Matcher::equal("zone", "z")];
    for selectors in [Vec::new(), vec![named.clone()], vec![seldom, named]] {
        let query = LabelQuery {
            selectors,
            start_ms,
            end_ms,
            ..LabelQuery::default()
        };
        let found = (
            db.series(&query).await.unwrap().into_labels(),
            db.label_names(&query).await.unwrap(),
            db.label_values("series", &query).await.unwrap(),
        );
        all.push((format!("labels {query:?}"), format!("{found:?}")));
    }
    all
}

/// Ranges of all lengths in and around the window, some of them on the edges of hours.
fn random_ranges() -> Vec<(i64, i64)> {
    let mut state = 7u64;
    let mut next = |below: i64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((state >> 33) as i64).rem_euclid(below)
    };
    let mut range = || {
        let start_ms = hour_ms(next(18) - 1) + [0, 1, HOUR - 1, next(HOUR)][next(4) as usize];
        let length = [0, HOUR - 1, HOUR, next(HOUR), next(9 * HOUR)][next(5) as usize];
        (start_ms, start_ms + length)
    };
    (0..40).map(|_| range()).collect()
}

pub(super) fn assert_same_answers(
    found: &[(String, String)],
    expected: &[(String, String)],
    when: &str,
) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected, "{when}");
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn queries_see_no_difference() {
    let world = world_of(&store_with_hours(0..16));
    let process = world.start();
    let db = &process.db;
    let before = process.run(answers(db));
    process
        .run(db.coarsen_now(3, bucket(3, 4).start, None))
        .unwrap();
    assert_same_answers(&process.run(answers(db)), &before, "with four hours in one");
    process
        .run(db.coarsen_now(2, bucket(2, 0).start, None))
        .unwrap();
    assert_same_answers(&process.run(answers(db)), &before, "with three sizes");
    process.run(db.coarsen_now(5, WINDOW, None)).unwrap();
    assert_same_answers(&process.run(answers(db)), &before, "with all in one");
    process.crash();
    let process = world.start();
    let after = process.run(answers(&process.db));
    assert_same_answers(&after, &before, "after a restart");
}

/// The head filters by the hour, and so does everything that its hours become.
#[test]
fn labels_do_not_depend_on_where_samples_lie() {
    let world = World::new();
    let process = world.start();
    let db = &process.db;
    for hour in 0..16 {
        process.run(request(db, entries(hour))).unwrap();
    }
    process.run(request(db, late_entries(4))).unwrap();
    let alone = vec![Entry::exemplar("exemplars-alone", hour_ms(6) + 5, "t")];
    process.run(request(db, alone)).unwrap();
    let all = async || {
        let mut all = Vec::new();
        for range in random_ranges() {
            all.extend(labels(db, range).await);
        }
        all
    };
    let before = process.run(all());
    process.run(db.flush_buckets()).unwrap();
    assert_same_answers(&process.run(all()), &before, "in hours");
    for first in [0, 4, 8, 12] {
        let start = bucket(3, first).start;
        process.run(db.coarsen_now(3, start, None)).unwrap();
    }
    assert_same_answers(&process.run(all()), &before, "four hours in one");
    process.run(request(db, late_entries(9))).unwrap();
    process.run(db.flush_buckets()).unwrap();
    let late = process.run(all());
    process.run(db.coarsen_now(5, WINDOW, None)).unwrap();
    assert_same_answers(&process.run(all()), &late, "all in one");
}
