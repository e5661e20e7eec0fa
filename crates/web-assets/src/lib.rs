//! The files of the web interface, as `web/dist` has them, compressed into the binary.
//!
//! Holds always: cargo alone builds it, because `web/dist` is in the repository.

use std::collections::HashMap;
use std::io::Read as _;
use std::sync::OnceLock;

use flate2::read::GzDecoder;

/// One file.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Below `web/dist`, with slashes.
    pub path: &'static str,
    pub content_type: &'static str,
    /// Changes with the content, and is the same whether it is compressed or not.
    pub etag: &'static str,
    /// The content as gzip.
    pub gzip: &'static [u8],
}

/// Sorted by path.
static ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Every file there is.
pub fn assets() -> &'static [Asset] {
    ASSETS
}

pub fn find(path: &str) -> Option<&'static Asset> {
    let found = ASSETS.binary_search_by(|asset| asset.path.cmp(path));
    found.ok().and_then(|at| ASSETS.get(at))
}

impl Asset {
    /// Whether the name has a hash of the content, so that it never means anything else: the
    /// bundler puts such files, and no others, into this folder.
    pub fn is_immutable(&self) -> bool {
        self.path.starts_with("assets/")
    }

    /// The content as it was built. All files are decompressed when the first is asked for, and
    /// kept: together they are less than a megabyte, and anybody may ask.
    pub fn plain(&self) -> &'static [u8] {
        static PLAIN: OnceLock<HashMap<&str, Vec<u8>>> = OnceLock::new();
        let plain = PLAIN.get_or_init(|| ASSETS.iter().map(decompress).collect());
        plain.get(self.path).map_or(&[], Vec::as_slice)
    }
}

fn decompress(asset: &Asset) -> (&'static str, Vec<u8>) {
    let mut content = Vec::new();
    let read = GzDecoder::new(asset.gzip).read_to_end(&mut content);
    read.expect("the build script has compressed it");
    (asset.path, content)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_reads_back_and_is_found() {
        let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist");
        for asset in assets() {
            let built = std::fs::read(dist.join(asset.path)).unwrap();
            assert_eq!(asset.plain(), built, "{}", asset.path);
            let found = find(asset.path).unwrap();
            assert_eq!(found.etag, asset.etag);
        }
        assert!(!find("index.html").unwrap().is_immutable());
        assert!(find("").is_none());
        assert!(find("../Cargo.toml").is_none());
    }

    #[test]
    fn a_tag_stands_for_one_content() {
        let mut contents = HashMap::new();
        for asset in assets() {
            let tag = asset.etag;
            assert!(tag.starts_with("W/\"") && tag.ends_with('"'), "{tag}");
            let content = asset.plain();
            let known = contents.entry(tag).or_insert(content);
            assert_eq!(*known, content, "{}", asset.path);
        }
        assert!(contents.len() > 1, "all files have one tag");
    }
}
