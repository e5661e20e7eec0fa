//! How often a job may write before it is interrupted, for tests that cut jobs anywhere.

use crate::error::{Error, Result};

/// Writes that are let through; without a number all are.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteLimit(Option<u64>);

impl WriteLimit {
    pub(super) fn new(writes_max: Option<u64>) -> Self {
        Self(writes_max)
    }

    /// Counts a write that comes next; fails when there may be no more.
    pub(super) fn take(&mut self) -> Result<()> {
        if let Some(left) = &mut self.0 {
            let fewer = left.checked_sub(1);
            *left = fewer.ok_or_else(|| Error::Unavailable("the job was interrupted".into()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_writes_are_let_through() {
        let mut limit = WriteLimit::new(Some(2));
        let taken: Vec<bool> = (0..4).map(|_| limit.take().is_ok()).collect();
        assert_eq!(taken, [true, true, false, false]);
        let mut none = WriteLimit::new(None);
        assert!((0..100).all(|_| none.take().is_ok()));
    }
}
