//! Prometheus' XOR chunk: Gorilla's coding of float samples, in milliseconds.
//!
//! ```text
//! u16 number of samples │ t₀ varint, v₀ 64 bits │ Δt uvarint, v ⊕
//!     │ ΔΔt in 1, 16, 20, 24 or 68 bits, v ⊕ │ …
//! ```

use icecore_model::varint::zigzag;

use super::bits::{BitWriter, XorState, fits_signed};

/// Encodes samples in time order, at least one and at most 65 535 of them.
pub(super) fn encode(timestamps: &[i64], values: &[f64]) -> Vec<u8> {
    debug_assert_eq!(timestamps.len(), values.len());
    let mut out = BitWriter::new();
    out.bits(timestamps.len() as u64, 16);
    let mut samples = timestamps.iter().copied().zip(values.iter().copied());
    let Some((mut previous, first)) = samples.next() else {
        return out.into_bytes();
    };
    out.uvarint(zigzag(previous));
    out.double(first);
    let mut value_state = XorState::after(first);
    let mut delta_before = None;
    for (timestamp, value) in samples {
        // Wrapping, as Go's arithmetic is: any two timestamps have a difference that reads back.
        let delta = timestamp.wrapping_sub(previous);
        match delta_before {
            None => out.uvarint(delta as u64),
            Some(before) => delta_of_delta(&mut out, delta.wrapping_sub(before)),
        }
        value_state.write(&mut out, value);
        previous = timestamp;
        delta_before = Some(delta);
    }
    out.into_bytes()
}

fn delta_of_delta(out: &mut BitWriter, value: i64) {
    match value {
        0 => out.bit(false),
        _ if fits_signed(value, 14) => {
            out.bits(0b10, 2);
            out.bits(value as u64, 14);
        }
        _ if fits_signed(value, 17) => {
            out.bits(0b110, 3);
            out.bits(value as u64, 17);
        }
        _ if fits_signed(value, 20) => {
            out.bits(0b1110, 4);
            out.bits(value as u64, 20);
        }
        _ => {
            out.bits(0b1111, 4);
            out.bits(value as u64, 64);
        }
    }
}
