//! One series of a writer: what it gets next, and what must be there of it.
//!
//! Its samples lie where its writer says: around now and in a few hours long gone, or in chosen
//! hours that have all ended. There, too, they come in order, out of order, repeated and changed.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::ledger::{SeriesLedger, Value};
use crate::random::Random;

pub(super) const HOUR_MS: i64 = 3_600_000;

/// Hours before the current one that get late samples.
const LATE_HOURS: &[i64] = &[6, 7, 26, 49, 200];

pub(super) struct Series {
    pub(super) labels: Vec<(String, String)>,
    pub(super) ledger: SeriesLedger,
    /// Exemplars, which have a time of their own each.
    pub(super) exemplars: SeriesLedger,
    /// Time of its last sample in order.
    newest_ms: i64,
    counter: f64,
    has_histograms: bool,
}

/// Where samples lie.
#[derive(Clone, Debug)]
pub(super) enum Spread {
    /// In the hours around this time, and in some long before it.
    Around(i64),
    /// In the hours that begin at these times.
    Hours(Vec<i64>),
}

impl Series {
    pub(super) fn new(writer: usize, number: usize, newest_ms: i64, random: &mut Random) -> Self {
        let metric = random.pick(&["requests_total", "temperature", "up"]);
        let path = random.pick(&["/", "/a\"b\\c", "{x},[1]\n", "größe/δ"]);
        let labels = [
            ("__name__", metric.to_owned()),
            ("path", path.to_owned()),
            ("series", number.to_string()),
            ("writer", writer.to_string()),
        ];
        Self {
            labels: labels.map(|(name, value)| (name.into(), value)).into(),
            ledger: SeriesLedger::default(),
            exemplars: SeriesLedger::default(),
            newest_ms,
            counter: 0.0,
            has_histograms: number % 8 == 7,
        }
    }

    /// What a scrape at these times finds.
    pub(super) fn scraped(&mut self, random: &mut Random, times: &[i64]) -> Vec<(i64, Value)> {
        let samples = times.iter().map(|time| (*time, self.value(random)));
        samples.collect()
    }

    /// An exemplar in one of these hours, at a time that no other has.
    pub(super) fn next_exemplar(&self, random: &mut Random, hours: &[i64]) -> (i64, Value) {
        loop {
            let time = random.pick(hours) + random.within(0..HOUR_MS);
            if !self.exemplars.times().any(|taken| taken == time) {
                return (time, Value::Float(f64::to_bits(random.below(1000) as f64)));
            }
        }
    }

    pub(super) fn next_samples(
        &mut self,
        random: &mut Random,
        spread: &Spread,
        count: usize,
    ) -> Vec<(i64, Value)> {
        let mut samples = match spread {
            Spread::Around(now_ms) => self.samples_around(random, *now_ms, count),
            Spread::Hours(hours) => {
                let hour_ms = random.pick(hours);
                self.samples_in(random, hour_ms, count)
            }
        };
        self.separate_kinds(&mut samples);
        samples
    }

    fn samples_around(
        &mut self,
        random: &mut Random,
        now_ms: i64,
        count: usize,
    ) -> Vec<(i64, Value)> {
        let mut samples = Vec::with_capacity(count);
        match random.below(10) {
            // In order, every few seconds; from the start again when the end is reached.
            0..=4 => {
                for _ in 0..count {
                    self.newest_ms += random.pick(&[1_000, 15_000, 15_000, 60_123]);
                    if self.newest_ms > now_ms + HOUR_MS / 2 {
                        self.newest_ms -= 4 * HOUR_MS + random.within(0..1000);
                    }
                    samples.push((self.newest_ms, self.value(random)));
                }
            }
            // Anywhere in four hours.
            5..=6 => {
                for _ in 0..count {
                    let time = now_ms + random.within(-7 * HOUR_MS / 2..HOUR_MS / 2);
                    samples.push((time, self.value(random)));
                }
            }
            // Into an hour that has been flushed long ago.
            7 => {
                let start = now_ms - random.pick(LATE_HOURS) * HOUR_MS;
                for _ in 0..count {
                    let time = start + random.within(0..HOUR_MS);
                    samples.push((time, self.value(random)));
                }
            }
            _ => {
                let from = now_ms + random.within(-5 * HOUR_MS..HOUR_MS / 2);
                samples = self.repeated(random, from..i64::MAX, count);
                if samples.is_empty() {
                    samples.push((now_ms, self.value(random)));
                }
            }
        }
        samples
    }

    /// Samples in one hour that has ended: every few seconds, anywhere, or at times it has already.
    fn samples_in(&mut self, random: &mut Random, hour_ms: i64, count: usize) -> Vec<(i64, Value)> {
        let mut samples = match random.below(4) {
            0 => self.repeated(random, hour_ms..hour_ms + HOUR_MS, count),
            1 => {
                let first = hour_ms + random.within(0..HOUR_MS / 2);
                let times = (0..count as i64).map(|i| first + i * 15_000);
                self.scraped(random, &times.collect::<Vec<i64>>())
            }
            _ => {
                let times = (0..count).map(|_| hour_ms + random.within(0..HOUR_MS));
                let times: Vec<i64> = times.collect();
                self.scraped(random, &times)
            }
        };
        samples.retain(|(time, _)| *time < hour_ms + HOUR_MS);
        if samples.is_empty() {
            samples.push((hour_ms, self.value(random)));
        }
        samples
    }

    /// Times that were written before, with the same value or another one.
    fn repeated(
        &mut self,
        random: &mut Random,
        times: Range<i64>,
        count: usize,
    ) -> Vec<(i64, Value)> {
        let known = self.ledger.times().filter(|time| times.contains(time));
        let known: Vec<i64> = known.take(count).collect();
        let sample = |time| match self.ledger.certain(time) {
            Some(value) if random.one_in(2) => (time, value),
            _ => (time, self.value(random)),
        };
        known.into_iter().map(sample).collect()
    }

    /// Within one request the protocol has no order between floats and histograms, so at one time
    /// there is only one kind.
    fn separate_kinds(&self, samples: &mut Vec<(i64, Value)>) {
        if self.has_histograms {
            let mut seen = BTreeSet::new();
            samples.retain(|(time, _)| seen.insert(*time));
        }
    }

    fn value(&mut self, random: &mut Random) -> Value {
        if self.has_histograms && random.one_in(2) {
            return Value::Histogram(random.bits() as u32 >> 2);
        }
        let value = match random.below(20) {
            0 => return Value::Float(0x7ff0_0000_0000_0002),
            1 => return Value::Float(random.bits()),
            2 => random.pick(&[
                0.0,
                -0.0,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::MAX,
                f64::MIN_POSITIVE,
                f64::from_bits(1),
                f64::from_bits(0x7ff8_0000_0000_0001),
                f64::from_bits(0xfff8_0000_0000_0000),
            ]),
            3..=7 => random.within(-5000..5000) as f64 / 100.0,
            _ => {
                self.counter += random.below(20) as f64;
                self.counter
            }
        };
        Value::Float(value.to_bits())
    }
}
