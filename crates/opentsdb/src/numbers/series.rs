//! What is known of the numbers of one series.

use std::collections::BTreeMap;

use icecore_model::NumberForm;

/// Exceptions of one series. A sender that writes 5 and 5.0 in turn is not followed for ever.
pub(super) const EXCEPTIONS_MAX: usize = 256;

/// How whole numbers are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// As integers.
    #[default]
    Natural,
    Floats,
}

/// Something that is not as the mode says, or a change of the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exception {
    /// This mode holds from here on.
    From(Mode),
    /// One number has another form.
    At(NumberForm),
}

/// The exceptions of a series by time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SeriesNumbers {
    changes: BTreeMap<i64, Mode>,
    points: BTreeMap<i64, NumberForm>,
}

impl SeriesNumbers {
    fn len(&self) -> usize {
        self.changes.len() + self.points.len()
    }

    fn mode_at(&self, timestamp_ms: i64) -> Mode {
        let before = self.changes.range(..=timestamp_ms).next_back();
        before.map_or(Mode::Natural, |(_, mode)| *mode)
    }

    /// The form of a number.
    pub(super) fn form(&self, timestamp_ms: i64, value: f64) -> NumberForm {
        match self.points.get(&timestamp_ms) {
            Some(form) => *form,
            None => of_mode(self.mode_at(timestamp_ms), value),
        }
    }

    /// What has to be recorded so that a number has its form.
    pub(super) fn exception(
        &self,
        timestamp_ms: i64,
        value: f64,
        form: NumberForm,
    ) -> Option<Exception> {
        if self.form(timestamp_ms, value) == form || self.len() >= EXCEPTIONS_MAX {
            return None;
        }
        let mode = match form {
            NumberForm::FLOAT => Mode::Floats,
            _ => Mode::Natural,
        };
        let last = self.changes.last_key_value();
        let is_newest = last.is_none_or(|(last, _)| *last < timestamp_ms);
        let is_mode = of_mode(mode, value) == form && !self.points.contains_key(&timestamp_ms);
        // Who rewrites old numbers changes them alone, and not what came later.
        Some(if is_newest && is_mode {
            Exception::From(mode)
        } else {
            Exception::At(form)
        })
    }

    pub(super) fn add(&mut self, timestamp_ms: i64, exception: Exception) {
        match exception {
            Exception::From(mode) => drop(self.changes.insert(timestamp_ms, mode)),
            Exception::At(form) => drop(self.points.insert(timestamp_ms, form)),
        }
    }
}

/// The form of a number in a mode.
pub(super) fn of_mode(mode: Mode, value: f64) -> NumberForm {
    if mode == Mode::Natural && is_whole(value) {
        NumberForm::of_integer(value as i64).1
    } else {
        NumberForm::FLOAT
    }
}

/// Whether a float is a 64-bit integer.
fn is_whole(value: f64) -> bool {
    value.fract() == 0.0 && (-(2f64.powi(63))..2f64.powi(63)).contains(&value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A number as it is written.
    fn numbers() -> impl Strategy<Value = (f64, NumberForm)> {
        prop_oneof![
            (-3i64..3).prop_map(NumberForm::of_integer),
            (-3i64..3).prop_map(|whole| (whole as f64, NumberForm::FLOAT)),
            (-3i64..3).prop_map(|whole| (whole as f64 + 0.5, NumberForm::FLOAT)),
            any::<i64>().prop_map(NumberForm::of_integer),
        ]
    }

    proptest! {
        #[test]
        fn numbers_in_time_order_keep_their_forms(
            points in prop::collection::vec(numbers(), 0..100),
        ) {
            let mut series = SeriesNumbers::default();
            let points: Vec<_> = (0..).map(|i| i * 10).zip(points).collect();
            for (time, (value, form)) in &points {
                if let Some(exception) = series.exception(*time, *value, *form) {
                    series.add(*time, exception);
                }
            }
            for (time, (value, form)) in points {
                prop_assert_eq!(series.form(time, value), form);
            }
        }
    }

    #[test]
    fn steady_senders_cost_one_exception_at_most() {
        for (texts, exceptions) in [
            ([Some(5), None, Some(7)], 0),
            ([None, None, None], 0),
            ([Some(1), Some(2), Some(3)], 0),
        ] {
            let mut series = SeriesNumbers::default();
            for (time, text) in (0..).zip(texts) {
                let (value, form) = match text {
                    Some(integer) => NumberForm::of_integer(integer),
                    None => (0.25, NumberForm::FLOAT),
                };
                if let Some(exception) = series.exception(time, value, form) {
                    series.add(time, exception);
                }
            }
            assert_eq!(series.len(), exceptions);
        }
        let mut floats = SeriesNumbers::default();
        for time in 0..1000 {
            if let Some(exception) = floats.exception(time, 5.0, NumberForm::FLOAT) {
                floats.add(time, exception);
            }
        }
        assert_eq!(floats.len(), 1);
    }

    #[test]
    fn an_old_number_is_rewritten_alone_and_exceptions_are_limited() {
        let mut series = SeriesNumbers::default();
        let integer = NumberForm::of_integer(5).1;
        series.add(100, Exception::From(Mode::Floats));
        let rewritten = series.exception(100, 5.0, integer);
        assert_eq!(rewritten, Some(Exception::At(integer)));
        series.add(100, Exception::At(integer));
        assert_eq!(series.form(100, 5.0), integer);
        assert_eq!(series.form(101, 5.0), NumberForm::FLOAT);
        for time in 200..2000 {
            let form = if time % 2 == 0 {
                integer
            } else {
                NumberForm::FLOAT
            };
            if let Some(exception) = series.exception(time, 5.0, form) {
                series.add(time, exception);
            }
        }
        assert_eq!(series.len(), EXCEPTIONS_MAX);
    }
}
