//! The classes of delta-of-delta codes, measured for millisecond timestamps with a few milliseconds
//! of scrape jitter (3, 5, 8, 17 bits; the last class takes everything else).
//!
//! A delta of delta of 0 is the single bit 0. Every other value d is stored as d, or d − 1 where it
//! is positive, in two's complement: zero needs no code of its own inside a class, and so a jitter
//! of 0..2 ms, which gives −4..4, fits three bits.

/// Bits after the prefix of class 0 (the single bit 0) to 4; class 5 has 64.
pub(super) const PAYLOAD_BITS: [u32; 5] = [0, 3, 5, 8, 17];

/// Number of one bits that open the class of 64 bits.
pub(super) const WIDE_CLASS: u32 = 5;

/// The class for a payload of so many bits in two's complement; 0 bits mean "same delta".
pub(super) const CLASS_OF_WIDTH: [u8; 65] = {
    let mut classes = [WIDE_CLASS as u8; 65];
    let mut class = PAYLOAD_BITS.len();
    while class > 0 {
        class -= 1;
        let mut width = 0;
        while width <= PAYLOAD_BITS[class] as usize {
            classes[width] = class as u8;
            width += 1;
        }
    }
    classes
};

/// The payload of a delta of delta that is not 0.
#[inline(always)]
pub(super) fn payload(delta_of_delta: i64) -> i64 {
    delta_of_delta - i64::from(delta_of_delta > 0)
}

/// The delta of delta of a payload.
#[inline(always)]
pub(super) fn delta_of_delta(payload: i64) -> i64 {
    payload.wrapping_add(i64::from(payload >= 0))
}

/// Bits that a payload takes in two's complement.
#[inline(always)]
pub(super) fn width(payload: i64) -> usize {
    (65 - (payload ^ (payload >> 63)).leading_zeros()) as usize
}

/// Bits that the codes of classes 0 to 2 take at most, and thereby the index of [`SHORT_CODES`].
pub(super) const SHORT_CODE_BITS: u32 = 8;

/// The first word whose top bits are not a code of classes 0 to 2 any more.
pub(super) const LONG_CODES: u64 = 0b111 << 61;

/// By the next eight bits: length and delta of delta of a code of classes 0 to 2. With scrape
/// jitter the class is random, and a table costs less than branches that cannot be predicted.
pub(super) const SHORT_CODES: [(u8, i8); 1 << SHORT_CODE_BITS] = {
    let mut codes = [(0, 0); 1 << SHORT_CODE_BITS];
    let mut index = 0;
    while index < codes.len() {
        let top = (index as u64) << (64 - SHORT_CODE_BITS);
        let class = (!top).leading_zeros();
        if class == 0 {
            codes[index] = (1, 0);
        } else if class <= 2 {
            let bits = PAYLOAD_BITS[class as usize];
            let payload = ((top << (class + 1)) as i64) >> (64 - bits);
            let change = if payload >= 0 { payload + 1 } else { payload };
            codes[index] = ((class + 1 + bits) as u8, change as i8);
        }
        index += 1;
    }
    codes
};
