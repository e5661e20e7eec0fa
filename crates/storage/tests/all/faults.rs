//! A store that fails, delays and loses power: what was acknowledged is there exactly once, and
//! nothing else is but requests that were under way at a crash, whole or not at all.
//!
//! A failing seed is printed; `ICECORE_FAULT_SEED=n` repeats it, `ICECORE_FAULT_SEEDS=n` runs more.

mod ledger;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use icecore_storage::testing::{FaultPlan, Hooks};
use icecore_storage::{Database, WriteError};

use crate::process::{Process, World};
use crate::requests::request;
use crate::support::{everything, read, until};
use ledger::{Fate, Ledger, Request};

/// Together about 30 s on two busy cores.
const SEEDS: u64 = 16;
const RUNS_AT_ONCE: usize = 4;
const LIVES: u64 = 4;
const WRITERS: usize = 4;

/// Most puts of a life, or after its drain.
const PUTS_MAX: u64 = 200;

/// Small numbers out of one seed.
#[derive(Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn share(&mut self, max: f64) -> f64 {
        max * self.below(1000) as f64 / 1000.0
    }
}

#[test]
fn acknowledged_samples_survive_a_failing_store() {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seeds = match number("ICECORE_FAULT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("ICECORE_FAULT_SEEDS").unwrap_or(SEEDS),
    };
    // Much of a run is waiting for retries and polls, so several share the cores.
    let next = AtomicU64::new(seeds.start);
    std::thread::scope(|scope| {
        for _ in 0..RUNS_AT_ONCE {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let survived = std::panic::catch_unwind(|| run_seed(seed));
                    assert!(survived.is_ok(), "ICECORE_FAULT_SEED={seed} fails");
                }
            });
        }
    });
}

fn run_seed(seed: u64) {
    let mut dice = Dice(seed);
    // Every second one on a directory, where crashes leave staged files.
    let directory = (seed % 2 == 1).then(|| tempfile::tempdir().expect("a directory"));
    let mut world = match &directory {
        Some(directory) => World::in_directory(directory.path()),
        None => World::new(),
    };
    world.options.journal.epoch_bytes_max = [400, 1 << 20][dice.below(2) as usize];
    world.options.head.flush_batch_records = [1, 5, 4096][dice.below(3) as usize];
    let mut ledger = Ledger::new(WRITERS);
    for life in 0..LIVES {
        let plan = FaultPlan {
            seed: seed * LIVES + life,
            applied_but_error: dice.share(0.04),
            not_applied_and_error: dice.share(0.04),
            delay: dice.share(0.3),
            delay_max: Duration::from_millis(4),
            crash_before_rename: dice.share(0.01),
        };
        // A life that cannot even start is one, too: what it left must not harm.
        if let Ok(process) = world.try_start(plan) {
            live(&process, &mut ledger, &mut dice);
            process.crash();
        }
        let process = world.start();
        assert_eq!(process.db.metrics().replay_unreadable.get(), 0);
        let found = process.run(read(&process.db, everything()));
        ledger.settle(&found);
        assert_eq!(found, ledger.content(), "life {life}");
        if dice.below(2) == 0 {
            process.run(process.db.flush_buckets()).expect("flushed");
            let found = process.run(read(&process.db, everything()));
            assert_eq!(found, ledger.content(), "life {life}, flushed");
        }
        match dice.below(2) {
            0 => process.crash(),
            _ => process.close(),
        }
    }
    let process = world.start();
    process.run(process.db.flush()).expect("drained");
    assert_eq!(process.db.gauges().journal_epochs, 0);
    process.crash();
    let process = world.start();
    assert_eq!(process.db.metrics().replayed_samples.get(), 0);
    let found = process.run(read(&process.db, everything()));
    assert_eq!(found, ledger.content(), "from buckets alone");
}

/// Writers until the power goes, by the plan or after some puts; flushes beside them.
fn live(process: &Process, ledger: &mut Ledger, dice: &mut Dice) {
    // Now and then there is a drain before.
    let drains = dice.below(8) == 0;
    let puts = dice.below(PUTS_MAX) as usize;
    let fates = process.run(async {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let requests = ledger.requests(writer, dice.below(u64::MAX));
                tokio::spawn(write_until_refused(process.db.clone(), requests))
            })
            .collect();
        let flusher = tokio::spawn(flush_again_and_again(process.db.clone(), drains));
        if drains {
            let drained = || process.db.metrics().drained_epochs.get() > 0;
            until("an epoch is drained", || {
                drained() || process.faults.is_off() || writers.iter().all(|it| it.is_finished())
            })
            .await;
        }
        process.faults.power_off_after(puts);
        let mut fates = Vec::new();
        for writer in writers {
            fates.push(writer.await.expect("a writer ends well"));
        }
        flusher.abort();
        fates
    });
    for (writer, fates) in fates.into_iter().enumerate() {
        ledger.enter(writer, fates);
    }
}

async fn write_until_refused(
    db: Database,
    requests: impl Iterator<Item = Request>,
) -> Vec<(Request, Fate)> {
    let mut fates = Vec::new();
    for sent in requests {
        let answer = request(&db, sent.entries()).await;
        let fate = match &answer {
            Ok(outcome) => {
                assert_eq!(outcome.rejected, []);
                Fate::Acknowledged
            }
            Err(WriteError::Storage(_)) => Fate::Unknown,
            Err(WriteError::Decode(())) => unreachable!("requests decode"),
        };
        fates.push((sent, fate));
        if answer.is_err() {
            break;
        }
    }
    fates
}

async fn flush_again_and_again(db: Database, drains: bool) {
    loop {
        // It may fail, like everything here.
        let _ = if drains {
            db.flush().await
        } else {
            db.flush_buckets().await
        };
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
