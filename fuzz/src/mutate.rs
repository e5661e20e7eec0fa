//! Damage: what bit rot, a cut write, a foreign program or an attacker does to bytes.

/// A small generator (splitmix64): a run is decided by its seed alone.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 where there is none.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        if limit == 0 {
            0
        } else {
            (self.next() % limit as u64) as usize
        }
    }
}

/// Longer inputs are cut: they find nothing that shorter ones do not, only slower.
const MAX_LEN: usize = 64 << 10;

/// Damages `input`, mostly once, seldom often: what is too broken is refused at the first byte and
/// finds nothing. `other` is another input to splice from.
pub(crate) fn mutate(random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
    loop {
        mutate_once(random, input, other);
        if random.below(2) == 0 {
            break;
        }
    }
    input.truncate(MAX_LEN);
}

fn mutate_once(random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
    let at = random.below(input.len());
    match random.below(11) {
        0 | 1 if !input.is_empty() => input[at] ^= 1 << random.below(8),
        2 if !input.is_empty() => input[at] = edge_byte(random),
        3 if !input.is_empty() => input[at] = random.next() as u8,
        4 => input.truncate(at),
        5 => {
            // Lengths and counts are small numbers near their true value.
            if let Some(byte) = input.get_mut(at) {
                *byte = byte.wrapping_add(random.below(9) as u8).wrapping_sub(4);
            }
        }
        6 => {
            let (from, to) = range(random, input.len(), 64);
            input.drain(from..to);
        }
        7 => {
            let (from, to) = range(random, input.len(), 64);
            let copy = input[from..to].to_vec();
            insert(input, at, &copy);
        }
        8 => {
            let (from, to) = range(random, other.len(), 256);
            insert(input, at, &other[from..to]);
        }
        9 => {
            let bytes: Vec<u8> = (0..1 + random.below(9))
                .map(|_| edge_byte(random))
                .collect();
            insert(input, at, &bytes);
        }
        _ => overwrite_number(random, input, at),
    }
}

fn edge_byte(random: &mut Random) -> u8 {
    const EDGES: [u8; 10] = [0, 1, 2, 0x0f, 0x10, 0x7f, 0x80, 0x81, 0xfe, 0xff];
    EDGES[random.below(EDGES.len())]
}

/// Writes a fixed-width number at the edge of its range, in either byte order.
fn overwrite_number(random: &mut Random, input: &mut [u8], at: usize) {
    let width = [2, 4, 8][random.below(3)];
    let edges = [
        0,
        1,
        u64::MAX,
        u64::MAX >> 1,
        1 << 31,
        1 << 53,
        input.len() as u64,
    ];
    let number = edges[random.below(edges.len())].to_le_bytes();
    if let Some(slot) = input.get_mut(at..at + width) {
        slot.copy_from_slice(&number[..width]);
        if random.below(2) == 0 {
            slot.reverse();
        }
    }
}

fn range(random: &mut Random, len: usize, longest: usize) -> (usize, usize) {
    let from = random.below(len);
    let to = from + random.below((len - from).min(longest) + 1);
    (from, to)
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}
