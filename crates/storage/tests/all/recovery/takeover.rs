//! A second writer on the same store takes over; the first stops acknowledging and says why.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use icecore_storage::{Error, WriteError};

use crate::process::World;
use crate::support::*;

#[test]
fn the_second_writer_has_all_that_the_first_acknowledged() {
    let world = World::new();
    let first = world.start();
    let db = first.db.clone();
    // Writes until it is refused, while the other one opens.
    let count = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&count);
    let writer = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let mut acknowledged = Vec::new();
            loop {
                let i = acknowledged.len() as i64;
                let sample = ("a".to_string(), T0 + i, i as f64);
                match try_write(&db, vec![sample]).await {
                    Ok(_) => {
                        acknowledged.push(("a", T0 + i, i as f64));
                        counting.store(acknowledged.len(), SeqCst);
                    }
                    Err(cause) => return (acknowledged, cause),
                }
            }
        })
    });
    first.run(until("the first one writes", || count.load(SeqCst) >= 10));
    let second = world.start();
    let (acknowledged, refused) = writer.join().unwrap();
    match refused {
        WriteError::Storage(Error::Closed(reason)) => {
            assert!(
                reason.contains("newer DB client") || reason.contains("another"),
                "{reason}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(acknowledged.len() >= 10);
    let found = second.run(read(&second.db, everything()));
    let mut wanted = expected(&acknowledged);
    if found != wanted {
        // The request that was refused may have been written just before.
        let i = acknowledged.len() as i64;
        wanted = expected(&[acknowledged.as_slice(), &[("a", T0 + i, i as f64)]].concat());
    }
    assert_eq!(found, wanted);

    let reason = first.run(ending("failed() resolves", first.db.failed()));
    assert!(!reason.is_empty());
    // It stays that way, and closing it does not hang.
    let again = first.run(try_write(&first.db, vec![("a".into(), T0, 0.0)]));
    assert!(matches!(again, Err(WriteError::Storage(Error::Closed(_)))));
    let _ = first.run(ending("close returns", first.db.close()));
    second.run(write(&second.db, &[("b", T0, 1.0)]));
    second.close();
}

#[test]
fn an_idle_writer_notices_too() {
    let world = World::new();
    let first = world.start();
    first.run(write(&first.db, &[("a", T0, 1.0)]));
    let _second = world.start();
    let failed = ending("failed() resolves without a write", first.db.failed());
    let reason = first.run(failed);
    assert!(reason.contains("another process"), "{reason}");
    let refused = first.run(try_write(&first.db, vec![("a".into(), T0, 2.0)]));
    match refused {
        Err(WriteError::Storage(Error::Closed(why))) => assert_eq!(why, reason),
        other => panic!("{other:?}"),
    }
}
