//! How the sender of a float sample wrote its number.
//!
//! Samples are floats. OpenTSDB tells integers from floats, and computes with integers as such: of
//! the numbers of a series it has to be known what they were. A sample carries its form in place of
//! a start timestamp, which samples of OpenTSDB do not have: so it is stored, replaced and deleted
//! with the sample, in whatever order samples come.

/// The start timestamp that says "a float": a moment 8 900 years before 1970, of which no client
/// speaks. Times that can be stored end as far behind 1970.
const FLOAT_START: i64 = -(1 << 48);

/// The start timestamp that says "an integer", less what has to be added to the float.
const INTEGER_START: i64 = FLOAT_START - (1 << 16);

/// What a number was to its sender, beside its value and time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NumberForm {
    /// An integer of 64 bits, and what has to be added to the float for it: 0 unless it has more
    /// than 53 bits. `None` where it is a float.
    integer: Option<i16>,
    /// The time was given in milliseconds, although it is a whole second.
    pub milliseconds: bool,
}

impl NumberForm {
    pub const FLOAT: Self = Self {
        integer: None,
        milliseconds: false,
    };

    /// The float to be stored for an integer, and the form that gives it back.
    pub fn of_integer(integer: i64) -> (f64, Self) {
        let value = integer as f64;
        // Below 2^63 neighbouring floats are at most 1 024 apart.
        let correction = (i128::from(integer) - value as i128) as i16;
        let form = Self {
            integer: Some(correction),
            ..Self::FLOAT
        };
        (value, form)
    }

    pub fn with_milliseconds(self, milliseconds: bool) -> Self {
        Self {
            milliseconds,
            ..self
        }
    }

    /// The integer that `value` was, if it was one.
    pub fn integer(self, value: f64) -> Option<i64> {
        let correction = self.integer?;
        i64::try_from(value as i128 + i128::from(correction)).ok()
    }

    /// What has to be added to the float of an integer.
    pub fn correction(self) -> Option<i16> {
        self.integer
    }

    /// The form as the start timestamp of its sample. The unit of the time gets lost.
    pub fn as_start(self) -> i64 {
        match self.integer {
            None => FLOAT_START,
            Some(correction) => INTEGER_START + i64::from(correction),
        }
    }

    /// The form that a start timestamp says; `None` of one that is a time.
    pub fn of_start(start_ms: i64) -> Option<Self> {
        if start_ms == FLOAT_START {
            return Some(Self::FLOAT);
        }
        let correction = i16::try_from(start_ms.wrapping_sub(INTEGER_START)).ok()?;
        Some(Self::from_parts(Some(correction), false))
    }

    /// A form from its parts.
    pub fn from_parts(correction: Option<i16>, milliseconds: bool) -> Self {
        Self {
            integer: correction,
            milliseconds,
        }
    }
}

/// Samples of one form that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormRun {
    pub first_ms: i64,
    pub last_ms: i64,
    pub form: NumberForm,
}

/// The forms of the samples of a series. Samples that no run covers are floats.
///
/// Holds always: runs are in time order and do not overlap; none is of plain floats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberForms {
    runs: Vec<FormRun>,
}

impl NumberForms {
    /// The form of the next sample; samples come in time order.
    pub fn push(&mut self, timestamp_ms: i64, form: NumberForm, follows_previous: bool) {
        if form == NumberForm::FLOAT {
            return;
        }
        match self.runs.last_mut() {
            Some(last) if follows_previous && last.form == form => last.last_ms = timestamp_ms,
            _ => self.runs.push(FormRun {
                first_ms: timestamp_ms,
                last_ms: timestamp_ms,
                form,
            }),
        }
    }

    /// All forms of samples in time order.
    pub fn of(samples: impl IntoIterator<Item = (i64, NumberForm)>) -> Self {
        let mut forms = Self::default();
        let mut previous = None;
        for (timestamp_ms, form) in samples {
            forms.push(timestamp_ms, form, previous == Some(form));
            previous = Some(form);
        }
        forms
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub fn runs(&self) -> &[FormRun] {
        &self.runs
    }

    /// The form of the sample at a time.
    pub fn at(&self, timestamp_ms: i64) -> NumberForm {
        let next = self
            .runs
            .partition_point(|run| run.first_ms <= timestamp_ms);
        let run = next.checked_sub(1).and_then(|i| self.runs.get(i));
        run.filter(|run| timestamp_ms <= run.last_ms)
            .map_or(NumberForm::FLOAT, |run| run.form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_survive_as_floats_with_a_correction() {
        let powers = (0..63).map(|bits| 1i64 << bits);
        let near = powers.flat_map(|power| [power - 1, power, power + 1, power | 0x5555]);
        for integer in near.chain([0, i64::MAX, i64::MAX - 511, i64::MIN, i64::MIN + 513]) {
            for integer in [integer, integer.wrapping_neg()] {
                let (value, form) = NumberForm::of_integer(integer);
                assert_eq!(form.integer(value), Some(integer), "{integer}");
            }
        }
        assert_eq!(NumberForm::FLOAT.integer(5.0), None);
    }

    #[test]
    fn forms_are_told_from_start_timestamps() {
        // These numbers are stored.
        let (_, greatest) = NumberForm::of_integer(i64::MAX);
        for (form, start_ms) in [
            (NumberForm::FLOAT, -281_474_976_710_656),
            (NumberForm::of_integer(5).1, -281_474_976_776_192),
            (greatest, -281_474_976_776_193),
        ] {
            assert_eq!(form.as_start(), start_ms);
        }
        for correction in [None, Some(0), Some(i16::MIN), Some(-1), Some(i16::MAX)] {
            let form = NumberForm::from_parts(correction, false);
            assert_eq!(NumberForm::of_start(form.as_start()), Some(form));
        }
        let times = [i64::MIN, -1, 0, 1, crate::MAX_TIMESTAMP_MS, i64::MAX];
        let near = [FLOAT_START + 1, FLOAT_START - 1, FLOAT_START - (1 << 17)];
        for start_ms in times.into_iter().chain(near) {
            assert_eq!(NumberForm::of_start(start_ms), None, "{start_ms}");
        }
    }

    #[test]
    fn forms_are_runs_of_time() {
        let integer = NumberForm::of_integer(1).1;
        let float = NumberForm::FLOAT;
        let samples = [
            (1, integer),
            (2, integer),
            (5, float),
            (7, integer),
            (9, integer),
        ];
        let forms = NumberForms::of(samples);
        assert_eq!(forms.runs().len(), 2);
        for (timestamp_ms, form) in samples {
            assert_eq!(forms.at(timestamp_ms), form);
        }
        assert_eq!(forms.at(0), float);
        assert_eq!(forms.at(10), float);
    }
}
