//! Records of earlier versions about the numbers of one series.

use std::collections::BTreeMap;

use icecore_model::NumberForm;

use crate::catalog_key;

/// The meaning of whole numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// As integers.
    #[default]
    Natural,
    Floats,
}

impl Mode {
    /// Returns the form of a number.
    pub(super) fn form(self, value: f64) -> NumberForm {
        if self == Self::Natural && is_whole(value) {
            NumberForm::of_integer(value as i64).1
        } else {
            NumberForm::FLOAT
        }
    }
}

/// Returns `true` if a float is a 64-bit integer.
fn is_whole(value: f64) -> bool {
    value.fract() == 0.0 && (-(2f64.powi(63))..2f64.powi(63)).contains(&value)
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// This mode holds from here on.
    From(Mode),
    /// One number has another form.
    At(NumberForm),
}

/// Identifies a series: a hash of its labels.
pub(super) type SeriesKey = u128;

/// The records of a series by time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SeriesRecords {
    changes: BTreeMap<i64, Mode>,
    points: BTreeMap<i64, NumberForm>,
}

impl SeriesRecords {
    /// Returns the form of a number.
    pub(super) fn form(&self, timestamp_ms: i64, value: f64) -> NumberForm {
        if let Some(form) = self.points.get(&timestamp_ms) {
            return *form;
        }
        let before = self.changes.range(..=timestamp_ms).next_back();
        before.map_or(Mode::Natural, |(_, mode)| *mode).form(value)
    }

    pub(super) fn add(&mut self, timestamp_ms: i64, record: Record) {
        match record {
            Record::From(mode) => drop(self.changes.insert(timestamp_ms, mode)),
            Record::At(form) => drop(self.points.insert(timestamp_ms, form)),
        }
    }
}

const FROM: u8 = 0;
const AT: u8 = 1;
const INTEGER: u8 = 1;
const MILLISECONDS: u8 = 2;

/// Reads `kind u8 | integer and unit u8 | correction i16`, by the series and the time of its key.
pub(super) fn parse(key: &[u8], value: &[u8]) -> Option<(SeriesKey, i64, Record)> {
    let (series, timestamp_ms) = catalog_key::parse_number(key)?;
    let [kind, flags, high, low] = *value else {
        return None;
    };
    if flags & !(INTEGER | MILLISECONDS) != 0 {
        return None;
    }
    let is_integer = flags & INTEGER != 0;
    let correction = i16::from_be_bytes([high, low]);
    let form = NumberForm::from_parts(is_integer.then_some(correction), flags & MILLISECONDS != 0);
    let record = match kind {
        FROM if is_integer => Record::From(Mode::Natural),
        FROM => Record::From(Mode::Floats),
        AT => Record::At(form),
        _ => return None,
    };
    Some((series, timestamp_ms, record))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key as earlier versions have written it: series 7, 1 700 000 000 s.
    fn key() -> Vec<u8> {
        hex::decode("21000000000000000000000000000000078000018bcfe56800").unwrap()
    }

    #[test]
    fn records_of_earlier_versions_are_read() {
        let greatest = NumberForm::of_integer(i64::MAX).1;
        let five = NumberForm::of_integer(5).1.with_milliseconds(true);
        for (value, record) in [
            ([0, 1, 0, 0], Record::From(Mode::Natural)),
            ([0, 0, 0, 0], Record::From(Mode::Floats)),
            ([1, 0, 0, 0], Record::At(NumberForm::FLOAT)),
            ([1, 1, 0xFF, 0xFF], Record::At(greatest)),
            ([1, 3, 0, 0], Record::At(five)),
        ] {
            let parsed = parse(&key(), &value);
            assert_eq!(parsed, Some((7, 1_700_000_000_000, record)));
        }
        for broken in [&[][..], &[2, 0, 0, 0], &[0, 4, 0, 0], &[0, 0, 0]] {
            assert_eq!(parse(&key(), broken), None);
        }
        assert_eq!(parse(&key()[1..], &[1, 0, 0, 0]), None);
    }

    #[test]
    fn a_mode_holds_until_the_next_and_points_stand_for_themselves() {
        let mut series = SeriesRecords::default();
        let integer = NumberForm::of_integer(5).1;
        series.add(300, Record::From(Mode::Natural));
        series.add(100, Record::From(Mode::Floats));
        series.add(200, Record::At(integer));
        for (timestamp_ms, form) in [
            (99, integer),
            (100, NumberForm::FLOAT),
            (200, integer),
            (201, NumberForm::FLOAT),
            (300, integer),
        ] {
            assert_eq!(series.form(timestamp_ms, 5.0), form, "{timestamp_ms}");
        }
        assert_eq!(series.form(300, 5.5), NumberForm::FLOAT);
    }

    #[test]
    fn whole_numbers_of_64_bits_are_natural() {
        for (value, is_integer) in [
            (0.0, true),
            (-3.0, true),
            (0.5, false),
            (-(2f64.powi(63)), true),
            (2f64.powi(63), false),
            (f64::NAN, false),
            (f64::INFINITY, false),
        ] {
            let form = Mode::Natural.form(value);
            assert_eq!(form.integer(value).is_some(), is_integer, "{value}");
            assert_eq!(Mode::Floats.form(value), NumberForm::FLOAT);
        }
    }
}
