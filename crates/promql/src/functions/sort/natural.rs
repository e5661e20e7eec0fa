//! Natural order of texts: runs of digits compare as numbers, the rest byte by byte.
//!
//! Holds always: it is a total order. The comparison of Prometheus is not (`01` and `1` each come
//! before the other, numbers beyond 64 bits compare as text); where its answer is well defined, it
//! is this one.

use std::cmp::Ordering;

pub(super) fn natural_order(a: &str, b: &str) -> Ordering {
    Chunks(a)
        .cmp_by_chunk(Chunks(b))
        // What differs in leading zeros only.
        .then_with(|| a.cmp(b))
}

/// The runs of digits and of other characters that a text consists of.
#[derive(Clone, Copy)]
struct Chunks<'t>(&'t str);

impl<'t> Iterator for Chunks<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let first = self.0.bytes().next()?;
        let end = self
            .0
            .bytes()
            .position(|byte| byte.is_ascii_digit() != first.is_ascii_digit());
        // Digits are ASCII, so a run never ends within a character.
        let (chunk, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        Some(chunk)
    }
}

impl Chunks<'_> {
    fn cmp_by_chunk(mut self, mut other: Self) -> Ordering {
        loop {
            let order = match (self.next(), other.next()) {
                (Some(a), Some(b)) => chunk_order(a, b),
                (a, b) => return a.is_some().cmp(&b.is_some()),
            };
            if order.is_ne() {
                return order;
            }
        }
    }
}

fn chunk_order(a: &str, b: &str) -> Ordering {
    match (digits(a), digits(b)) {
        // Without leading zeros, the longer number is the larger one.
        (Some(a), Some(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
        _ => a.cmp(b),
    }
}

/// The digits of a number without its leading zeros.
fn digits(chunk: &str) -> Option<&str> {
    chunk
        .starts_with(|c: char| c.is_ascii_digit())
        .then(|| chunk.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_within_texts() {
        let sorted = [
            "",
            "0",
            "1",
            "2",
            "10",
            "10a",
            "10b",
            "10b1",
            "10b02",
            "10b10",
            "18446744073709551616",
            "99999999999999999999999",
            "a",
            "a1",
            "a1.2.3",
            "a1.11.3",
            "a1.111.3",
            "a-1",
            "a-b",
            "é",
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(natural_order(a, b), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(natural_order("4m5", "4m600"), Ordering::Less);
        assert_eq!(natural_order("4m600", "4m1000"), Ordering::Less);
        assert_eq!(natural_order("1.2.3", "1.11.3"), Ordering::Less);
        assert_eq!(natural_order("1.11.3", "1.111.3"), Ordering::Less);
        assert_eq!(natural_order("01", "1"), Ordering::Less);
        assert_eq!(natural_order("01b", "1a"), Ordering::Greater);
    }

    /// What Prometheus' library does: `Some` where it has an answer that does not depend on which
    /// text is asked for first.
    fn reference(a: &str, b: &str) -> Option<Ordering> {
        fn before(a: &str, b: &str) -> bool {
            let (a, b): (Vec<_>, Vec<_>) = (Chunks(a).collect(), Chunks(b).collect());
            for i in 0..a.len() {
                let Some(other) = b.get(i) else { return false };
                let equal = match (a[i].parse::<i64>(), other.parse::<i64>()) {
                    (Ok(x), Ok(y)) if x != y => return x < y,
                    (Ok(_), Ok(_)) => true,
                    _ => a[i] == *other,
                };
                match equal {
                    true if i == a.len() - 1 => return true,
                    true if i == b.len() - 1 => return false,
                    true => {}
                    false => return a[i] < *other,
                }
            }
            false
        }
        match (before(a, b), before(b, a)) {
            (true, false) => Some(Ordering::Less),
            (false, true) => Some(Ordering::Greater),
            _ => None,
        }
    }

    proptest! {
        #[test]
        fn a_total_order(texts in prop::collection::vec("[a0-2.é]{0,5}", 3)) {
            let [a, b, c] = [&texts[0], &texts[1], &texts[2]];
            prop_assert_eq!(natural_order(a, b), natural_order(b, a).reverse());
            prop_assert_eq!(natural_order(a, b).is_eq(), a == b);
            if natural_order(a, b).is_le() && natural_order(b, c).is_le() {
                prop_assert!(natural_order(a, c).is_le());
            }
        }

        #[test]
        fn as_prometheus_where_it_has_an_answer(a in "[a0-9.]{0,6}", b in "[a0-9.]{0,6}") {
            if let Some(expected) = reference(&a, &b) {
                prop_assert_eq!(natural_order(&a, &b), expected);
            }
        }

        #[test]
        fn numbers_by_value(a in any::<u64>(), b in any::<u64>()) {
            prop_assert_eq!(natural_order(&a.to_string(), &b.to_string()), a.cmp(&b));
        }
    }
}
