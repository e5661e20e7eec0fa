//! The columns of a record, and which fields of a window lie in which of them.

use icecore_model::rollup::WindowFields;

/// A stored column; its number is its place in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Column {
    /// Bits of [`flags`], one number per window. All others but the edges are about windows that
    /// have an interior.
    Flags,
    Edges,
    Numbers,
    Nans,
    /// From the first millisecond inside the window to the first sample.
    FirstTime,
    /// From the last sample to the last millisecond of the window.
    LastTime,
    First,
    Last,
    Min,
    Max,
    Sum,
    M2,
    Correction,
    Resets,
    Changes,
}

pub(super) const COLUMNS: usize = 15;

impl Column {
    pub(super) const ALL: [Self; COLUMNS] = [
        Self::Flags,
        Self::Edges,
        Self::Numbers,
        Self::Nans,
        Self::FirstTime,
        Self::LastTime,
        Self::First,
        Self::Last,
        Self::Min,
        Self::Max,
        Self::Sum,
        Self::M2,
        Self::Correction,
        Self::Resets,
        Self::Changes,
    ];

    pub(super) fn bit(self) -> u16 {
        1 << self as u8
    }

    /// The field that it is a part of; `None` for what every record has.
    pub(super) fn field(self) -> Option<WindowFields> {
        Some(match self {
            Self::Flags | Self::Edges => return None,
            Self::Numbers | Self::Nans => WindowFields::COUNTS,
            Self::FirstTime | Self::First => WindowFields::FIRST,
            Self::LastTime | Self::Last => WindowFields::LAST,
            Self::Min => WindowFields::MIN,
            Self::Max => WindowFields::MAX,
            Self::Sum => WindowFields::SUM,
            Self::M2 => WindowFields::M2,
            Self::Correction => WindowFields::CORRECTION,
            Self::Resets => WindowFields::RESETS,
            Self::Changes => WindowFields::CHANGES,
        })
    }

    pub(super) fn is_in(self, fields: WindowFields) -> bool {
        self.field().is_none_or(|field| fields.contains(field))
    }
}

/// Numbers that are counts stay below this, so that sums of a few do not overflow.
pub(crate) const COUNT_LIMIT: u64 = 1 << 62;

/// The bits of a window.
pub(crate) mod flags {
    pub(crate) const EDGE_SAMPLE: u8 = 1;
    pub(crate) const EDGE_STALE: u8 = 1 << 1;
    pub(crate) const ENDS_STALE: u8 = 1 << 2;
    pub(crate) const NO_INTERIOR: u8 = 1 << 3;
    pub(crate) const HAS_LATE: u8 = 1 << 4;
    const ALL: u8 = (1 << 5) - 1;

    /// Whether all of them are flags of windows.
    pub(crate) fn are_known(numbers: &[i64]) -> bool {
        // No early end: nearly all columns are right, and this is a loop of a few instructions.
        let known = i64::from(ALL);
        let wrong = numbers.iter().fold(0, |wrong, number| {
            wrong | (number & !known) | (number & (number >> 1) & 1)
        });
        wrong == 0
    }

    /// `None` for bits that mean nothing, or nothing together.
    pub(crate) fn from_number(number: i64) -> Option<u8> {
        let both = EDGE_SAMPLE | EDGE_STALE;
        let flags = u8::try_from(number).ok()?;
        (flags & !ALL == 0 && flags & both != both).then_some(flags)
    }
}

/// What a column was subtracted from, as numbers of the same exponent. Stored.
pub(super) mod references {
    /// Nothing.
    pub(crate) const NONE: u8 = 0;
    /// Of the first value: the last value of the window before. Of others: the first value.
    pub(crate) const FIRST: u8 = 1;
    pub(crate) const LAST: u8 = 2;
    /// Of a sum: how many numbers there are, times the middle of first and last value.
    pub(crate) const ENDS: u8 = 1;
    /// Of squared deviations: what follows from count and sum.
    pub(crate) const SQUARES: u8 = 1;
}

/// Fields by the bits that are stored.
const FIELDS: [WindowFields; 10] = [
    WindowFields::COUNTS,
    WindowFields::FIRST,
    WindowFields::LAST,
    WindowFields::SUM,
    WindowFields::MIN,
    WindowFields::MAX,
    WindowFields::M2,
    WindowFields::CORRECTION,
    WindowFields::RESETS,
    WindowFields::CHANGES,
];

pub(super) fn field_bits(fields: WindowFields) -> u16 {
    let kept = FIELDS.iter().enumerate();
    kept.filter(|(_, field)| fields.contains(**field))
        .fold(0, |bits, (i, _)| bits | 1 << i)
}

pub(super) fn fields_of_bits(bits: u16) -> Option<WindowFields> {
    if bits >> FIELDS.len() != 0 {
        return None;
    }
    let kept = FIELDS.iter().enumerate();
    Some(
        kept.filter(|(i, _)| bits >> i & 1 != 0)
            .fold(WindowFields::NONE, |fields, (_, field)| fields | *field),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_many_windows() {
        for number in -1..70 {
            let is_known = flags::from_number(number).is_some();
            assert_eq!(flags::are_known(&[0, number, 1]), is_known, "{number}");
        }
    }

    #[test]
    fn fields_and_bits() {
        for bits in 0..1 << FIELDS.len() {
            assert_eq!(field_bits(fields_of_bits(bits).unwrap()), bits);
        }
        assert_eq!(fields_of_bits(1 << FIELDS.len()), None);
        assert_eq!(field_bits(WindowFields::ALL), (1 << FIELDS.len()) - 1);
        for (number, column) in Column::ALL.into_iter().enumerate() {
            assert_eq!(column.bit(), 1 << number);
        }
    }
}
