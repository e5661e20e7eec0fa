//! Random points.

use serde_json::{Value as Json, json};

use crate::random::Random;

/// All points lie in these days, which have an end of summer time in them.
pub(super) const START_S: i64 = 1_509_750_000;
pub(super) const DAYS: i64 = 3;

const POINTS_PER_REQUEST: usize = 50;

/// The names of a round: metrics, tag keys and values that nobody else has.
pub(super) struct Names {
    pub(super) metrics: Vec<String>,
    /// Key and values. The first key is on every series.
    pub(super) tags: Vec<(String, Vec<String>)>,
}

impl Names {
    pub(super) fn new(run: &str, random: &mut Random) -> Self {
        let metrics = (0..3).map(|i| format!("m{i}.{run}")).collect();
        let values = |key: &str, count: usize| {
            let value = |i| format!("{}{key}{i}.{run}", ["web", "Web", "db"][i % 3]);
            (
                format!("{key}.{run}"),
                (0..count).map(value).collect::<Vec<_>>(),
            )
        };
        let mut tags = vec![values("host", 4), values("dc", 2), values("owner", 3)];
        for (_, values) in &mut tags {
            random.shuffle(values);
        }
        Self { metrics, tags }
    }

    /// A document for `assign`.
    pub(super) fn assigned(&self) -> String {
        let keys: Vec<_> = self.tags.iter().map(|(key, _)| key).collect();
        let values: Vec<_> = self.tags.iter().flat_map(|(_, values)| values).collect();
        json!({"metric": self.metrics, "tagk": keys, "tagv": values}).to_string()
    }

    /// A query for everything.
    pub(super) fn all_points(&self) -> String {
        let queries = self.metrics.iter();
        let queries = queries.map(|metric| json!({"metric": metric, "aggregator": "none"}));
        let end = START_S + DAYS * 86_400;
        json!({"start": START_S, "end": end, "msResolution": true,
               "queries": queries.collect::<Vec<_>>()})
        .to_string()
    }
}

/// Documents for `put`; no series has two points within a second.
pub(super) fn points(names: &Names, random: &mut Random) -> Vec<String> {
    let mut points = Vec::new();
    for metric in &names.metrics {
        for host in &names.tags[0].1 {
            for _ in 0..random.below(3) {
                let mut tags = json!({ names.tags[0].0.as_str(): host });
                for (key, values) in &names.tags[1..] {
                    if random.one_in(2) {
                        tags[key] = values[random.below(values.len())].clone().into();
                    }
                }
                points.extend(points_of_series(metric, &tags, random));
            }
        }
    }
    // Two series may have got the same tags: the later points are left out.
    let mut seen = std::collections::HashSet::new();
    points.retain(|point| {
        let time = point["timestamp"].as_i64().unwrap_or_default();
        let second = if time > 1 << 40 { time / 1000 } else { time };
        seen.insert(format!("{}{}{second}", point["metric"], point["tags"]))
    });
    // Everything that was written last must not lie last.
    random.shuffle(&mut points);
    let requests = points.chunks(POINTS_PER_REQUEST);
    requests.map(|points| json!(points).to_string()).collect()
}

fn points_of_series(metric: &str, tags: &Json, random: &mut Random) -> Vec<Json> {
    // Regular or not, dense or sparse, and now and then a counter.
    let step = random.pick(&[10, 60, 300, 3600]);
    let regular = random.one_in(2);
    let (counter, floats, milliseconds) = (random.one_in(3), random.one_in(3), random.one_in(4));
    let count = random.within(1..40);
    let mut time = START_S + random.within(0..DAYS * 86_400 - count * step * 2).max(0);
    let mut total = 0;
    let mut points = Vec::new();
    for _ in 0..count {
        time += if regular {
            step
        } else {
            random.within(1..2 * step)
        };
        total = if random.one_in(10) {
            0
        } else {
            total + random.within(0..50)
        };
        let number = if counter {
            total
        } else {
            random.within(-1000..1000)
        };
        let value = if floats && random.one_in(2) {
            json!(number as f64 + 0.25 * random.within(1..4) as f64)
        } else {
            json!(number)
        };
        let timestamp = if milliseconds && random.one_in(2) {
            time * 1000 + random.within(1..1000)
        } else {
            time
        };
        points.push(
            json!({"metric": metric, "timestamp": timestamp, "value": value,
                           "tags": tags}),
        );
    }
    points
}
