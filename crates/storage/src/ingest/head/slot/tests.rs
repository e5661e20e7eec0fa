//! A series with many open hours, against the simplest thing that could be right.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::*;

const HOUR_MS: i64 = 3_600_000;

/// A small deterministic generator (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

type Samples = BTreeMap<i64, u64>;

/// Per hour what is frozen and what grows.
#[derive(Default)]
struct Model(BTreeMap<BucketStart, (Option<Samples>, Samples)>);

impl Model {
    fn samples(&self) -> Samples {
        let mut all = Samples::new();
        for (frozen, growing) in self.0.values() {
            all.extend(frozen.iter().flatten());
            all.extend(growing);
        }
        all
    }
}

fn samples_of(slot: &Slot) -> Samples {
    let mut parts = Vec::new();
    slot.snapshot((i64::MIN, i64::MAX), None, None, &mut parts);
    assert!(parts.is_sorted_by_key(|part| (part.hour, !part.frozen)));
    let mut all = Samples::new();
    for part in parts {
        let (timestamps, values) = overlay(&part.stream, part.late());
        let values = values.into_iter().map(f64::to_bits);
        all.extend(timestamps.into_iter().zip(values));
    }
    all
}

#[test]
fn any_order_of_hours_freezes_and_flushes_holds_what_was_written() {
    for seed in 1..=20 {
        let mut random = Random(0x2545_f491_4f6c_dd1d ^ seed);
        let (mut slot, mut model) = (Slot::default(), Model::default());
        let (mut heap, hours) = (0, 1 + random.below(60));
        let empty = slot.open.heap_bytes() as isize;
        for step in 0..1500u64 {
            match random.below(40) {
                0 => {
                    let wanted: BTreeSet<BucketStart> = model
                        .0
                        .iter()
                        .filter(|(_, (frozen, _))| frozen.is_none() && random.below(3) > 0)
                        .map(|(hour, _)| *hour)
                        .collect();
                    let mut found = Vec::new();
                    heap += slot.freeze(&wanted, &mut found);
                    for hour in &found {
                        let (frozen, growing) = model.0.get_mut(hour).unwrap();
                        assert!(!growing.is_empty());
                        *frozen = Some(std::mem::take(growing));
                    }
                    found.sort_unstable();
                    // Together they are found as they are one by one, oldest first.
                    let all: Vec<BucketStart> = model.0.keys().copied().collect();
                    let together = slot.frozen(&all);
                    let together: Vec<BucketStart> = together.iter().map(|p| p.hour).collect();
                    let alone = |hour: &&BucketStart| !slot.frozen(&[**hour]).is_empty();
                    assert!(all.iter().filter(alone).eq(together.iter()));
                    let held = wanted.iter().filter(|hour| model.0[hour].0.is_some());
                    assert!(held.eq(found.iter()), "each that has something, once");
                }
                1 | 2 => {
                    let frozen: Vec<BucketStart> = model
                        .0
                        .iter()
                        .filter(|(_, (frozen, _))| frozen.is_some())
                        .map(|(hour, _)| *hour)
                        .collect();
                    for hour in frozen {
                        assert_eq!(slot.frozen(&[hour]).len(), 1);
                        heap += slot.drop_frozen(hour);
                        assert!(slot.frozen(&[hour]).is_empty());
                        model.0.get_mut(&hour).unwrap().0 = None;
                    }
                }
                _ => {
                    let hour = BucketStart(random.below(hours) as u32 * 60);
                    let time = hour.start_ms() + random.below(50) as i64 * 60_000;
                    heap += slot.append(hour, time, step as f64);
                    let (_, growing) = model.0.entry(hour).or_default();
                    growing.insert(time, (step as f64).to_bits());
                }
            }
            if step % 16 == 0 {
                assert_eq!(
                    samples_of(&slot),
                    model.samples(),
                    "seed {seed}, step {step}"
                );
            }
        }
        // Everything goes: then nothing is left of it in the accounts either.
        for _ in 0..2 {
            for hour in model.0.keys() {
                heap += slot.drop_frozen(*hour);
            }
            let all = model.0.keys().copied().collect();
            heap += slot.freeze(&all, &mut Vec::new());
        }
        assert!(slot.is_empty(), "seed {seed}");
        assert_eq!(slot.open.heap_bytes() as isize - empty, heap, "seed {seed}");
    }
}

/// Returns the least time of several runs with the same number of appends, to all hours in turn.
/// Other work on the machine stretches runs of one length alike.
fn time_of_appends(hours: u32) -> Duration {
    let run = || {
        let mut slot = Slot::default();
        let began = Instant::now();
        for round in 0..i64::from(96_000 / hours) {
            for hour in 0..hours {
                let start = i64::from(hour) * HOUR_MS;
                slot.append(BucketStart(hour * 60), start + round * 1000, 1.0);
            }
        }
        began.elapsed()
    };
    (0..7).map(|_| run()).min().unwrap()
}

#[test]
fn an_append_does_not_take_longer_with_more_open_hours() {
    let (few, many) = (time_of_appends(500), time_of_appends(16_000));
    // Looking through all of them would take 32 times as long.
    assert!(
        many < few * 10,
        "{few:?} with 500 hours, {many:?} with 16 000"
    );
}

#[test]
fn only_a_sample_that_may_replace_a_start_says_that_it_has_none() {
    let mut slot = Slot::default();
    let hour = BucketStart(0);
    slot.append(hour, 1000, 5.0);
    assert!(slot.append_start(hour, 1000, 77) > 0);
    for second in 2..100 {
        slot.append(hour, second * 1000, 5.0);
        assert_eq!(slot.append_start(hour, second * 1000, 0), 0);
    }
    slot.append(hour, 1000, 6.0);
    assert!(slot.append_start(hour, 1000, 0) > 0);
    let part = slot.growing(hour).expect("it has starts");
    assert_eq!(part.starts(), [(1000, 77), (1000, 0)]);
    // Another hour has nothing to forget.
    let next = BucketStart(60);
    slot.append(next, HOUR_MS, 5.0);
    assert_eq!(slot.append_start(next, HOUR_MS, 0), 0);
    assert!(slot.growing(next).is_none());
}
