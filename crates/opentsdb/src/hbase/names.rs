//! Cells of the tables of UIDs, meta data and trees.

use super::LayoutError;
use crate::uid::{Tsuid, Uid, UidKind, push_uid};

/// The row of the UID table with the greatest ids, and the length of its values.
pub(crate) const GREATEST_IDS_ROW: [u8; 1] = [0];
const COUNTER_BYTES: usize = 8;

const FAMILY_ID: &[u8] = b"id";
const FAMILY_NAME: &[u8] = b"name";
const META_SUFFIX: &str = "_meta";

const SERIES_META: &[u8] = b"ts_meta";
const SERIES_COUNTER: &[u8] = b"ts_ctr";

/// Bytes of a tree's id, and of the hash of a path element.
const TREE_ID_BYTES: usize = 2;
const HASH_BYTES: usize = 4;

const TREE: &[u8] = b"tree";
const BRANCH: &[u8] = b"branch";
const RULE_PREFIX: &str = "tree_rule:";
const LEAF_PREFIX: &[u8] = b"leaf:";
const COLLISION_PREFIX: &[u8] = b"tree_collision:";
const NOT_MATCHED_PREFIX: &[u8] = b"tree_not_matched:";

/// What follows the tree's id in the rows of what could not be placed.
const COLLISIONS: u8 = 1;
const NOT_MATCHED: u8 = 2;

/// A cell: its row, family, qualifier and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell<'a> {
    pub(crate) row: &'a [u8],
    pub(crate) family: &'a [u8],
    pub(crate) qualifier: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// The same, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CellBuf {
    pub(crate) row: Vec<u8>,
    pub(crate) family: Vec<u8>,
    pub(crate) qualifier: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl CellBuf {
    fn new(row: Vec<u8>, family: &[u8], qualifier: &[u8], value: Vec<u8>) -> Self {
        Self {
            row,
            family: family.to_vec(),
            qualifier: qualifier.to_vec(),
            value,
        }
    }

    pub(crate) fn borrow(&self) -> Cell<'_> {
        Cell {
            row: &self.row,
            family: &self.family,
            qualifier: &self.qualifier,
            value: &self.value,
        }
    }
}

/// What a cell of the UID table says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UidCell {
    /// A name has an id.
    Id(UidKind, String, Uid),
    /// An id has a name.
    Name(UidKind, Uid, String),
    /// The JSON of what is known of an id.
    Meta(UidKind, Uid, Vec<u8>),
    /// The greatest id that was given out.
    Greatest(UidKind, u64),
}

impl UidCell {
    pub(crate) fn decode(cell: Cell<'_>) -> Result<Self, LayoutError> {
        let wrong = || LayoutError::new("no cell of the UID table", cell.qualifier);
        let qualifier = std::str::from_utf8(cell.qualifier).map_err(|_| wrong())?;
        if cell.family == FAMILY_NAME
            && let Some(name) = qualifier.strip_suffix(META_SUFFIX)
        {
            let is_kind = |kind: &UidKind| kind.field_name() == name || kind.table_name() == name;
            let kind = UidKind::ALL.into_iter().find(is_kind).ok_or_else(wrong)?;
            return Ok(Self::Meta(kind, uid(cell.row)?, cell.value.to_vec()));
        }
        let is_kind = |kind: &UidKind| kind.table_name() == qualifier;
        let kind = UidKind::ALL.into_iter().find(is_kind).ok_or_else(wrong)?;
        match cell.family {
            FAMILY_ID if cell.row == GREATEST_IDS_ROW && cell.value.len() == COUNTER_BYTES => {
                Ok(Self::Greatest(kind, uid(cell.value)?.0))
            }
            FAMILY_ID => Ok(Self::Id(kind, latin(cell.row), uid(cell.value)?)),
            FAMILY_NAME => Ok(Self::Name(kind, uid(cell.row)?, latin(cell.value))),
            _ => Err(wrong()),
        }
    }

    pub(crate) fn encode(&self, widths: [usize; 3]) -> CellBuf {
        let id = |kind: UidKind, uid: Uid| {
            let mut bytes = Vec::new();
            push_uid(&mut bytes, uid, widths[kind as usize]);
            bytes
        };
        match self {
            Self::Id(kind, name, uid) => {
                let qualifier = kind.table_name().as_bytes();
                CellBuf::new(to_latin(name), FAMILY_ID, qualifier, id(*kind, *uid))
            }
            Self::Name(kind, uid, name) => {
                let qualifier = kind.table_name().as_bytes();
                CellBuf::new(id(*kind, *uid), FAMILY_NAME, qualifier, to_latin(name))
            }
            Self::Meta(kind, uid, json) => {
                let qualifier = format!("{}{META_SUFFIX}", kind.field_name());
                let row = id(*kind, *uid);
                CellBuf::new(row, FAMILY_NAME, qualifier.as_bytes(), json.clone())
            }
            Self::Greatest(kind, greatest) => {
                let qualifier = kind.table_name().as_bytes();
                let value = greatest.to_be_bytes().to_vec();
                CellBuf::new(GREATEST_IDS_ROW.to_vec(), FAMILY_ID, qualifier, value)
            }
        }
    }
}

/// What a cell of the meta table says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SeriesMetaCell {
    /// The JSON of what is known of a series.
    Meta(Tsuid, Vec<u8>),
    /// How many points it got; the cell's time is that of the last one.
    Counter(Tsuid, u64),
}

impl SeriesMetaCell {
    pub(crate) fn decode(cell: Cell<'_>, widths: [usize; 3]) -> Result<Self, LayoutError> {
        let tsuid = Tsuid::from_bytes(cell.row, widths).filter(|tsuid| !tsuid.tags.is_empty());
        let tsuid = tsuid.ok_or_else(|| LayoutError::new("no TSUID", cell.row))?;
        match cell.qualifier {
            SERIES_META => Ok(Self::Meta(tsuid, cell.value.to_vec())),
            SERIES_COUNTER if cell.value.len() == COUNTER_BYTES => {
                Ok(Self::Counter(tsuid, uid(cell.value)?.0))
            }
            other => Err(LayoutError::new("no cell of the meta table", other)),
        }
    }

    pub(crate) fn encode(&self, widths: [usize; 3]) -> CellBuf {
        let (tsuid, qualifier, value) = match self {
            Self::Meta(tsuid, json) => (tsuid, SERIES_META, json.clone()),
            Self::Counter(tsuid, count) => (tsuid, SERIES_COUNTER, count.to_be_bytes().to_vec()),
        };
        CellBuf::new(tsuid.to_bytes(widths), FAMILY_NAME, qualifier, value)
    }
}

/// What a cell of the tree table says about a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TreeCell {
    /// The JSON of its definition.
    Definition(Vec<u8>),
    /// The JSON of a rule, with its level and order.
    Rule(u32, u32, Vec<u8>),
    /// The JSON of a branch, with the hashes of its path; the root has none.
    Branch(Vec<u32>, Vec<u8>),
    /// The JSON of a leaf, with the path of its branch and the hash of its name.
    Leaf(Vec<u32>, u32, Vec<u8>),
    /// A series, and the TSUID of the one that has its place.
    Collision(Vec<u8>, String),
    /// A series that no rule fits, and what is said about it.
    NotMatched(Vec<u8>, String),
}

impl TreeCell {
    /// The id of the tree, and what is said.
    pub(crate) fn decode(cell: Cell<'_>) -> Result<(u16, Self), LayoutError> {
        let wrong = || LayoutError::new("no cell of the tree table", cell.row);
        let (id, path) = cell
            .row
            .split_first_chunk::<TREE_ID_BYTES>()
            .ok_or_else(wrong)?;
        let id = u16::from_be_bytes(*id);
        let value = cell.value.to_vec();
        let text = || latin(cell.value);
        if let [COLLISIONS] = path {
            let tsuid = cell
                .qualifier
                .strip_prefix(COLLISION_PREFIX)
                .ok_or_else(wrong)?;
            return Ok((id, Self::Collision(tsuid.to_vec(), text())));
        }
        if let [NOT_MATCHED] = path {
            let tsuid = cell
                .qualifier
                .strip_prefix(NOT_MATCHED_PREFIX)
                .ok_or_else(wrong)?;
            return Ok((id, Self::NotMatched(tsuid.to_vec(), text())));
        }
        let (hashes, []) = path.as_chunks::<HASH_BYTES>() else {
            return Err(wrong());
        };
        let hashes: Vec<u32> = hashes
            .iter()
            .map(|hash| u32::from_be_bytes(*hash))
            .collect();
        let decoded = match cell.qualifier {
            TREE if hashes.is_empty() => Self::Definition(value),
            BRANCH => Self::Branch(hashes, value),
            qualifier => {
                if let Some(hash) = qualifier.strip_prefix(LEAF_PREFIX) {
                    let hash = hash.try_into().map_err(|_| wrong())?;
                    Self::Leaf(hashes, u32::from_be_bytes(hash), value)
                } else {
                    let (level, order) = rule(qualifier).ok_or_else(wrong)?;
                    Self::Rule(level, order, value)
                }
            }
        };
        Ok((id, decoded))
    }

    pub(crate) fn encode(&self, tree: u16) -> CellBuf {
        let row = |path: &[u32]| {
            let mut row = tree.to_be_bytes().to_vec();
            path.iter()
                .for_each(|hash| row.extend_from_slice(&hash.to_be_bytes()));
            row
        };
        let beside = |kind: u8| {
            let mut row = tree.to_be_bytes().to_vec();
            row.push(kind);
            row
        };
        let (row, qualifier, value) = match self {
            Self::Definition(json) => (row(&[]), TREE.to_vec(), json.clone()),
            Self::Rule(level, order, json) => {
                let qualifier = format!("{RULE_PREFIX}{level}:{order}").into_bytes();
                (row(&[]), qualifier, json.clone())
            }
            Self::Branch(path, json) => (row(path), BRANCH.to_vec(), json.clone()),
            Self::Leaf(path, hash, json) => {
                let qualifier = [LEAF_PREFIX, &hash.to_be_bytes()].concat();
                (row(path), qualifier, json.clone())
            }
            Self::Collision(tsuid, other) => {
                let qualifier = [COLLISION_PREFIX, tsuid].concat();
                (beside(COLLISIONS), qualifier, to_latin(other))
            }
            Self::NotMatched(tsuid, message) => {
                let qualifier = [NOT_MATCHED_PREFIX, tsuid].concat();
                (beside(NOT_MATCHED), qualifier, to_latin(message))
            }
        };
        CellBuf::new(row, b"t", &qualifier, value)
    }
}

/// The level and order of `tree_rule:<level>:<order>`.
fn rule(qualifier: &[u8]) -> Option<(u32, u32)> {
    let text = std::str::from_utf8(qualifier).ok()?;
    let (level, order) = text.strip_prefix(RULE_PREFIX)?.split_once(':')?;
    Some((level.parse().ok()?, order.parse().ok()?))
}

/// Up to eight bytes as an id.
fn uid(bytes: &[u8]) -> Result<Uid, LayoutError> {
    if (1..=8).contains(&bytes.len()) {
        let id = bytes
            .iter()
            .fold(0u64, |id, byte| id << 8 | u64::from(*byte));
        Ok(Uid(id))
    } else {
        Err(LayoutError::new("no UID", bytes))
    }
}

/// Names are in ISO-8859-1.
fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// Characters that ISO-8859-1 does not have become question marks, as in the original.
fn to_latin(text: &str) -> Vec<u8> {
    text.chars()
        .map(|c| u8::try_from(c).unwrap_or(b'?'))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn uids_are_kept_in_both_directions() {
        for (cell, row, family, qualifier, value) in [
            (
                UidCell::Id(UidKind::Metric, "sys.cpu".into(), Uid(1)),
                &b"sys.cpu"[..],
                "id",
                "metrics",
                &[0, 0, 1][..],
            ),
            (
                UidCell::Name(UidKind::Tagv, Uid(258), "m\u{fc}".into()),
                &[0, 1, 2],
                "name",
                "tagv",
                b"m\xfc",
            ),
            (
                UidCell::Meta(UidKind::Metric, Uid(1), b"{}".to_vec()),
                &[0, 0, 1],
                "name",
                "metric_meta",
                b"{}",
            ),
            (
                UidCell::Greatest(UidKind::Tagk, 7),
                &[0],
                "id",
                "tagk",
                &[0, 0, 0, 0, 0, 0, 0, 7],
            ),
        ] {
            let encoded = cell.encode([3; 3]);
            let expected = CellBuf::new(
                row.to_vec(),
                family.as_bytes(),
                qualifier.as_bytes(),
                value.to_vec(),
            );
            assert_eq!(encoded, expected);
            assert_eq!(UidCell::decode(encoded.borrow()), Ok(cell));
        }
    }

    #[test]
    fn meta_data_of_series_is_under_their_tsuids() {
        let tsuid = Tsuid::new(Uid(1), vec![(Uid(1), Uid(1))]);
        for cell in [
            SeriesMetaCell::Meta(tsuid.clone(), b"{}".to_vec()),
            SeriesMetaCell::Counter(tsuid, 42),
        ] {
            let encoded = cell.encode([3; 3]);
            assert_eq!(hex::encode(&encoded.row), "000001000001000001");
            let decoded = SeriesMetaCell::decode(encoded.borrow(), [3; 3]);
            assert_eq!(decoded, Ok(cell));
        }
    }

    #[test]
    fn trees_have_rows_of_hashes() {
        for (cell, row, qualifier) in [
            (TreeCell::Definition(vec![1]), "0001", "tree"),
            (TreeCell::Rule(2, 3, vec![1]), "0001", "tree_rule:2:3"),
            (TreeCell::Branch(vec![], vec![1]), "0001", "branch"),
            (
                TreeCell::Branch(vec![0x0001_BECD, 0x0036_EBCB], vec![1]),
                "00010001becd0036ebcb",
                "branch",
            ),
            (
                TreeCell::Leaf(vec![7], 0x3132_3334, vec![1]),
                "000100000007",
                "leaf:1234",
            ),
            (
                TreeCell::Collision(b"abc".to_vec(), "000001".into()),
                "000101",
                "tree_collision:abc",
            ),
            (
                TreeCell::NotMatched(b"abc".to_vec(), "no rule".into()),
                "000102",
                "tree_not_matched:abc",
            ),
        ] {
            let encoded = cell.encode(1);
            assert_eq!(hex::encode(&encoded.row), row);
            assert_eq!(encoded.qualifier, qualifier.as_bytes());
            assert_eq!(TreeCell::decode(encoded.borrow()), Ok((1, cell)));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(
            row in prop::collection::vec(any::<u8>(), 0..20),
            family in prop_oneof![Just(&b"id"[..]), Just(&b"name"[..]), Just(&b"t"[..])],
            qualifier in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..20),
                Just(b"metrics".to_vec()),
                Just(b"tagk_meta".to_vec()),
                Just(b"leaf:1234".to_vec()),
                Just(b"ts_ctr".to_vec()),
            ],
            value in prop::collection::vec(any::<u8>(), 0..10),
        ) {
            let cell = Cell { row: &row, family, qualifier: &qualifier, value: &value };
            let _ = UidCell::decode(cell);
            let _ = SeriesMetaCell::decode(cell, [3; 3]);
            let _ = TreeCell::decode(cell);
        }
    }
}
