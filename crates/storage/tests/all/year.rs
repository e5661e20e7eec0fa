//! A simulated year: data comes, grows old, comes late, is deleted, policies change, processes are
//! killed at any write. The same questions get the answers that a database would give that kept
//! everything.
//!
//! ```text
//! a step:  time passes ─► regular samples ─► late ones, deletions, policies, restarts
//!            ─► maintenance, to its end or until it is killed ─► answers, layout, check
//! ```
//!
//! A failing seed is printed; `ICECORE_YEAR_SEED=n` repeats it, up to what threads do in another
//! order. `ICECORE_YEAR=full` simulates a year of 230 series with the default policy, which takes
//! a quarter of an hour or more on two free cores; `--nocapture` shows how far it is, and
//! `ICECORE_YEAR_DAYS=n` ends it earlier:
//!
//! ```text
//! ICECORE_YEAR=full cargo test -p icecore-storage --test all year:: -- --nocapture
//! ```

mod answers;
mod layout;
mod model;

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use icecore_model::retention::{ColumnSet, LateData, Override, Retention, RetentionPolicy};
use icecore_model::rollup::{Resolution, WindowFields};
use icecore_model::{MatchOp, Matcher, RawLabels, Sample, SampleSink};
use icecore_storage::testing::Hooks;
use icecore_storage::{Clock, Database, Deletion};

use crate::faults::Dice;
use crate::process::{Process, World};
use crate::rollup::{DAY, FIVE, HOURLY, RAW, START};
use crate::rollup::{merging_late, policy, policy_of, set_clock, world};
use crate::rollup_histograms::Value;
use crate::support::{HOUR, raw};
use answers::{Compared, Question};
use model::{Kind, Model, Promises, Series, Shape};

/// Samples of one request at most.
const REQUEST_MAX: usize = 20_000;

/// Together about 60 s on two cores.
const SEEDS: u64 = 2;
const RUNS_AT_ONCE: usize = 2;

/// From one put at which a run is killed to the next.
const STRIDE: usize = 11;

/// Where that ends, unless the run is over before.
const PUTS_MAX: usize = 330;

/// Fewest puts of a run that has something of everything to do.
const PUTS_MIN: usize = 50;

/// What is simulated.
#[derive(Clone)]
struct Scale {
    days: i64,
    /// `(series, ms from sample to sample)`; floats and then native histograms.
    floats: Vec<(usize, i64)>,
    histograms: (usize, i64),
    policies: Vec<Option<RetentionPolicy>>,
    /// Series of one question at most.
    asked_max: u64,
    /// Hours of one step, from and to.
    step_hours: (u64, u64),
}

impl Scale {
    fn small() -> Self {
        let (full, lean) = (ColumnSet::Full, ColumnSet::Lean);
        let one_minute = Resolution::from_name("1m").unwrap();
        let policies = vec![
            Some(policy([6, 12, 40])),
            Some(merging_late(&policy([6, 12, 40]))),
            Some(merging_late(&policy_of([
                (RAW, 6, full),
                (FIVE, 12, full),
                (HOURLY, 40, full),
            ]))),
            Some(policy([8, 20, 30])),
            Some(policy_of([(RAW, 6, full), (HOURLY, 40, full)])),
            Some(policy_of([(RAW, 3, full), (FIVE, 20, full)])),
            Some(policy_of([
                (RAW, 6, full),
                (FIVE, 9, full),
                (HOURLY, 25, lean),
            ])),
            Some(policy_of([
                (RAW, 6, full),
                (one_minute, 8, lean),
                (FIVE, 50, full),
                (HOURLY, 60, full),
            ])),
            Some(RetentionPolicy::raw_for(8 * DAY).unwrap()),
            None,
            // Raw samples alone, and for longer than windows of others.
            Some(with_overrides(
                [6, 12, 40],
                &[("Counter.*", [35, 0, 0]), ("Gauge1|Mixed.*", [6, 0, 0])],
            )),
            Some(with_overrides(
                [6, 12, 40],
                &[
                    ("Counter.*|Gauge3", [30, 0, 40]),
                    ("Histogram.*", [6, 12, 0]),
                ],
            )),
        ];
        Self {
            days: 60,
            floats: vec![(18, 300_000), (2, 60_000)],
            histograms: (4, 300_000),
            policies,
            asked_max: 5,
            step_hours: (5, 40),
        }
    }

    /// Long enough for larger buckets of windows, of a few series.
    fn long() -> Self {
        let policies = [[6, 10, 200], [6, 10, 200], [8, 20, 400]];
        let full = ColumnSet::Full;
        let two = policy_of([(RAW, 6, full), (HOURLY, 365, full)]);
        let policies = policies.into_iter().map(|days| Some(policy(days)));
        let merging = Some(merging_late(&policy([6, 10, 200])));
        Self {
            days: 125,
            floats: vec![(4, 1_200_000)],
            histograms: (3, 3_600_000),
            policies: [merging]
                .into_iter()
                .chain(policies)
                .chain([Some(two)])
                .collect(),
            asked_max: 7,
            step_hours: (30, 120),
        }
    }

    /// As much as one machine collects in a year.
    fn full() -> Self {
        let policies = [[21, 90, 365], [21, 90, 365], [14, 60, 365], [30, 90, 400]];
        Self {
            days: 365,
            floats: vec![(200, 60_000), (20, 10_000)],
            histograms: (10, 60_000),
            policies: policies
                .into_iter()
                .map(|days| Some(policy(days)))
                .chain([Some(merging_late(&policy([21, 90, 365])))])
                .collect(),
            asked_max: 8,
            step_hours: (12, 48),
        }
    }

    fn series(&self) -> Vec<Series> {
        let (histograms, histogram_interval) = self.histograms;
        let floats = self.floats.iter().flat_map(|(count, interval)| {
            let kind = |at: usize| [Kind::Counter, Kind::Gauge][at % 2];
            (0..*count).map(move |at| (kind(at), *interval))
        });
        let kinds = [Kind::Histogram, Kind::CustomHistogram, Kind::Mixed];
        let histograms = (0..histograms).map(|at| (kinds[at % 3], histogram_interval));
        let shape = |(at, (kind, interval_ms)): (usize, (Kind, i64))| Shape {
            name: format!("{kind:?}{at}"),
            kind,
            interval_ms,
            // Some lie on the grid of windows.
            phase_ms: [0, 7, 31_007][at % 3].min(interval_ms - 1),
            seed: at as u64,
        };
        let all = floats.chain(histograms).enumerate().map(shape);
        all.map(Series::new).collect()
    }
}

/// Levels that merge late samples, and other times for some series.
fn with_overrides(days: [i64; 3], overrides: &[(&str, [i64; 3])]) -> RetentionPolicy {
    let levels = [RAW, FIVE, HOURLY];
    let of = |(series, days): &(&str, [i64; 3])| Override {
        matchers: vec![Matcher::new(MatchOp::Regex, "series", *series).unwrap()],
        retain: levels
            .into_iter()
            .zip(days.map(|days| Retention::For(days * DAY)))
            .collect(),
    };
    let policy = merging_late(&policy(days));
    let (levels, delay_ms) = (policy.levels().to_vec(), policy.rollup_delay_ms());
    let overrides = overrides.iter().map(of).collect();
    RetentionPolicy::new(levels, delay_ms, policy.late_data(), overrides).unwrap()
}

/// What has happened, for the report.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    steps: usize,
    runs: usize,
    killed: usize,
    restarts: usize,
    late: usize,
    merged: usize,
    refused: usize,
    deletions: usize,
    policies: usize,
    jumps: usize,
    checks: usize,
    rolled_up: usize,
    culled: usize,
    compared: Compared,
}

struct Year {
    world: World,
    /// `None` while it is replaced.
    process: Option<Process>,
    model: Model,
    policy: Option<RetentionPolicy>,
    dice: Dice,
    scale: Scale,
    counts: Counts,
    /// How far the clock of the machine is ahead of the time.
    ahead_ms: i64,
    /// When the clock of retention is right, as far as that is known.
    right_ms: i64,
}

impl Year {
    fn new(scale: Scale, seed: u64) -> Self {
        let mut world = world(START);
        world.options.store.gc_min_age = Duration::from_millis(20);
        let model = Model {
            series: scale.series(),
            written: START..START,
            promises: Promises::since(START),
        };
        let mut year = Self {
            world,
            process: None,
            model,
            policy: scale.policies[0].clone(),
            dice: Dice(seed),
            scale,
            counts: Counts::default(),
            ahead_ms: 0,
            right_ms: START,
        };
        year.start();
        year
    }

    fn now_ms(&self) -> i64 {
        self.world.clock.now_ms() - self.ahead_ms
    }

    fn process(&self) -> &Process {
        self.process.as_ref().unwrap()
    }

    fn db(&self) -> &Database {
        &self.process().db
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.dice.below(100) < percent
    }

    fn start(&mut self) {
        self.process = Some(self.world.start());
        self.right_ms = self.right_ms.max(self.now_ms() + DAY);
        self.counts.restarts += 1;
        self.hold_policy();
    }

    /// The policy holds, and what it makes too old is known.
    fn hold_policy(&mut self) {
        self.db().set_retention(self.policy.clone());
        if let Some(policy) = &self.policy {
            let now_ms = self.world.clock.now_ms() - self.ahead_ms;
            self.model.hold(policy, now_ms);
        }
    }

    /// The same with a store of its own, in a process of its own.
    fn fork(&self) -> Self {
        let mut world = World::over(Arc::new(self.world.memory().fork()));
        world.options = self.world.options.clone();
        set_clock(&world, self.now_ms());
        let mut fork = Self {
            world,
            process: None,
            model: self.model.clone(),
            policy: self.policy.clone(),
            dice: self.dice.clone(),
            scale: self.scale.clone(),
            counts: Counts::default(),
            ahead_ms: 0,
            right_ms: self.now_ms(),
        };
        fork.start();
        fork
    }

    /// Whether the clock of retention, which is behind after a restart, is right again.
    fn has_caught_up(&self) -> bool {
        self.ahead_ms == 0 && self.now_ms() >= self.right_ms
    }

    fn restart(&mut self) {
        let process = self.process.take().unwrap();
        if self.chance(50) {
            process.close();
        } else {
            process.crash();
        }
        self.start();
    }

    /// Does something; whether it came to its end before the power went off, after a few puts.
    fn do_until_killed(&mut self, work: impl AsyncFnOnce(&Database)) -> bool {
        // As often after one put as after a hundred.
        let power = self.dice.below(5) as u32;
        let puts = self.dice.below(4u64.pow(power)) as usize;
        self.do_until_put(puts, work)
    }

    /// The same with the number of puts after which the power goes off.
    fn do_until_put(&mut self, puts: usize, work: impl AsyncFnOnce(&Database)) -> bool {
        let process = self.process.take().unwrap();
        process.faults.power_off_after(puts);
        let done = process.run(async {
            let off = async {
                while !process.faults.is_off() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::select! {
                biased;
                () = off => false,
                () = work(&process.db) => !process.faults.is_off(),
            }
        });
        self.counts.killed += usize::from(!done);
        process.crash();
        self.start();
        done
    }

    /// Time passes, and what belongs to it is written.
    fn live(&mut self, hours: i64) {
        self.world.clock.advance(hours * HOUR);
        self.hold_policy();
        self.write_regular();
    }

    fn step(&mut self) {
        self.counts.steps += 1;
        let (from, to) = self.scale.step_hours;
        let hours = from + self.dice.below(to - from);
        self.live(hours as i64);
        if self.chance(60) {
            for _ in 0..=self.dice.below(6) {
                self.write_late();
            }
        }
        if self.chance(15) {
            self.delete();
        }
        if self.chance(8) {
            self.change_policy();
        }
        if self.chance(15) {
            self.restart();
        }
        if self.chance(5) {
            self.jump();
        }
        if self.chance(25) {
            let whole = self.do_until_killed(async |db| {
                let _ = db.flush_buckets().await;
            });
            self.ask(if whole {
                "flushed"
            } else {
                "killed in a flush"
            });
        }
        match self.dice.below(10) {
            0..3 => {
                self.do_until_killed(async |db| {
                    let _ = db.run_maintenance().await;
                });
                self.ask("killed in a run");
            }
            3..7 => self.maintain(),
            _ => {}
        }
        self.ask("after a step");
    }

    fn write_regular(&mut self) {
        let range = self.model.written.end..self.now_ms();
        let requests = requests(&self.model.series, range.clone());
        if self.chance(10) {
            let sent = requests.clone();
            self.do_until_killed(async |db| {
                for request in sent {
                    let _ = write(db, request).await;
                }
            });
        }
        // What was under way when the process was killed is sent again.
        for request in requests {
            let count = request
                .iter()
                .map(|(_, samples)| samples.len())
                .sum::<usize>();
            let written = self.process().run(write(self.db(), request));
            assert_eq!(
                written.as_ref().map(|(stored, _)| *stored),
                Ok(count),
                "{written:?}"
            );
        }
        self.model.written.end = range.end;
    }

    /// A sample of some time that has passed, which is refused where it would come too late.
    fn write_late(&mut self) {
        let at = self.dice.below(self.model.series.len() as u64) as usize;
        let series = &self.model.series[at];
        // Where raw samples of others are gone, those of all series come late.
        let own_since = series.promises.kept_since(RAW);
        let gone_ms = series.promises.gone_ms();
        let raw_since = self
            .model
            .promises
            .kept_since(RAW)
            .max(own_since)
            .max(START);
        let now = self.now_ms();
        let mut from = match self.dice.below(10) {
            0..4 => now - DAY,
            4..8 => raw_since,
            _ => START,
        };
        let is_merged = |policy: &RetentionPolicy| policy.late_data() == LateData::Merge;
        if self.policy.as_ref().is_some_and(is_merged) && self.chance(50) {
            from = gone_ms;
        }
        from = from.max(START);
        let time = from + self.dice.below((now - from).max(1) as u64) as i64;
        // Time that was too old for a while may have something or not.
        let series = &self.model.series[at];
        let told = self.told_ms(series);
        if time < gone_ms && time >= told {
            return;
        }
        let known = series.regular(time..time + series.shape.interval_ms).next();
        // Half of them take the place of a sample.
        let (time, value) = match (known, self.dice.below(2)) {
            (Some((time, value)), 0) if !value.is_stale() => (time, value),
            (Some((_, value)), _) if !value.is_stale() => (time, value),
            _ => return,
        };
        // Where it is merged into windows, a sample of the same time would count twice.
        let is_old = time < raw_since;
        if time >= now || (is_old && self.model.series[at].knows(time)) {
            return;
        }
        let value = match value {
            Value::Float(_) => Value::Float(self.dice.below(1 << 12) as f64 / 8.0),
            histogram => histogram,
        };
        let request = vec![(
            raw("m", &self.model.series[at].shape.name),
            vec![(time, value.clone())],
        )];
        let (stored, reason) = self.process().run(write(self.db(), request)).unwrap();
        let what = format!("a late sample at {time}, now {now}, raw since {raw_since}");
        if stored == 1 {
            assert!(time >= told, "{what}: older than is kept");
            self.counts.late += 1;
            if is_old {
                self.counts.merged += 1;
                self.model.series[at].merge(time, value);
            } else {
                self.model.series[at].add(time, value);
            }
        } else {
            self.counts.refused += 1;
            assert!(reason.starts_with("too old sample"), "{what}: {reason}");
            assert!(time < raw_since, "{what}: {reason}");
        }
    }

    /// What is older is refused and not shown, as far as that is certain.
    fn told_ms(&self, series: &Series) -> i64 {
        let retain_ms = self.policy.as_ref().and_then(|policy| {
            let class = series.shape.class(policy);
            let levels = policy.levels().iter();
            let retained = levels.map(|level| policy.retain(class, level.resolution));
            retained.max().and_then(|longest| longest.ms())
        });
        match retain_ms {
            Some(retain_ms) if self.has_caught_up() => {
                self.now_ms().div_euclid(HOUR) * HOUR - retain_ms
            }
            _ => i64::MIN,
        }
    }

    /// Some hours of some series, whole or not.
    fn delete(&mut self) {
        let (first, last) = (START / HOUR, self.model.written.end / HOUR);
        let hours = (last - first).max(1) as u64;
        let from = first + self.dice.below(hours) as i64;
        let length = [1, 3, 30, 300][self.dice.below(4) as usize];
        let to = (from + 1 + self.dice.below(length) as i64).min(last);
        if from >= to {
            return;
        }
        let mut range = from * HOUR..to * HOUR;
        if self.chance(40) {
            range.start += self.dice.below(HOUR as u64 / 2) as i64;
            range.end -= self.dice.below(HOUR as u64 / 2) as i64;
        }
        let series = self.some_series();
        let names: Vec<&str> = series
            .iter()
            .map(|at| self.model.series[*at].shape.name.as_str())
            .collect();
        let matcher = Matcher::new(MatchOp::Regex, "series", names.join("|")).unwrap();
        let deletion = Deletion {
            selectors: vec![vec![matcher]],
            start_ms: range.start,
            end_ms: range.end - 1,
        };
        if self.chance(30) {
            let sent = deletion.clone();
            self.do_until_killed(async |db| {
                let _ = db.delete_series(sent).await;
            });
        }
        self.process()
            .run(self.db().delete_series(deletion))
            .unwrap();
        for at in series {
            self.model.series[at].delete(range.clone());
        }
        self.counts.deletions += 1;
        self.ask(&format!("hours {from} to {to} deleted"));
    }

    fn some_series(&mut self) -> Vec<usize> {
        let all = self.model.series.len() as u64;
        let count = 1 + self.dice.below(self.scale.asked_max);
        let mut series: Vec<usize> = (0..count).map(|_| self.dice.below(all) as usize).collect();
        series.sort_unstable();
        series.dedup();
        series
    }

    fn change_policy(&mut self) {
        let at = self.dice.below(self.scale.policies.len() as u64) as usize;
        self.policy = self.scale.policies[at].clone();
        self.counts.policies += 1;
        self.hold_policy();
        self.ask("another policy");
    }

    /// Somebody sets the clock, and notices it a run later.
    fn jump(&mut self) {
        let days = 1 + self.dice.below(20) as i64;
        let by_ms = if self.chance(50) {
            days * DAY
        } else {
            -days * DAY
        };
        self.world.clock.jump(by_ms);
        self.ahead_ms = by_ms;
        self.counts.jumps += 1;
        if self.chance(30) {
            self.restart();
        }
        self.hold_policy();
        self.maintain();
        self.ask("the clock is wrong");
        self.world.clock.jump(-by_ms);
        self.ahead_ms = 0;
        // It catches up ten times as fast as time passes.
        self.right_ms = self.now_ms() + 3 * DAY;
        self.hold_policy();
    }

    /// A run that comes to its end, and what it leaves. Meanwhile questions are asked.
    fn maintain(&mut self) {
        let count = self.dice.below(4);
        let questions: Vec<Question> = (0..count).flat_map(|_| self.questions()).collect();
        let (report, compared) = self.process().run(async {
            let asking = async {
                let mut all = Compared::default();
                for question in &questions {
                    let what = format!("in a run, hour {}", self.now_ms() / HOUR);
                    all.add(answers::compare(self.db(), &self.model, question, &what).await);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                all
            };
            tokio::join!(self.db().run_maintenance(), asking)
        });
        self.counts.compared.add(compared);
        let report = report.unwrap();
        assert_eq!(report.skipped, [], "nothing fails");
        self.counts.runs += 1;
        self.counts.rolled_up += report.rolled_up;
        self.counts.culled += report.culled;
        self.ask("after a run");
        if self.has_caught_up() {
            layout::check(self.db(), self.policy.as_ref(), self.now_ms());
        }
        if self.chance(15) {
            self.check_store();
        }
    }

    /// The store from outside, after a run.
    fn check_store(&mut self) {
        self.counts.checks += 1;
        // Whoever read during the last one may have kept something.
        let report = self.process().run(self.db().run_maintenance()).unwrap();
        assert_eq!(report.skipped, []);
        layout::no_orphans(&self.world, self.process());
        self.world.check();
    }

    /// One for samples, one for windows of 5 minutes and one for those of an hour.
    fn questions(&mut self) -> Vec<Question> {
        let last = self.now_ms().div_euclid(HOUR) + 1;
        let lean = WindowFields::ALL.without(WindowFields::M2 | WindowFields::CHANGES);
        let steps = [(0, 100), (HOUR / 2, 200), (HOUR, 1500)];
        let question = |(step_ms, hours_max)| {
            let series = self.some_series();
            let gone = series.iter().map(|at| &self.model.series[*at]);
            let gone = gone.map(|series| series.promises.gone_ms()).max();
            let first = gone.unwrap_or(START).max(START).div_euclid(HOUR);
            let from = first + self.dice.below((last - first).max(1) as u64) as i64;
            let to = (from + 1 + self.dice.below(hours_max) as i64).min(last);
            Question {
                series,
                hours: (from, to.max(from + 1)),
                step_ms,
                fields: [lean, WindowFields::ALL][self.dice.below(2) as usize],
            }
        };
        steps.into_iter().map(question).collect()
    }

    /// Asks the questions of a step.
    fn ask(&mut self, when: &str) {
        let what = format!("{when}, hour {}", self.now_ms() / HOUR);
        for question in self.questions() {
            let asking = answers::compare(self.db(), &self.model, &question, &what);
            let compared = self.process().run(asking);
            self.counts.compared.add(compared);
        }
        if self.chance(10) {
            let series = self.some_series();
            let extent = (START, self.now_ms());
            let told = |series: &Series| self.told_ms(series);
            let looking =
                answers::nothing_comes_back(self.db(), &self.model, &series, extent, told, when);
            self.process().run(looking);
        }
    }
}

type Request = Vec<(Vec<u8>, Vec<(i64, Value)>)>;

/// The samples that are written on time, as requests.
fn requests(series: &[Series], range: Range<i64>) -> Vec<Request> {
    let mut requests = vec![Request::new()];
    let mut room = REQUEST_MAX;
    for series in series {
        let samples: Vec<_> = series.regular(range.clone()).collect();
        if samples.len() > room {
            requests.push(Request::new());
            room = REQUEST_MAX;
        }
        room = room.saturating_sub(samples.len());
        let request = requests.last_mut().unwrap();
        request.push((raw("m", &series.shape.name), samples));
    }
    requests
}

/// Writes; how many samples were stored, and why others were not.
async fn write(db: &Database, request: Request) -> Result<(usize, String), String> {
    let written = db.write(move |batch| {
        for (labels, samples) in &request {
            batch.series(RawLabels(labels));
            for (timestamp_ms, value) in samples {
                match value {
                    Value::Float(value) => batch.sample(Sample {
                        timestamp_ms: *timestamp_ms,
                        value: *value,
                        start_timestamp_ms: 0,
                    }),
                    Value::Histogram(histogram) => {
                        batch.histogram(*timestamp_ms, 0, (**histogram).clone());
                    }
                }
            }
        }
        Ok::<(), ()>(())
    });
    let outcome = written.await.map_err(|cause| format!("{cause:?}"))?;
    let stored = (outcome.samples + outcome.histograms) as usize;
    let reason = outcome
        .rejected
        .first()
        .map(|rejected| rejected.reason.clone());
    Ok((stored, reason.unwrap_or_default()))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|n| n.parse().ok())
}

fn simulate(scale: Scale, seed: u64) -> Year {
    let started = std::time::Instant::now();
    let days = number("ICECORE_YEAR_DAYS").map_or(scale.days, |days| days as i64);
    let mut year = Year::new(scale, seed);
    let mut month = 0;
    while year.now_ms() < START + days * DAY {
        year.step();
        let elapsed = (year.now_ms() - START) / (30 * DAY);
        if elapsed > month {
            month = elapsed;
            eprintln!(
                "{} days, {:.0} s",
                30 * month,
                started.elapsed().as_secs_f64()
            );
        }
    }
    year.maintain();
    year.check_store();
    year.restart();
    year.ask("at the end");
    let seconds = started.elapsed().as_secs_f64();
    eprintln!(
        "seed {seed}: {days} days in {seconds:.1} s: {:?}",
        year.counts
    );
    layout::report(&year.world, year.db(), &year.model);
    year
}

#[test]
fn a_year_passes() {
    let seeds: Vec<u64> = match number("ICECORE_YEAR_SEED") {
        Some(seed) => vec![seed],
        None if is_full() => vec![0],
        None => (0..number("ICECORE_YEAR_SEEDS").unwrap_or(SEEDS)).collect(),
    };
    // Much of a run is waiting for the compactor, so several share the cores.
    each_at_once(seeds, |seed| {
        let scale = if is_full() {
            Scale::full()
        } else {
            Scale::small()
        };
        let passed = std::panic::catch_unwind(|| simulate(scale, seed));
        assert!(passed.is_ok(), "ICECORE_YEAR_SEED={seed} fails");
    });
}

/// Windows of an hour come to lie in buckets of 1 024 hours.
#[test]
fn months_pass() {
    let seed = number("ICECORE_YEAR_SEED").unwrap_or(1);
    let year = simulate(Scale::long(), seed);
    let levels = year.db().rolled_levels();
    let large = |(level, bucket): &(Resolution, icecore_records::Bucket)| {
        *level == HOURLY && bucket.size.exponent() == 11
    };
    assert!(
        levels.iter().any(large),
        "ICECORE_YEAR_SEED={seed}: {levels:?}"
    );
}

/// A run with something to do for every job is killed at its first put, its second, and so on: all
/// questions get the same answers, and the next run does the rest.
#[test]
fn a_run_may_be_killed_at_every_put() {
    let mut year = Year::new(
        Scale {
            floats: vec![(4, 300_000)],
            histograms: (3, 600_000),
            policies: vec![Some(merging_late(&policy([6, 12, 40])))],
            ..Scale::small()
        },
        7,
    );
    year.live(11 * 24);
    year.maintain();
    year.live(6 * 24);
    for _ in 0..20 {
        year.write_late();
    }
    year.delete();
    year.delete();
    year.live(2 * 24);
    year.process.take().unwrap().crash();
    let year = &year;
    // Every put in the full version.
    let (stride, puts_max) = if is_full() {
        (1, usize::MAX)
    } else {
        (STRIDE, PUTS_MAX)
    };
    let puts = std::sync::atomic::AtomicUsize::new(0);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    each_at_once((0..RUNS_AT_ONCE as u64).collect(), |worker| {
        while !is_over.load(Relaxed) && puts.load(Relaxed) < puts_max {
            let puts = puts.fetch_add(stride, Relaxed) + worker as usize % stride;
            let mut fork = year.fork();
            // The clock of retention has to catch up.
            fork.world.clock.advance(DAY);
            fork.hold_policy();
            let whole = fork.do_until_put(puts, async |db| {
                let _ = db.run_maintenance().await;
            });
            is_over.fetch_or(whole, Relaxed);
            for _ in 0..4 {
                fork.ask(&format!("killed at put {puts}"));
            }
            if puts % (8 * stride) < stride {
                fork.world.clock.advance(DAY);
                fork.hold_policy();
                fork.maintain();
                fork.check_store();
            }
        }
    });
    let puts = puts.load(Relaxed);
    assert!(puts > PUTS_MIN, "only {puts} puts");
    eprintln!("a run was killed at about {puts} puts, in strides of {stride}");
}

fn is_full() -> bool {
    std::env::var("ICECORE_YEAR").is_ok_and(|scale| scale == "full")
}

/// Does something with each of them, a few at a time.
fn each_at_once(all: Vec<u64>, work: impl Fn(u64) + Sync) {
    let left = Mutex::new(all);
    std::thread::scope(|scope| {
        for _ in 0..RUNS_AT_ONCE {
            scope.spawn(|| {
                while let Some(next) = { left.lock().unwrap().pop() } {
                    work(next);
                }
            });
        }
    });
}
