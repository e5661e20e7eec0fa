//! What each part of a plan took, for EXPLAIN.
//!
//! Holds always: time counts for the innermost part that runs, and for no other, so all parts
//! together took as long as the query. What a part computes on several threads counts once, and
//! waiting for the store counts for the part that waits.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use icecore_model::rollup::Resolution;
use icecore_model::{Levels, SeriesSamples};
use parking_lot::Mutex;

use crate::rollup::windows;

/// A part of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// A node, by its address: a plan does not move while it runs.
    Node(usize),
    /// A scan, by its number.
    Scan(usize),
}

impl Part {
    pub(crate) fn node<T>(node: &T) -> Self {
        Self::Node(std::ptr::from_ref(node).addr())
    }
}

/// What a part took, yielded and read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cost {
    time: Duration,
    rows: Option<u64>,
    series: u64,
    samples: u64,
    windows: BTreeMap<Resolution, u64>,
    /// Which levels answer which time, for each class of series.
    pub(crate) levels: Vec<Arc<Levels>>,
}

/// The costs of a running plan.
#[derive(Debug)]
pub(crate) struct Profile(Mutex<State>);

#[derive(Debug)]
struct State {
    costs: HashMap<Part, Cost>,
    running: Option<Part>,
    since: Instant,
}

impl State {
    /// Charges the part that runs with the time since the last change, and lets another one run.
    fn change_to(&mut self, next: Option<Part>) -> Option<Part> {
        let now = Instant::now();
        let time = now.duration_since(std::mem::replace(&mut self.since, now));
        let previous = std::mem::replace(&mut self.running, next);
        if let Some(part) = previous {
            self.costs.entry(part).or_default().time += time;
        }
        previous
    }
}

impl Profile {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State {
            costs: HashMap::new(),
            running: None,
            since: Instant::now(),
        }))
    }

    /// A part runs until the answer is dropped; then the one that called it goes on.
    pub(crate) fn run(&self, part: Part) -> Running<'_> {
        let caller = self.0.lock().change_to(Some(part));
        Running {
            profile: self,
            caller,
        }
    }

    /// Counts rows that a part has yielded.
    pub(crate) fn yielded(&self, part: Part, rows: usize) {
        let mut state = self.0.lock();
        let yielded = &mut state.costs.entry(part).or_default().rows;
        *yielded = Some(yielded.unwrap_or_default() + rows as u64);
    }

    /// Keeps the levels that answer the part that runs.
    pub(crate) fn opened(&self, levels: Vec<Arc<Levels>>) {
        let mut state = self.0.lock();
        if let Some(part) = state.running {
            state.costs.entry(part).or_default().levels = levels;
        }
    }

    /// Counts what the part that runs has read.
    pub(crate) fn read(&self, batch: &[SeriesSamples]) {
        let mut state = self.0.lock();
        let Some(part) = state.running else {
            return;
        };
        let cost = state.costs.entry(part).or_default();
        cost.series += batch.len() as u64;
        let samples: usize = batch.iter().map(SeriesSamples::sample_count).sum();
        cost.samples += samples as u64;
        for (level, count) in windows(batch) {
            *cost.windows.entry(level).or_default() += count;
        }
    }

    /// The cost of a part, if it has run.
    pub(crate) fn cost(&self, part: Part) -> Option<Cost> {
        self.0.lock().costs.get(&part).cloned()
    }
}

/// A part that runs.
#[derive(Debug)]
pub(crate) struct Running<'p> {
    profile: &'p Profile,
    caller: Option<Part>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.profile.0.lock().change_to(self.caller);
    }
}

/// `1.25 ms, 20 rows` of an operator; `3.1 ms, 20 series, 4800 samples, 12 windows of 5m` of a
/// read.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ms", self.time.as_secs_f64() * 1e3)?;
        if let Some(rows) = self.rows {
            write!(f, ", {}", counted(rows, "row"))?;
        }
        if self.series > 0 {
            write!(f, ", {} series", self.series)?;
            write!(f, ", {}", counted(self.samples, "sample"))?;
        }
        for (level, count) in &self.windows {
            write!(f, ", {} of {level}", counted(*count, "window"))?;
        }
        Ok(())
    }
}

fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time counts for the innermost part alone.
    #[test]
    fn parts_take_turns() {
        let profile = Profile::new();
        let began = Instant::now();
        let (outer, inner) = (Part::Node(1), Part::Scan(0));
        let running = profile.run(outer);
        {
            let _inner = profile.run(inner);
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(running);
        let all = began.elapsed();
        let time = |part| profile.cost(part).unwrap().time;
        assert!(time(inner) >= Duration::from_millis(1));
        // Time that counted for both would be there twice.
        assert!(time(outer) + time(inner) <= all);
        assert!(profile.cost(Part::Scan(1)).is_none());
    }

    #[test]
    fn costs_are_text() {
        let mut cost = Cost {
            time: Duration::from_micros(1250),
            rows: Some(1),
            ..Cost::default()
        };
        assert_eq!(cost.to_string(), "1.25 ms, 1 row");
        cost.rows = None;
        cost.series = 2;
        cost.samples = 480;
        cost.windows.insert(Resolution::FIVE_MINUTES, 12);
        assert_eq!(
            cost.to_string(),
            "1.25 ms, 2 series, 480 samples, 12 windows of 5m"
        );
    }
}
