//! Values of a line whose timestamps are not read yet, or the reverse.

use std::collections::VecDeque;

use super::Problem;

/// Values of one line without timestamps, or the reverse: eight years of a series sampled every 15
/// s. VictoriaMetrics takes lines of at most 10 MB, and our export starts a new line long before.
pub const PENDING_MAX: usize = 16 << 20;

const CHUNK: usize = 4096;

/// A queue in chunks that are freed as they are consumed.
pub(super) struct PendingQueue<T> {
    chunks: VecDeque<Vec<T>>,
    /// Taken from the first chunk.
    taken: usize,
    len: usize,
}

impl<T> Default for PendingQueue<T> {
    fn default() -> Self {
        Self {
            chunks: VecDeque::new(),
            taken: 0,
            len: 0,
        }
    }
}

impl<T: Copy> PendingQueue<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    #[inline]
    pub(super) fn push(&mut self, item: T) -> Result<(), Problem> {
        if self.len >= PENDING_MAX {
            return Err(format!("more than {PENDING_MAX} values: split the line").into());
        }
        self.len += 1;
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(item),
            // Most lines are short; only further chunks are allocated in full.
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
        let mut pending = PendingQueue::default();
        assert_eq!(pending.pop(), None::<usize>);
        for round in 0..3 {
            let count = round * CHUNK + 3;
            (0..count).for_each(|i| pending.push(i).unwrap());
            assert_eq!(pending.len(), count);
            (0..count).for_each(|i| assert_eq!(pending.pop(), Some(i)));
            assert_eq!(pending.pop(), None);
        }
    }
}
