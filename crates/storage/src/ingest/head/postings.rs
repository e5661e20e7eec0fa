//! The series of one label pair. Most pairs have one series or thousands, so each gets its own
//! form.

use roaring::RoaringBitmap;

/// References up to which a plain list is smaller than a bitmap.
const FEW_MAX: usize = 16;

#[derive(Default)]
pub(crate) enum Postings {
    #[default]
    None,
    One(u32),
    Few(Vec<u32>),
    Many(Box<RoaringBitmap>),
}

impl Postings {
    /// Adds a reference; adding it again changes nothing.
    pub(crate) fn insert(&mut self, series: u32) {
        match self {
            Self::None => *self = Self::One(series),
            Self::One(one) if *one == series => {}
            Self::One(one) => *self = Self::Few(vec![*one, series]),
            Self::Few(few) if few.contains(&series) => {}
            Self::Few(few) if few.len() < FEW_MAX => few.push(series),
            Self::Few(few) => {
                let mut many: RoaringBitmap = few.iter().copied().collect();
                many.insert(series);
                *self = Self::Many(Box::new(many));
            }
            Self::Many(many) => {
                many.insert(series);
            }
        }
    }

    /// Removes all references in `removed`; returns whether any is left.
    pub(crate) fn remove(&mut self, removed: &RoaringBitmap) -> bool {
        match self {
            Self::None => {}
            Self::One(one) if removed.contains(*one) => *self = Self::None,
            Self::One(_) => {}
            Self::Few(few) => few.retain(|series| !removed.contains(*series)),
            Self::Many(many) => **many -= removed,
        }
        self.len() > 0
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::One(_) => 1,
            Self::Few(few) => few.len() as u64,
            Self::Many(many) => many.len(),
        }
    }

    /// How many of the references are in a set.
    pub(crate) fn count_in(&self, set: &RoaringBitmap) -> u64 {
        match self {
            Self::None => 0,
            Self::One(one) => u64::from(set.contains(*one)),
            Self::Few(few) => few.iter().filter(|series| set.contains(**series)).count() as u64,
            Self::Many(many) => many.intersection_len(set),
        }
    }

    pub(crate) fn add_to(&self, set: &mut RoaringBitmap) {
        match self {
            Self::None => {}
            Self::One(one) => {
                set.insert(*one);
            }
            Self::Few(few) => set.extend(few.iter().copied()),
            Self::Many(many) => *set |= &**many,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bitmap(postings: &Postings) -> RoaringBitmap {
        let mut set = RoaringBitmap::new();
        postings.add_to(&mut set);
        set
    }

    #[test]
    fn every_form_holds_what_was_put_in() {
        for n in [0u32, 1, 2, 16, 17, 5000] {
            let mut postings = Postings::default();
            for i in 0..n {
                postings.insert(i * 3);
                postings.insert(i * 3);
            }
            assert_eq!(postings.len(), u64::from(n));
            let expected: RoaringBitmap = (0..n).map(|i| i * 3).collect();
            assert_eq!(bitmap(&postings), expected, "{n} references");
            let gone: RoaringBitmap = (0..n).filter(|i| i % 2 == 0).map(|i| i * 3).collect();
            assert_eq!(postings.count_in(&gone), gone.len());
            assert_eq!(postings.remove(&gone), n > 1);
            assert_eq!(bitmap(&postings), expected - gone);
        }
    }
}
