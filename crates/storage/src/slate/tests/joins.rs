//! Segments that become one run.

use std::time::SystemTime;

use slatedb::manifest::Segment;
use tokio::time::Instant;

use super::*;
use crate::slate::joins::{is_coarse, is_growing, is_worth_joining};

/// A sample record of a bucket of 4 h.
fn coarse_key(id: u32) -> Bytes {
    let mut key = vec![1, 0x53, 0, 0, 0, 240];
    key.extend_from_slice(&id.to_be_bytes());
    key.into()
}

fn segment(engine: &Engine, key: &Bytes) -> Segment {
    let manifest = engine.db().manifest();
    manifest.segment(&key.slice(..6)).unwrap().clone()
}

/// Far away: it is reached only when something hangs.
fn far() -> Instant {
    Instant::now() + Duration::from_secs(300)
}

#[tokio::test]
async fn many_small_files_become_one_run_and_the_journal_is_left_alone() {
    let (options, store) = in_memory();
    let engine = open(&options, &store).await;
    for round in 0..40u32 {
        for key in [
            bucket_key(60, round),
            bucket_key(60, 0),
            journal_key(1, round.into()),
        ] {
            let value = Bytes::copy_from_slice(&round.to_be_bytes());
            engine.db().put_bytes(key, value).await.unwrap();
        }
        engine.flush_memtable().await.unwrap();
    }
    assert!(engine.join(far()).await.unwrap());
    let joined = segment(&engine, &bucket_key(60, 0));
    assert_eq!((joined.l0().len(), joined.compacted().len()), (0, 1));
    let journal = segment(&engine, &journal_key(1, 0));
    assert_eq!((journal.l0().len(), journal.compacted().len()), (40, 0));
    for round in 1..40u32 {
        let found = get(&engine, &bucket_key(60, round)).await.unwrap();
        assert_eq!(found, round.to_be_bytes()[..]);
    }
    let newest = get(&engine, &bucket_key(60, 0)).await.unwrap();
    assert_eq!(newest, 39u32.to_be_bytes()[..], "the last write counts");
    // Nothing is left to do.
    assert!(engine.join(Instant::now()).await.unwrap());
    engine.close().await.unwrap();
}

#[tokio::test]
async fn a_coarse_segment_is_joined_when_it_is_complete_and_worth_it() {
    let (options, store) = in_memory();
    let engine = open(&options, &store).await;
    let key = coarse_key(1);
    assert!(is_coarse(&key) && !is_coarse(&bucket_key(60, 1)) && !is_coarse(&journal_key(1, 1)));
    for id in 0..2000u32 {
        let value = vec![id as u8; 100];
        engine.db().put(coarse_key(id), value).await.unwrap();
    }
    engine.flush_memtable().await.unwrap();
    let written = segment(&engine, &key);
    let later = SystemTime::now() + Duration::from_secs(3600);
    assert!(is_growing(&written, SystemTime::now()) && !is_growing(&written, later));
    assert!(is_worth_joining(&written));

    assert!(engine.join(far()).await.unwrap());
    assert!(!is_worth_joining(&segment(&engine, &key)));
    put(&engine, coarse_key(0), b"late").await.unwrap();
    engine.flush_memtable().await.unwrap();
    let late = segment(&engine, &key);
    assert_eq!((late.l0().len(), late.compacted().len()), (1, 1));
    assert!(
        !is_worth_joining(&late),
        "few late rows do not rewrite the run"
    );
    engine.close().await.unwrap();
}
