//! Lines of JSON through `/api/v1/import`: each request brings new times, so what is found is
//! compared one by one.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::export;
use crate::http::Client;
use crate::ledger::Value;
use crate::load::Load;

const SERIES: usize = 5;
const SAMPLES_PER_LINE: i64 = 20;

/// Where the times begin: long ago, so that old hours are written to.
const FIRST_MS: i64 = 1_700_000_000_000;

#[derive(Default)]
pub(super) struct Importer {
    acknowledged: BTreeMap<(usize, i64), u64>,
    /// Sent without an answer: there or not.
    possible: BTreeMap<(usize, i64), u64>,
    requests: i64,
    pub(super) acknowledged_lines: u64,
}

impl Importer {
    pub(super) fn run(&mut self, client: &mut Client, load: &Load) {
        while load.goes_on() {
            let first_ms = FIRST_MS + self.requests * SAMPLES_PER_LINE * 1000;
            self.requests += 1;
            let mut samples = BTreeMap::new();
            let mut body = String::new();
            for series in 0..SERIES {
                let times = (0..SAMPLES_PER_LINE).map(|i| first_ms + i * 1000);
                let value = |time: i64| (time / 1000 % 10_000) as f64 + series as f64 / 8.0;
                samples.extend(times.clone().map(|t| ((series, t), value(t).to_bits())));
                let list = |texts: Vec<String>| texts.join(",");
                let values = list(times.clone().map(|t| value(t).to_string()).collect());
                let times = list(times.map(|t| t.to_string()).collect());
                body.push_str(&format!(
                    "{{\"metric\":{{\"__name__\":\"test_import\",\"series\":\"{series}\"}},\
                     \"values\":[{values}],\"timestamps\":[{times}]}}\n"
                ));
            }
            match client.post("/api/v1/import", &[], body.as_bytes()) {
                Ok(answer) if answer.is_success() => {
                    self.acknowledged.extend(samples);
                    self.acknowledged_lines += SERIES as u64;
                    load.note_acknowledged();
                }
                Ok(answer) => {
                    let may_come_again = answer.status >= 500 || answer.status == 429;
                    assert!(may_come_again, "{}", answer.text());
                    // What stands before the trouble is stored.
                    self.possible.extend(samples);
                }
                Err(_) => {
                    self.possible.extend(samples);
                    return;
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(super) fn verify(&self, client: &mut Client) {
        let found = export::select(client, "test_import").expect("the process answers");
        let mut there = BTreeMap::new();
        for (labels, samples) in found {
            let series = labels.iter().find(|(name, _)| name == "series");
            let series: usize = series.expect("as sent").1.parse().expect("as sent");
            for (time, value) in samples {
                let Value::Float(bits) = value else {
                    panic!("a histogram was never sent")
                };
                there.insert((series, time), bits);
            }
        }
        for (at, bits) in &self.acknowledged {
            assert_eq!(there.get(at), Some(bits), "acknowledged sample {at:?}");
        }
        for (at, bits) in &there {
            let known = self.acknowledged.get(at).or_else(|| self.possible.get(at));
            assert_eq!(known, Some(bits), "sample {at:?} was never sent");
        }
    }
}
