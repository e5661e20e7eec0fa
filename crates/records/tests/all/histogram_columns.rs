//! Histograms as columns hold what the entries one by one hold, bit for bit, in less room.

use std::sync::Arc;

use bytes::Bytes;
use icecore_model::{CounterResetHint, Histogram, HistogramCounts, Span};
use icecore_records::histogram_series::{decode, decode_coarse, encode, encode_columns};
use icecore_records::{HistogramEntry, SeriesId, key, merge};
use proptest::prelude::*;

use crate::samples::*;

const START_MS: i64 = 1_699_948_800_000;

fn entries(
    histograms: impl IntoIterator<Item = Option<Arc<Histogram>>>,
    time: impl Fn(i64) -> i64,
) -> Vec<HistogramEntry> {
    let entry = |(value, i)| HistogramEntry {
        timestamp_ms: time(i),
        value,
    };
    histograms.into_iter().zip(0..).map(entry).collect()
}

fn check(entries: &[HistogramEntry]) -> Vec<u8> {
    let value = encode_columns(entries);
    let decoded = decode(&value).unwrap();
    assert_eq!(entry_bits(&decoded), entry_bits(entries));
    assert_eq!(
        encode_columns(&decoded),
        value,
        "same entries, same bytes, however they came to be"
    );
    let rows = decode(&encode(entries)).unwrap();
    assert_eq!(entry_bits(&rows), entry_bits(&decoded));
    value
}

/// A small deterministic generator, so that sizes compare from run to run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

const BUCKETS: usize = 24;

fn exponential(counts: HistogramCounts, sum: f64) -> Histogram {
    Histogram {
        reset_hint: CounterResetHint::NotReset,
        positive_spans: vec![
            Span {
                offset: -10,
                length: 20,
            },
            Span {
                offset: 2,
                length: 4,
            },
        ],
        ..Histogram {
            sum,
            counts,
            ..integer_histogram(12, 0.0)
        }
    }
}

/// A histogram per scrape, after that many observations, mostly in the middle buckets.
fn observed(len: usize, observations: u64) -> Vec<Arc<Histogram>> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut counts, mut zero_count, mut sum) = ([0i64; BUCKETS], 0, 0.0);
    let mut all = Vec::new();
    for _ in 0..len {
        for _ in 0..observations {
            let bucket = (0..4).map(|_| random.below(7)).sum::<u64>();
            match counts.get_mut(bucket as usize) {
                Some(count) => *count += 1,
                None => zero_count += 1,
            }
            sum += (bucket as f64 / 4.0).exp2() * (1.0 + random.below(1 << 20) as f64 / 1e6);
        }
        let mut below = 0;
        let deltas = counts.iter().map(|count| {
            let delta = count - below;
            below = *count;
            delta
        });
        let counts = HistogramCounts::Integer {
            count: zero_count + counts.iter().sum::<i64>() as u64,
            zero_count,
            positive_deltas: deltas.collect(),
            negative_deltas: vec![],
        };
        all.push(Arc::new(exponential(counts, sum)));
    }
    all
}

/// The same with float counts, as a recording rule makes them: rates per second.
fn rates(of: &[Arc<Histogram>]) -> Vec<Arc<Histogram>> {
    let rate = |pair: &[Arc<Histogram>]| {
        let numbers = |histogram: &Histogram| match &histogram.counts {
            HistogramCounts::Integer {
                count,
                positive_deltas,
                ..
            } => {
                let mut below = 0;
                let add = |delta: &i64| {
                    below += delta;
                    below
                };
                (*count, positive_deltas.iter().map(add).collect::<Vec<_>>())
            }
            HistogramCounts::Float { .. } => (0, vec![]),
        };
        let ((old_count, old), (new_count, new)) = (numbers(&pair[0]), numbers(&pair[1]));
        let counts = HistogramCounts::Float {
            count: (new_count - old_count) as f64 / 15.0,
            zero_count: 0.0,
            positive: new
                .iter()
                .zip(old)
                .map(|(new, old)| (new - old) as f64 / 15.0)
                .collect(),
            negative: vec![],
        };
        let mut histogram = exponential(counts, (pair[1].sum - pair[0].sum) / 15.0);
        histogram.reset_hint = CounterResetHint::Gauge;
        Arc::new(histogram)
    };
    of.windows(2).map(rate).collect()
}

fn every_15_s(histograms: &[Arc<Histogram>]) -> Vec<HistogramEntry> {
    entries(histograms.iter().cloned().map(Some), |i| {
        START_MS + 15_000 * i
    })
}

#[test]
fn columns_are_smaller_than_rows() {
    let busy = observed(3840, 300);
    let idle = vec![Arc::clone(&busy[3839]); 3840];
    let cases = [
        ("busy, 300 observations per scrape", every_15_s(&busy), 2),
        (
            "calm, 3 observations per scrape",
            every_15_s(&observed(3840, 3)),
            2,
        ),
        ("idle", every_15_s(&idle), 100),
        ("rates, float counts", every_15_s(&rates(&busy)), 1),
    ];
    for (name, entries, at_least) in cases {
        let (rows, columns) = (encode(&entries).len(), check(&entries).len());
        let each = |bytes: usize| bytes as f64 / entries.len() as f64;
        println!(
            "{name}: {:.2} bytes per histogram one by one, {:.2} in columns",
            each(rows),
            each(columns)
        );
        assert!(columns * at_least < rows, "{name}: {columns} of {rows}");
    }
}

#[test]
fn layouts_that_come_and_go_cost_little() {
    let calm = observed(400, 3);
    let mut all: Vec<Option<Arc<Histogram>>> = calm.iter().cloned().map(Some).collect();
    let steady = check(&entries(all.clone(), |i| START_MS + i)).len();
    all[100] = Some(Arc::new(stale_histogram()));
    all[101] = None;
    all[102] = None;
    all[200] = Some(Arc::new(custom_histogram()));
    let broken = check(&entries(all, |i| START_MS + i)).len();
    assert!(broken < steady + 600, "{steady} then {broken}");
}

#[test]
fn repetitions_are_one_histogram_in_memory() {
    let one = Arc::new(custom_histogram());
    let value = check(&every_15_s(&vec![one; 1000]));
    assert!(value.len() < 200, "{}", value.len());
    let decoded = decode(&value).unwrap();
    let all: Vec<&Arc<Histogram>> = decoded.iter().filter_map(|e| e.value.as_ref()).collect();
    assert!(all.iter().all(|histogram| Arc::ptr_eq(histogram, all[0])));
}

#[test]
fn histograms_that_differ_in_little_do_not_multiply_in_memory() {
    let one = |i: i64, buckets: usize| {
        let mut histogram = stale_histogram();
        histogram.sum = i as f64;
        histogram.counts = HistogramCounts::Integer {
            count: 0,
            zero_count: 0,
            positive_deltas: vec![0; buckets],
            negative_deltas: vec![],
        };
        Some(Arc::new(histogram))
    };
    for buckets in [0, 1, 1000] {
        let value = check(&entries((0..2000).map(|i| one(i, buckets)), |i| i));
        let memory = 2000 * (8 * buckets + 200);
        assert!(
            memory < 600 * value.len(),
            "{memory} bytes for {}",
            value.len()
        );
    }
    let mut odd = stale_histogram();
    odd.positive_spans = vec![
        Span {
            offset: 1,
            length: 0
        };
        1000
    ];
    let odd = |sum: u32| {
        Some(Arc::new(Histogram {
            sum: f64::from(sum),
            ..odd.clone()
        }))
    };
    let value = check(&entries((0..50).map(odd), |i| i));
    assert!(value.len() > 50 * 2000, "every entry carries its spans");
}

#[test]
fn every_cut_and_every_byte_too_many_is_found() {
    let mut all: Vec<Option<Arc<Histogram>>> = observed(40, 2).into_iter().map(Some).collect();
    all.extend(rates(&observed(12, 5)).into_iter().map(Some));
    all.extend([
        None,
        Some(Arc::new(stale_histogram())),
        Some(Arc::new(stale_histogram())),
    ]);
    let value = check(&entries(all, |i| START_MS + 15_000 * i + i % 3));
    for end in 0..value.len() {
        assert!(decode(&value[..end]).is_err(), "cut at {end}");
    }
    assert!(decode(&[&value[..], &[0]].concat()).is_err());
}

#[test]
fn runs_that_no_writer_writes_are_refused() {
    let one = Arc::new(stale_histogram());
    let value = encode_columns(&every_15_s(&vec![one; 24]));
    let runs = value
        .windows(3)
        .position(|three| three == [0x01, 15 << 2 | 2, 6 << 2 | 2])
        .unwrap();
    let with = |byte: usize, new: u8| {
        let mut damaged = value.clone();
        damaged[runs + byte] = new;
        decode(&damaged).unwrap_err().reason
    };
    assert_eq!(with(0, 0x02), "more or fewer histograms than stored");
    assert_eq!(with(0, 0x05), "more or fewer histograms than stored");
    assert_eq!(with(0, 0x03), "unknown kind of run");
    assert_eq!(with(1, 16 << 2 | 2), "a run is too long");
    assert_eq!(with(2, 7 << 2 | 2), "more or fewer entries than times");
    assert_eq!(with(2, 5 << 2 | 2), "more or fewer entries than times");
    let mut early = value.clone();
    early.swap(runs, runs + 2);
    assert_eq!(decode(&early).unwrap_err().reason, "no histogram to repeat");
}

#[test]
fn late_parts_are_lined_up_and_united_by_the_reader() {
    let key = key::histogram_series(sixteen_hours(), SeriesId(1));
    let at = |timestamp_ms: i64, value: Option<Histogram>| HistogramEntry {
        timestamp_ms,
        value: value.map(Arc::new),
    };
    let base = [
        at(10, Some(integer_histogram(12, 1.0))),
        at(20, Some(integer_histogram(13, 2.0))),
    ];
    let late = [at(5, Some(stale_histogram())), at(20, None)];
    let later = [at(20, Some(custom_histogram())), at(30, None)];
    let values = [encode_columns(&base), encode(&late), encode(&later)].map(Bytes::from);
    let merged = merge(&key, Some(&values[0]), &values[1..]).unwrap();
    assert_eq!(merge::unmerged_parts(&merged), Some(values.to_vec()));
    let expected = [
        late[0].clone(),
        base[0].clone(),
        later[0].clone(),
        later[1].clone(),
    ];
    let united = decode_coarse(&merged).unwrap();
    assert_eq!(entry_bits(&united), entry_bits(&expected));
    assert!(decode(&merged).unwrap_err().is_unmerged());
    let alone = decode_coarse(&values[0]).unwrap();
    assert_eq!(entry_bits(&alone), entry_bits(&base));
}

/// Stretches of histograms with one layout and of anything, some of them repeated.
fn any_series() -> impl Strategy<Value = Vec<Option<Arc<Histogram>>>> {
    let number = || prop_oneof![4 => 0i64..20, 1 => any::<i64>()];
    let integers = (1usize..4, 1usize..30).prop_flat_map(move |(buckets, len)| {
        let numbers = prop::collection::vec(number(), buckets + 2);
        prop::collection::vec((numbers, any_float(), 0u64..4), len)
    });
    let integers = integers.prop_map(|all| {
        let histogram = |(numbers, sum, hint): (Vec<i64>, f64, u64)| Histogram {
            reset_hint: CounterResetHint::from_number(hint).unwrap(),
            counts: HistogramCounts::Integer {
                count: numbers[0] as u64,
                zero_count: numbers[1] as u64,
                positive_deltas: numbers[2..].to_vec(),
                negative_deltas: numbers[3..].to_vec(),
            },
            ..integer_histogram(12, sum)
        };
        all.into_iter().map(histogram).collect::<Vec<_>>()
    });
    let floats = (1usize..4, 1usize..30).prop_flat_map(|(buckets, len)| {
        let numbers = prop::collection::vec(any_float(), buckets + 3);
        prop::collection::vec(numbers, len)
    });
    let floats = floats.prop_map(|all| {
        let histogram = |numbers: Vec<f64>| Histogram {
            sum: numbers[0],
            counts: HistogramCounts::Float {
                count: numbers[1],
                zero_count: numbers[2],
                positive: numbers[3..].to_vec(),
                negative: numbers[4..].to_vec(),
            },
            ..custom_histogram()
        };
        all.into_iter().map(histogram).collect::<Vec<_>>()
    });
    let anything = prop::collection::vec(any_histogram(), 1..4);
    let repeated = (any_histogram(), 1usize..70).prop_map(|(one, len)| vec![one; len]);
    let some = prop_oneof![integers, floats, anything, repeated].prop_map(|all| {
        all.into_iter()
            .map(|histogram| Some(Arc::new(histogram)))
            .collect::<Vec<_>>()
    });
    let none = (1usize..70).prop_map(|len| vec![None; len]);
    let stretch = prop_oneof![4 => some, 1 => none];
    prop::collection::vec(stretch, 0..5).prop_map(|stretches| stretches.concat())
}

proptest! {
    #[test]
    fn any_series_survives(
        histograms in any_series(),
        start in any::<i64>(),
        gaps in prop::collection::vec(prop_oneof![Just(15_000i64), 1i64..20_000, 1i64..1 << 56], 1..300),
    ) {
        let mut timestamp_ms = start;
        let mut all = Vec::new();
        for (value, gap) in histograms.into_iter().zip(gaps.iter().cycle()) {
            all.push(HistogramEntry { timestamp_ms, value });
            let Some(next) = timestamp_ms.checked_add(*gap) else { break };
            timestamp_ms = next;
        }
        check(&all);
    }

    #[test]
    fn any_entries_survive(all in any_histogram_entries()) {
        check(&all);
    }

    #[test]
    fn damage_is_an_error_or_a_value(
        histograms in any_series(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut value = encode_columns(&entries(histograms, |i| 15_000 * i));
        for (at, byte) in damage {
            let at = at.index(value.len());
            value[at] = byte;
        }
        if let Ok(decoded) = decode(&value) {
            check(&decoded);
        }
    }

    #[test]
    fn parts_unite_as_in_an_hour(parts in prop::collection::vec(any_histogram_entries(), 1..5)) {
        let rows: Vec<Bytes> = parts.iter().map(|part| encode(part).into()).collect();
        let hour = merge(&key::histogram_series(hour(), SeriesId(1)), None, &rows).unwrap();
        let mut mixed = rows;
        mixed[0] = encode_columns(&parts[0]).into();
        let coarse = merge(&key::histogram_series(sixteen_hours(), SeriesId(1)), None, &mixed);
        let coarse = decode_coarse(&coarse.unwrap()).unwrap();
        prop_assert_eq!(entry_bits(&coarse), entry_bits(&decode(&hour).unwrap()));
    }
}
