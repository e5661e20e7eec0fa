//! Clients that put points, and what must be found of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering::SeqCst;

use serde_json::{Value as Json, json};

use super::Life;
use crate::http::Client;
use crate::ledger::{SeriesLedger, Value};
use crate::opentsdb::get;
use crate::random::Random;

const START_S: i64 = 1_500_000_000;

/// Reading everything back stays quick.
const SERIES_MAX: usize = 60;
const POINTS_MAX: i64 = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http,
    Telnet,
}

/// A client with series of its own: which point was last is known.
pub(super) struct PointSender {
    protocol: Protocol,
    metric: String,
    random: Random,
    series: Vec<SeriesLedger>,
    /// Those of an acknowledged request. A point that a kill left behind may have no leaf yet.
    acknowledged_series: BTreeSet<usize>,
    /// Points sent, which make times and values.
    count: i64,
}

struct Point {
    series: usize,
    time_s: i64,
    /// In series with even numbers these are integers, in the others halves.
    number: i64,
}

impl Point {
    fn text(&self) -> String {
        let half = if self.series.is_multiple_of(2) {
            ""
        } else {
            ".5"
        };
        format!("{}{half}", self.number)
    }

    fn sample(&self) -> (i64, Value) {
        let half = if self.series.is_multiple_of(2) {
            0.0
        } else {
            0.5
        };
        let value = self.number as f64 + half;
        (self.time_s, Value::Float(value.to_bits()))
    }
}

/// A tag value that two clients may need at the same moment.
fn shared_name(series: usize) -> String {
    format!("shared-{series}")
}

impl PointSender {
    pub(super) fn new(number: usize, protocol: Protocol, random: Random) -> Self {
        Self {
            protocol,
            metric: format!("crash.points.{number}"),
            random,
            series: Vec::new(),
            acknowledged_series: BTreeSet::new(),
            count: 0,
        }
    }

    pub(super) fn acknowledged(&self) -> usize {
        self.series
            .iter()
            .map(SeriesLedger::acknowledged_times)
            .sum()
    }

    pub(super) fn run(&mut self, life: &Life) {
        let mut client = life.client();
        let _ended = life.points.ending();
        while life.goes_on() && self.count < POINTS_MAX {
            let points = self.next_points();
            self.note(&points, SeriesLedger::sending);
            let acknowledged = match self.protocol {
                Protocol::Http => self.put(&mut client, &points),
                Protocol::Telnet => self.send_lines(life, &points),
            };
            match acknowledged {
                Some(true) => {
                    self.note(&points, SeriesLedger::acknowledged);
                    life.points.note_acknowledged();
                    let series = points.iter().map(|point| point.series);
                    self.acknowledged_series.extend(series);
                }
                Some(false) => {}
                None => return,
            }
        }
    }

    /// New points, now and then of a new series, and points that replace others.
    fn next_points(&mut self) -> Vec<Point> {
        let length = self.random.within(1..40);
        let mut points = Vec::new();
        for _ in 0..length {
            if self.series.is_empty() || (self.random.one_in(20) && self.series.len() < SERIES_MAX)
            {
                self.series.push(SeriesLedger::default());
            }
            self.count += 1;
            let back = if self.random.one_in(5) {
                self.random.within(0..500)
            } else {
                0
            };
            points.push(Point {
                series: self.random.below(self.series.len()),
                time_s: START_S + (self.count - back).max(0),
                number: self.count,
            });
        }
        points
    }

    fn note(&mut self, points: &[Point], note: fn(&mut SeriesLedger, &[(i64, Value)])) {
        let mut by_series: BTreeMap<usize, Vec<(i64, Value)>> = BTreeMap::new();
        for point in points {
            by_series
                .entry(point.series)
                .or_default()
                .push(point.sample());
        }
        for (series, samples) in by_series {
            note(&mut self.series[series], &samples);
        }
    }

    /// Whether points are stored; `None` when nobody answers.
    fn put(&self, client: &mut Client, points: &[Point]) -> Option<bool> {
        let document = |point: &Point| {
            let value: Json = point.text().parse().expect("a number");
            let (own, shared) = (point.series.to_string(), shared_name(point.series));
            json!({"metric": self.metric, "timestamp": point.time_s, "value": value,
                   "tags": {"s": own, "r": shared}})
        };
        let body: Json = points.iter().map(document).collect();
        let body = body.to_string();
        let answer = client.post("/api/put", &[], body.as_bytes()).ok()?;
        let right = [204, 503].contains(&answer.status);
        assert!(right, "{}: {}", answer.status, answer.text());
        Some(answer.status == 204)
    }

    fn send_lines(&self, life: &Life, points: &[Point]) -> Option<bool> {
        let mut lines = String::new();
        for point in points {
            let (metric, time_s, text) = (&self.metric, point.time_s, point.text());
            let (own, shared) = (point.series, shared_name(point.series));
            let _ = writeln!(lines, "put {metric} {time_s} {text} s={own} r={shared}");
        }
        let mut stream = TcpStream::connect(life.address).ok()?;
        stream.write_all(lines.as_bytes()).ok()?;
        stream.shutdown(Shutdown::Write).ok()?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).ok()?;
        // The system closes the connections of a process that is killed as if it had done so.
        if life.is_ending.load(SeqCst) {
            return None;
        }
        assert_eq!(reply, "");
        Some(true)
    }

    pub(super) fn verify(&mut self, client: &mut Client) {
        if self.series.is_empty() {
            return;
        }
        let end = START_S + POINTS_MAX + 1000;
        let metric = &self.metric;
        let query =
            format!("/api/query?start={START_S}&end={end}&m=none:{metric}%7Bs=*%7D&arrays=true");
        let answer = client.get(&query).expect("it lives");
        // Where nothing of the first request was stored, nobody knows the metric.
        let found: Json = if answer.text().contains("No such name") {
            json!([])
        } else {
            serde_json::from_slice(&answer.body).expect("JSON")
        };
        let mut samples: BTreeMap<usize, Vec<(i64, Value)>> = BTreeMap::new();
        for series in found.as_array().expect("a list") {
            let number: usize = text(&series["tags"]["s"]).parse().expect("a number");
            assert_eq!(series["tags"]["r"], shared_name(number));
            let points = series["dps"].as_array().expect("a list").iter();
            let points = points.map(|point| sample_of(number, point)).collect();
            assert!(
                samples.insert(number, points).is_none(),
                "{metric} {number} twice"
            );
        }
        for (number, ledger) in self.series.iter_mut().enumerate() {
            let found = samples.remove(&number).unwrap_or_default();
            let differences = ledger.differences(&found);
            assert!(
                differences.is_empty(),
                "{metric} {number}: {differences:#?}"
            );
            ledger.settle(&found);
        }
        assert!(
            samples.is_empty(),
            "{metric}: series that nobody sent: {samples:?}"
        );
    }
}

/// A point, whose number must have the form in which it was sent.
fn sample_of(series: usize, point: &Json) -> (i64, Value) {
    let value = &point[1];
    assert_eq!(
        value.is_i64(),
        series.is_multiple_of(2),
        "{series}: {point}"
    );
    let bits = value.as_f64().expect("a number").to_bits();
    (point[0].as_i64().expect("a time"), Value::Float(bits))
}

fn text(value: &Json) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no text"))
}

/// Every series with an acknowledged point is one leaf of the tree, and has meta data.
pub(super) fn verify_leaves(client: &mut Client, senders: &[PointSender]) {
    let mut leaves: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let root = get(client, "/api/tree/branch?treeid=1");
    for branch in root["branches"].as_array().into_iter().flatten() {
        let branch = get(
            client,
            &format!("/api/tree/branch?branch={}", text(&branch["branchId"])),
        );
        for leaf in branch["leaves"].as_array().into_iter().flatten() {
            let key = (
                text(&leaf["metric"]).to_owned(),
                text(&leaf["displayName"]).to_owned(),
            );
            leaves
                .entry(key)
                .or_default()
                .push(text(&leaf["tsuid"]).to_owned());
        }
    }
    for sender in senders {
        for number in &sender.acknowledged_series {
            let key = (sender.metric.clone(), number.to_string());
            let found = leaves.get(&key).map_or(&[][..], Vec::as_slice);
            let [tsuid] = found else {
                panic!("{key:?} has the leaves {found:?}");
            };
            let meta = get(client, &format!("/api/uid/tsmeta?tsuid={tsuid}"));
            assert_eq!(meta["metric"]["name"], sender.metric);
        }
    }
}
