//! Cached things by small number (series ids, references of the head): pages of neighbours.
//!
//! Holds always:
//! - Looking up many numbers takes one lock and no hashing.
//! - A page is evicted as a whole, because neighbours in label order are read together. It gets a
//!   second chance when it was hit since the last sweep; what was stored and never hit goes first,
//!   so that one large scan does not push out what dashboards ask for.
//! - A retired shelf is empty and stays so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::RwLock;

use super::budget::Budget;

const PAGE: usize = 64;

/// Something with a known size.
pub(crate) trait Cached: Clone {
    /// Bytes that it takes beside the value itself.
    fn heap_bytes(&self) -> usize;
}

pub(crate) struct Shelf<T> {
    state: RwLock<State<T>>,
    budget: Arc<Budget>,
}

struct State<T> {
    pages: Vec<Option<Box<Page<T>>>>,
    retired: bool,
}

struct Page<T> {
    slots: [Option<T>; PAGE],
    bytes: usize,
    hit: AtomicBool,
}

impl<T: Cached> Shelf<T> {
    pub(crate) fn new(budget: &Arc<Budget>, retired: bool) -> Self {
        Self {
            state: RwLock::new(State {
                pages: Vec::new(),
                retired,
            }),
            budget: Arc::clone(budget),
        }
    }

    /// What is stored under each number, in their order. Ascending numbers are quickest.
    pub(crate) fn get_many(
        &self,
        numbers: impl Iterator<Item = u32>,
        mut take: impl FnMut(Option<&T>),
    ) {
        let state = self.state.read();
        for number in numbers {
            let (page, slot) = place(number);
            let page = state.pages.get(page).and_then(Option::as_deref);
            let found = page.and_then(|page| {
                let found = page.slots[slot].as_ref()?;
                if !page.hit.load(Relaxed) {
                    page.hit.store(true, Relaxed);
                }
                Some(found)
            });
            take(found);
        }
    }

    pub(crate) fn insert_many(&self, things: impl Iterator<Item = (u32, T)>) {
        let mut state = self.state.write();
        if state.retired {
            return;
        }
        for (number, thing) in things {
            let (page, slot) = place(number);
            if state.pages.len() <= page {
                state.make_places(page + 1, &self.budget);
            }
            let page = state.pages[page].get_or_insert_with(|| {
                self.budget.add(size_of::<Page<T>>());
                Box::new(Page::new())
            });
            let added = thing.heap_bytes();
            let replaced = page.slots[slot].replace(thing);
            let removed = replaced.map_or(0, |old| old.heap_bytes());
            page.bytes = page.bytes + added - removed;
            self.budget.add(added);
            self.budget.take(removed);
        }
    }

    /// Goes on from a page and drops pages that were not hit since the last time, until there is
    /// enough room. Returns where to go on, `None` at the end.
    pub(super) fn sweep(&self, from: usize) -> Option<usize> {
        let mut state = self.state.write();
        for at in from..state.pages.len() {
            if !self.budget.exceeded() {
                return Some(at);
            }
            let cold = |page: &mut Box<Page<T>>| !std::mem::take(page.hit.get_mut());
            if let Some(page) = state.pages[at].take_if(cold) {
                self.budget.take(page.total_bytes());
            }
        }
        state.drop_places(&self.budget);
        None
    }

    /// Whether there is no page, as a sweep leaves it.
    pub(super) fn is_empty(&self) -> bool {
        self.state.read().pages.is_empty()
    }

    pub(super) fn retire(&self) {
        let mut state = self.state.write();
        state.retired = true;
        state.give_back(&self.budget);
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.state.write().give_back(&self.budget);
    }
}

impl<T> State<T> {
    /// Places for pages: a single series with a high number has one for all before it.
    fn make_places(&mut self, places: usize, budget: &Budget) {
        let before = self.places_bytes();
        self.pages.resize_with(places, || None);
        budget.add(self.places_bytes() - before);
    }

    /// Gives back the places behind the last page.
    fn drop_places(&mut self, budget: &Budget) {
        let before = self.places_bytes();
        let used = self.pages.iter().rposition(Option::is_some);
        self.pages.truncate(used.map_or(0, |last| last + 1));
        if self.pages.len() < self.pages.capacity() / 2 {
            self.pages.shrink_to_fit();
        }
        budget.take(before - self.places_bytes());
    }

    fn places_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<Option<Box<Page<T>>>>()
    }

    fn give_back(&mut self, budget: &Budget) {
        budget.take(self.places_bytes());
        for page in std::mem::take(&mut self.pages).into_iter().flatten() {
            budget.take(page.total_bytes());
        }
    }
}

impl<T> Drop for Shelf<T> {
    fn drop(&mut self) {
        self.state.get_mut().give_back(&self.budget);
    }
}

impl<T> Page<T> {
    fn new() -> Self {
        Self {
            slots: [const { None }; PAGE],
            bytes: 0,
            hit: AtomicBool::new(false),
        }
    }

    fn total_bytes(&self) -> usize {
        self.bytes + size_of::<Self>()
    }
}

fn place(number: u32) -> (usize, usize) {
    (number as usize / PAGE, number as usize % PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Cached for u32 {
        fn heap_bytes(&self) -> usize {
            *self as usize
        }
    }

    fn found(shelf: &Shelf<u32>, numbers: &[u32]) -> Vec<Option<u32>> {
        let mut found = Vec::new();
        shelf.get_many(numbers.iter().copied(), |thing| found.push(thing.copied()));
        found
    }

    #[test]
    fn what_is_stored_is_found_and_accounted_for() {
        let budget = Arc::new(Budget::new(usize::MAX));
        let shelf = Shelf::new(&budget, false);
        assert_eq!(found(&shelf, &[0, 1000]), [None, None]);
        shelf.insert_many([(0, 1), (63, 2), (1000, 3)].into_iter());
        let all = found(&shelf, &[63, 0, 64, 1000]);
        assert_eq!(all, [Some(2), Some(1), None, Some(3)]);
        let places = shelf.state.read().places_bytes();
        assert!(places >= 16 * 8, "one for each page up to the last");
        assert_eq!(budget.bytes(), 6 + 2 * size_of::<Page<u32>>() + places);
        shelf.insert_many([(0, 9)].into_iter());
        assert_eq!(found(&shelf, &[0]), [Some(9)]);
        assert_eq!(budget.bytes(), 14 + 2 * size_of::<Page<u32>>() + places);
        shelf.retire();
        assert_eq!(budget.bytes(), 0);
        shelf.insert_many([(0, 1)].into_iter());
        assert_eq!((found(&shelf, &[0]), budget.bytes()), (vec![None], 0));
    }

    #[test]
    fn pages_that_were_hit_get_a_second_chance() {
        let page = size_of::<Page<u32>>();
        // Three pages have four places at most.
        let budget = Arc::new(Budget::new(2 * page + 4 * 8));
        let shelf = Shelf::new(&budget, false);
        shelf.insert_many((0..3).map(|i| (i * PAGE as u32, 0)));
        assert_eq!(found(&shelf, &[0]), [Some(0)]);
        assert_eq!(shelf.sweep(0), Some(2), "room once the second page is gone");
        assert_eq!(found(&shelf, &[0, 64, 128]), [Some(0), None, Some(0)]);
        shelf.insert_many([(64, 1)].into_iter());
        assert_eq!(shelf.sweep(2), None, "the last one was hit");
        assert_eq!(found(&shelf, &[128]), [Some(0)]);
        drop(shelf);
        assert_eq!(budget.bytes(), 0);
    }

    #[test]
    fn a_high_number_alone_is_accounted_for_and_goes_like_any_other() {
        let budget = Arc::new(Budget::new(1 << 20));
        let shelf = Shelf::new(&budget, false);
        let places = (10_000_000 / PAGE + 1) * 8;
        shelf.insert_many([(10_000_000, 0)].into_iter());
        assert!(budget.bytes() >= places, "{} bytes", budget.bytes());
        assert_eq!(shelf.sweep(0), None, "all of it had to go");
        assert_eq!(budget.bytes(), 0);
    }
}
