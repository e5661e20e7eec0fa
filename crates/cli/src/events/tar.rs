//! A tar of small files, as servers take it: so that they name files in what they say.

/// Bytes of a block: heads and contents fill whole ones.
const BLOCK_BYTES: usize = 512;

/// Bytes that a name may have.
const NAME_BYTES_MAX: usize = 100;

/// The archive of files with their contents. Of a long name the end counts.
pub(super) fn archive(files: &[(String, String)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, content) in files {
        out.extend_from_slice(&head(name, content.len()));
        out.extend_from_slice(content.as_bytes());
        out.resize(out.len().next_multiple_of(BLOCK_BYTES), 0);
    }
    // Two empty blocks are the end.
    out.resize(out.len() + 2 * BLOCK_BYTES, 0);
    out
}

fn head(name: &str, bytes: usize) -> [u8; BLOCK_BYTES] {
    let mut head = [0; BLOCK_BYTES];
    let mut put = |at: usize, text: &[u8]| head[at..at + text.len()].copy_from_slice(text);
    let mut name = name;
    while name.len() > NAME_BYTES_MAX {
        let mut chars = name.chars();
        chars.next();
        name = chars.as_str();
    }
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{bytes:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = head.iter().copied().map(u32::from).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_whole_blocks_and_an_end() {
        let long = format!("{}/event.yaml", "ü".repeat(60));
        let files = [("a.yaml".into(), "x".repeat(513)), (long, String::new())];
        let archive = archive(&files);
        assert_eq!(archive.len(), 512 * (1 + 2 + 1 + 2));
        assert_eq!(&archive[..7], b"a.yaml\0");
        assert_eq!(&archive[124..136], b"00000001001\0");
        assert_eq!(&archive[257..265], b"ustar\x0000");
        assert!(
            archive[512 * 3..512 * 3 + 100].ends_with(b"/event.yaml") || archive[512 * 3 + 99] == 0
        );
    }
}
