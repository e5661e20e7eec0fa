//! A writer of bits, most significant first, and the number codes of Prometheus' chunks.

/// Appends bits to bytes.
#[derive(Default)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    /// Bits of the last byte that are not written yet.
    free: u32,
}

impl BitWriter {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Overwrites complete bytes: the chunk's header, known only at the end.
    pub(super) fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        for (target, byte) in self.bytes.iter_mut().skip(at).zip(bytes) {
            *target = *byte;
        }
    }

    pub(super) fn bit(&mut self, bit: bool) {
        self.bits(u64::from(bit), 1);
    }

    /// The lowest `count` bits of a number, at most 64.
    pub(super) fn bits(&mut self, value: u64, count: u32) {
        debug_assert!(count <= 64);
        let mut left = count;
        while left > 0 {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            let take = left.min(self.free);
            let piece = (value >> (left - take)) as u8 & (0xff_u8 >> (8 - take));
            if let Some(last) = self.bytes.last_mut() {
                *last |= piece << (self.free - take);
            }
            self.free -= take;
            left -= take;
        }
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.bits(byte.into(), 8);
    }

    pub(super) fn double(&mut self, value: f64) {
        self.bits(value.to_bits(), 64);
    }

    /// A varint. Written by hand because it need not begin at a whole byte.
    pub(super) fn uvarint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// A signed number in one of nine widths; selected by a run of ones.
    pub(super) fn varbit_signed(&mut self, value: i64) {
        let width = VARBIT_WIDTHS
            .iter()
            .position(|width| fits_signed(value, *width));
        self.varbit(value as u64, value == 0, width);
    }

    /// The same without a sign.
    pub(super) fn varbit_unsigned(&mut self, value: u64) {
        let width = VARBIT_WIDTHS.iter().position(|width| value < 1 << width);
        self.varbit(value, value == 0, width);
    }

    fn varbit(&mut self, value: u64, is_zero: bool, width: Option<usize>) {
        if is_zero {
            return self.bit(false);
        }
        match width.and_then(|place| Some((place as u32, *VARBIT_WIDTHS.get(place)?))) {
            // `10`, `110` and so on: one more than its place in the list, and a zero.
            Some((place, width)) => {
                self.bits((1 << (place + 2)) - 2, place + 2);
                self.bits(value, width);
            }
            None => {
                self.bits(0xff, 8);
                self.bits(value, 64);
            }
        }
    }
}

const VARBIT_WIDTHS: [u32; 7] = [3, 6, 9, 12, 18, 25, 56];

/// Whether a number lies in `-(2^(bits-1)-1) ..= 2^(bits-1)`. The range is shifted by one against
/// two's complement, as Prometheus has it.
pub(super) fn fits_signed(value: i64, bits: u32) -> bool {
    let half = 1i64 << (bits - 1);
    (1 - half..=half).contains(&value)
}

/// The exclusive-or coding of floats: each against the one before it.
#[derive(Clone, Copy)]
pub(super) struct XorState {
    value: f64,
    /// Zeros before and after the bits that were written last; `None` before any were.
    window: Option<(u32, u32)>,
}

impl XorState {
    /// The state after a value that was written as it is.
    pub(super) fn after(value: f64) -> Self {
        Self {
            value,
            window: None,
        }
    }

    pub(super) fn value(&self) -> f64 {
        self.value
    }

    pub(super) fn write(&mut self, out: &mut BitWriter, value: f64) {
        let delta = value.to_bits() ^ self.value.to_bits();
        self.value = value;
        if delta == 0 {
            return out.bit(false);
        }
        out.bit(true);
        // Five bits have no room for more.
        let leading = delta.leading_zeros().min(31);
        let trailing = delta.trailing_zeros();
        match self.window {
            Some((before, after)) if leading >= before && trailing >= after => {
                out.bit(false);
                out.bits(delta >> after, 64 - before - after);
            }
            _ => {
                self.window = Some((leading, trailing));
                let significant = 64 - leading - trailing;
                out.bit(true);
                out.bits(leading.into(), 5);
                // 64 does not fit and is written as 0, which does not occur.
                out.bits(u64::from(significant & 63), 6);
                out.bits(delta >> trailing, significant);
            }
        }
    }
}
