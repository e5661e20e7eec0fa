//! Huffman codes for an alphabet of 16 symbols, and symbols written with them.
//!
//! ```text
//! code     canonical: by length, then by symbol; its first bit is the lowest of the stream
//! streams  the symbols in four runs of ceil(n / 4), each a stream of bits, least significant first
//! ```
//!
//! Holds always:
//! - A code is complete: every sequence of bits means symbols, so reading needs no checks.
//! - No code is longer than [`MAX_CODE_LEN`].
//! - Four runs are read side by side, because one alone would wait for each code's length.

/// Symbols of the alphabet. Twice as many, with longer codes, took half a percent more in chunks of
/// 960 numbers, because the code itself is stored, and a quarter more time to read.
pub(super) const MAX_SYMBOLS: usize = 16;
pub(super) const MAX_CODE_LEN: u32 = 8;
pub(super) const STREAMS: usize = 4;

const TABLE_LEN: usize = 1 << MAX_CODE_LEN;
/// Symbols that a loaded word has for certain: up to 7 of its bits are of the symbol before.
const PER_WORD: usize = 57 / MAX_CODE_LEN as usize;

/// How long the code of each symbol is; 0 for those that do not occur.
pub(super) type Lengths = [u8; MAX_SYMBOLS];

/// The lengths of a complete code for symbols that occur this often.
pub(super) fn code_lengths(counts: &[u32; MAX_SYMBOLS]) -> Lengths {
    let mut counts = *counts;
    // A code of one symbol would not be complete.
    if counts.iter().filter(|count| **count > 0).count() < 2 {
        for count in &mut counts[..2] {
            *count = (*count).max(1);
        }
    }
    loop {
        let lengths = unlimited_lengths(&counts);
        if lengths.iter().all(|len| u32::from(*len) <= MAX_CODE_LEN) {
            return lengths;
        }
        // Flatter counts have shorter codes; in the end all are alike.
        for count in counts.iter_mut().filter(|count| **count > 0) {
            *count = *count / 2 + 1;
        }
    }
}

fn unlimited_lengths(counts: &[u32; MAX_SYMBOLS]) -> Lengths {
    // Trees as sets of symbols: uniting two puts all of their symbols one level deeper.
    let mut trees: Vec<(u64, u32)> = counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(symbol, count)| (u64::from(*count), 1 << symbol))
        .collect();
    let mut lengths = [0; MAX_SYMBOLS];
    while trees.len() > 1 {
        // Heaviest first, so that the two lightest are at the end.
        trees.sort_unstable_by(|a, b| b.cmp(a));
        if let (Some(a), Some(b)) = (trees.pop(), trees.pop()) {
            let united = (a.0 + b.0, a.1 | b.1);
            for (symbol, len) in lengths.iter_mut().enumerate() {
                *len += (united.1 >> symbol & 1) as u8;
            }
            trees.push(united);
        }
    }
    lengths
}

/// The code of each symbol, its first bit lowest.
fn codes(lengths: &Lengths) -> [u32; MAX_SYMBOLS] {
    let mut codes = [0; MAX_SYMBOLS];
    let mut next = 0u32;
    for len in 1..=MAX_CODE_LEN {
        for (symbol, code) in codes.iter_mut().enumerate() {
            if u32::from(lengths[symbol]) == len {
                *code = next.reverse_bits() >> (32 - len);
                next += 1;
            }
        }
        next <<= 1;
    }
    codes
}

/// Writes symbols.
pub(super) struct Writer {
    codes: [u32; MAX_SYMBOLS],
    lengths: Lengths,
}

impl Writer {
    pub(super) fn new(lengths: Lengths) -> Self {
        Self {
            codes: codes(&lengths),
            lengths,
        }
    }

    /// Appends one stream.
    pub(super) fn write(&self, symbols: &[u8], out: &mut Vec<u8>) {
        let (mut word, mut filled) = (0u64, 0u32);
        for symbol in symbols {
            let symbol = usize::from(*symbol) % MAX_SYMBOLS;
            word |= u64::from(self.codes[symbol]) << filled;
            filled += u32::from(self.lengths[symbol]);
            if filled >= 32 {
                out.extend_from_slice(&(word as u32).to_le_bytes());
                word >>= 32;
                filled -= 32;
            }
        }
        let bytes = word.to_le_bytes();
        out.extend_from_slice(&bytes[..filled.div_ceil(8) as usize]);
    }
}

/// Reads symbols: what the next bits mean, by their value.
pub(super) struct Table {
    /// Symbol, and length in the low byte.
    entries: [u16; TABLE_LEN],
}

impl Table {
    /// `None` if the code is not complete or too long.
    pub(super) fn new(lengths: &Lengths) -> Option<Self> {
        if lengths.iter().any(|len| u32::from(*len) > MAX_CODE_LEN) {
            return None;
        }
        let used = lengths.iter().filter(|len| **len > 0);
        let covered: usize = used.map(|len| TABLE_LEN >> len).sum();
        if covered != TABLE_LEN {
            return None;
        }
        let mut entries = [0; TABLE_LEN];
        let codes = codes(lengths);
        // What is known for bits of one length is true of both longer ones.
        for len in 1..=MAX_CODE_LEN {
            let known = 1 << (len - 1);
            entries.copy_within(..known, known);
            let of_len = lengths.iter().zip(codes).enumerate();
            for (symbol, (_, code)) in of_len.filter(|(_, (of, _))| u32::from(**of) == len) {
                entries[code as usize % TABLE_LEN] = (symbol as u16) << 8 | len as u16;
            }
        }
        Some(Self { entries })
    }

    /// Reads `out.len()` symbols from streams of these sizes, one after the other in `bytes`.
    /// `None` if they are not exactly as long as their symbols.
    pub(super) fn read(
        &self,
        bytes: &[u8],
        sizes: [usize; STREAMS],
        out: &mut [i64],
    ) -> Option<()> {
        // Padding after the end, so that a whole word can be loaded from the last byte.
        let mut padded = Vec::with_capacity(bytes.len() + 8);
        padded.extend_from_slice(bytes);
        padded.extend_from_slice(&[0; 8]);
        let mut end = 0;
        let mut cursors = sizes.map(|size| {
            let start = end;
            end += size * 8;
            Cursor { bit: start, end }
        });
        if end != bytes.len() * 8 {
            return None;
        }
        let run = out.len().div_ceil(STREAMS);
        let (a, rest) = out.split_at_mut_checked(run)?;
        let (b, rest) = rest.split_at_mut_checked(run)?;
        let (c, d) = rest.split_at_mut_checked(run)?;
        // The last run is the shortest.
        let steps = d.len() / PER_WORD;
        let [a, b, c, d] = [a, b, c, d].map(|run| run.split_at_mut(steps * PER_WORD));
        let words = words_of(a.0)
            .zip(words_of(b.0))
            .zip(words_of(c.0))
            .zip(words_of(d.0));
        for (((a, b), c), d) in words {
            let mut words = cursors.map(|cursor| cursor.word(&padded));
            for i in 0..PER_WORD {
                a[i] = self.symbol(&mut words[0], &mut cursors[0]);
                b[i] = self.symbol(&mut words[1], &mut cursors[1]);
                c[i] = self.symbol(&mut words[2], &mut cursors[2]);
                d[i] = self.symbol(&mut words[3], &mut cursors[3]);
            }
        }
        for (rest, cursor) in [a.1, b.1, c.1, d.1].into_iter().zip(&mut cursors) {
            for symbol in rest {
                *symbol = self.symbol(&mut cursor.word(&padded), cursor);
            }
        }
        let exact = |cursor: &Cursor| cursor.bit.div_ceil(8) * 8 == cursor.end;
        cursors.iter().all(exact).then_some(())
    }

    #[inline(always)]
    fn symbol(&self, word: &mut u64, cursor: &mut Cursor) -> i64 {
        let entry = self.entries[*word as usize % TABLE_LEN];
        let len = entry & 0xff;
        *word >>= len;
        cursor.bit += usize::from(len);
        i64::from(entry >> 8)
    }
}

fn words_of(run: &mut [i64]) -> impl Iterator<Item = &mut [i64; PER_WORD]> {
    run.as_chunks_mut().0.iter_mut()
}

#[derive(Clone, Copy)]
struct Cursor {
    bit: usize,
    end: usize,
}

impl Cursor {
    /// The bits from here on, at least 57 of them.
    #[inline(always)]
    fn word(&self, padded: &[u8]) -> u64 {
        let bytes = padded
            .get(self.bit / 8..)
            .and_then(|bytes| bytes.first_chunk());
        match bytes {
            Some(bytes) => u64::from_le_bytes(*bytes) >> (self.bit % 8),
            // A stream that continues after its end is detected when it is done.
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(symbols: &[u8]) {
        let mut counts = [0; MAX_SYMBOLS];
        for symbol in symbols {
            counts[usize::from(*symbol)] += 1;
        }
        let lengths = code_lengths(&counts);
        let writer = Writer::new(lengths);
        let (mut bytes, mut sizes) = (vec![], [0; STREAMS]);
        for (run, size) in symbols
            .chunks(symbols.len().div_ceil(STREAMS))
            .zip(&mut sizes)
        {
            let start = bytes.len();
            writer.write(run, &mut bytes);
            *size = bytes.len() - start;
        }
        let table = Table::new(&lengths).unwrap();
        let mut read = vec![0; symbols.len()];
        table.read(&bytes, sizes, &mut read).unwrap();
        let expected: Vec<i64> = symbols.iter().map(|symbol| i64::from(*symbol)).collect();
        assert_eq!(read, expected);
        // A byte that belongs to no symbol is found.
        sizes[3] += 1;
        bytes.push(0);
        assert!(table.read(&bytes, sizes, &mut read).is_none());
    }

    proptest! {
        #[test]
        fn symbols_come_back(
            symbols in prop::collection::vec(0u8..16, 4..300),
            modulus in 1u8..=16,
        ) {
            prop_assume!(symbols.len() > 3 * symbols.len().div_ceil(STREAMS));
            check(&symbols.iter().map(|symbol| symbol % modulus).collect::<Vec<_>>());
        }

        #[test]
        fn codes_are_complete_and_short(
            counts in prop::array::uniform16(prop_oneof![Just(0u32), 1u32..9, any::<u32>()]),
        ) {
            prop_assert!(Table::new(&code_lengths(&counts)).is_some());
        }
    }

    #[test]
    fn uneven_counts_still_have_short_codes() {
        let mut counts = [1; MAX_SYMBOLS];
        for i in 2..MAX_SYMBOLS {
            counts[i] = counts[i - 1] + counts[i - 2];
        }
        assert!(Table::new(&code_lengths(&counts)).is_some());
    }

    #[test]
    fn incomplete_codes_are_refused() {
        assert!(Table::new(&[0; MAX_SYMBOLS]).is_none());
        let mut lengths = [0; MAX_SYMBOLS];
        lengths[3] = 1;
        assert!(Table::new(&lengths).is_none());
        lengths[4] = 1;
        assert!(Table::new(&lengths).is_some());
        lengths[5] = 1;
        assert!(Table::new(&lengths).is_none());
        lengths[5] = 15;
        assert!(Table::new(&lengths).is_none());
    }
}
