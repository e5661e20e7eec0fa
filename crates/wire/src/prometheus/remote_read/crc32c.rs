//! CRC-32C (Castagnoli), which closes every frame of a streamed answer.

const POLYNOMIAL: u32 = 0x82f6_3b78;

/// For each of eight bytes in a row what it adds to the sum: eight are taken per step.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 {
                sum >> 1 ^ POLYNOMIAL
            } else {
                sum >> 1
            };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut position = 1;
    while position < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[position - 1][byte];
            tables[position][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        position += 1;
    }
    tables
}

pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    let mut sum = !0u32;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        let [a, b, c, d] = sum.to_le_bytes();
        let [e, f, g, h, i, j, k, l] = *chunk;
        sum = TABLES[7][usize::from(a ^ e)]
            ^ TABLES[6][usize::from(b ^ f)]
            ^ TABLES[5][usize::from(c ^ g)]
            ^ TABLES[4][usize::from(d ^ h)]
            ^ TABLES[3][usize::from(i)]
            ^ TABLES[2][usize::from(j)]
            ^ TABLES[1][usize::from(k)]
            ^ TABLES[0][usize::from(l)];
    }
    for byte in rest {
        let [low, ..] = sum.to_le_bytes();
        sum = sum >> 8 ^ TABLES[0][usize::from(low ^ byte)];
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_sums() {
        // RFC 3720, section B.4, and the usual check value.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&ascending), 0x46dd_794e);
        assert_eq!(crc32c(b""), 0);
    }

    proptest! {
        #[test]
        fn eight_at_a_time_and_one_at_a_time_agree(bytes: Vec<u8>) {
            let mut sum = !0u32;
            for byte in &bytes {
                sum ^= u32::from(*byte);
                for _ in 0..8 {
                    sum = if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
                }
            }
            prop_assert_eq!(crc32c(&bytes), !sum);
        }
    }
}
