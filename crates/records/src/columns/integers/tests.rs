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
fn a_false_count_takes_no_memory() {
    let error = decode(&[0, 0, 0, 0, 0], 1 << 40).unwrap_err();
    assert_eq!(error.reason, "more numbers than bytes");
}
