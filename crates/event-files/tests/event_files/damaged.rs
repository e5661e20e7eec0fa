//! Damaged files are errors, never panics.

use icecore_events::StoredEvent;
use proptest::prelude::*;

use crate::events::{event, everything, file_of, in_memory, read};

fn content() -> Vec<u8> {
    let events: Vec<StoredEvent<'static>> = (0..500).map(event).collect();
    file_of(&events)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn changed_bytes(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        at_end in any::<bool>(),
    ) {
        let mut content = content();
        // The footer is small, and the worst place.
        let from = if at_end { content.len().saturating_sub(4_000) } else { 0 };
        for (at, byte) in changes {
            let at = from + at.index(content.len() - from);
            content[at] = byte;
        }
        let runtime = tokio::runtime::Runtime::new().unwrap();
        // Whether it is an error depends on the place: some bytes are text.
        let _ = runtime.block_on(read(in_memory(content).file, everything()));
    }

    #[test]
    fn cut_off(length in any::<prop::sample::Index>()) {
        let mut content = content();
        content.truncate(length.index(content.len()));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        prop_assert!(runtime.block_on(read(in_memory(content).file, everything())).is_err());
    }
}

/// The footer has the types of columns in a form of its own, which is read by other code.
#[tokio::test]
async fn any_byte_of_the_footer() {
    let events: Vec<StoredEvent<'static>> = (0..5).map(event).collect();
    let content = file_of(&events);
    let length = u32::from_le_bytes(content[content.len() - 8..][..4].try_into().unwrap());
    let footer = content.len() - 8 - length as usize..content.len();
    for at in footer.step_by(3) {
        let mut content = content.clone();
        content[at] ^= 0x15;
        let _ = read(in_memory(content).file, everything()).await;
    }
}

#[tokio::test]
async fn other_bytes_are_no_file() {
    for content in [&b""[..], b"PAR1", b"PAR1PAR1", &[0; 4_096]] {
        let file = in_memory(content.to_vec()).file;
        assert!(read(file, everything()).await.is_err());
    }
}
