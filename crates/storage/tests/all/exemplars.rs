//! Exemplars are read from where they are: the head, buckets, or both.

use icecore_model::{Exemplar, Labels, Matcher};
use icecore_storage::{Database, Error, ExemplarQuery};

use crate::requests::{Entry, exemplar, request};
use crate::support::*;

fn query(selectors: Vec<Vec<Matcher>>, start_ms: i64, end_ms: i64) -> ExemplarQuery {
    ExemplarQuery {
        selectors,
        start_ms,
        end_ms,
    }
}

fn labels(series: &str) -> Labels {
    Labels::from_pairs([("__name__", "m"), ("series", series)])
}

async fn send(db: &Database, exemplars: &[(&str, i64, &str)]) {
    let entries = exemplars
        .iter()
        .map(|(series, time, trace)| Entry::exemplar(series, *time, trace))
        .collect();
    request(db, entries).await.unwrap();
}

async fn check(db: &Database, query: ExemplarQuery, expected: &[(&str, &[(i64, &str)])]) {
    let expected: Vec<(Labels, Vec<Exemplar>)> = expected
        .iter()
        .map(|(series, list)| {
            let list = list.iter().map(|(time, trace)| exemplar(*time, trace));
            (labels(series), list.collect())
        })
        .collect();
    assert_eq!(db.exemplars(query).await.unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_come_from_head_buckets_and_both() {
    let (db, _dir) = open_local().await;
    send(
        &db,
        &[("b", T0 + 5, "x"), ("a", T0 + 9, "y"), ("a", T0 + 1, "zz")],
    )
    .await;
    let all = query(Vec::new(), i64::MIN, i64::MAX);
    let first: &[(&str, &[(i64, &str)])] = &[
        ("a", &[(T0 + 1, "zz"), (T0 + 9, "y")]),
        ("b", &[(T0 + 5, "x")]),
    ];
    check(&db, all.clone(), first).await;
    db.flush().await.unwrap();
    check(&db, all.clone(), first).await;

    // One that the bucket has already, one that is new to it, one of another hour.
    send(
        &db,
        &[
            ("a", T0 + 9, "y"),
            ("a", T0 + 3, "w"),
            ("c", T0 + HOUR, "v"),
        ],
    )
    .await;
    let both: &[(&str, &[(i64, &str)])] = &[
        ("a", &[(T0 + 1, "zz"), (T0 + 3, "w"), (T0 + 9, "y")]),
        ("b", &[(T0 + 5, "x")]),
        ("c", &[(T0 + HOUR, "v")]),
    ];
    check(&db, all.clone(), both).await;
    db.flush().await.unwrap();
    check(&db, all, both).await;

    let is = |series: &str| vec![Matcher::equal("series", series)];
    let some = query(vec![is("a"), is("c"), is("a")], T0 + 3, T0 + 9);
    check(&db, some, &[("a", &[(T0 + 3, "w"), (T0 + 9, "y")])]).await;
    check(&db, query(vec![is("none")], 0, i64::MAX), &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_the_limit_is_refused_wherever_they_are() {
    let mut options = options("memory://");
    options.read.exemplars_max = 2;
    let db = open(options).await;
    send(&db, &[("a", T0, "1"), ("a", T0 + 1, "1")]).await;
    let all = query(Vec::new(), i64::MIN, i64::MAX);
    assert_eq!(db.exemplars(all.clone()).await.unwrap().len(), 1);
    let refused = async || match db.exemplars(all.clone()).await {
        Err(Error::LimitReached(text)) => assert!(text.contains("read.exemplars_max"), "{text}"),
        other => panic!("{other:?}"),
    };
    db.flush().await.unwrap();
    send(&db, &[("b", T0, "1")]).await;
    refused().await;
    db.flush().await.unwrap();
    refused().await;
    send(&db, &[("b", T0, "1"), ("b", T0, "22"), ("b", T0, "333")]).await;
    refused().await;
}
