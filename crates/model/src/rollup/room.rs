//! Memory of windows that is filled again: a query over years has megabytes of windows for a
//! moment, series by series, and memory that is given back each time is cleared each time by the
//! kernel (a quarter of the time of `rate` over a year, measured).

use std::sync::Arc;

use parking_lot::Mutex;

use super::WindowColumns;

/// The columns that a selection has handed over and nobody needs any more. It has at most as many
/// as were in use at the same time, and they go with the selection.
#[derive(Debug, Default)]
pub struct WindowRoom(Option<Arc<Mutex<Vec<WindowColumns>>>>);

impl WindowRoom {
    /// One that takes columns back.
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// The same room, for another list of columns that were taken from it.
    pub fn share(&self) -> Self {
        Self(self.0.clone())
    }

    /// Columns that were used before, else new ones. What is in them does not matter.
    pub fn take(&self) -> WindowColumns {
        let taken = self.0.as_ref().and_then(|room| room.lock().pop());
        taken.unwrap_or_default()
    }

    pub(crate) fn give_back(&self, columns: &mut Vec<WindowColumns>) {
        if let Some(room) = &self.0 {
            room.lock().append(columns);
        }
    }
}

/// A copy has columns of its own, which are not of the room.
impl Clone for WindowRoom {
    fn clone(&self) -> Self {
        Self(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Resolution, WindowFields, roll_up};
    use super::*;
    use crate::{Levels, RolledSamples};

    #[test]
    fn columns_come_back_once() {
        let windows = roll_up(Resolution::HOUR, (0..9).map(|i| (i * 600_000, 1.0)));
        let columns = WindowColumns::from_windows(&windows, WindowFields::ALL);
        let room = WindowRoom::new();
        let rolled = RolledSamples {
            levels: Arc::new(Levels::default()),
            windows: vec![columns.clone()],
            histograms: Vec::new(),
            room: room.share(),
        };
        drop(rolled.clone());
        assert!(room.take().is_empty(), "a copy is not of the room");
        drop(rolled);
        assert_eq!(room.take(), columns);
        assert!(room.take().is_empty());
        assert!(WindowRoom::default().take().is_empty());
    }
}
