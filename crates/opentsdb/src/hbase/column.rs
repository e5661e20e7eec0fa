//! Cells of the data table.

use icecore_wire::opentsdb::number::Number;

use super::qualifier::{Offset, Qualifier};
use super::value::{decode, encode};
use super::{LayoutError, take};

/// First bytes of qualifiers of three and five bytes, which no point has.
const ANNOTATION: u8 = 0x01;
const HISTOGRAM: u8 = 0x06;

/// The qualifier of appended points.
const APPENDED: [u8; 3] = [0x05, 0, 0];

/// The last byte of compacted values: points are in seconds alone or in milliseconds alone, or
/// both.
const ONE_RESOLUTION: u8 = 0;
const MIXED_RESOLUTIONS: u8 = 1;

/// A point of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellPoint {
    pub offset: Offset,
    pub number: Number,
}

/// What a cell holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// One point, or several in the order of their times.
    Points(Vec<CellPoint>),
    /// Points in the order in which they were written: of two with one time the last counts.
    Appended(Vec<CellPoint>),
    /// The JSON of an annotation.
    Annotation(Offset, Vec<u8>),
    /// The id of its format, and its bytes.
    Histogram(Offset, u8, Vec<u8>),
}

impl Column {
    pub fn decode(qualifier: &[u8], value: &[u8]) -> Result<Self, LayoutError> {
        match qualifier {
            [5, ..] if qualifier == APPENDED => decode_appended(value).map(Self::Appended),
            [ANNOTATION, offset @ ..] if is_special(qualifier) => {
                let offset = special_offset(offset, qualifier)?;
                Ok(Self::Annotation(offset, value.to_vec()))
            }
            [HISTOGRAM, offset @ ..] if is_special(qualifier) => {
                let offset = special_offset(offset, qualifier)?;
                let no_id = || LayoutError::new("a histogram without the id of its format", value);
                let (id, bytes) = value.split_first().ok_or_else(no_id)?;
                Ok(Self::Histogram(offset, *id, bytes.to_vec()))
            }
            _ => decode_points(qualifier, value).map(Self::Points),
        }
    }

    /// The qualifier and the value.
    pub fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        match self {
            Self::Points(points) => encode_points(points),
            Self::Appended(points) => {
                let mut value = Vec::new();
                for point in points {
                    let encoded = encode(point.number);
                    let (offset, flags) = (point.offset, encoded.flags);
                    Qualifier { offset, flags }.push(&mut value);
                    value.extend_from_slice(&encoded.bytes);
                }
                (APPENDED.to_vec(), value)
            }
            Self::Annotation(offset, json) => (special(ANNOTATION, *offset), json.clone()),
            Self::Histogram(offset, id, bytes) => {
                let mut value = vec![*id];
                value.extend_from_slice(bytes);
                (special(HISTOGRAM, *offset), value)
            }
        }
    }

    /// Points in the order of their times, one for a time.
    pub fn points(&self) -> Vec<CellPoint> {
        let (Self::Points(points) | Self::Appended(points)) = self else {
            return Vec::new();
        };
        let mut points = points.clone();
        points.sort_by_key(|point| point.offset.milliseconds());
        // The later one is kept: it takes the place of the earlier one.
        points.dedup_by(|later, earlier| {
            let is_same = later.offset.milliseconds() == earlier.offset.milliseconds();
            if is_same {
                *earlier = *later;
            }
            is_same
        });
        points
    }
}

fn is_special(qualifier: &[u8]) -> bool {
    matches!(qualifier.len(), 3 | 5)
}

fn special(first: u8, offset: Offset) -> Vec<u8> {
    let mut qualifier = vec![first];
    match offset {
        Offset::Seconds(offset) => qualifier.extend_from_slice(&(offset as u16).to_be_bytes()),
        Offset::Milliseconds(offset) => qualifier.extend_from_slice(&offset.to_be_bytes()),
    }
    qualifier
}

fn special_offset(bytes: &[u8], qualifier: &[u8]) -> Result<Offset, LayoutError> {
    let offset = match *bytes {
        [a, b] => Some(Offset::Seconds(u16::from_be_bytes([a, b]).into())),
        [a, b, c, d] => Some(Offset::Milliseconds(u32::from_be_bytes([a, b, c, d]))),
        _ => None,
    };
    let in_row = offset.filter(|offset| match offset {
        Offset::Seconds(seconds) => *seconds < 3600,
        offset => offset.is_in_row(),
    });
    in_row.ok_or_else(|| LayoutError::new("an offset outside of its row", qualifier))
}

fn decode_points(qualifier: &[u8], value: &[u8]) -> Result<Vec<CellPoint>, LayoutError> {
    let mut qualifiers = Vec::new();
    let mut rest = qualifier;
    while !rest.is_empty() {
        qualifiers.push(Qualifier::take(&mut rest)?);
    }
    if let [only] = qualifiers.as_slice() {
        let number = decode(value, only.flags);
        let number = number.ok_or_else(|| LayoutError::new("no value of its qualifier", value))?;
        return Ok(vec![CellPoint {
            offset: only.offset,
            number,
        }]);
    }
    let compacted = || LayoutError::new("values do not fit their qualifiers", value);
    let mut rest = value;
    let mut points = Vec::with_capacity(qualifiers.len());
    for Qualifier { offset, flags } in qualifiers {
        let bytes = take(&mut rest, flags.length()).ok_or_else(compacted)?;
        let number = decode(bytes, flags).ok_or_else(compacted)?;
        points.push(CellPoint { offset, number });
    }
    match rest {
        [ONE_RESOLUTION | MIXED_RESOLUTIONS] if !points.is_empty() => Ok(points),
        _ => Err(compacted()),
    }
}

fn encode_points(points: &[CellPoint]) -> (Vec<u8>, Vec<u8>) {
    let (mut qualifier, mut value) = (Vec::new(), Vec::new());
    for point in points {
        let encoded = encode(point.number);
        let (offset, flags) = (point.offset, encoded.flags);
        Qualifier { offset, flags }.push(&mut qualifier);
        value.extend_from_slice(&encoded.bytes);
    }
    if points.len() > 1 {
        let is_seconds = |point: &CellPoint| matches!(point.offset, Offset::Seconds(_));
        let seconds = points.iter().filter(|point| is_seconds(point)).count();
        value.push(if seconds == 0 || seconds == points.len() {
            ONE_RESOLUTION
        } else {
            MIXED_RESOLUTIONS
        });
    }
    (qualifier, value)
}

fn decode_appended(value: &[u8]) -> Result<Vec<CellPoint>, LayoutError> {
    let mut rest = value;
    let mut points = Vec::new();
    while !rest.is_empty() {
        let Qualifier { offset, flags } = Qualifier::take(&mut rest)?;
        let number = take(&mut rest, flags.length()).and_then(|bytes| decode(bytes, flags));
        let wrong = || LayoutError::new("appended points end too early", value);
        let number = number.ok_or_else(wrong)?;
        points.push(CellPoint { offset, number });
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use Number::Integer;
    use Offset::{Milliseconds, Seconds};

    fn point(offset: Offset, integer: i64) -> CellPoint {
        let number = Integer(integer);
        CellPoint { offset, number }
    }

    #[test]
    fn the_worked_examples_are_written_and_read() {
        let histogram = hex::decode("0002000000003FE000000C3FE0000040600000A0010001").unwrap();
        for (column, qualifier, value) in [
            (Column::Points(vec![point(Seconds(30), 42)]), "01E0", "2A"),
            (
                Column::Points(vec![point(Seconds(0), 4), point(Seconds(1), 5)]),
                "00000010",
                "040500",
            ),
            (
                Column::Points(vec![point(Seconds(1), 4), point(Milliseconds(1500), 5)]),
                "0010F0017700",
                "040501",
            ),
            (
                Column::Appended(vec![point(Seconds(30), 42), point(Seconds(60), 300)]),
                "050000",
                "01E02A03C1012C",
            ),
            (Column::Annotation(Seconds(123), vec![0x7b]), "01007B", "7B"),
            (
                Column::Annotation(Milliseconds(500), vec![0x7b]),
                "01000001F4",
                "7B",
            ),
            (
                Column::Histogram(Seconds(123), 0, histogram.clone()),
                "06007B",
                "000002000000003FE000000C3FE0000040600000A0010001",
            ),
            (
                Column::Histogram(Milliseconds(500), 0, histogram),
                "06000001F4",
                "000002000000003FE000000C3FE0000040600000A0010001",
            ),
        ] {
            let (q, v) = column.encode();
            assert_eq!(hex::encode_upper(&q), qualifier);
            assert_eq!(hex::encode_upper(&v), value);
            assert_eq!(Column::decode(&q, &v), Ok(column));
        }
    }

    #[test]
    fn the_last_of_appended_points_counts() {
        let points = vec![
            point(Seconds(60), 1),
            point(Seconds(30), 2),
            point(Milliseconds(60_000), 3),
        ];
        let expected = [point(Seconds(30), 2), point(Milliseconds(60_000), 3)];
        assert_eq!(Column::Appended(points).points(), expected);
    }

    #[test]
    fn values_have_to_fit() {
        for (qualifier, value) in [
            ("01E0", ""),
            ("01E0", "2A2A"),
            ("00000010", "0405"),
            ("00000010", "040502"),
            ("", ""),
            ("010E10", ""),
            ("06007B", ""),
            ("050000", "01E0"),
            ("FFFFFFC0", "01"),
        ] {
            let decode = |text: &str| hex::decode(text).unwrap();
            let column = Column::decode(&decode(qualifier), &decode(value));
            assert!(column.is_err(), "{qualifier} {value}: {column:?}");
        }
    }

    fn any_point() -> impl Strategy<Value = CellPoint> {
        let offset = prop_oneof![
            (0u32..3600).prop_map(Seconds),
            (0u32..3_600_000).prop_map(Milliseconds),
        ];
        let number = prop_oneof![
            any::<i64>().prop_map(Integer),
            (-1000i64..1000).prop_map(Integer),
            (-1e300..1e300).prop_map(Number::Float),
            any::<i16>().prop_map(|n| Number::Float(f64::from(n) / 4.0)),
        ];
        (offset, number).prop_map(|(offset, number)| CellPoint { offset, number })
    }

    proptest! {
        #[test]
        fn columns_survive(points in prop::collection::vec(any_point(), 1..20)) {
            for column in [Column::Points(points.clone()), Column::Appended(points.clone())] {
                let (qualifier, value) = column.encode();
                prop_assert_eq!(Column::decode(&qualifier, &value), Ok(column));
            }
        }

        #[test]
        fn no_bytes_panic(
            qualifier in prop::collection::vec(any::<u8>(), 0..12),
            value in prop::collection::vec(any::<u8>(), 0..24),
        ) {
            if let Ok(column) = Column::decode(&qualifier, &value) {
                let _ = column.points();
                let _ = column.encode();
            }
        }
    }
}
