//! Tells SlateDB which segment a key belongs to, so that a bucket or a journal epoch is its own
//! tree and can be dropped as one.
//!
//! Holds always:
//! - The length depends on version and tag only, hence segment prefixes are an antichain.
//! - The name is stored in the first manifest and checked at every open: it never changes.

use slatedb::{PrefixExtractor, PrefixTarget};

/// The stored name of the extractor.
pub(crate) const NAME: &str = "icecore-v1";

/// Segments by record type and bucket: the first six bytes of a key; a journal epoch, or a window
/// and week of events, likewise.
#[derive(Debug)]
pub(crate) struct SegmentExtractor;

impl PrefixExtractor for SegmentExtractor {
    fn name(&self) -> &str {
        NAME
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        let bytes = match target {
            PrefixTarget::Point(key) | PrefixTarget::Prefix(key) => key,
        };
        // Version and tag alone decide the length, so an answer for a scan prefix is right for each
        // of its extensions. What is shorter than its segment has no answer: as a scan prefix it
        // spans several segments, and as a key it would nest with them.
        let [version, tag, ..] = bytes[..] else {
            return None;
        };
        let length = icecore_records::key::segment_len(&[version, tag, 0, 0, 0, 0]);
        (length <= bytes.len()).then_some(length)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use icecore_model::event::{EventWindow, Week};

    use super::*;

    #[test]
    fn points_and_prefixes_agree() {
        let prefix = icecore_records::key::journal_epoch_prefix(7);
        let mut key = prefix.to_vec();
        key.extend_from_slice(&42_u64.to_be_bytes());
        let key = Bytes::from(key);
        let point = SegmentExtractor.prefix_len(&PrefixTarget::Point(key.clone()));
        assert_eq!(point, Some(6));
        assert_eq!(key.slice(..6), prefix);
        assert_eq!(
            SegmentExtractor.prefix_len(&PrefixTarget::Prefix(prefix.clone())),
            Some(6)
        );
        assert_eq!(
            SegmentExtractor.prefix_len(&PrefixTarget::Prefix(prefix.slice(..5))),
            None
        );
        let week = Week::of(1_794_218_401);
        for week in [
            icecore_records::key::event_cell_week_prefix(EventWindow::Day, week),
            icecore_records::key::event_identity_week_prefix(week),
        ] {
            let key = Bytes::from([&week[..], b"rest"].concat());
            let point = SegmentExtractor.prefix_len(&PrefixTarget::Point(key));
            assert_eq!((point, week.len()), (Some(6), 6), "{week:?}");
        }
        for short in [&b""[..], b"\x01", b"\x01\x31\0\0"] {
            let short = Bytes::from_static(short);
            let point = PrefixTarget::Point(short.clone());
            assert_eq!(SegmentExtractor.prefix_len(&point), None, "{short:?}");
        }
        // Global records, and versions that nobody has defined yet.
        for global in [&b"\x01\x10"[..], b"\x01\xb0\x01x", b"\x02\x31\0\0\0\0\0"] {
            let point = PrefixTarget::Point(Bytes::from_static(global));
            assert_eq!(SegmentExtractor.prefix_len(&point), Some(2), "{global:?}");
        }
    }
}
