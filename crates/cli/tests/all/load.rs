//! The load: writers that send remote write requests and know what must be there afterwards.
//!
//! Each writer owns its series, so the order of writes to a series is known. Their samples lie in
//! the last four hours and in a few hours long gone, or in chosen hours that have ended, then with
//! exemplars: in order, out of order, late, repeated with the same or another value, stale markers
//! and every kind of float, here and there a native histogram.

mod series;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::export;
use crate::http::Client;
use crate::ledger::{Found, Value};
use crate::random::Random;
use crate::remote_write::{self, SentSeries};
use series::{HOUR_MS, Series, Spread};

/// One in so many requests is followed by reading one series back.
const READ_BACK_EVERY: u64 = 6;

/// A refused request is sent again after this time.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Writer {
    number: usize,
    random: Random,
    now_ms: i64,
    spread: Spread,
    series: Vec<Series>,
    /// A request whose outcome is unknown.
    unanswered: Option<Request>,
    pub(crate) acknowledged_samples: u64,
    pub(crate) acknowledged_requests: u64,
    pub(crate) unanswered_requests: u64,
    pub(crate) read_backs: u64,
}

struct Request {
    /// Series and what they get, in the order in which it is sent.
    parts: Vec<Part>,
    body: Vec<u8>,
}

struct Part {
    series: usize,
    samples: Vec<(i64, Value)>,
    exemplars: Vec<(i64, Value)>,
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

/// The shared state of clients that send at the same time: their progress, and whether they go on.
/// Tests wait for numbers of requests, so that a load is the same on every machine.
#[derive(Default)]
pub(crate) struct Load {
    acknowledged: AtomicU64,
    ended: AtomicUsize,
    is_over: AtomicBool,
}

impl Load {
    pub(crate) fn goes_on(&self) -> bool {
        !self.is_over.load(SeqCst)
    }

    /// The number of acknowledged requests of all clients.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(SeqCst)
    }

    pub(crate) fn note_acknowledged(&self) {
        self.acknowledged.fetch_add(1, SeqCst);
    }

    /// The number of clients that have sent enough, or whose server is gone.
    pub(crate) fn ended(&self) -> usize {
        self.ended.load(SeqCst)
    }

    pub(crate) fn stop(&self) {
        self.is_over.store(true, SeqCst);
    }

    /// Stops all clients when it is dropped, also by a panic, which would wait for them otherwise.
    pub(crate) fn stopping(&self) -> Stopping<'_> {
        Stopping(self)
    }

    /// Counts one client as ended when it is dropped.
    pub(crate) fn ending(&self) -> Ending<'_> {
        Ending(self)
    }
}

pub(crate) struct Stopping<'a>(&'a Load);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

pub(crate) struct Ending<'a>(&'a Load);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, SeqCst);
    }
}

impl Writer {
    pub(crate) fn new(number: usize, series: usize, random: Random) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = now.expect("it is after 1970").as_millis() as i64;
        let mut writer = Self {
            number,
            random,
            now_ms,
            spread: Spread::Around(now_ms),
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

    /// From now on its samples lie in the hours that begin at these times, all of which have ended.
    pub(crate) fn write_into(&mut self, hours_ms: &[i64]) {
        self.spread = Spread::Hours(hours_ms.to_vec());
    }

    /// Series come and go; these come.
    pub(crate) fn add_series(&mut self, count: usize) {
        for _ in 0..count {
            let start = self.now_ms - 7 * HOUR_MS / 2;
            let newest_ms = start + self.random.within(0..2 * HOUR_MS);
            let number = self.series.len();
            let series = Series::new(self.number, number, newest_ms, &mut self.random);
            self.series.push(series);
        }
    }

    /// Sends a few scrapes of all its series in each of its hours, at the same times for all of
    /// them.
    pub(crate) fn fill(&mut self, client: &mut Client, scrapes: usize) -> Outcome {
        let Spread::Hours(hours) = self.spread.clone() else {
            panic!("a writer around now is not filled");
        };
        for hour in hours {
            let times = (0..scrapes as i64)
                .map(|i| hour + i * 15_000 + self.random.within(0..1000))
                .collect::<Vec<i64>>();
            let parts = self.series.iter_mut().enumerate().map(|(number, series)| {
                let samples = series.scraped(&mut self.random, &times);
                let exemplars = if self.random.one_in(8) {
                    vec![series.next_exemplar(&mut self.random, &[hour])]
                } else {
                    Vec::new()
                };
                Part {
                    series: number,
                    samples,
                    exemplars,
                }
            });
            let parts = parts.collect();
            let request = self.encoded(parts);
            match self.send(client, request) {
                Outcome::Acknowledged => {}
                other => return other,
            }
        }
        Outcome::Acknowledged
    }

    /// Sends until the process is gone, the load is over or enough was sent.
    pub(crate) fn run(&mut self, client: &mut Client, load: &Load, samples_max: u64) {
        let _ended = load.ending();
        let enough = self.acknowledged_samples + samples_max;
        while load.goes_on() && self.acknowledged_samples < enough {
            match self.send_next(client) {
                Outcome::Acknowledged => load.note_acknowledged(),
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
        self.send(client, request)
    }

    fn send(&mut self, client: &mut Client, request: Request) -> Outcome {
        for part in &request.parts {
            let series = &mut self.series[part.series];
            series.ledger.sending(&part.samples);
            series.exemplars.sending(&part.exemplars);
        }
        match client.post("/api/v1/write", remote_write::HEADERS, &request.body) {
            Ok(answer) if answer.is_success() => {
                for part in &request.parts {
                    let series = &mut self.series[part.series];
                    series.ledger.acknowledged(&part.samples);
                    series.exemplars.acknowledged(&part.exemplars);
                    self.acknowledged_samples += part.samples.len() as u64;
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
        for number in chosen {
            let count = 1 + self.random.below(if many { 60 } else { 30 });
            let series = &mut self.series[number];
            let samples = series.next_samples(&mut self.random, &self.spread, count);
            let mut exemplars = Vec::new();
            if let Spread::Hours(hours) = &self.spread
                && self.random.one_in(4)
            {
                exemplars.push(series.next_exemplar(&mut self.random, hours));
            }
            parts.push(Part {
                series: number,
                samples,
                exemplars,
            });
        }
        self.encoded(parts)
    }

    fn encoded(&self, parts: Vec<Part>) -> Request {
        let sent = parts.iter().map(|part| SentSeries {
            labels: &self.series[part.series].labels,
            samples: &part.samples,
            exemplars: &part.exemplars,
        });
        let body = remote_write::encode(sent);
        Request { parts, body }
    }

    /// Compares everything that was found with what must be there, and takes its series out of it.
    fn compare(&self, found: &mut Found, exemplars: &mut Found) -> Vec<String> {
        let mut differences = Vec::new();
        for series in &self.series {
            let of = |found: &mut Found| found.remove(&series.labels).unwrap_or_default();
            let wrong = series.ledger.differences(&of(found));
            differences.extend(wrong.iter().map(|w| format!("{:?} {w}", series.labels)));
            let wrong = series.exemplars.differences(&of(exemplars));
            let wrong = wrong.iter();
            differences.extend(wrong.map(|w| format!("{:?} exemplar {w}", series.labels)));
        }
        differences
    }

    /// After a restart: what was in doubt is as it was found.
    fn settle(&mut self, found: &Found, exemplars: &Found) {
        for series in &mut self.series {
            let of = |found: &Found| found.get(&series.labels).cloned().unwrap_or_default();
            series.ledger.settle(&of(found));
            series.exemplars.settle(&of(exemplars));
        }
    }

    /// Samples that are certainly there, each time counted once.
    pub(crate) fn acknowledged_times(&self) -> usize {
        let counts = self.series.iter().map(|s| s.ledger.acknowledged_times());
        counts.sum()
    }
}

/// Reads everything and compares it with what all writers know. `None` when the process went away.
pub(crate) fn verify(client: &mut Client, writers: &mut [Writer], restarted: bool) -> Option<()> {
    let found = export::everything(client).ok()?;
    compare_all(client, writers, restarted, found)
}

/// The same for the series of writers alone, where others write, too.
pub(crate) fn verify_own(client: &mut Client, writers: &mut [Writer]) -> Option<()> {
    let found = export::select(client, r#"{writer!=""}"#).ok()?;
    compare_all(client, writers, false, found)
}

fn compare_all(
    client: &mut Client,
    writers: &mut [Writer],
    restarted: bool,
    found: Found,
) -> Option<()> {
    let exemplars = export::exemplars(client).ok()?;
    let (mut rest, mut more) = (found.clone(), exemplars.clone());
    let mut differences: Vec<String> = Vec::new();
    for writer in writers.iter() {
        differences.extend(writer.compare(&mut rest, &mut more));
    }
    let strangers = rest.keys().chain(more.keys());
    differences.extend(strangers.map(|labels| format!("{labels:?} is nobody's")));
    assert!(
        differences.is_empty(),
        "{} differences, among them {:#?}",
        differences.len(),
        &differences[..differences.len().min(20)]
    );
    if restarted {
        let settle = |writer: &mut Writer| writer.settle(&found, &exemplars);
        writers.iter_mut().for_each(settle);
    }
    Some(())
}
