//! Values of a line that wait for their timestamps, or the other way round.

use std::collections::VecDeque;

use super::Problem;

/// What one line may have waiting: of a series sampled each 15 s, eight years. VictoriaMetrics takes
/// lines of at most 10 MB, and our export begins a new line long before.
pub const HELD_MAX: usize = 16 << 20;

const CHUNK: usize = 4096;

/// First in, first out, in chunks that are given back as they are used up.
pub(super) struct Held<T> {
    chunks: VecDeque<Vec<T>>,
    /// Taken from the first chunk.
    taken: usize,
    len: usize,
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self {
            chunks: VecDeque::new(),
            taken: 0,
            len: 0,
        }
    }
}

impl<T: Copy> Held<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    #[inline]
    pub(super) fn push(&mut self, item: T) -> Result<(), Problem> {
        if self.len >= HELD_MAX {
            return Err(format!("more than {HELD_MAX} values: split the line").into());
        }
        self.len += 1;
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(item),
            // Most lines are short; only what is long gets chunks of full size at once.
            None => self.chunks.push_back(vec![item]),
            Some(_) => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(item);
                self.chunks.push_back(chunk);
            }
        }
        Ok(())
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let chunk = self.chunks.front()?;
        let item = *chunk.get(self.taken)?;
        self.taken += 1;
        self.len -= 1;
        if self.taken == chunk.len() {
            self.taken = 0;
            self.chunks.pop_front();
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_in_first_out() {
        let mut held = Held::default();
        assert_eq!(held.pop(), None::<usize>);
        for round in 0..3 {
            let count = round * CHUNK + 3;
            (0..count).for_each(|i| held.push(i).unwrap());
            assert_eq!(held.len(), count);
            (0..count).for_each(|i| assert_eq!(held.pop(), Some(i)));
            assert_eq!(held.pop(), None);
        }
    }
}
