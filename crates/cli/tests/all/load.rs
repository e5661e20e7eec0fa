//! The load: writers that send remote write requests and know what must be there afterwards.
//!
//! Each writer owns its series, so the order of writes to a series is known. Their samples lie in the
//! last four hours and in a few hours long gone: in order, out of order, late, repeated with the same
//! or another value, stale markers and every kind of float, here and there a native histogram.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::export;
use crate::http::Client;
use crate::ledger::{Found, SeriesLedger, Value};
use crate::random::Random;
use crate::remote_write::{self, SentSeries};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// Hours before the current one that get late samples.
const LATE_HOURS: &[i64] = &[6, 7, 26, 49, 200];

/// From here on back each life of the process gets a window of 16 hours that had nothing before, so that
/// there always is something to coarsen.
const FRESH_HOURS: i64 = 240;

/// One in so many requests is followed by reading one series back.
const READ_BACK_EVERY: u64 = 6;

/// A refused request is sent again after this time.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Writer {
    number: usize,
    random: Random,
    now_ms: i64,
    /// How often series were added, which is once in each life of the process.
    lives: i64,
    series: Vec<Series>,
    /// A request whose outcome is unknown.
    unanswered: Option<Request>,
    pub(crate) acknowledged_samples: u64,
    pub(crate) acknowledged_requests: u64,
    pub(crate) unanswered_requests: u64,
    pub(crate) read_backs: u64,
}

struct Series {
    labels: Vec<(String, String)>,
    ledger: SeriesLedger,
    /// Time of its last sample in order.
    newest_ms: i64,
    counter: f64,
    has_histograms: bool,
}

struct Request {
    /// Series and what they get, in the order in which it is sent.
    parts: Vec<(usize, Vec<(i64, Value)>)>,
    body: Vec<u8>,
}

/// What became of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acknowledged,
    /// Answered with a status that asks to try again.
    Refused,
    /// The connection broke: the process is gone.
    Unanswered,
}

impl Writer {
    pub(crate) fn new(number: usize, series: usize, random: Random) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut writer = Self {
            number,
            random,
            now_ms: now.expect("it is after 1970").as_millis() as i64,
            lives: 0,
            series: Vec::new(),
            unanswered: None,
            acknowledged_samples: 0,
            acknowledged_requests: 0,
            unanswered_requests: 0,
            read_backs: 0,
        };
        writer.add_series(series);
        writer
    }

    /// Series come and go; these come.
    pub(crate) fn add_series(&mut self, count: usize) {
        self.lives += 1;
        for _ in 0..count {
            let number = self.series.len();
            let metric = self.random.pick(&["requests_total", "temperature", "up"]);
            let path = self.random.pick(&["/", "/a\"b\\c", "{x},[1]\n", "größe/δ"]);
            let labels = [
                ("__name__", metric.to_owned()),
                ("path", path.to_owned()),
                ("series", number.to_string()),
                ("writer", self.number.to_string()),
            ];
            let start = self.now_ms - 7 * HOUR_MS / 2;
            self.series.push(Series {
                labels: labels.map(|(name, value)| (name.into(), value)).into(),
                ledger: SeriesLedger::default(),
                newest_ms: start + self.random.within(0..2 * HOUR_MS),
                counter: 0.0,
                has_histograms: number % 8 == 7,
            });
        }
    }

    /// Sends until the process is gone, the time is over or enough was sent.
    pub(crate) fn run(&mut self, client: &mut Client, until: Instant, samples_max: u64) {
        let enough = self.acknowledged_samples + samples_max;
        while Instant::now() < until && self.acknowledged_samples < enough {
            match self.send_next(client) {
                Outcome::Acknowledged => {}
                Outcome::Refused => std::thread::sleep(RETRY_PAUSE),
                Outcome::Unanswered => return,
            }
            if self.random.one_in(READ_BACK_EVERY) && !self.read_back(client) {
                return;
            }
            let pause = self.random.within(0..20) as u64;
            std::thread::sleep(Duration::from_millis(pause));
        }
    }

    /// Sends the request whose outcome is unknown again, or else a new one.
    pub(crate) fn send_next(&mut self, client: &mut Client) -> Outcome {
        let request = match self.unanswered.take() {
            Some(request) => request,
            None => self.make_request(),
        };
        for (series, samples) in &request.parts {
            self.series[*series].ledger.sending(samples);
        }
        match client.post("/api/v1/write", remote_write::HEADERS, &request.body) {
            Ok(answer) if answer.is_success() => {
                for (series, samples) in &request.parts {
                    self.series[*series].ledger.acknowledged(samples);
                    self.acknowledged_samples += samples.len() as u64;
                }
                self.acknowledged_requests += 1;
                Outcome::Acknowledged
            }
            Ok(answer) if answer.status >= 500 || answer.status == 429 => {
                self.unanswered = Some(request);
                Outcome::Refused
            }
            Ok(answer) => panic!("{}: {}", answer.status, answer.text()),
            Err(_) => {
                self.unanswered_requests += 1;
                // A client that is restarted, too, never sends it again.
                self.unanswered = (!self.random.one_in(4)).then_some(request);
                Outcome::Unanswered
            }
        }
    }

    /// Reads one of its series back, while others write. False when the process is gone.
    fn read_back(&mut self, client: &mut Client) -> bool {
        let number = self.random.below(self.series.len());
        let selector = format!("{{writer=\"{}\",series=\"{number}\"}}", self.number);
        let Ok(found) = export::select(client, &selector) else {
            return false;
        };
        let series = &self.series[number];
        let none = Vec::new();
        let samples = found.get(&series.labels).unwrap_or(&none);
        let differences = series.ledger.differences(samples);
        assert!(
            differences.is_empty(),
            "read while running, {:?}: {differences:#?}",
            series.labels
        );
        self.read_backs += 1;
        true
    }

    fn make_request(&mut self) -> Request {
        let many = self.random.one_in(20);
        let mut chosen = BTreeSet::new();
        for _ in 0..=self.random.below(if many { 200 } else { 20 }) {
            chosen.insert(self.random.below(self.series.len()));
        }
        let mut chosen: Vec<usize> = chosen.into_iter().collect();
        self.random.shuffle(&mut chosen);
        let mut parts = Vec::with_capacity(chosen.len());
        let fresh_hours = FRESH_HOURS + 16 * self.lives;
        for number in chosen {
            let count = 1 + self.random.below(if many { 60 } else { 30 });
            let series = &mut self.series[number];
            let samples = series.next_samples(&mut self.random, self.now_ms, fresh_hours, count);
            parts.push((number, samples));
        }
        let sent = parts.iter().map(|(number, samples)| SentSeries {
            labels: &self.series[*number].labels,
            samples,
        });
        let body = remote_write::encode(sent);
        Request { parts, body }
    }

    /// Compares everything that was found with what must be there, and takes its series out of it.
    pub(crate) fn compare(&self, found: &mut Found) -> Vec<String> {
        let mut differences = Vec::new();
        for series in &self.series {
            let samples = found.remove(&series.labels).unwrap_or_default();
            let wrong = series.ledger.differences(&samples);
            differences.extend(wrong.iter().map(|w| format!("{:?} {w}", series.labels)));
        }
        differences
    }

    /// After a restart: what was in doubt is as it was found.
    pub(crate) fn settle(&mut self, found: &Found) {
        for series in &mut self.series {
            let samples = found.get(&series.labels);
            series
                .ledger
                .settle(samples.map(Vec::as_slice).unwrap_or_default());
        }
    }

    /// Samples that are certainly there, each time counted once.
    pub(crate) fn acknowledged_times(&self) -> usize {
        let counts = self.series.iter().map(|s| s.ledger.acknowledged_times());
        counts.sum()
    }
}

impl Series {
    fn next_samples(
        &mut self,
        random: &mut Random,
        now_ms: i64,
        fresh_hours: i64,
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
                let hours = match random.one_in(3) {
                    true => fresh_hours,
                    false => random.pick(LATE_HOURS),
                };
                let start = now_ms - hours * HOUR_MS;
                for _ in 0..count {
                    let time = start + random.within(0..HOUR_MS);
                    samples.push((time, self.value(random)));
                }
            }
            // Times that were written before, with the same value or another one.
            _ => {
                let from = now_ms + random.within(-5 * HOUR_MS..HOUR_MS / 2);
                let times = self.ledger.times().filter(|time| *time >= from);
                let times: Vec<i64> = times.take(count).collect();
                for time in times {
                    let value = match self.ledger.certain(time) {
                        Some(value) if random.one_in(2) => value,
                        _ => self.value(random),
                    };
                    samples.push((time, value));
                }
                if samples.is_empty() {
                    samples.push((now_ms, self.value(random)));
                }
            }
        }
        self.separate_kinds(&mut samples);
        samples
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

/// Reads everything and compares it with what all writers know. `None` when the process went away.
pub(crate) fn verify(client: &mut Client, writers: &mut [Writer], restarted: bool) -> Option<()> {
    let found = export::everything(client).ok()?;
    let mut rest = found.clone();
    let mut differences: Vec<String> = Vec::new();
    for writer in writers.iter() {
        differences.extend(writer.compare(&mut rest));
    }
    let strangers = rest.keys().map(|labels| format!("{labels:?} is nobody's"));
    differences.extend(strangers);
    assert!(
        differences.is_empty(),
        "{} differences, among them {:#?}",
        differences.len(),
        &differences[..differences.len().min(20)]
    );
    if restarted {
        writers.iter_mut().for_each(|writer| writer.settle(&found));
    }
    Some(())
}
