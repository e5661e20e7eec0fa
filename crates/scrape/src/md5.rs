//! MD5 (RFC 1321), because `hashmod` of relabelling is defined by it. For nothing that needs to be secure.

/// Bits by which each step of a round rotates, four steps over and over.
const ROTATIONS: [[u32; 4]; 4] = [
    [7, 12, 17, 22],
    [5, 9, 14, 20],
    [4, 11, 16, 23],
    [6, 10, 15, 21],
];

/// The integer parts of `abs(sin(i + 1)) * 2^32`.
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
];

const BLOCK_BYTES: usize = 64;

/// The digest as its last eight bytes read big endian, which is all that relabelling uses.
pub(super) fn last_half(input: &[u8]) -> u64 {
    let [_, _, c, d] = digest_words(input);
    u64::from(c.swap_bytes()) << 32 | u64::from(d.swap_bytes())
}

/// The digest as four words, little endian.
fn digest_words(input: &[u8]) -> [u32; 4] {
    let mut state = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476];
    let (blocks, rest) = input.as_chunks::<BLOCK_BYTES>();
    for block in blocks {
        mix(&mut state, block);
    }
    // The rest, one set bit, zeros, and the length in bits: one block, or two when the length no longer fits.
    let mut tail = [0; 2 * BLOCK_BYTES];
    tail[..rest.len()].copy_from_slice(rest);
    tail[rest.len()] = 0x80;
    let tail_bytes = if rest.len() < BLOCK_BYTES - 8 {
        BLOCK_BYTES
    } else {
        2 * BLOCK_BYTES
    };
    let bits = (input.len() as u64).wrapping_mul(8);
    tail[tail_bytes - 8..tail_bytes].copy_from_slice(&bits.to_le_bytes());
    for block in tail[..tail_bytes].as_chunks::<BLOCK_BYTES>().0 {
        mix(&mut state, block);
    }
    state
}

fn mix(state: &mut [u32; 4], block: &[u8; BLOCK_BYTES]) {
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let [mut a, mut b, mut c, mut d] = *state;
    for (step, sine) in SINES.iter().enumerate() {
        let round = step / 16;
        let (mixed, word) = match round {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), 5 * step + 1),
            2 => (b ^ c ^ d, 3 * step + 5),
            _ => (c ^ (b | !d), 7 * step),
        };
        let sum = a
            .wrapping_add(mixed)
            .wrapping_add(*sine)
            .wrapping_add(words[word % 16]);
        let rotated = sum.rotate_left(ROTATIONS[round][step % 4]);
        (a, d, c, b) = (d, c, b, b.wrapping_add(rotated));
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(input: &str) -> String {
        digest_words(input.as_bytes())
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    #[test]
    fn the_vectors_of_the_rfc() {
        let digits = "1234567890".repeat(8);
        for (input, digest) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (
                "abcdefghijklmnopqrstuvwxyz",
                "c3fcd3d76192e4007dfb496cca67e13b",
            ),
            (
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                "d174ab98d277d9f5a5611c2c9f419d9f",
            ),
            (&digits, "57edf4a22be3c955ac49da2e2107b67a"),
        ] {
            assert_eq!(hex(input), digest, "{input}");
        }
    }

    #[test]
    fn lengths_around_a_block() {
        // From md5sum; the padding takes one block up to 55 bytes and two from 56 on.
        for (length, digest) in [
            (55, "ef1772b6dff9a122358552954ad0df65"),
            (56, "3b0c8ac703f828b04c6c197006d17218"),
            (63, "b06521f39153d618550606be297466d5"),
            (64, "014842d480b571495a4a0363793f7367"),
            (65, "c743a45e0d2e6a95cb859adae0248435"),
        ] {
            assert_eq!(hex(&"a".repeat(length)), digest, "{length}");
        }
    }

    #[test]
    fn the_last_half_is_big_endian() {
        assert_eq!(last_half(b"abc"), 0xd696_3f7d_28e1_7f72);
    }
}
