//! TSUIDs: the metric's UID, then pairs of tag key and value in the order of the keys' UIDs.

use super::{Uid, UidKind};

/// The identifier of a series.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tsuid {
    pub metric: Uid,
    /// In the order of the keys.
    pub tags: Vec<(Uid, Uid)>,
}

impl Tsuid {
    pub fn new(metric: Uid, mut tags: Vec<(Uid, Uid)>) -> Self {
        tags.sort_unstable();
        Self { metric, tags }
    }

    /// As bytes of the given widths.
    pub fn to_bytes(&self, widths: [usize; 3]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(widths.iter().sum::<usize>() * (1 + self.tags.len()));
        push_uid(&mut bytes, self.metric, widths[UidKind::Metric as usize]);
        for (key, value) in &self.tags {
            push_uid(&mut bytes, *key, widths[UidKind::Tagk as usize]);
            push_uid(&mut bytes, *value, widths[UidKind::Tagv as usize]);
        }
        bytes
    }

    /// Upper-case hexadecimal, as answers show it.
    pub fn to_hex(&self, widths: [usize; 3]) -> String {
        hex::encode_upper(self.to_bytes(widths))
    }

    /// `None` where the length does not fit: a metric alone has no series.
    pub fn from_bytes(bytes: &[u8], widths: [usize; 3]) -> Option<Self> {
        let [metric, tagk, tagv] = widths;
        let (id, mut rest) = bytes.split_at_checked(metric)?;
        let mut tags = Vec::new();
        if tagk + tagv == 0 {
            return None;
        }
        while !rest.is_empty() {
            let (key, behind) = rest.split_at_checked(tagk)?;
            let (value, behind) = behind.split_at_checked(tagv)?;
            tags.push((Uid::from_bytes(key), Uid::from_bytes(value)));
            rest = behind;
        }
        Some(Self {
            metric: Uid::from_bytes(id),
            tags,
        })
    }

    /// From hexadecimal of either case.
    pub fn from_hex(text: &str, widths: [usize; 3]) -> Option<Self> {
        Self::from_bytes(&hex::decode(text).ok()?, widths)
    }
}

/// Appends the last `width` bytes of an id.
pub(crate) fn push_uid(bytes: &mut Vec<u8>, uid: Uid, width: usize) {
    let id = uid.0.to_be_bytes();
    bytes.extend_from_slice(&id[id.len() - width.min(id.len())..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_in_the_order_of_their_keys() {
        let tags = vec![(Uid(2), Uid(3)), (Uid(1), Uid(1))];
        let tsuid = Tsuid::new(Uid(1), tags);
        let text = tsuid.to_hex([3; 3]);
        assert_eq!(text, "000001000001000001000002000003");
        assert_eq!(Tsuid::from_hex(&text.to_lowercase(), [3; 3]), Some(tsuid));
        assert_eq!(Tsuid::from_hex("0000010000", [3; 3]), None);
        assert_eq!(Tsuid::from_hex("xyz", [3; 3]), None);
    }
}
