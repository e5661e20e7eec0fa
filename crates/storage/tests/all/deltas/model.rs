//! Random deltas with resends, gaps, overlaps, flushes and crashes: each total equals the sum of
//! the distinct points that were acknowledged before it.
//!
//! `PROPTEST_CASES=500 cargo test -p icecore-storage --test all deltas::model` is the long form.

use std::collections::BTreeMap;
use std::time::Duration;

use icecore_storage::testing::Hooks;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

use super::*;
use crate::process::World;

const CASES: u32 = 24;
const SERIES: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Send(Vec<NextPoint>),
    /// The power goes after so many puts; the sender tries again with the next process.
    SendAndCrash(Vec<NextPoint>, usize),
    Flush,
    FlushAndCrash(usize),
    Drain,
    /// Time passes: idle series leave the head.
    Pass,
    Crash,
    Restart,
}

/// A point, relative to those that its series had before.
#[derive(Clone, Debug)]
struct NextPoint {
    series: usize,
    kind: Kind,
    value: u16,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Continues,
    Gap,
    Overlaps,
    WithoutStart,
    NextHour,
    Resend(usize),
}

fn point() -> impl Strategy<Value = NextPoint> {
    let kind = prop_oneof![
        6 => Just(Kind::Continues),
        1 => Just(Kind::Gap),
        1 => Just(Kind::Overlaps),
        1 => Just(Kind::WithoutStart),
        1 => Just(Kind::NextHour),
        3 => (0usize..4).prop_map(Kind::Resend),
    ];
    (0..SERIES, kind, any::<u16>()).prop_map(|(series, kind, value)| NextPoint {
        series,
        kind,
        value,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let points = || prop::collection::vec(point(), 1..8);
    prop_oneof![
        8 => points().prop_map(Step::Send),
        2 => (points(), 0usize..3).prop_map(|(points, puts)| Step::SendAndCrash(points, puts)),
        2 => Just(Step::Flush),
        3 => (0usize..12).prop_map(Step::FlushAndCrash),
        1 => Just(Step::Drain),
        1 => Just(Step::Pass),
        2 => Just(Step::Crash),
        1 => Just(Step::Restart),
    ]
}

/// What the totals should be.
#[derive(Default)]
struct Oracle {
    sent: BTreeMap<usize, Vec<Delta>>,
    content: Content,
    duplicates: u64,
}

impl Oracle {
    /// The points that are sent next, each of them entered.
    fn enter(&mut self, next: &[NextPoint]) -> Vec<Delta> {
        self.duplicates = 0;
        next.iter().map(|point| self.enter_one(point)).collect()
    }

    fn enter_one(&mut self, next: &NextPoint) -> Delta {
        let sent = self.sent.entry(next.series).or_default();
        let name = format!("s{}", next.series);
        let end = sent.last().map_or(T0, |last| last.end);
        let (start, length) = match next.kind {
            Kind::Resend(back) if !sent.is_empty() => {
                self.duplicates += 1;
                return sent[sent.len() - 1 - back.min(sent.len() - 1)].clone();
            }
            Kind::Continues | Kind::Resend(_) => (end, 1000),
            Kind::Gap => (end + 500, 1000),
            Kind::Overlaps if !sent.is_empty() => (end - 1, 1000),
            Kind::Overlaps | Kind::WithoutStart => (0, 0),
            Kind::NextHour => (end, HOUR),
        };
        let at = match start {
            0 => end + 700,
            start => start + length,
        };
        let point = delta(&name, start, at, f64::from(next.value));
        sent.push(point.clone());
        let totals = self.content.entry(name).or_default();
        let before = totals.values().next_back().copied().unwrap_or(0);
        let total = f64::from_bits(before) + f64::from(next.value);
        totals.insert(at, total.to_bits());
        point
    }
}

fn config() -> Config {
    let cases = std::env::var("PROPTEST_CASES").ok();
    Config {
        cases: cases.and_then(|n| n.parse().ok()).unwrap_or(CASES),
        max_shrink_time: 120_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    }
}

fn run(steps: &[Step]) {
    let mut world = World::new();
    world.options.head.series_idle_max = Duration::from_secs(60);
    world.options.head.flush_batch_records = 2;
    world.options.limits.delta_idle = Duration::from_secs(1 << 30);
    let mut oracle = Oracle::default();
    let mut process = world.start();
    for (number, step) in steps.iter().enumerate() {
        process = match step {
            Step::Send(next) => {
                let points = oracle.enter(next);
                let outcome = send(&process, &points);
                assert_eq!(outcome.rejected, [], "step {number}");
                assert_eq!(outcome.duplicates, oracle.duplicates, "step {number}");
                process
            }
            Step::SendAndCrash(next, puts) => {
                let points = oracle.enter(next);
                process.faults.power_off_after(*puts);
                // Whether it arrived is not known to the sender, so it sends it again.
                let _ = process.run_until_off(try_send(&process.db, points.clone()));
                process.crash();
                let process = world.start();
                assert_eq!(send(&process, &points).rejected, [], "step {number}");
                process
            }
            Step::Flush => {
                process.run(process.db.flush_buckets()).expect("flushed");
                process
            }
            Step::FlushAndCrash(puts) => {
                process.faults.power_off_after(*puts);
                let _ = process.run_until_off(process.db.flush_buckets());
                process.crash();
                world.start()
            }
            Step::Drain => {
                process.run(process.db.flush()).expect("drained");
                assert_eq!(process.db.gauges().journal_epochs, 0);
                process
            }
            Step::Pass => {
                world.clock.advance(HOUR);
                process.run(process.db.tick()).expect("maintained");
                process
            }
            Step::Crash => {
                process.crash();
                world.start()
            }
            Step::Restart => {
                process.close();
                world.start()
            }
        };
        let found = process.run(read(&process.db, everything()));
        assert_eq!(found, oracle.content, "after step {number}");
    }
    process.close();
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn totals_are_the_sums_of_distinct_points(steps in prop::collection::vec(step(), 1..25)) {
        run(&steps);
    }
}
