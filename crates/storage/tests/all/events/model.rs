//! Random work against a small model: an engine that counts each block once, with a store that
//! fails and loses power.
//!
//! A failing seed is printed; `ICECORE_EVENTS_SEED=n` repeats it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use icecore_model::CatalogChange;
use icecore_model::event::EventBatch;
use icecore_storage::testing::{FaultPlan, Hooks};

use super::*;
use crate::faults::Dice;
use crate::process::World;
use crate::support::LOOK_EVERY;

const SEEDS: u64 = 6;
const LIVES: u64 = 5;
const STEPS: u64 = 25;
const METRIC: u32 = 7;

/// Time for what is under way to come to its end when the power is off.
const LAST_BREATH: Duration = Duration::from_millis(20);

#[test]
fn every_block_counts_once() {
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

fn run_seed(seed: u64) {
    let mut dice = Dice(seed);
    let directory = (seed % 2 == 1).then(|| tempfile::tempdir().unwrap());
    let mut world = match &directory {
        Some(directory) => World::in_directory(directory.path()),
        None => World::new(),
    };
    world.options.journal.epoch_bytes_max = [100, 1 << 20][dice.below(2) as usize];
    let mut model = Model::default();
    for life in 0..LIVES {
        let plan = FaultPlan {
            applied_but_error: 0.05,
            not_applied_and_error: 0.05,
            ..FaultPlan::quiet(seed * 100 + life)
        };
        let process = world.start_quietly(plan);
        let mut engine = Engine::recover(&process, &mut model);
        process.faults.set_enabled(true);
        let (cut_after, mut is_cut) = (dice.below(STEPS), false);
        for step in 0..STEPS {
            if step == cut_after && dice.below(3) > 0 {
                process.faults.power_off_after(dice.below(4) as usize);
                is_cut = true;
            }
            if engine.step(&process, &mut model, &mut dice).is_none() {
                break;
            }
        }
        if dice.below(2) == 0 && !is_cut {
            process.faults.set_enabled(false);
            process.close();
        } else {
            process.crash();
        }
    }
    let process = world.start();
    let mut engine = Engine::recover(&process, &mut model);
    engine.flush(&process, &mut model).expect("all is well");
    engine.check(&process, &model);
    process.close();
    if directory.is_none() {
        world.check();
    }
}

/// What must be, and what may be.
#[derive(Default)]
struct Model {
    next_block: u32,
    /// Blocks that were acknowledged, by sequence number.
    acknowledged: BTreeMap<u64, u32>,
    /// The greatest mark and cursor that were acknowledged.
    generation: u64,
    sealed: u64,
}

/// As simple as one can be that counts right.
struct Engine {
    generation: u64,
    sealed: u64,
    /// Blocks that are durable and not in cells.
    pending: VecDeque<(u64, u32)>,
    /// The last block that is in cells.
    flushed: u64,
}

fn number(block: &[u8]) -> u32 {
    std::str::from_utf8(block).unwrap().parse().unwrap()
}

/// The cell and the identity of a block: few of each week.
fn place(block: u32) -> (i64, u8) {
    let n = i64::from(block);
    ((n % 3) * WEEK_S + (n % 4) * 5, (block % 2) as u8)
}

fn identity_of(block: u32) -> IdentityKey {
    let mut id = [0; 16];
    id[..4].copy_from_slice(&block.to_be_bytes());
    IdentityKey {
        event: EventId(id),
        ..identity(place(block).0, 0)
    }
}

impl Engine {
    fn recover(process: &Process, model: &mut Model) -> Self {
        let now = snapshot(process);
        let (mark, sealed) = (now.mark(), now.sealed());
        assert!(mark.generation >= model.generation && sealed >= model.sealed);
        let replayed = store(process).take_replayed();
        assert!(replayed.is_sorted_by_key(|(seq, _)| *seq));
        let replayed: Vec<(u64, u32)> = replayed
            .iter()
            .map(|(seq, block)| (*seq, number(block)))
            .collect();
        assert!(replayed.iter().all(|(seq, _)| *seq > sealed));
        let kept: BTreeSet<(u64, u32)> = replayed.iter().copied().collect();
        let owed = model.acknowledged.range(sealed + 1..);
        for (seq, block) in owed {
            assert!(kept.contains(&(*seq, *block)), "block {seq} is lost");
        }
        model.generation = mark.generation;
        model.sealed = sealed;
        let engine = Self {
            generation: mark.generation,
            sealed,
            pending: replayed
                .into_iter()
                .filter(|(seq, _)| *seq > mark.seq)
                .collect(),
            flushed: mark.seq,
        };
        engine.check(process, model);
        engine
    }

    /// One step; `None` when the store has gone.
    fn step(&mut self, process: &Process, model: &mut Model, dice: &mut Dice) -> Option<()> {
        match dice.below(10) {
            0..=5 => self.append(process, model),
            6 | 7 => self.flush(process, model),
            8 => self.seal(process, model),
            _ => {
                process.db.roll_epoch();
                in_time(process, process.db.flush_buckets())
            }
        }
    }

    fn append(&mut self, process: &Process, model: &mut Model) -> Option<()> {
        model.next_block += 1;
        let block = model.next_block;
        let store = store(process);
        let seq = in_time(process, async {
            let appended = store.append(block.to_string().into_bytes()).await?;
            appended.commit.await?;
            Ok::<u64, icecore_model::StoreError>(appended.seq)
        })?;
        model.acknowledged.insert(seq, block);
        self.pending.push_back((seq, block));
        Some(())
    }

    fn flush(&mut self, process: &Process, model: &mut Model) -> Option<()> {
        let blocks: Vec<(u64, u32)> = self.pending.drain(..).collect();
        let cell = |block: u32| {
            let (at, n) = place(block);
            counter(METRIC, at, n, 1)
        };
        self.flushed = blocks.last().map_or(self.flushed, |(seq, _)| *seq);
        self.generation += 1;
        let batch = EventBatch {
            cells: blocks.iter().map(|(_, block)| cell(*block)).collect(),
            identities: blocks
                .iter()
                .map(|(seq, b)| (identity_of(*b), *seq))
                .collect(),
            records: vec![self.note()],
            flushed: Some(mark(self.generation, self.flushed)),
            sealed: None,
        };
        in_time(process, store(process).write(batch))?;
        model.generation = self.generation;
        Some(())
    }

    fn seal(&mut self, process: &Process, model: &mut Model) -> Option<()> {
        self.sealed = self.flushed;
        let batch = EventBatch {
            sealed: Some(self.sealed),
            ..EventBatch::default()
        };
        in_time(process, store(process).write(batch))?;
        model.sealed = self.sealed;
        Some(())
    }

    /// A record that says the same as the mark.
    fn note(&self) -> CatalogChange {
        CatalogChange {
            key: vec![0x31],
            value: Some(self.generation.to_string().into_bytes()),
        }
    }

    /// What the store has is what some blocks make, each once, all acknowledged ones among them.
    fn check(&self, process: &Process, model: &Model) {
        let now = snapshot(process);
        assert_eq!(now.mark(), mark_or_none(self.generation, self.flushed));
        let records = process.run(now.records(vec![0x31]..vec![0x32], 9)).unwrap();
        let noted: Vec<u64> = records.iter().map(|(_, v)| u64::from(number(v))).collect();
        let generation = (self.generation > 0).then_some(self.generation);
        assert_eq!(noted, Vec::from_iter(generation));
        let blocks: Vec<u32> = (1..=model.next_block).collect();
        let identities: Vec<IdentityKey> = blocks.iter().map(|b| identity_of(*b)).collect();
        let stored = find(process, &*now, &identities);
        let mut expected: BTreeMap<(i64, u8), i64> = BTreeMap::new();
        for (block, seq) in blocks.iter().zip(&stored) {
            if seq.is_some() {
                *expected.entry(place(*block)).or_default() += 1;
            }
        }
        let found = counts(process, &*now, METRIC);
        let expected: Vec<(i64, u8, i64)> = expected
            .into_iter()
            .map(|((at, n), count)| (at, n, count))
            .collect();
        assert_eq!(found, expected);
        for (seq, block) in model.acknowledged.range(..=self.flushed) {
            let at = *block as usize - 1;
            assert_eq!(stored[at], Some(*seq), "block {seq} is not counted");
        }
    }
}

fn mark_or_none(generation: u64, seq: u64) -> FlushMark {
    match generation {
        0 => FlushMark::default(),
        _ => mark(generation, seq),
    }
}

fn in_time<T, E>(process: &Process, work: impl Future<Output = Result<T, E>>) -> Option<T> {
    let power_gone = async {
        while !process.faults.is_off() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        tokio::time::sleep(LAST_BREATH).await;
    };
    process.run(async {
        tokio::select! {
            done = work => done.ok(),
            () = power_gone => None,
        }
    })
}
