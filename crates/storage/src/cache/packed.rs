//! Values of a chunk in whole bytes: what a second read decodes at memory speed.
//!
//! ```text
//! constant | (base + u8 or u16 or u32) / 10^e | plain f64
//! ```
//!
//! Most metrics are integers or have a few decimals, so an hour of them fits in one to four bytes a
//! sample, about what Gorilla takes, and unpacks twenty times faster, measured.
//!
//! Holds always:
//! - Every bit pattern comes back: a form is used only after each value was made from it and
//!   compared.

/// The powers of ten that are tried, as exponents: exporters round to these.
const EXPONENTS: [i32; 7] = [0, 1, 2, 3, 4, 6, 9];

/// Up to here all integers are exact as f64, and so is every sum and quotient used below.
const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

pub(crate) struct Packed(Form);

enum Form {
    Constant { value: f64, len: u32 },
    Bytes(Scaled<u8>),
    Words(Scaled<u16>),
    Doubles(Scaled<u32>),
    Plain(Box<[f64]>),
}

/// Value number i is `(base + steps[i]) / divisor`.
struct Scaled<T> {
    base: f64,
    divisor: f64,
    steps: Box<[T]>,
}

impl Packed {
    pub(crate) fn new(values: &[f64]) -> Self {
        Self(pack(values))
    }

    /// As they are, for what is read once: looking for a smaller form costs more than it saves.
    pub(crate) fn plain(values: &[f64]) -> Self {
        Self(Form::Plain(values.into()))
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Constant { .. } => 0,
            Form::Bytes(scaled) => scaled.steps.len(),
            Form::Words(scaled) => 2 * scaled.steps.len(),
            Form::Doubles(scaled) => 4 * scaled.steps.len(),
            Form::Plain(values) => 8 * values.len(),
        }
    }

    /// Appends the values from `start` to before `end`.
    pub(crate) fn unpack_into(&self, start: usize, end: usize, values: &mut Vec<f64>) {
        match &self.0 {
            Form::Constant { value, len } => {
                debug_assert!(end <= *len as usize, "a range within the chunk");
                values.resize(values.len() + (end - start), *value);
            }
            Form::Bytes(scaled) => scaled.unpack_into(start, end, values),
            Form::Words(scaled) => scaled.unpack_into(start, end, values),
            Form::Doubles(scaled) => scaled.unpack_into(start, end, values),
            Form::Plain(plain) => values.extend_from_slice(&plain[start..end]),
        }
    }
}

impl<T: Copy + Into<f64>> Scaled<T> {
    fn unpack_into(&self, start: usize, end: usize, values: &mut Vec<f64>) {
        let (base, divisor) = (self.base, self.divisor);
        let steps = self.steps[start..end].iter();
        // Dividing by one changes nothing and costs as much as all the rest.
        if divisor == 1.0 {
            values.extend(steps.map(|step| base + (*step).into()));
        } else {
            values.extend(steps.map(|step| (base + (*step).into()) / divisor));
        }
    }
}

fn pack(values: &[f64]) -> Form {
    let Some(first) = values.first() else {
        return Form::Plain(Box::default());
    };
    if values.iter().all(|v| v.to_bits() == first.to_bits()) {
        return Form::Constant {
            value: *first,
            len: values.len() as u32,
        };
    }
    EXPONENTS
        .iter()
        .find_map(|exponent| pack_scaled(values, 10f64.powi(*exponent)))
        .unwrap_or_else(|| Form::Plain(values.into()))
}

/// `None` when a value is not a multiple of `1 / divisor`, or they lie too far apart.
fn pack_scaled(values: &[f64], divisor: f64) -> Option<Form> {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        let scaled = (value * divisor).round();
        // False for NaN, too. Adding zero makes zero of −0, as unpacking will.
        let made = (scaled + 0.0) / divisor;
        let fits = scaled.abs() <= INTEGER_MAX && made.to_bits() == value.to_bits();
        if !fits {
            return None;
        }
        least = least.min(scaled);
        most = most.max(scaled);
    }
    let step = |value: &f64| (value * divisor).round() - least;
    let range = most - least;
    if range <= f64::from(u8::MAX) {
        let steps = values.iter().map(|v| step(v) as u8).collect();
        Some(Form::Bytes(Scaled::new(least, divisor, steps)))
    } else if range <= f64::from(u16::MAX) {
        let steps = values.iter().map(|v| step(v) as u16).collect();
        Some(Form::Words(Scaled::new(least, divisor, steps)))
    } else if range <= f64::from(u32::MAX) {
        let steps = values.iter().map(|v| step(v) as u32).collect();
        Some(Form::Doubles(Scaled::new(least, divisor, steps)))
    } else {
        None
    }
}

impl<T> Scaled<T> {
    fn new(base: f64, divisor: f64, steps: Box<[T]>) -> Self {
        Self {
            base,
            divisor,
            steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use icecore_model::STALE_NAN_BITS;
    use proptest::prelude::*;

    use super::*;

    fn check(values: &[f64]) -> usize {
        let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<u64>>();
        let packed = Packed::new(values);
        for (start, end) in [
            (0, values.len()),
            (values.len() / 3, values.len() / 2),
            (values.len(), values.len()),
        ] {
            let mut unpacked = vec![7.0];
            packed.unpack_into(start, end, &mut unpacked);
            assert_eq!(bits(&unpacked[1..]), bits(&values[start..end]));
        }
        packed.heap_bytes()
    }

    #[test]
    fn usual_metrics_take_few_bytes() {
        assert_eq!(check(&[]), 0);
        assert_eq!(check(&[f64::from_bits(STALE_NAN_BITS); 3]), 0);
        assert_eq!(check(&[1e15, 1e15 + 3.0, 1e15 + 255.0]), 3);
        assert_eq!(check(&[1e15, 1e15 + 256.0]), 4);
        assert_eq!(check(&[-4.25, 0.1, 3.0]), 6);
        assert_eq!(check(&[0.001234, 0.5, -0.25]), 12);
        assert_eq!(check(&[1e18, 0.0]), 16);
    }

    #[test]
    fn odd_values_survive() {
        let odd = [
            -0.0,
            f64::NAN,
            f64::from_bits(STALE_NAN_BITS),
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MIN_POSITIVE,
            f64::from_bits(1),
            f64::MAX,
            INTEGER_MAX,
            -INTEGER_MAX,
        ];
        for one in odd {
            check(&[one, 0.0]);
            check(&[1.0, one]);
            check(&[one, 0.1]);
        }
        check(&odd);
    }

    proptest! {
        #[test]
        fn every_bit_pattern_survives(bits in prop::collection::vec(any::<u64>(), 0..20)) {
            check(&bits.into_iter().map(f64::from_bits).collect::<Vec<_>>());
        }

        #[test]
        fn decimals_survive(
            numbers in prop::collection::vec(-1_000_000_000i64..1_000_000_000, 1..50),
            digits in 0i32..12,
            base in prop::sample::select(vec![0.0, 1e3, -1e9, 1e12]),
        ) {
            let value = |n: i64| base + n as f64 / 10f64.powi(digits);
            check(&numbers.into_iter().map(value).collect::<Vec<_>>());
        }
    }
}
