//! Delta sums over OTLP: each request adds to every counter, and its sender knows what the totals
//! must be.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{OtlpClient, Sent};
use crate::http::{Client, escape};
use crate::load::Load;
use crate::served::TestServer;

const PROTOBUF: &[(&str, &str)] = &[("Content-Type", "application/x-protobuf")];

/// A request that was refused is sent again after this time.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct DeltaSender {
    name: &'static str,
    /// What was acknowledged, by series.
    totals: Vec<u64>,
    /// The request without an answer: what it adds, and its bytes.
    in_flight: Option<(Vec<u64>, Vec<u8>)>,
    end_ns: u64,
    requests: u64,
    pub(super) acknowledged_requests: u64,
    pub(super) unanswered_requests: u64,
}

impl DeltaSender {
    pub(super) fn new(name: &'static str, series: usize) -> Self {
        Self {
            name,
            totals: vec![0; series],
            in_flight: None,
            end_ns: now_ns(),
            requests: 0,
            acknowledged_requests: 0,
            unanswered_requests: 0,
        }
    }

    /// Sends until it is told to stop. While nobody answers it sends the same again.
    pub(super) fn run(&mut self, client: &mut impl OtlpClient, load: &Load) {
        while load.goes_on() {
            match self.send_next(client) {
                Sent::Acknowledged => {
                    load.note_acknowledged();
                    std::thread::sleep(Duration::from_millis(2));
                }
                Sent::Refused | Sent::Unanswered => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Sends what is in flight until it is acknowledged.
    pub(super) fn settle(&mut self, client: &mut impl OtlpClient) {
        for _ in 0..500 {
            if self.is_settled() {
                return;
            }
            if self.send_next(client) != Sent::Acknowledged {
                std::thread::sleep(PAUSE);
            }
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.in_flight.is_none()
    }

    fn send_next(&mut self, client: &mut impl OtlpClient) -> Sent {
        let (added, body) = match self.in_flight.take() {
            Some(again) => again,
            None => self.next_request(),
        };
        let sent = client.send(&body);
        match sent {
            Sent::Acknowledged => {
                for (total, added) in self.totals.iter_mut().zip(&added) {
                    *total += added;
                }
                self.acknowledged_requests += 1;
            }
            Sent::Refused => self.in_flight = Some((added, body)),
            Sent::Unanswered => {
                self.unanswered_requests += 1;
                self.in_flight = Some((added, body));
            }
        }
        sent
    }

    fn next_request(&mut self) -> (Vec<u64>, Vec<u8>) {
        let start_ns = self.end_ns;
        // Stored times are milliseconds: two requests must not end in the same one.
        self.end_ns = now_ns().max(start_ns + 1_000_000);
        self.requests += 1;
        let added: Vec<u64> = (0..self.totals.len() as u64)
            .map(|series| 1 + (self.requests * 31 + series * 7) % 100)
            .collect();
        let points = added.iter().enumerate().map(|(series, added)| {
            let mut point = Vec::new();
            push_fixed64(&mut point, 2, start_ns);
            push_fixed64(&mut point, 3, self.end_ns);
            push_fixed64(&mut point, 6, *added);
            push_bytes(&mut point, 7, &attribute("series", &series.to_string()));
            point
        });
        let mut sum = Vec::new();
        for point in points {
            push_bytes(&mut sum, 1, &point);
        }
        // Delta, monotonic.
        sum.extend([2 << 3, 1, 3 << 3, 1]);
        let mut metric = Vec::new();
        push_bytes(&mut metric, 1, format!("test.{}", self.name).as_bytes());
        push_bytes(&mut metric, 7, &sum);
        let mut scope = Vec::new();
        push_bytes(&mut scope, 2, &metric);
        let mut resource = Vec::new();
        push_bytes(&mut resource, 2, &scope);
        let mut request = Vec::new();
        push_bytes(&mut request, 1, &resource);
        (added, request)
    }

    /// The totals in the database are those that were acknowledged, with or without what is in
    /// flight.
    pub(super) fn verify(&mut self, client: &mut Client) {
        let query = format!("test_{}_total", self.name);
        let path = format!(
            "/api/v1/query?query={}",
            escape(&format!("last_over_time({query}[1h])"))
        );
        let answer = client.get(&path).expect("the process answers");
        assert!(answer.is_success(), "{}", answer.text());
        let json: serde_json::Value = serde_json::from_str(&answer.text()).expect("JSON");
        let mut found = vec![0; self.totals.len()];
        for series in json["data"]["result"].as_array().expect("a vector") {
            let number: usize = parse(&series["metric"]["series"]);
            found[number] = parse::<f64>(&series["value"][1]) as u64;
        }
        if found == self.totals {
            return;
        }
        let (added, _) = self
            .in_flight
            .as_ref()
            .unwrap_or_else(|| panic!("{query}: acknowledged {:?}, found {found:?}", self.totals));
        let with_it: Vec<u64> = self.totals.iter().zip(added).map(|(a, b)| a + b).collect();
        assert_eq!(found, with_it, "{query}: acknowledged {:?}", self.totals);
    }
}

/// `POST /v1/metrics`.
pub(super) struct HttpClient(Client);

impl HttpClient {
    pub(super) fn new(served: &TestServer) -> Self {
        Self(served.client())
    }
}

impl OtlpClient for HttpClient {
    fn send(&mut self, body: &[u8]) -> Sent {
        match self.0.post("/v1/metrics", PROTOBUF, body) {
            Ok(answer) if answer.is_success() => Sent::Acknowledged,
            Ok(answer) if answer.status >= 500 || answer.status == 429 => Sent::Refused,
            Ok(answer) => panic!("{}: {}", answer.status, answer.text()),
            Err(_) => Sent::Unanswered,
        }
    }
}

fn parse<T: std::str::FromStr>(json: &serde_json::Value) -> T {
    let parsed = json.as_str().and_then(|text| text.parse().ok());
    parsed.unwrap_or_else(|| panic!("not a number: {json}"))
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("it is after 1970").as_nanos() as u64
}

fn attribute(key: &str, value: &str) -> Vec<u8> {
    let mut text = Vec::new();
    push_bytes(&mut text, 1, value.as_bytes());
    let mut attribute = Vec::new();
    push_bytes(&mut attribute, 1, key.as_bytes());
    push_bytes(&mut attribute, 2, &text);
    attribute
}

fn push_fixed64(message: &mut Vec<u8>, field: u8, value: u64) {
    message.push(field << 3 | 1);
    message.extend(value.to_le_bytes());
}

fn push_bytes(message: &mut Vec<u8>, field: u8, content: &[u8]) {
    message.push(field << 3 | 2);
    let mut length = content.len();
    while length >= 0x80 {
        message.push(length as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
    message.extend_from_slice(content);
}
