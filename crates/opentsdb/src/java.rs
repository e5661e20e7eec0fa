//! What OpenTSDB has from Java and clients see: numbers as text, hashes, letters.

/// A double as `Double.toString` writes it: the shortest digits that give it back, with at least
/// one behind the point, and an exponent below 10^-3 and from 10^7 on.
pub(crate) fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    let mut buffer = zmij::Buffer::new();
    java_text(buffer.format_finite(value))
}

/// Appends the same.
pub(crate) fn push_double(out: &mut String, value: f64) {
    // Between these, the shortest digits have no exponent anywhere: they are Java's.
    if (1e-3..1e7).contains(&value.abs()) {
        out.push_str(zmij::Buffer::new().format_finite(value));
    } else {
        out.push_str(&double_text(value));
    }
}

/// The same for a float of 32 bits, as `Float.toString` writes it.
pub(crate) fn float_text(value: f32) -> String {
    if !value.is_finite() {
        return double_text(value.into());
    }
    let mut buffer = zmij::Buffer::new();
    java_text(buffer.format_finite(value))
}

/// Shortest digits, wherever their point and exponent are, in Java's layout.
fn java_text(shortest: &str) -> String {
    let (sign, unsigned) = match shortest.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", shortest),
    };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let leading = digits.len() - digits.trim_start_matches('0').len();
    let digits = digits.trim_matches('0');
    if digits.is_empty() {
        return format!("{sign}0.0");
    }
    // The value is 0.DIGITS × 10^scale.
    let scale = exponent + whole.len() as i32 - leading as i32;
    if (-2..=7).contains(&scale) {
        return format!("{sign}{}", plain(digits, scale));
    }
    let (first, rest) = digits.split_at(1);
    let rest = if rest.is_empty() { "0" } else { rest };
    format!("{sign}{first}.{rest}E{}", scale - 1)
}

/// 0.DIGITS × 10^scale without an exponent.
fn plain(digits: &str, scale: i32) -> String {
    if scale <= 0 {
        let zeros = "0".repeat(scale.unsigned_abs() as usize);
        return format!("0.{zeros}{digits}");
    }
    let scale = scale as usize;
    match digits.split_at_checked(scale) {
        Some((whole, fraction)) if !fraction.is_empty() => format!("{whole}.{fraction}"),
        _ => format!("{digits}{}.0", "0".repeat(scale - digits.len())),
    }
}

/// `String.hashCode`.
pub(crate) fn string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(unit.into())
    })
}

/// The order in which a `HashMap` hands out keys that were put into it in this order.
pub(crate) fn hash_map_order<T>(entries: &mut [T], key: impl Fn(&T) -> &str) {
    /// A `HashMap` doubles from here when three quarters are taken.
    const BUCKETS_MIN: usize = 16;
    let mut buckets = BUCKETS_MIN;
    while entries.len() > buckets / 4 * 3 {
        buckets *= 2;
    }
    entries.sort_by_cached_key(|entry| {
        let hash = string_hash(key(entry)) as u32;
        (hash ^ (hash >> 16)) as usize & (buckets - 1)
    });
}

/// A map as `toString` writes it, in the order given.
pub(crate) fn map_text<'a>(entries: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let entries: Vec<String> = entries
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    format!("{{{}}}", entries.join(", "))
}

/// Bytes as `Arrays.toString` writes them.
pub(crate) fn bytes_text(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| (*byte as i8).to_string()).collect();
    format!("[{}]", bytes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_look_as_in_java() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (5.0, "5.0"),
            (1.0e10, "1.0E10"),
            (1.0e7, "1.0E7"),
            (9_999_999.0, "9999999.0"),
            (1_234_567.25, "1234567.25"),
            (0.001, "0.001"),
            (0.000_999, "9.99E-4"),
            (0.033_333_333_333_333_33, "0.03333333333333333"),
            (-1.5e-7, "-1.5E-7"),
            (123_456_789.0, "1.23456789E8"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double_text(value), text);
            let mut out = String::new();
            push_double(&mut out, value);
            assert_eq!(out, text);
        }
        assert_eq!(float_text(99.9), "99.9");
        assert_eq!(float_text(50.0), "50.0");
        assert_eq!(float_text(1.75), "1.75");
    }

    #[test]
    fn maps_are_in_the_order_of_hashes() {
        let mut tags = ["host", "b", "c", "d", "e", "f", "g", "h", "i"];
        hash_map_order(&mut tags, |tag| tag);
        assert_eq!(tags, ["b", "c", "d", "e", "f", "g", "host", "h", "i"]);
        assert_eq!(map_text([("a", "1"), ("b", "2")].into_iter()), "{a=1, b=2}");
        assert_eq!(map_text([].into_iter()), "{}");
        assert_eq!(bytes_text(&[0, 0, 2, 160]), "[0, 0, 2, -96]");
    }

    #[test]
    fn strings_hash_as_in_java() {
        assert_eq!(string_hash("sys"), 0x0001_BECD);
        assert_eq!(string_hash("user"), 0x0036_EBCB);
        assert_eq!(string_hash("John Doe") as u32, 0xAE80_5CA5);
        assert_eq!(string_hash("sys.cpu.0") as u32, 0xCBBF_5B09);
    }
}
