//! The faults themselves: repeatable, counted, and final when the power goes.

use std::collections::BTreeMap;

use slatedb::object_store::path::Path;
use slatedb::object_store::{ObjectStoreExt, PutPayload};

use super::*;
use crate::slate::faults::{Fault, FaultCounts, FaultPlan, FaultStore, Operation};
use crate::slate::read_view::ScanKind;
use crate::slate::reader::open_reader;

fn stormy(seed: u64) -> FaultPlan {
    FaultPlan {
        applied_but_error: 0.2,
        not_applied_and_error: 0.2,
        delay: 0.3,
        delay_max: Duration::from_millis(2),
        ..FaultPlan::quiet(seed)
    }
}

async fn outcomes(seed: u64, reversed: bool) -> (Vec<(String, bool, bool)>, FaultCounts) {
    let inner = Arc::new(InMemory::new());
    let faults = FaultStore::new(Arc::clone(&inner) as Arc<dyn ObjectStore>, stormy(seed));
    let mut names: Vec<String> = (0..50).map(|name| format!("file/{name}")).collect();
    if reversed {
        names.reverse();
    }
    let mut outcomes = Vec::new();
    for name in names {
        let path = Path::from(name.as_str());
        let answered = faults
            .put(&path, PutPayload::from_static(b"x"))
            .await
            .is_ok();
        let applied = inner.head(&path).await.is_ok();
        outcomes.push((name, answered, applied));
    }
    outcomes.sort();
    (outcomes, faults.counts())
}

#[tokio::test]
async fn a_seed_decides_what_fails_whatever_the_order() {
    let (forwards, counts) = outcomes(7, false).await;
    let (backwards, same_counts) = outcomes(7, true).await;
    assert_eq!(forwards, backwards);
    assert_eq!(counts, same_counts);
    assert_ne!(forwards, outcomes(8, false).await.0);
    let failed = forwards.iter().filter(|(_, answered, _)| !answered).count() as u64;
    assert_eq!(counts.applied_but_error + counts.not_applied, failed);
    assert!(counts.applied_but_error > 0 && counts.not_applied > 0 && counts.delays > 0);
    let unclear = forwards
        .iter()
        .filter(|(_, answered, applied)| !answered && *applied);
    assert_eq!(unclear.count() as u64, counts.applied_but_error);
    assert!(
        forwards
            .iter()
            .all(|(_, answered, applied)| !answered || *applied)
    );
}

#[tokio::test]
async fn after_power_off_nothing_is_applied() {
    let directory = tempfile::tempdir().unwrap();
    let faults = FaultStore::local(directory.path(), FaultPlan::quiet(1)).unwrap();
    let path = Path::from("wal/1.sst");
    faults.script(Operation::Put, "wal/", Fault::CrashBeforeRename, 1);
    assert!(
        faults
            .put(&path, PutPayload::from_static(b"whole"))
            .await
            .is_err()
    );
    assert!(faults.is_off());
    assert!(
        faults
            .put(&path, PutPayload::from_static(b"x"))
            .await
            .is_err()
    );
    assert!(faults.get(&path).await.is_err());
    assert!(faults.delete(&path).await.is_err());
    assert_eq!(faults.counts().crashes, 1);
    assert_eq!(faults.counts().refused, 3);
    let left: Vec<_> = std::fs::read_dir(directory.path().join("wal"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(left, ["1.sst#1"]);
}

/// Everything that was asked to be written, by row.
#[derive(Default)]
struct Model {
    acknowledged: BTreeMap<u64, u64>,
    /// Written, but nobody was told that it is durable: may be there or not.
    unclear: BTreeMap<u64, u64>,
}

impl Model {
    /// Reads the store without faults, beside whatever still runs on it.
    async fn check(&self, options: &StoreOptions) {
        let reader = open_reader(options, None).await.unwrap();
        let mut found = BTreeMap::new();
        let prefix = icecore_records::key::journal_epoch_prefix(1);
        let mut rows = reader
            .view()
            .scan_prefix(&prefix, ScanKind::Once)
            .await
            .unwrap();
        while let Some(row) = rows.next().await.unwrap() {
            let seq = u64::from_be_bytes(row.key[6..].try_into().unwrap());
            let value = u64::from_be_bytes(row.value[..].try_into().unwrap());
            found.insert(seq, value);
        }
        reader.close().await.unwrap();
        for (seq, value) in &self.acknowledged {
            assert_eq!(found.get(seq), Some(value), "row {seq} was acknowledged");
        }
        for (seq, value) in &found {
            let known = self.acknowledged.get(seq).or_else(|| self.unclear.get(seq));
            assert_eq!(known, Some(value), "row {seq} was invented");
        }
    }

    /// Writes and commits one row; false when the engine is gone.
    async fn write(&mut self, engine: &Engine, seq: u64) -> bool {
        let value = seq * 31;
        self.unclear.insert(seq, value);
        let written = async {
            let bytes = Bytes::copy_from_slice(&value.to_be_bytes());
            let handle = engine.db().put_bytes(journal_key(1, seq), bytes).await?;
            engine.db().flush().await?;
            handle.await_durable().await
        };
        let durable: Result<(), slatedb::Error> = written.await;
        if durable.is_ok() {
            self.acknowledged.insert(seq, value);
        }
        durable.is_ok()
    }
}

/// Starts, writes and crashes through faults, again and again: what was acknowledged is there
/// afterwards, what was never written is not, and no writer fences itself.
#[tokio::test]
async fn acknowledged_rows_survive_faults_and_crashes() {
    let rounds: u64 = std::env::var("ICECORE_TEST_ROUNDS").map_or(8, |text| text.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        l0_sst_bytes: 64 << 10,
        unflushed_bytes_max: 256 << 10,
        ..in_directory(&directory)
    };
    let mut model = Model::default();
    let mut injected = 0;
    Engine::open(&options, None)
        .await
        .unwrap()
        .close()
        .await
        .unwrap();
    for round in 0..rounds {
        let plan = FaultPlan {
            applied_but_error: 0.1,
            not_applied_and_error: 0.1,
            crash_before_rename: 0.02,
            ..FaultPlan::quiet(round)
        };
        let faults = FaultStore::local(directory.path(), plan).unwrap();
        match Engine::open(&options, Some(Arc::new(faults.clone()))).await {
            Ok(engine) => {
                for step in 0..60 {
                    if !model.write(&engine, round * 1000 + step).await {
                        break;
                    }
                    if step % 25 == 24 {
                        let _ = engine.flush_memtable().await;
                    }
                }
                let closed = engine.closed_reason();
                assert!(
                    closed.is_none() || faults.is_off(),
                    "round {round}: {closed:?}"
                );
            }
            Err(error) => assert!(faults.is_off(), "round {round}: {error}"),
        }
        faults.power_off();
        let counts = faults.counts();
        injected += counts.applied_but_error + counts.not_applied + counts.crashes;
        model.check(&options).await;
    }
    assert!(injected > rounds, "{injected}");
    assert!(
        model.acknowledged.len() as u64 > rounds * 5,
        "{}",
        model.acknowledged.len()
    );
}
