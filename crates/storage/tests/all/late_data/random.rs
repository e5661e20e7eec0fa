//! Samples come in time and late, are rolled up, culled and merged, and processes are killed: at
//! every step each sample that was accepted counts once, at every level.
//!
//! A failing seed is printed; `ICECORE_LATE_SEED=n` repeats it.

use super::*;
use crate::faults::Dice;

const SEEDS: u64 = 3;
const STEPS: usize = 24;
const SERIES: [&str; 3] = ["a", "b", "c"];

/// Levels that go soon, and a last one that stays.
fn policy_of(seed: u64) -> RetentionPolicy {
    let (full, lean) = (ColumnSet::Full, ColumnSet::Lean);
    match seed % 3 {
        0 => merging([(RAW, 6, full), (FIVE, 12, lean), (HOURLY, 365, full)]),
        1 => merging([(RAW, 6, full), (FIVE, 12, full), (HOURLY, 365, full)]),
        _ => merging([(RAW, 6, full), (FIVE, 300, full), (HOURLY, 365, lean)]),
    }
}

/// What was accepted: how many samples, and their sum.
type Totals = BTreeMap<String, (u64, f64)>;

struct Run {
    world: World,
    policy: RetentionPolicy,
    dice: Dice,
    now_ms: i64,
    /// Times that have a sample; none is sent twice.
    used: std::collections::BTreeSet<(usize, i64)>,
    totals: Totals,
    merged: usize,
}

impl Run {
    fn below(&mut self, n: i64) -> i64 {
        self.dice.below(n.unsigned_abs()) as i64
    }

    /// Some samples of an hour.
    fn write(&mut self, process: &Process, hour: i64) {
        let mut samples: Samples = Vec::new();
        for _ in 0..=self.below(6) {
            let series = self.below(3) as usize;
            // Some at the start of windows.
            let offset = match self.below(4) {
                0 => self.below(12) * 300_000,
                _ => self.below(HOUR),
            };
            let time = START + hour * HOUR + offset;
            if time < self.now_ms && self.used.insert((series, time)) {
                samples.push((SERIES[series], time, self.below(1_000) as f64));
            }
        }
        let written = process.run(write(&process.db, &samples));
        assert_eq!(
            written.samples,
            samples.len() as u64,
            "{:?}",
            written.rejected
        );
        for (series, _, value) in samples {
            let total = self.totals.entry(series.to_owned()).or_default();
            *total = (total.0 + 1, total.1 + value);
        }
    }

    fn check(&self, process: &Process, when: &str) {
        for choice in [hourly(), half_hourly(), RollupChoice::default()] {
            let range = (START, self.now_ms);
            let selected = process.run(select(&process.db, range, choice));
            let mut found = Totals::new();
            for series in &selected {
                let name = series.labels.get("series").unwrap().to_owned();
                let mut total = (
                    series.floats.values.len() as u64,
                    series.floats.values.iter().sum::<f64>(),
                );
                let rolled = series.rolled.iter().flat_map(|rolled| &rolled.windows);
                for all in rolled.flat_map(|columns| columns.windows()) {
                    let all = all.all().unwrap();
                    total = (total.0 + all.samples(), total.1 + all.sum);
                }
                found.insert(name, total);
            }
            found.retain(|_, total| total.0 > 0);
            assert_eq!(found, self.totals, "{when}, {choice:?}");
        }
    }

    fn start(&self) -> Process {
        start(&self.world, &self.policy)
    }

    fn step(&mut self, process: Process) -> Process {
        self.now_ms += (6 + self.below(40)) * HOUR;
        set_clock(&self.world, self.now_ms);
        process.db.set_retention(Some(self.policy.clone()));
        let hours = (self.now_ms - START) / HOUR;
        for _ in 0..4 {
            let hour = hours - 1 - self.below(20);
            self.write(&process, hour);
        }
        for _ in 0..self.below(6) {
            let hour = self.below(hours);
            self.write(&process, hour);
        }
        self.check(&process, "written");
        if self.below(2) == 0 {
            process.run(process.db.flush_buckets()).unwrap();
            self.check(&process, "flushed");
        }
        match self.below(4) {
            0 => {
                process.crash();
                let process = self.start();
                self.check(&process, "started again");
                process
            }
            1 => {
                process.faults.power_off_after(self.below(60) as usize);
                let _ = process.run_until_off(process.db.run_maintenance());
                process.crash();
                let process = self.start();
                self.check(&process, "killed while it was maintained");
                process
            }
            _ => {
                self.merged += maintain(&process).merged;
                self.check(&process, "maintained");
                process
            }
        }
    }
}

fn run_seed(seed: u64) {
    let now_ms = START + 10 * DAY;
    let mut world = world(now_ms);
    world.options.store.retries_max = 1;
    world.options.head.flush_batch_records = 3;
    let mut run = Run {
        world,
        policy: policy_of(seed),
        dice: Dice(seed),
        now_ms,
        used: Default::default(),
        totals: Totals::new(),
        merged: 0,
    };
    let mut process = run.start();
    for _ in 0..STEPS {
        process = run.step(process);
    }
    maintain(&process);
    run.check(&process, "at the end");
    assert_eq!(process.db.overlays(), []);
    assert!(run.merged > 0, "nothing came late");
    process.close();
    run.world.check();
}

#[test]
fn every_sample_counts_once_whenever_it_comes() {
    let seed = std::env::var("ICECORE_LATE_SEED").ok();
    let seeds = match seed.and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..SEEDS,
    };
    std::thread::scope(|scope| {
        for seed in seeds {
            scope.spawn(move || {
                let survived = std::panic::catch_unwind(|| run_seed(seed));
                assert!(survived.is_ok(), "ICECORE_LATE_SEED={seed} fails");
            });
        }
    });
}
