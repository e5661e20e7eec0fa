//! Keys of OpenTSDB's records in the catalog.
//!
//! ```text
//! UID                0x10 + kind | id u64                        → name
//! former name        0x13 + kind | name                          → id u64
//! meta data of a UID 0x16 + kind | id u64                        → UIDMeta
//! … of a series      0x19 | metric u64 | TSUID                   → TSMeta
//! annotation         0x1A | metric u64 | time ms u64 | TSUID     → Annotation of a series
//! global annotation  0x1B | time ms u64                          → Annotation
//! tree               0x1C | tree u16                             → definition and rules
//! branch             0x1D | tree u16 | depth u16 | branch id     → Branch
//! leaf               0x1E | tree u16 | depth u16 | branch id | hash u32 → Leaf
//! collision          0x1F | tree u16 | TSUID                     → TSUID of the leaf that stays
//! not matched        0x20 | tree u16 | TSUID                     → why
//! form of numbers    0x21 | hash of labels u128 | time ms u64    → exception, of earlier versions
//! adopted metric     0x22 | id u64                               → nothing
//! greatest UID       0x23 | kind u8                              → id u64, of elsewhere
//! width of UIDs      0x24 | kind u8                              → bytes u8, once there is a UID
//! float metric       0x25 | name                                 → nothing
//! ```
//!
//! Numbers are big-endian, so that keys are in the order of numbers. What a request asks for is
//! one range: the meta data and annotations of a metric's series, annotations of a time, and with
//! the depth in front of their ids the children of a branch without their own children.
//!
//! The branch id is the part behind the tree: four bytes for each name below the root.

use std::ops::Range;

use icecore_model::StoreError;

const UID: u8 = 0x10;
const FORMER_NAME: u8 = 0x13;
const UID_META: u8 = 0x16;
const SERIES_META: u8 = 0x19;
const ANNOTATION: u8 = 0x1A;
const GLOBAL_ANNOTATION: u8 = 0x1B;
const TREE: u8 = 0x1C;
const BRANCH: u8 = 0x1D;
const LEAF: u8 = 0x1E;
const COLLISION: u8 = 0x1F;
const NOT_MATCHED: u8 = 0x20;
const NUMBER: u8 = 0x21;
const ADOPTED: u8 = 0x22;
const GREATEST_UID: u8 = 0x23;
const UID_WIDTH: u8 = 0x24;
const FLOAT_METRIC: u8 = 0x25;

/// The keys that begin with a prefix.
fn prefixed(prefix: Vec<u8>) -> Range<Vec<u8>> {
    let mut end = prefix.clone();
    while end.last() == Some(&u8::MAX) {
        end.pop();
    }
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    prefix..end
}

/// The one key, as a range.
pub(crate) fn exactly(key: &[u8]) -> Range<Vec<u8>> {
    let mut end = key.to_vec();
    end.push(0);
    key.to_vec()..end
}

fn key(first: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = vec![first];
    for part in parts {
        key.extend_from_slice(part);
    }
    key
}

/// The keys of all UIDs of a kind.
pub(crate) fn uids(kind: u8) -> Range<Vec<u8>> {
    prefixed(vec![UID + kind])
}

pub(crate) fn uid(kind: u8, id: u64) -> Vec<u8> {
    key(UID + kind, &[&id.to_be_bytes()])
}

/// The keys of all metrics that were adopted.
pub(crate) fn all_adopted() -> Range<Vec<u8>> {
    prefixed(vec![ADOPTED])
}

pub(crate) fn adopted(metric: u64) -> Vec<u8> {
    key(ADOPTED, &[&metric.to_be_bytes()])
}

/// The key of the greatest id of a kind that was given out elsewhere.
pub(crate) fn greatest_uid(kind: u8) -> Vec<u8> {
    key(GREATEST_UID, &[&[kind]])
}

/// The key of the bytes that UIDs of a kind have.
pub(crate) fn uid_width(kind: u8) -> Vec<u8> {
    key(UID_WIDTH, &[&[kind]])
}

/// The keys of all metrics whose first point was a float.
pub(crate) fn float_metrics() -> Range<Vec<u8>> {
    prefixed(vec![FLOAT_METRIC])
}

pub(crate) fn float_metric(name: &str) -> Vec<u8> {
    key(FLOAT_METRIC, &[name.as_bytes()])
}

/// The id of a UID's key, or of a former name's or greatest id's value.
pub(crate) fn parse_id(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_be_bytes)
}

/// The id of a key of a UID or of an adopted metric.
pub(crate) fn parse_uid(key: &[u8]) -> Option<u64> {
    parse_id(key.split_first()?.1)
}

/// The keys of all former names of a kind.
pub(crate) fn former_names(kind: u8) -> Range<Vec<u8>> {
    prefixed(vec![FORMER_NAME + kind])
}

pub(crate) fn former_name(kind: u8, name: &str) -> Vec<u8> {
    key(FORMER_NAME + kind, &[name.as_bytes()])
}

/// The name of the key of a former name or of a float metric.
pub(crate) fn parse_name(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.split_first()?.1).ok()
}

/// What a record says of a UID, by its key.
pub(crate) enum UidKey<'a> {
    Name(u64),
    Former(&'a str),
    Adopted(u64),
    FloatMetric(&'a str),
    Width,
}

/// The kind of names that a key is about, and what it says of them.
pub(crate) fn parse_uid_record(key: &[u8]) -> Option<(u8, UidKey<'_>)> {
    let first = *key.first()?;
    match first {
        UID..FORMER_NAME => Some((first - UID, UidKey::Name(parse_uid(key)?))),
        FORMER_NAME..UID_META => {
            let name = parse_name(key)?;
            Some((first - FORMER_NAME, UidKey::Former(name)))
        }
        // Only metrics are adopted, which are the first kind.
        ADOPTED => Some((0, UidKey::Adopted(parse_uid(key)?))),
        UID_WIDTH => Some((*key.get(1)?, UidKey::Width)),
        FLOAT_METRIC => Some((0, UidKey::FloatMetric(parse_name(key)?))),
        _ => None,
    }
}

pub(crate) fn uid_meta(kind: u8, id: u64) -> Vec<u8> {
    key(UID_META + kind, &[&id.to_be_bytes()])
}

/// The keys of the meta data of all UIDs of a kind.
pub(crate) fn uid_metas(kind: u8) -> Range<Vec<u8>> {
    prefixed(vec![UID_META + kind])
}

/// The keys of the meta data of a metric's series.
pub(crate) fn series_metas(metric: u64) -> Range<Vec<u8>> {
    prefixed(key(SERIES_META, &[&metric.to_be_bytes()]))
}

pub(crate) fn all_series_metas() -> Range<Vec<u8>> {
    prefixed(vec![SERIES_META])
}

pub(crate) fn series_meta(metric: u64, tsuid: &[u8]) -> Vec<u8> {
    key(SERIES_META, &[&metric.to_be_bytes(), tsuid])
}

/// The TSUID of a key of meta data.
pub(crate) fn parse_series_meta(key: &[u8]) -> Option<&[u8]> {
    key.get(9..)
}

/// The keys of annotations of a metric's series, from `start_ms` to `end_ms`, both included.
pub(crate) fn annotations(metric: u64, start_ms: u64, end_ms: u64) -> Range<Vec<u8>> {
    let from = key(
        ANNOTATION,
        &[&metric.to_be_bytes(), &start_ms.to_be_bytes()],
    );
    let to = key(ANNOTATION, &[&metric.to_be_bytes(), &end_ms.to_be_bytes()]);
    from..prefixed(to).end
}

pub(crate) fn annotation(metric: u64, time_ms: u64, tsuid: &[u8]) -> Vec<u8> {
    let (metric, time) = (metric.to_be_bytes(), time_ms.to_be_bytes());
    key(ANNOTATION, &[&metric, &time, tsuid])
}

pub(crate) fn all_annotations() -> Range<Vec<u8>> {
    prefixed(vec![ANNOTATION])
}

/// The TSUID of an annotation's key.
pub(crate) fn parse_annotation(key: &[u8]) -> Option<&[u8]> {
    key.get(17..)
}

/// The keys of global annotations from `start_ms` to `end_ms`, both included.
pub(crate) fn global_annotations(start_ms: u64, end_ms: u64) -> Range<Vec<u8>> {
    let end = exactly(&global_annotation(end_ms)).end;
    global_annotation(start_ms)..end
}

pub(crate) fn global_annotation(time_ms: u64) -> Vec<u8> {
    key(GLOBAL_ANNOTATION, &[&time_ms.to_be_bytes()])
}

pub(crate) fn trees() -> Range<Vec<u8>> {
    prefixed(vec![TREE])
}

pub(crate) fn tree(tree: u16) -> Vec<u8> {
    key(TREE, &[&tree.to_be_bytes()])
}

/// What a tree has grown: its branches, leaves, collisions and series that did not match.
pub(crate) fn tree_contents(tree: u16) -> [Range<Vec<u8>>; 4] {
    let of_kind = |first| prefixed(key(first, &[&tree.to_be_bytes()]));
    [BRANCH, LEAF, COLLISION, NOT_MATCHED].map(of_kind)
}

pub(crate) fn branch(tree: u16, id: &[u8]) -> Vec<u8> {
    below(BRANCH, tree, id.len(), id)
}

/// The keys of the branches right below one.
pub(crate) fn child_branches(tree: u16, id: &[u8]) -> Range<Vec<u8>> {
    prefixed(below(BRANCH, tree, id.len() + HASH_BYTES, id))
}

pub(crate) fn leaves(tree: u16, branch: &[u8]) -> Range<Vec<u8>> {
    prefixed(below(LEAF, tree, branch.len(), branch))
}

pub(crate) fn leaf(tree: u16, branch: &[u8], hash: i32) -> Vec<u8> {
    let mut key = below(LEAF, tree, branch.len(), branch);
    key.extend_from_slice(&hash.to_be_bytes());
    key
}

/// The branch id and the hash of a leaf's key.
pub(crate) fn parse_leaf(key: &[u8]) -> Option<(&[u8], u32)> {
    let (branch, hash) = key.get(5..)?.split_last_chunk()?;
    Some((branch, u32::from_be_bytes(*hash)))
}

/// Bytes of a branch id for each name.
const HASH_BYTES: usize = 4;

fn below(first: u8, tree: u16, id_bytes: usize, id: &[u8]) -> Vec<u8> {
    let depth = (id_bytes / HASH_BYTES) as u16;
    key(first, &[&tree.to_be_bytes(), &depth.to_be_bytes(), id])
}

pub(crate) fn collisions(tree: u16) -> Range<Vec<u8>> {
    prefixed(key(COLLISION, &[&tree.to_be_bytes()]))
}

pub(crate) fn collision(tree: u16, tsuid: &[u8]) -> Vec<u8> {
    key(COLLISION, &[&tree.to_be_bytes(), tsuid])
}

pub(crate) fn not_matched_series(tree: u16) -> Range<Vec<u8>> {
    prefixed(key(NOT_MATCHED, &[&tree.to_be_bytes()]))
}

pub(crate) fn not_matched(tree: u16, tsuid: &[u8]) -> Vec<u8> {
    key(NOT_MATCHED, &[&tree.to_be_bytes(), tsuid])
}

/// The TSUID of the key of a collision, or of a series that did not match.
pub(crate) fn parse_tree_series(key: &[u8]) -> Option<&[u8]> {
    key.get(3..)
}

/// What is said of a record that cannot be read.
pub(crate) fn unreadable(what: &str, key: &[u8]) -> StoreError {
    StoreError(format!(
        "{what} in the catalog cannot be read: key {}",
        hex::encode(key)
    ))
}

/// The keys of all that earlier versions have said about forms of numbers.
pub(crate) fn numbers() -> Range<Vec<u8>> {
    prefixed(vec![NUMBER])
}

/// The series and the time of such a key: times before 1970 come first.
pub(crate) fn parse_number(key: &[u8]) -> Option<(u128, i64)> {
    let key: &[u8; 25] = key.try_into().ok()?;
    let (series, time) = key[1..].split_at(16);
    let series = u128::from_be_bytes(series.try_into().ok()?);
    let time = u64::from_be_bytes(time.try_into().ok()?) ^ (1 << 63);
    Some((series, time as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_keys_and_no_others() {
        let metas = series_metas(0xFF);
        assert!(metas.contains(&series_meta(0xFF, &[0xFF; 9])));
        assert!(!metas.contains(&series_meta(0x100, &[0; 9])));
        assert!(!metas.contains(&series_meta(0xFE, &[0xFF; 9])));
        let notes = annotations(1, 5, 7);
        assert!(notes.contains(&annotation(1, 5, &[])));
        assert!(notes.contains(&annotation(1, 7, &[0xFF; 9])));
        assert!(!notes.contains(&annotation(1, 8, &[])));
        assert!(!notes.contains(&annotation(1, 4, &[0xFF; 9])));
        assert!(annotations(1, 0, u64::MAX).contains(&annotation(1, u64::MAX, &[0xFF; 9])));
        assert!(!annotations(1, 0, u64::MAX).contains(&annotation(2, 0, &[])));
    }

    #[test]
    fn children_are_one_level_below_their_branch() {
        let id = [0, 1, 0xBE, 0xCD];
        let children = child_branches(1, &id);
        assert!(children.contains(&branch(1, &[&id[..], &[0xFF; 4]].concat())));
        assert!(!children.contains(&branch(1, &[&id[..], &[0; 8]].concat())));
        assert!(!children.contains(&branch(1, &id)));
        assert!(!children.contains(&branch(2, &[&id[..], &[0; 4]].concat())));
        assert!(leaves(1, &id).contains(&leaf(1, &id, -1)));
        assert!(!leaves(1, &[]).contains(&leaf(1, &id, -1)));
    }
}
