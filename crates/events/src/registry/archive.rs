//! Files out of a tar archive, as it is or compressed with gzip.
//!
//! Holds always: no more than `BYTES_MAX` are unpacked, whatever the archive says of itself.

use std::io::Read as _;

use flate2::read::MultiGzDecoder;

/// Unpacked, with the headers.
const BYTES_MAX: usize = 64 << 20;
const FILES_MAX: usize = 10_000;

const BLOCK: usize = 512;

/// The names and texts of all files that are YAML or JSON, in their order.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<(String, String)>, String> {
    let unpacked;
    let tar = if bytes.starts_with(&[0x1f, 0x8b]) {
        unpacked = gunzip(bytes)?;
        &unpacked
    } else {
        bytes
    };
    if tar.len() > BYTES_MAX {
        return Err(format!("the archive has more than {BYTES_MAX} bytes"));
    }
    read_tar(tar)
}

fn gunzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut unpacked = Vec::new();
    // One more byte than is allowed tells that there is more.
    let limit = BYTES_MAX as u64 + 1;
    let mut decoder = MultiGzDecoder::new(bytes).take(limit);
    let read = decoder.read_to_end(&mut unpacked);
    read.map_err(|error| format!("the archive is no gzip: {error}"))?;
    Ok(unpacked)
}

fn read_tar(mut rest: &[u8]) -> Result<Vec<(String, String)>, String> {
    let mut files: Vec<(String, String)> = Vec::new();
    let mut long_name = None;
    // Zeros end an archive.
    while let Some((header, after)) = rest.split_at_checked(BLOCK)
        && header.iter().any(|byte| *byte != 0)
    {
        let header = Header::read(header)?;
        let cut = || format!("the archive ends within {:?}", header.name);
        let (content, _) = after.split_at_checked(header.size).ok_or_else(cut)?;
        // The last one need not be filled up.
        let padded = header.size.next_multiple_of(BLOCK).min(after.len());
        rest = &after[padded..];
        match header.kind {
            b'0' | 0 => {
                let name = long_name.take().unwrap_or(header.name);
                if is_document(&name) {
                    let text =
                        str::from_utf8(content).map_err(|_| format!("{name} is no UTF-8"))?;
                    files.push((name, text.to_owned()));
                }
                if files.len() > FILES_MAX {
                    return Err(format!("the archive has more than {FILES_MAX} files"));
                }
            }
            // GNU and POSIX each have a way to write names of more than a hundred bytes.
            b'L' => long_name = Some(text_until_zero(content)),
            b'x' => long_name = pax_path(content).or(long_name),
            _ => long_name = None,
        }
    }
    if files.is_empty() {
        return Err("the archive has no YAML or JSON file".into());
    }
    Ok(files)
}

/// Files of macOS that only look like documents have names that begin with a dot.
fn is_document(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    let is_hidden = file.starts_with('.');
    let endings = [".yaml", ".yml", ".json"];
    !is_hidden && endings.iter().any(|ending| file.ends_with(ending))
}

struct Header {
    name: String,
    size: usize,
    kind: u8,
}

impl Header {
    fn read(block: &[u8]) -> Result<Self, String> {
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        let stored = &block[148..156];
        // The checksum itself counts as blanks.
        let own: u32 = stored.iter().map(|byte| u32::from(*byte)).sum();
        if octal(stored) != Some(u64::from(sum - own + 8 * 32)) {
            return Err("this is no tar archive: the checksum of a header is wrong".into());
        }
        let mut name = text_until_zero(&block[..100]);
        let prefix = text_until_zero(&block[345..500]);
        if block[257..262] == *b"ustar" && block[262] == 0 && !prefix.is_empty() {
            name = format!("{prefix}/{name}");
        }
        let size = octal(&block[124..136]).and_then(|size| usize::try_from(size).ok());
        let size = size.filter(|size| *size <= BYTES_MAX);
        let size = size.ok_or_else(|| format!("{name:?} is too large"))?;
        let kind = block[156];
        Ok(Self { name, size, kind })
    }
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = text_until_zero(field);
    u64::from_str_radix(text.trim(), 8).ok()
}

fn text_until_zero(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

/// The record `<length> path=<path>` of an extended header.
fn pax_path(content: &[u8]) -> Option<String> {
    let text = str::from_utf8(content).ok()?;
    let mut records = text.split('\n');
    let path = records.find_map(|record| record.split_once(" path="))?;
    Some(path.1.to_owned())
}
