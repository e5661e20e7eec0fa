use icecore_model::rollup::{Aggregate, Edge, roll_up};
use icecore_model::varint::push_varint;
use icecore_model::{BucketSize, BucketStart, HOUR_MS, STALE_NAN_BITS, is_stale_nan};
use proptest::prelude::*;

use super::layout::windows_of;
use super::*;

fn bucket(exponent: u8) -> Bucket {
    let size = BucketSize::from_exponent(exponent).unwrap();
    // A multiple of every size.
    let start = BucketStart(28 * (60 << 14));
    Bucket { size, start }
}

/// Everything of a window as bits, with what is not kept left out.
fn bits(window: &Window, fields: WindowFields) -> impl PartialEq + std::fmt::Debug + use<> {
    let edge = match window.edge {
        Edge::None => None,
        Edge::Stale => Some(STALE_NAN_BITS),
        Edge::Sample(value) => Some(value.to_bits()),
    };
    let kept = |field, bits| if fields.contains(field) { bits } else { 0 };
    let interior = window.interior.map(|a| {
        [
            kept(WindowFields::COUNTS, a.numbers),
            kept(WindowFields::COUNTS, a.nans),
            kept(WindowFields::FIRST, a.first_ms as u64),
            kept(WindowFields::FIRST, a.first.to_bits()),
            kept(WindowFields::LAST, a.last_ms as u64),
            kept(WindowFields::LAST, a.last.to_bits()),
            kept(WindowFields::SUM, a.sum.to_bits()),
            kept(WindowFields::MIN, a.min.to_bits()),
            kept(WindowFields::MAX, a.max.to_bits()),
            kept(WindowFields::M2, a.m2.to_bits()),
            kept(WindowFields::CORRECTION, a.correction.to_bits()),
            kept(WindowFields::RESETS, a.resets),
            kept(WindowFields::CHANGES, a.changes),
        ]
    });
    let flags = (window.ends_stale, window.has_late);
    (window.start_ms, edge, interior, flags)
}

fn window_of(columns: &WindowColumns, i: usize) -> Window {
    let mut interior = columns
        .fields
        .contains(WindowFields::COUNTS)
        .then(|| columns.interior(i));
    Window {
        start_ms: columns.starts[i],
        edge: columns.edge(i),
        interior: interior.take().flatten(),
        ends_stale: columns.ends_stale(i),
        has_late: false,
    }
}

fn check(
    exponent: u8,
    resolution: Resolution,
    fields: WindowFields,
    windows: &[Window],
) -> Vec<u8> {
    let bucket = bucket(exponent);
    let mut encoder = Encoder::default();
    let value = encoder.encode(bucket, resolution, fields, windows);
    assert_eq!(encoder.encode(bucket, resolution, fields, windows), value);
    let record = RollupRecord::parse(bucket, &value).unwrap();
    assert_eq!((record.resolution(), record.fields()), (resolution, fields));
    assert_eq!(record.len(), windows.len());
    let decoded = decode_windows(bucket, &value).unwrap();
    assert_eq!(decoded.len(), windows.len());
    for (window, expected) in decoded.iter().zip(windows) {
        assert_eq!(bits(window, fields), bits(expected, fields));
    }
    value
}

/// Some fields of a range of time hold what the whole record holds there.
fn check_part(value: &[u8], exponent: u8, fields: WindowFields, starts_ms: Range<i64>) {
    let bucket = bucket(exponent);
    let record = RollupRecord::parse(bucket, value).unwrap();
    let mut decoder = Decoder::default();
    let all = decoder.windows(&record).unwrap();
    let expected: Vec<&Window> = all
        .iter()
        .filter(|window| starts_ms.contains(&window.start_ms))
        .collect();
    let columns = decoder.columns(&record, fields, starts_ms.clone()).unwrap();
    let kept = columns.fields;
    assert!(fields.contains(kept) && record.fields().contains(kept));
    assert_eq!(columns.len(), expected.len());
    for (i, window) in expected.into_iter().enumerate() {
        let mut window = *window;
        window.has_late = false;
        if !kept.contains(WindowFields::COUNTS) {
            window.interior = None;
        }
        assert_eq!(bits(&window_of(&columns, i), kept), bits(&window, kept));
    }
    // Read in two parts they are the same.
    let middle_ms = i64::midpoint(starts_ms.start, starts_ms.end);
    let mut joined = JoinedWindows::default();
    for part in [starts_ms.start..middle_ms, middle_ms..starts_ms.end] {
        decoder.append(&record, fields, part, &mut joined).unwrap();
    }
    let joined = joined.finish(&columns.starts);
    assert_eq!(joined.starts.identity(), columns.starts.identity());
    for i in 0..columns.len() {
        let (window, of_parts) = (window_of(&columns, i), window_of(&joined, i));
        assert_eq!(bits(&of_parts, kept), bits(&window, kept));
    }
}

fn any_float() -> impl Strategy<Value = f64> {
    let special = [
        0.0,
        -0.0,
        f64::NAN,
        f64::from_bits(0x7ff8_0000_0000_0001),
        f64::from_bits(0xfff0_0000_0000_0003),
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MIN_POSITIVE / 3.0,
        f64::MAX,
    ];
    prop_oneof![
        4 => (0u32..1000).prop_map(|cents| f64::from(cents) / 100.0),
        2 => prop::sample::select(special.to_vec()),
        2 => any::<u64>().prop_map(f64::from_bits),
    ]
    .prop_filter("no stale marker", |value| !is_stale_nan(*value))
}

fn any_interior() -> impl Strategy<Value = (Aggregate, (u32, u32))> {
    let floats = prop::array::uniform7(any_float());
    let counts = prop::array::uniform4(prop_oneof![3 => 0u64..40, 1 => 0u64..1 << 62]);
    (floats, counts, any::<(u32, u32)>()).prop_map(|(f, n, times)| {
        let aggregate = Aggregate {
            numbers: n[0].max(1),
            nans: n[1],
            first_ms: 0,
            first: f[0],
            last_ms: 0,
            last: f[1],
            sum: f[2],
            min: f[3],
            max: f[4],
            m2: f[5],
            correction: f[6],
            resets: n[2],
            changes: n[3],
        };
        (aggregate, times)
    })
}

/// A window without its place.
fn any_window() -> impl Strategy<Value = (Window, (u32, u32))> {
    let edge = prop_oneof![
        3 => Just(Edge::None),
        1 => Just(Edge::Stale),
        2 => any_float().prop_map(Edge::Sample),
    ];
    let interior = prop::option::weighted(0.8, any_interior());
    (edge, interior, any::<(bool, bool)>()).prop_map(|(edge, interior, (stale, late))| {
        let (interior, times) = interior.unzip();
        let window = Window {
            start_ms: 0,
            edge,
            interior,
            ends_stale: stale,
            has_late: late,
        };
        (window, times.unwrap_or_default())
    })
}

/// A bucket size, a resolution that fits it, and windows in it.
fn any_windows() -> impl Strategy<Value = (u8, Resolution, Vec<Window>)> {
    let windows = prop::collection::vec((any_window(), 0u32..4), 0..60);
    (1u8..=15, 1u8..=10, windows).prop_filter_map("fits", |(exponent, code, windows)| {
        let resolution = Resolution::from_code(code)?;
        let in_bucket = windows_of(bucket(exponent), resolution)?;
        let mut number = 0;
        let mut placed = vec![];
        for ((window, times), gap) in windows {
            number += gap.saturating_sub(2);
            if number >= in_bucket {
                break;
            }
            let start_ms = bucket(exponent).start_ms() + i64::from(number) * resolution.ms();
            placed.push(place(window, times, start_ms, resolution.ms()));
            number += 1;
        }
        Some((exponent, resolution, placed))
    })
}

fn place(window: Window, (first, span): (u32, u32), start_ms: i64, width_ms: i64) -> Window {
    let first = 1 + i64::from(first) % (width_ms - 1);
    let last = first + i64::from(span) % (width_ms - first);
    Window {
        start_ms,
        interior: window.interior.map(|interior| Aggregate {
            first_ms: start_ms + first,
            last_ms: start_ms + last,
            ..interior
        }),
        ..window
    }
}

fn any_fields() -> impl Strategy<Value = WindowFields> {
    prop_oneof![
        Just(WindowFields::ALL),
        (0u16..1 << 10).prop_map(|bits| fields_of_bits(bits).unwrap()),
    ]
}

proptest! {
    #[test]
    fn any_windows_come_back(
        (exponent, resolution, windows) in any_windows(),
        kept in any_fields(),
        asked in any_fields(),
        from in 0i64..1 << 20,
        length in 0i64..1 << 22,
    ) {
        let value = check(exponent, resolution, kept, &windows);
        let start = bucket(exponent).start_ms() + from * 1000;
        check_part(&value, exponent, asked, start..start + length * 1000);
        check_part(&value, exponent, asked, i64::MIN..i64::MAX);
    }

    #[test]
    fn every_cut_is_an_error((exponent, resolution, windows) in any_windows()) {
        let value = check(exponent, resolution, WindowFields::ALL, &windows);
        for end in 0..value.len() {
            let decoded = decode_windows(bucket(exponent), &value[..end]);
            prop_assert!(decoded.is_err(), "cut at {}", end);
        }
        let longer = [&value[..], &[0]].concat();
        prop_assert!(decode_windows(bucket(exponent), &longer).is_err());
    }

    #[test]
    fn changed_bytes_are_an_error_or_sound(
        (exponent, resolution, windows) in any_windows(),
        position in any::<prop::sample::Index>(),
        change in 1u8..,
        fields in any_fields(),
    ) {
        let mut value = check(exponent, resolution, WindowFields::ALL, &windows);
        let position = position.index(value.len());
        value[position] ^= change;
        let _ = decode(bucket(exponent), &value, fields, i64::MIN..i64::MAX);
        // What decodes can be written: the encoder asserts what the decoder promises.
        if let Ok(windows) = decode_windows(bucket(exponent), &value) {
            let record = RollupRecord::parse(bucket(exponent), &value).unwrap();
            check(exponent, record.resolution(), record.fields(), &windows);
        }
    }

    #[test]
    fn any_bytes_are_an_error_or_windows(
        head in (1u8..=10, any::<u16>()),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let [low, high] = head.1.to_le_bytes();
        let value = [&[VERSION, head.0, low, high & 3], &bytes[..]].concat();
        let _ = decode_windows(bucket(5), &value);
    }

    #[test]
    fn series_come_back(seed in any::<u64>(), kind in 0u8..6, interval in 1i64..200, lean: bool) {
        let samples = series(kind, seed, interval * 500, 20 * HOUR_MS);
        let lost = WindowFields::M2 | WindowFields::CHANGES;
        let fields = if lean { WindowFields::ALL.without(lost) } else { WindowFields::ALL };
        for resolution in [Resolution::FIVE_MINUTES, Resolution::HOUR] {
            let windows = roll_up(resolution, samples.iter().copied());
            let value = check(6, resolution, fields, &windows);
            let from = bucket(6).start_ms() + 3 * HOUR_MS;
            for asked in [WindowFields::LAST, WindowFields::COUNTS | WindowFields::SUM] {
                check_part(&value, 6, asked, from..from + 2 * HOUR_MS);
            }
        }
    }
}

/// Samples of one kind, from the bucket's start on.
fn series(kind: u8, seed: u64, interval_ms: i64, duration_ms: i64) -> Vec<(i64, f64)> {
    let mut state = seed | 1;
    let mut random = move |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    };
    let start_ms = bucket(6).start_ms();
    let mut value = random(1000) as f64;
    let count = duration_ms / interval_ms;
    let sample = |i: i64| {
        let jitter = random(7) as i64;
        value = match kind {
            0 if random(300) == 0 => 0.0,
            0 => value + random(50) as f64,
            1 => (random(10_000) as f64) / 100.0,
            2 => (random(1 << 50) as f64).sqrt(),
            3 => value,
            4 if random(10) == 0 => f64::from_bits(STALE_NAN_BITS),
            4 if random(10) == 1 => f64::NAN,
            4 => random(100) as f64,
            _ => (value + random(3) as f64 * 4096.0) % 1e9,
        };
        let time = start_ms + i * interval_ms + if kind == 5 { 0 } else { jitter };
        (time, value)
    };
    (0..count).map(sample).collect()
}

#[test]
fn a_long_record_is_read_in_parts() {
    let start_ms = bucket(11).start_ms();
    let samples = (0..1024 * 60).map(|i| (start_ms + i * 60_000 + 7, (i * i % 1000) as f64));
    let windows = roll_up(Resolution::HOUR, samples);
    let value = check(11, Resolution::HOUR, WindowFields::ALL, &windows);
    let record = RollupRecord::parse(bucket(11), &value).unwrap();
    assert_eq!(
        (record.len(), record.layout.segments_of(0..1024).count()),
        (1024, 2)
    );
    for (from, to) in [(0, 1), (511, 513), (1023, 1024), (100, 900), (5, 5), (9, 3)] {
        let hour = |number: i64| start_ms + number * HOUR_MS;
        check_part(&value, 11, WindowFields::ALL, hour(from)..hour(to));
        // A window belongs to a range that holds its start.
        check_part(&value, 11, WindowFields::SUM, hour(from) + 1..hour(to) + 1);
    }
    // A damaged segment does not harm the other.
    let mut damaged = value.clone();
    let end = damaged.len() - 1;
    damaged.truncate(end);
    let record = RollupRecord::parse(bucket(11), &damaged).unwrap();
    let mut decoder = Decoder::default();
    let all = WindowFields::ALL;
    assert!(
        decoder
            .columns(&record, all, start_ms..start_ms + HOUR_MS)
            .is_ok()
    );
    assert!(decoder.columns(&record, all, start_ms..i64::MAX).is_err());
}

#[test]
fn what_follows_from_other_columns_is_left_out() {
    let start_ms = bucket(6).start_ms();
    let samples = (0..32 * 60).map(|i| (start_ms + i * 60_000 + 7, 3.0));
    let windows = roll_up(Resolution::FIVE_MINUTES, samples);
    let value = check(6, Resolution::FIVE_MINUTES, WindowFields::ALL, &windows);
    assert!(value.len() < 32, "{} bytes: {value:02x?}", value.len());
}

#[test]
fn a_false_number_of_windows_takes_no_memory() {
    let mut value = vec![VERSION, 1, 0xff, 3];
    push_varint(&mut value, 360 << 14);
    value.push(0);
    push_varint(&mut value, MAX_SEGMENT_LEN as u64);
    let error = RollupRecord::parse(bucket(15), &value).unwrap_err();
    assert_eq!(error.reason, "more segments than bytes");
}

#[test]
fn broken_rules_are_errors() {
    let start_ms = bucket(1).start_ms();
    let window = |first_ms, value| Window {
        start_ms,
        edge: Edge::None,
        interior: Some(Aggregate::of(start_ms + first_ms, value)),
        ends_stale: false,
        has_late: false,
    };
    let refused = |window: Window| {
        std::panic::catch_unwind(|| {
            encode(bucket(1), Resolution::HOUR, WindowFields::ALL, &[window])
        })
        .is_err()
    };
    assert!(!refused(window(1, 1.0)) && !refused(window(HOUR_MS - 1, 1.0)));
    assert!(refused(window(0, 1.0)) && refused(window(HOUR_MS, 1.0)));
    assert!(refused(window(1, f64::from_bits(STALE_NAN_BITS))));
    let empty = Aggregate {
        numbers: 0,
        ..Aggregate::of(start_ms + 1, 1.0)
    };
    assert!(refused(Window {
        interior: Some(empty),
        ..window(1, 1.0)
    }));
    // The same by damage: an exception with the bits of a stale marker.
    let nan = f64::from_bits(STALE_NAN_BITS + 1);
    let values = [1.0, 2.0, 5.0, 3.0, nan, 4.0, 9.0, 7.0];
    let times = (0..).map(|i| start_ms + 1 + i * 5 * 60_000);
    let windows = roll_up(Resolution::FIVE_MINUTES, times.zip(values));
    let mut value = check(1, Resolution::FIVE_MINUTES, WindowFields::ALL, &windows);
    let bits = nan.to_bits().to_le_bytes();
    let at = value.windows(8).position(|eight| eight == bits).unwrap();
    value[at..at + 8].copy_from_slice(&STALE_NAN_BITS.to_le_bytes());
    let error = decode_windows(bucket(1), &value).unwrap_err();
    assert_eq!(error.reason, "stale marker as a value");
}

/// What one window of a long record has, in one segment of two, takes its place among the columns;
/// what no window has takes none.
#[test]
fn rare_things_of_one_segment() {
    let start_ms = bucket(11).start_ms();
    let samples = |rare: i64| {
        (0..1024 * 4).flat_map(move |i| {
            let time = start_ms + i * HOUR_MS / 4 + 1;
            let is_rare = i / 4 == rare;
            let value = if is_rare { f64::NAN } else { i as f64 };
            let edge = is_rare.then_some((time - 1, 7.0));
            let stale = f64::from_bits(STALE_NAN_BITS);
            let end = (is_rare && i % 4 == 3).then_some((time + 1, stale));
            edge.filter(|_| i % 4 == 0)
                .into_iter()
                .chain([(time, value)])
                .chain(end)
        })
    };
    for rare in [-1, 0, 300, 511, 512, 900, 1023] {
        let windows = roll_up(Resolution::HOUR, samples(rare));
        let value = check(11, Resolution::HOUR, WindowFields::ALL, &windows);
        let all = decode(bucket(11), &value, WindowFields::ALL, i64::MIN..i64::MAX).unwrap();
        let expected = WindowColumns::from_windows(&windows, WindowFields::ALL);
        assert_eq!(format!("{all:?}"), format!("{expected:?}"), "{rare}");
        let len = if rare < 0 { 0 } else { 1024 };
        assert_eq!(
            [all.edges.len(), all.ends_stale.len(), all.nans.len()],
            [len; 3]
        );
        let hours = start_ms + 256 * HOUR_MS..start_ms + 768 * HOUR_MS;
        check_part(&value, 11, WindowFields::ALL, hours);
    }
}
