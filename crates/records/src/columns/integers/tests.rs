use proptest::prelude::*;

use super::*;

fn check(numbers: &[i64]) -> Vec<u8> {
    let mut bytes = vec![];
    encode(numbers, &mut bytes);
    let mut again = vec![];
    encode(numbers, &mut again);
    assert_eq!(bytes, again);
    let mut reader = Reader::new("test", &bytes);
    let mut decoded = vec![];
    decode_into(&mut reader, numbers.len(), &mut decoded).unwrap();
    assert_eq!(decoded, numbers);
    reader.finish().unwrap();
    bytes
}

fn decode(bytes: &[u8], count: usize) -> Result<Vec<i64>, DecodeError> {
    let mut reader = Reader::new("test", bytes);
    let mut out = vec![];
    decode_into(&mut reader, count, &mut out)?;
    reader.finish()?;
    assert_eq!(out.len(), count);
    Ok(out)
}

/// Numbers whose distances to the base are sums of four, hence crowded around a middle.
fn crowd(numbers: &[([u16; 4], i64, u32)], shift: u32, base: i64) -> Vec<i64> {
    let number = |(four, any, chance): &([u16; 4], i64, u32)| match chance {
        0 => *any,
        _ => {
            let sum: i64 = four.iter().map(|part| i64::from(*part)).sum();
            base.wrapping_add((sum << 42) >> (60 - shift))
        }
    };
    numbers.iter().map(number).collect()
}

proptest! {
    #[test]
    fn any_numbers_come_back(numbers in prop::collection::vec(any::<i64>(), 0..700)) {
        check(&numbers);
    }

    /// Narrow numbers with jumps to both sides: what patches are for.
    #[test]
    fn narrow_numbers_with_jumps_come_back(
        numbers in prop::collection::vec((any::<i64>(), 0u32..100), 0..700),
        width in 0u32..64,
        base in any::<i64>(),
    ) {
        let numbers: Vec<i64> = numbers
            .iter()
            .map(|(bits, chance)| match chance {
                0 => *bits,
                1 => base.wrapping_add(bits >> 32),
                _ => base.wrapping_add(((*bits as u64) >> 1 >> (63 - width)) as i64),
            })
            .collect();
        check(&numbers);
    }

    /// What symbols are for, with escapes to both sides.
    #[test]
    fn crowded_numbers_come_back(
        numbers in prop::collection::vec((any::<[u16; 4]>(), any::<i64>(), 0u32..100), 128..1500),
        shift in 0u32..60,
        base in any::<i64>(),
    ) {
        check(&crowd(&numbers, shift, base));
    }

    #[test]
    fn any_numbers_come_back_as_symbols(numbers in prop::collection::vec(any::<i64>(), 128..700)) {
        let mut bytes = vec![SYMBOLS];
        symbols::encode(&numbers, &mut bytes);
        prop_assert_eq!(decode(&bytes, numbers.len()).unwrap(), numbers);
    }

    #[test]
    fn changed_symbols_are_an_error_or_other_numbers(
        numbers in prop::collection::vec((any::<[u16; 4]>(), any::<i64>(), 0u32..100), 128..300),
        position in any::<prop::sample::Index>(),
        change in 1u8..,
        asked in 0usize..100_000,
    ) {
        let numbers = crowd(&numbers, 8, 0);
        let mut bytes = vec![SYMBOLS];
        symbols::encode(&numbers, &mut bytes);
        for end in 0..bytes.len() {
            prop_assert!(decode(&bytes[..end], numbers.len()).is_err(), "cut at {}", end);
        }
        let position = position.index(bytes.len());
        bytes[position] ^= change;
        let _ = decode(&bytes, numbers.len());
        let _ = decode(&bytes, asked);
    }

    #[test]
    fn changed_bytes_are_an_error_or_other_numbers(
        numbers in prop::collection::vec(-300i64..300, 1..300),
        position in any::<prop::sample::Index>(),
        change in 1u8..,
        asked in 0usize..100_000,
    ) {
        let mut bytes = check(&numbers);
        let position = position.index(bytes.len());
        bytes[position] ^= change;
        let _ = decode(&bytes, numbers.len());
        let _ = decode(&bytes, asked);
    }

    #[test]
    fn any_bytes_are_an_error_or_numbers(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        kind in 0u8..4,
        asked in 0usize..1000,
    ) {
        let _ = decode(&[&[kind], &bytes[..]].concat(), asked);
    }
}

#[test]
fn extremes_come_back() {
    check(&[i64::MIN, i64::MAX]);
    check(&[i64::MAX, i64::MIN, 0, -1, 1]);
    let mut numbers = vec![i64::MAX; 127];
    numbers.push(i64::MIN);
    check(&numbers);
    for len in [1, 2, 127, 128, 129, 256, 100_000] {
        check(&vec![-7; len]);
        check(&(0..len as i64).collect::<Vec<_>>());
    }
}

#[test]
fn every_cut_is_an_error() {
    let numbers: Vec<i64> = (0..300).map(|i| i * i % 37 + i / 50 * 100_000).collect();
    let bytes = check(&numbers);
    for end in 0..bytes.len() {
        assert!(
            decode(&bytes[..end], numbers.len()).is_err(),
            "cut at {end}"
        );
    }
}

#[test]
fn the_format_has_not_moved() {
    assert_eq!(check(&[]), []);
    // Constant: kind, zigzag −3.
    assert_eq!(check(&[-3, -3, -3, -3]), [1, 5]);
    // Kind 0, width 3, base 10, then 0 1 2 3 4 7 in three bits each.
    assert_eq!(
        check(&[10, 11, 12, 13, 14, 17]),
        [0, 3, 20, 0b1000_1000, 0b1100_0110, 0b11]
    );
    // Width 0, patched, base 5; two patches of 15 zigzag bits at 3 and 20.
    let mut numbers = vec![5; 64];
    numbers[3] = 10_005;
    numbers[20] = -4;
    assert_eq!(
        check(&numbers),
        [0, 0x80, 10, 2, 15, 3, 20, 0x20, 0xce, 0x08, 0]
    );
}

#[test]
fn the_format_of_symbols_has_not_moved() {
    let mut numbers: Vec<i64> = (0..260)
        .map(|i| [100, 90, 110, 100, 104, 97, 101, 130, 100, 70][i % 10])
        .collect();
    numbers[200] = -500;
    let bytes = check(&numbers);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // Kind, k = 3, lo = 63, lengths of codes; one escape, at 200; sizes; streams; three low bits.
    let expected = [
        "02037e0430310003000040",
        "01c801e508",
        "12111212",
        "52654eaacc499539a9322755e6a4ca9c5401cc499539a9322755e6a4ca9c5499932a7352654eaa",
        "cc499539a9322755e6a4ca9c5401cc7daacc499539a9322755e6a4ca9c549903",
        "dd1b797df7465edfbd91d7776fe4f5dd1b797df7465edfbd91d7776fe4f5dd1b797df7465edfbd",
        "91d7776fe4f5dd1b797df7465edfbd91d7776fe4f5dd1b797df7465edfbd91d7776fe4f5d81b79",
        "7df7465edfbd91d7776fe4f5dd1b797df7465e0f",
    ];
    assert_eq!(hex, expected.concat());
}

#[test]
fn a_false_count_takes_no_memory() {
    let error = decode(&[0, 0, 0, 0, 0], 1 << 40).unwrap_err();
    assert_eq!(error.reason, "more numbers than bytes");
}
