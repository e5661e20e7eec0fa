//! The registry of record types: the high four bits of a key's second byte.

use std::fmt;

/// What a record is. The numbers are those of `docs/storage-format.md` and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RecordType {
    BucketList = 0x1,
    SeriesDictionary = 0x2,
    ForwardIndex = 0x3,
    InvertedIndex = 0x4,
    TimeSeries = 0x5,
    RollupSeries = 0x6,
    BucketMeta = 0x7,
    HistogramSeries = 0x8,
    ExemplarSeries = 0x9,
    Journal = 0xA,
    Maintenance = 0xB,
    Catalog = 0xC,
    Annotation = 0xD,
    EventCell = 0xE,
    EventIdentity = 0xF,
}

impl RecordType {
    pub const ALL: [Self; 15] = [
        Self::BucketList,
        Self::SeriesDictionary,
        Self::ForwardIndex,
        Self::InvertedIndex,
        Self::TimeSeries,
        Self::RollupSeries,
        Self::BucketMeta,
        Self::HistogramSeries,
        Self::ExemplarSeries,
        Self::Journal,
        Self::Maintenance,
        Self::Catalog,
        Self::Annotation,
        Self::EventCell,
        Self::EventIdentity,
    ];

    pub fn number(self) -> u8 {
        self as u8
    }

    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number.checked_sub(1)?)).copied()
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::BucketList => "BucketList",
            Self::SeriesDictionary => "SeriesDictionary",
            Self::ForwardIndex => "ForwardIndex",
            Self::InvertedIndex => "InvertedIndex",
            Self::TimeSeries => "TimeSeries",
            Self::RollupSeries => "RollupSeries",
            Self::BucketMeta => "BucketMeta",
            Self::HistogramSeries => "HistogramSeries",
            Self::ExemplarSeries => "ExemplarSeries",
            Self::Journal => "Journal",
            Self::Maintenance => "Maintenance",
            Self::Catalog => "Catalog",
            Self::Annotation => "Annotation",
            Self::EventCell => "EventCell",
            Self::EventIdentity => "EventIdentity",
        }
    }

    /// Whether the low four bits of the tag are a bucket size and the bucket's start follows.
    pub fn is_bucket_scoped(self) -> bool {
        (Self::SeriesDictionary..=Self::ExemplarSeries).contains(&self)
    }
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_types_and_nothing_else() {
        for number in 1..=15 {
            assert_eq!(RecordType::from_number(number).unwrap().number(), number);
        }
        assert_eq!(RecordType::from_number(0), None);
        assert_eq!(RecordType::from_number(16), None);
    }
}
