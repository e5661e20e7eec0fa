//! Snappy's block format, as remote write bodies use it.

use thiserror::Error;

/// No snappy block grows more than this: the densest element is a copy of 64 bytes in 3.
const GROWTH_MAX: usize = 22;

/// Why a body could not be decompressed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SnappyError {
    #[error("decompressed body has {length} bytes, at most {max} are accepted")]
    TooLarge { length: usize, max: usize },
    #[error("body claims to decompress to {length} bytes, which its {compressed} cannot hold")]
    ImpossibleLength { length: usize, compressed: usize },
    #[error("body is corrupt: {0}")]
    Corrupt(String),
}

/// Decompresses into `buffer`, which the caller keeps from request to request, and returns the part
/// of it that is the body. The buffer only grows, to at most `decoded_bytes_max`, and not before
/// the length the body claims is a possible one.
pub fn decompress<'b>(
    compressed: &[u8],
    buffer: &'b mut Vec<u8>,
    decoded_bytes_max: usize,
) -> Result<&'b [u8], SnappyError> {
    let corrupt = |error: snap::Error| SnappyError::Corrupt(error.to_string());
    let length = snap::raw::decompress_len(compressed).map_err(corrupt)?;
    if length > decoded_bytes_max {
        return Err(SnappyError::TooLarge {
            length,
            max: decoded_bytes_max,
        });
    }
    if length > compressed.len().saturating_mul(GROWTH_MAX) {
        return Err(SnappyError::ImpossibleLength {
            length,
            compressed: compressed.len(),
        });
    }
    // Growing only: clearing first would write zeros over the whole body for every request.
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    let target = buffer
        .get_mut(..length)
        .expect("the buffer was just made this long");
    let written = snap::raw::Decoder::new()
        .decompress(compressed, target)
        .map_err(corrupt)?;
    Ok(target.get(..written).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn compress(bytes: &[u8]) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(bytes).unwrap()
    }

    proptest! {
        #[test]
        fn what_was_compressed_comes_back(
            bodies in proptest::collection::vec(proptest::collection::vec(0u8..4, 0..5000), 1..4)
        ) {
            let mut buffer = Vec::new();
            for body in bodies {
                let compressed = compress(&body);
                prop_assert_eq!(decompress(&compressed, &mut buffer, 5000).unwrap(), body);
            }
        }

        #[test]
        fn any_bytes_give_a_body_or_an_error(bytes: Vec<u8>) {
            let mut buffer = Vec::new();
            let _ = decompress(&bytes, &mut buffer, 1 << 20);
            prop_assert!(buffer.len() <= bytes.len() * GROWTH_MAX);
        }
    }

    #[test]
    fn the_cap_is_exact() {
        let compressed = compress(&[7; 1000]);
        assert!(decompress(&compressed, &mut Vec::new(), 1000).is_ok());
        let error = SnappyError::TooLarge {
            length: 1000,
            max: 999,
        };
        assert_eq!(decompress(&compressed, &mut Vec::new(), 999), Err(error));
    }

    #[test]
    fn the_densest_block_is_below_the_growth_limit() {
        let compressed = compress(&vec![0; 1 << 20]);
        assert!(decompress(&compressed, &mut Vec::new(), 1 << 20).is_ok());
    }

    #[test]
    fn a_lie_about_the_length_allocates_nothing() {
        let mut buffer = Vec::new();
        let lie = [0xff, 0xff, 0xff, 0x7f, 0x00];
        let error = decompress(&lie, &mut buffer, usize::MAX).unwrap_err();
        assert!(
            matches!(error, SnappyError::ImpossibleLength { .. }),
            "{error}"
        );
        assert_eq!(buffer.capacity(), 0);
    }

    #[test]
    fn truncation_is_an_error() {
        let compressed = compress(b"a body that is long enough to have something to cut off");
        for end in 0..compressed.len() {
            let mut buffer = Vec::new();
            let result = decompress(&compressed[..end], &mut buffer, 1000);
            assert!(result.is_err(), "cut at {end}: {result:?}");
        }
    }
}
