//! Pixels as a PNG.

use std::io::Write as _;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use plotters::style::RGBColor;

const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// Eight bits for each of red, green and blue.
const TRUE_COLOR: [u8; 5] = [8, 2, 0, 0, 0];

/// A row as it is, not as differences.
const UNFILTERED: u8 = 0;

/// `pixels` are rows of red, green and blue. Pixels of the color `transparent` are not shown.
pub(super) fn encode(
    pixels: &[u8],
    (width, height): (u32, u32),
    transparent: Option<RGBColor>,
) -> std::io::Result<Vec<u8>> {
    let mut png = SIGNATURE.to_vec();
    let mut header = Vec::new();
    header.extend(width.to_be_bytes());
    header.extend(height.to_be_bytes());
    header.extend(TRUE_COLOR);
    push_chunk(&mut png, b"IHDR", &header);
    if let Some(RGBColor(red, green, blue)) = transparent {
        push_chunk(&mut png, b"tRNS", &[0, red, 0, green, 0, blue]);
    }
    let mut rows = ZlibEncoder::new(Vec::new(), Compression::default());
    for row in pixels.chunks(3 * width as usize) {
        rows.write_all(&[UNFILTERED])?;
        rows.write_all(row)?;
    }
    push_chunk(&mut png, b"IDAT", &rows.finish()?);
    push_chunk(&mut png, b"IEND", &[]);
    Ok(png)
}

fn push_chunk(png: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    let mut checksum = Crc::new();
    checksum.update(kind);
    checksum.update(data);
    png.extend((data.len() as u32).to_be_bytes());
    png.extend(kind);
    png.extend(data);
    png.extend(checksum.sum().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another implementation reads what was written.
    #[test]
    fn pixels_come_back() {
        let pixels: Vec<u8> = (0..3 * 4 * 5).collect();
        for transparent in [None, Some(RGBColor(3, 4, 5))] {
            let bytes = encode(&pixels, (4, 5), transparent).unwrap();
            let mut reader = ::png::Decoder::new(std::io::Cursor::new(bytes))
                .read_info()
                .unwrap();
            let mut decoded = vec![0; reader.output_buffer_size().unwrap()];
            let info = reader.next_frame(&mut decoded).unwrap();
            assert_eq!((info.width, info.height), (4, 5));
            assert_eq!(decoded, pixels);
            let trns = transparent.map(|_| vec![3, 4, 5]);
            assert_eq!(reader.info().trns.as_deref(), trns.as_deref());
        }
    }
}
