use proptest::prelude::*;

use super::*;

fn check(values: &[f64]) -> Vec<u8> {
    let mut bytes = vec![];
    let mut encoder = Encoder::default();
    encoder.encode(values, &mut bytes);
    let mut again = vec![];
    encoder.encode(values, &mut again);
    assert_eq!(bytes, again);
    let decoded = decode(&bytes, values.len()).unwrap();
    let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&decoded), bits(values));
    bytes
}

fn decode(bytes: &[u8], count: usize) -> Result<Vec<f64>, DecodeError> {
    let mut out = vec![];
    decode_into(bytes, count, &mut out)?;
    assert_eq!(out.len(), count);
    Ok(out)
}

/// A chunk of one kind of series, or of several one after the other.
fn series() -> impl Strategy<Value = Vec<f64>> {
    let run =
        (0u8..9, any::<u64>(), 1usize..300).prop_map(|(kind, seed, len)| run(kind, seed, len));
    prop::collection::vec(run, 1..5).prop_map(|runs| runs.concat())
}

fn run(kind: u8, seed: u64, len: usize) -> Vec<f64> {
    let mut state = seed | 1;
    let mut random = move |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit.max(1)
    };
    let digits = random(13) as i32;
    let power = 10f64.powi(digits);
    let mut counter = random(1 << 40);
    let special = [
        f64::NAN,
        f64::from_bits(0x7ff0_0000_0000_0002),
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MIN_POSITIVE / 3.0,
        f64::from_bits(random(u64::MAX)),
    ];
    let next = |i| match kind {
        // A constant, or a run of one special value.
        0 => seed as f64 / power,
        1 => special[seed as usize % special.len()],
        // Decimals, a counter with resets, a counter of pages, a line.
        2 => random(100_000) as f64 / power - 1000.0,
        3 => {
            counter = if random(100) == 0 {
                0
            } else {
                counter + random(500)
            };
            counter as f64
        }
        4 => {
            counter += random(3) * 4096;
            counter as f64
        }
        5 => i as f64 * power,
        // Full precision, decimals with special values between, mostly unchanged.
        6 => (random(1 << 50) as f64).sqrt(),
        7 if random(20) == 0 => special[random(7) as usize],
        7 => random(1000) as f64 / 100.0,
        _ => {
            counter += if random(10) == 0 { 7 } else { 0 };
            counter as f64 / 10.0
        }
    };
    (0..len).map(next).collect()
}

proptest! {
    #[test]
    fn any_bits_come_back(bits in prop::collection::vec(any::<u64>(), 0..400)) {
        check(&bits.into_iter().map(f64::from_bits).collect::<Vec<_>>());
    }

    #[test]
    fn series_come_back(values in series()) {
        check(&values);
    }

    #[test]
    fn changed_bytes_are_an_error_or_other_values(
        values in series(),
        position in any::<prop::sample::Index>(),
        change in 1u8..,
        asked in 0usize..100_000,
    ) {
        let mut bytes = check(&values);
        let position = position.index(bytes.len());
        bytes[position] ^= change;
        let _ = decode(&bytes, values.len());
        let _ = decode(&bytes, asked);
    }

    #[test]
    fn any_bytes_are_an_error_or_values(
        form in 0u8..4,
        bytes in prop::collection::vec(any::<u8>(), 0..100),
        asked in 0usize..1000,
    ) {
        let _ = decode(&[&[form], &bytes[..]].concat(), asked);
    }

    #[test]
    fn every_cut_is_an_error(values in series()) {
        let bytes = check(&values);
        for end in 0..bytes.len() {
            prop_assert!(decode(&bytes[..end], values.len()).is_err(), "cut at {}", end);
        }
        prop_assert!(decode(&[&bytes[..], &[0]].concat(), values.len()).is_err());
    }
}

#[test]
fn long_chunks_come_back() {
    for len in [1, 2, 127, 128, 129, 130, 1499, 1501, 1502, 3840, 100_000] {
        for kind in 0..9 {
            check(&run(kind, 0x1234_5678_9abc_def1, len));
        }
    }
}

/// One example of every form. A change here is a change of the format.
#[test]
fn the_format_has_not_moved() {
    let pages = [0, 3, 1, 7, 2, 9, 4, 8].map(|page| f64::from(page * 4096 + 100));
    let mut seldom = vec![2.5; 40];
    seldom[20..].fill(4.0);
    seldom[33..].fill(3.5);
    let often: Vec<f64> = (0..40).map(|i| f64::from(i / 2 % 3 * 9 + i / 2)).collect();
    let stale = f64::from_bits(0x7ff0_0000_0000_0002);
    let mut ending: Vec<f64> = (0..20).map(|i| f64::from(i) / 10.0).collect();
    ending[19] = stale;
    let squares: Vec<f64> = (0..12).map(|i| f64::from(i * i)).collect();
    let counter: Vec<f64> = (0..64)
        .map(|i| f64::from(i * 1000 + i * 7 % 11 + i * i / 2))
        .collect();
    let table: [(&str, &[f64], &str); 9] = [
        ("no values", &[], ""),
        ("constant", &[0.25; 9], "0000020132"),
        ("constant NaN", &[stale; 3], "0000ff0184808080808080f0ff01"),
        (
            "factor, no predictor",
            &pages,
            "0010008020c80100040030719284",
        ),
        ("gaps", &seldom, "0203140d100105320002002c"),
        (
            "bitmap",
            &often,
            "01145555555555000000060080420dcd65405a32758c053ed92871",
        ),
        (
            "same, exception",
            &ending,
            "00210100000100ffff030113020000000000f07f",
        ),
        ("same step", &squares, "0002000002000200a8aa2a"),
        (
            "trend",
            &counter,
            "00040000e00f0800840391c6cd1e1ce1e0202df2302e1de1302ef2e0202df2302e1de1302ef2e0202d020401010304060f",
        ),
    ];
    for (name, values, expected) in table {
        let hex: String = check(values).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, expected, "{name}");
    }
}
