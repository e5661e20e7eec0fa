//! Ids as text and back: lower case, UUIDs with their hyphens.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Digits after which a UUID has a hyphen.
const HYPHENS: [usize; 4] = [8, 12, 16, 20];

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from(DIGITS[usize::from(digit)]));
        }
    }
    text
}

pub(crate) fn uuid(bytes: &[u8; 16]) -> String {
    let mut text = hex(bytes);
    for at in HYPHENS.iter().rev() {
        text.insert(*at, '-');
    }
    text
}

pub(crate) fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

pub(crate) fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.split('-').collect();
    let bytes = parse_hex(&digits)?;
    (uuid(&bytes) == text).then_some(bytes)
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_as_text() {
        let bytes = [
            0x01, 0x99, 0xa1, 0xc0, 0x7d, 0x11, 0x7a, 0x3e, 0x9b, 0x44, 0x0d, 0x8b, 0x1e, 0x6f,
            0x2a, 0x01,
        ];
        assert_eq!(uuid(&bytes), "0199a1c0-7d11-7a3e-9b44-0d8b1e6f2a01");
        assert_eq!(parse_uuid(&uuid(&bytes)), Some(bytes));
        assert_eq!(parse_hex(&hex(&bytes)), Some(bytes));
    }

    #[test]
    fn other_text_is_no_id() {
        for text in [
            "",
            "0",
            "é",
            "0199a1c0-7d11-7a3e-9b44-0d8b1e6f2a0",
            "g".repeat(32).as_str(),
        ] {
            assert_eq!(parse_uuid(text), None, "{text}");
            assert_eq!(parse_hex::<16>(text), None, "{text}");
        }
        assert_eq!(parse_uuid("0199a1c07d117a3e9b440d8b1e6f2a01"), None);
    }
}
